// A whole server for a test: the real controller on a thread of its own, over a ledger in memory,
// an engine that does what the test says, logs in memory, and a temporary directory for the socket.
//
// Every answer that a client of the house gets is held to the OpenAPI document.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "server/server.h"
#include "server/testing/client.h"
#include "server/testing/contract.h"
#include "server/testing/fake_logs.h"
#include "support/memory_ledger.h"
#include "support/scripted_engine.h"
#include "support/worlds.h"

namespace bole::server::testing {

// Moves when the test says so; any thread may read it.
class TestClock final : public Clock {
 public:
  Timestamp wall() override { return {kBegin + passed_.load()}; }
  Duration monotonic() override { return seconds(100) + Duration(passed_.load()); }
  Duration boottime() override { return monotonic(); }
  void advance(Duration time) { passed_ += time.value; }

 private:
  static constexpr std::int64_t kBegin = 1'700'000'000'000'000;
  std::atomic<std::int64_t> passed_{0};
};

inline constexpr const char* kOwner = "hong";
inline constexpr const char* kToken = "0123456789abcdef0123456789abcdef";

class House final : public Commands {
 public:
  explicit House(std::vector<model::Node> nodes = {test::node("a", 4)});
  ~House() override;

  // What the next open() starts the server with; a test may change it before.
  ServerOptions options;
  TestClock clock;
  FakeLogs logs;

  void open();     // fails the test where the server does not start
  void close();    // the server alone
  void restart();  // server and controller, as after a crash
  Server& server() { return *server_; }
  Contract& contract() { return contract_; }

  // Returns when the server has seen all that clients have sent so far: before the clock moves.
  void awaitUploads(std::size_t count);  // until so many have begun and not ended
  void settle() { static_cast<void>(client().get("/v1/version")); }

  [[nodiscard]] Client client();             // over the Unix socket, as root
  [[nodiscard]] Client clientOf(uid_t uid);  // over the Unix socket, as he; needs root
  [[nodiscard]] Client tcpClient();          // with the token

  // Of `user`; fails the test where it is refused.
  JobId add(model::JobSpec spec, const std::string& user = kOwner);
  void run(JobId job);  // all its ranks run
  // Its attempt has ended; `code`: of rank `rank`, where it failed.
  void finish(JobId job, model::AttemptOutcome outcome, std::int32_t code = 0,
              std::uint32_t rank = 0);
  void tick();
  void setDisk(test::MemoryLedger::Disk disk);
  void setProgress(AttemptId attempt, model::ProgressView progress);
  [[nodiscard]] AttemptId attemptOf(JobId job) const;

  // From now on the controller takes commands and does nothing, until release().
  void hold();
  void release();
  [[nodiscard]] std::size_t waiting();  // commands that it has taken and not looked at
  void refuseCommands(bool refuse) { refuse_ = refuse; }

  bool submit(controller::SubmitJobs command) override;
  bool stop(controller::StopJob command) override;
  bool setPolicy(controller::SetPolicy command) override;
  bool setHealth(controller::SetHealth command) override;
  bool setLabels(controller::SetLabels command) override;
  [[nodiscard]] std::shared_ptr<const controller::Snapshot> snapshot() const override;

 private:
  void boot();
  void process(controller::Message message);
  void post(std::function<void()> work);
  void act(const std::function<void()>& work);  // on the controller's thread, and waits for it
  void loop();
  [[nodiscard]] Result<model::EventList> events(std::uint64_t from, std::size_t limit);
  [[nodiscard]] Client::Watcher watcher();

  std::string directory_;
  std::vector<model::Node> nodes_;
  Contract contract_;
  test::MemoryLedger ledger_;
  test::ScriptedEngine engine_;
  std::unique_ptr<controller::Controller> controller_;
  std::vector<ports::EngineReport> reports_;
  std::mutex progressMutex_;
  std::map<AttemptId, model::ProgressView> progress_;

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> work_;
  bool held_ = false;
  bool ending_ = false;
  std::atomic<bool> refuse_{false};
  std::thread thread_;
  std::unique_ptr<Server> server_;
};

// The body of a submission: the House's parser reads the JSON of a JobSpec, "missing: NAME" as a
// spec that needs a value, and anything else as a wrong spec.
[[nodiscard]] std::string submission(const model::JobSpec& spec, const std::string& more = {});

}  // namespace bole::server::testing
