// An engine whose attempts do what the test says. It stands for the world outside the server: it
// outlives controllers, and it checks for itself that nothing is started twice and no GPU is given
// out beyond its whole.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "ports/engine.h"

namespace bole::test {

class ScriptedEngine final : public ports::Engine {
 public:
  struct Attempt {
    ports::AttemptOrder order;
    bool running = false;  // AttemptRunning was reported
    bool stopAsked = false;
    model::StopReason stopReason = model::StopReason::kNone;
    bool alive = true;
    ports::AttemptFinished end;  // once not alive
  };

  ports::NumbersInUse inUse;  // by things of an earlier life

  // While deaf, calls are lost, as those of a server that dies before it makes them.
  void setDeaf(bool deaf) { deaf_ = deaf; }

  void open(std::function<void(ports::EngineReport)> report) override {
    report_ = std::move(report);
  }
  void start(ports::AttemptOrder order) override;
  void stop(AttemptId attempt, model::StopReason reason, Duration grace) override;
  void adopt(ports::AttemptOrder order) override;
  [[nodiscard]] ports::NumbersInUse numbersInUse() const override { return inUse; }
  void forget(AttemptId attempt) override;

  void run(AttemptId attempt);  // reports it as running
  void finish(AttemptId attempt,
              ports::AttemptFinished end);  // its processes are gone; reports the end

  [[nodiscard]] const std::map<AttemptId, Attempt>& attempts() const { return attempts_; }
  [[nodiscard]] std::vector<AttemptId> alive() const;
  // How often each attempt was ordered to start, also those that ran already or are forgotten; an
  // adoption of what already runs is no start. The engine's promise makes a second order harmless,
  // a controller that gives one is wrong all the same.
  [[nodiscard]] const std::map<AttemptId, int>& starts() const { return starts_; }
  // What went wrong in the world, one line each. Empty: nothing.
  [[nodiscard]] const std::vector<std::string>& faults() const { return faults_; }

 private:
  void report(ports::EngineReport message) {
    if (report_) report_(std::move(message));
  }

  std::function<void(ports::EngineReport)> report_;
  std::map<AttemptId, Attempt> attempts_;
  std::map<AttemptId, int> starts_;
  std::set<AttemptId> forgotten_;
  std::vector<std::string> faults_;
  bool deaf_ = false;
};

}  // namespace bole::test
