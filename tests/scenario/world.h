// The cloud of a scenario: the real controller, with a ledger in memory, an engine that does what
// the steps say, and a clock that stands still between them.
//
// The engine runs what it is told to start at once, ends what runs longer than its `takes` or its
// time limit, and lets go of what it is told to stop when a step says so (or after `stops_after`).
// After every step whatever must hold is looked at: faults().
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "controller/controller.h"
#include "scenario/scenario.h"
#include "support/memory_ledger.h"
#include "support/scripted_engine.h"
#include "support/virtual_clock.h"

namespace bole::test {

// Of a job, what its record does not tell.
struct JobName {
  std::string name;
  std::string group;  // of one of several: their common name; else empty
  std::uint32_t number = 0;
};

struct Refused {
  JobName who;
  std::string why;
};

class ScenarioWorld {
 public:
  explicit ScenarioWorld(const Scenario& scenario);

  // Errors: of the scenario (a name that nothing bears). What is refused is none: see refused().
  [[nodiscard]] Result<void> start();
  [[nodiscard]] Result<void> take(const Step& step);

  // What does not hold and must, whatever the scenario; each said once.
  [[nodiscard]] std::vector<std::string> takeFaults() { return std::exchange(faults_, {}); }

  [[nodiscard]] const controller::Snapshot& snapshot() const { return *snapshot_; }
  [[nodiscard]] Timestamp now() { return clock_.wall(); }
  [[nodiscard]] const std::map<JobId, JobName>& names() const { return names_; }
  // Submissions, policies and stops that were refused since the last call.
  [[nodiscard]] std::vector<Refused> takeRefused() { return std::exchange(refused_, {}); }
  [[nodiscard]] bool hasRefused() const { return !refused_.empty(); }

  // What a server would make of this ledger that starts now, and so looks at everything anew.
  [[nodiscard]] Result<std::shared_ptr<const controller::Snapshot>> asAfterRestart();

 private:
  struct Doing {  // of a job that was submitted
    Duration takes;
    bool cannotStart = false;
  };
  struct Running {  // of an attempt in the engine
    Timestamp since;
    std::optional<Timestamp> stopAskedAt;
  };

  [[nodiscard]] Result<void> boot();
  void process(std::vector<controller::Message> batch);
  void settle();
  void live(AttemptId id, const ScriptedEngine::Attempt& attempt);
  void look();
  void lookAtPlacement(const ScriptedEngine::Attempt& attempt);
  void fault(const std::string& what);
  void advanceTo(Timestamp time);
  [[nodiscard]] std::optional<std::pair<Timestamp, AttemptId>> nextEnd() const;
  void end(AttemptId id, const End& how);
  [[nodiscard]] std::vector<model::Node> present() const;

  [[nodiscard]] Result<void> run(const Submit& step);
  [[nodiscard]] Result<void> run(const Pass& step);
  [[nodiscard]] Result<void> run(const End& step);
  [[nodiscard]] Result<void> run(const Checkpoint& step);
  [[nodiscard]] Result<void> run(const Cancel& step);
  [[nodiscard]] Result<void> run(const Share& step);
  [[nodiscard]] Result<void> run(const SetHealth& step);
  [[nodiscard]] Result<void> run(const SetPresence& step);
  [[nodiscard]] Result<void> run(const Restart& step);
  [[nodiscard]] static Result<void> run(const Table& step);
  [[nodiscard]] Result<void> run(const RepeatBox& step);

  [[nodiscard]] Result<JobName> nameFor(const Submission& job);
  void submitOne(const Submission& job, const JobName& name,
                 std::vector<controller::Message>& batch);
  [[nodiscard]] Result<std::vector<JobId>> jobsNamed(
      const std::vector<std::string>& patterns) const;
  [[nodiscard]] Result<std::vector<AttemptId>> attemptsNamed(const End& step) const;

  const Scenario& scenario_;
  VirtualClock clock_;
  MemoryLedger ledger_;
  ScriptedEngine engine_;
  std::unique_ptr<controller::Controller> controller_;
  std::shared_ptr<const controller::Snapshot> snapshot_;
  std::vector<ports::EngineReport> reports_;
  std::vector<model::Node> nodes_;
  std::set<std::string> absent_;
  std::map<JobId, JobName> names_;
  std::map<std::string, JobId> byName_;
  std::map<std::string, std::uint32_t> counts_;  // of groups
  std::map<JobId, Doing> doing_;
  std::map<AttemptId, Running> running_;
  std::map<JobId, std::uint64_t> epochs_;
  std::vector<Refused> refused_;
  std::vector<std::string> faults_;
  std::set<std::string> said_;
};

}  // namespace bole::test
