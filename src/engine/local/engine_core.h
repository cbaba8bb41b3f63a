// The inside of LocalEngine. One thread runs all of it but post() and progress().
//
// Everything hangs on examine(): it looks at an attempt's directory and does what the files there
// call for. It is called whenever something may have changed, and calling it once more never hurts.
// So no event needs to be trusted, none can be missed for good, and a new engine simply begins with
// it.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "engine/local/claims.h"
#include "engine/local/host.h"
#include "engine/local/local_engine.h"
#include "engine/local/spawn.h"
#include "engine/local/work_directory.h"
#include "engine/local/worker.h"

namespace bole::engine {

class LocalEngine::Core {
 public:
  Core(LocalEngineOptions options, Clock& clock, Rng& rng);
  ~Core();
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  void open(std::function<void(ports::EngineReport)> report);
  void post(std::function<void()> message);  // from any thread

  // To be posted:
  void admit(ports::AttemptOrder order);
  void stop(AttemptId id, model::StopReason reason, Duration grace);
  void forget(AttemptId id);
  void sweep();

  [[nodiscard]] std::optional<model::ProgressView> progress(AttemptId id) const;

  [[nodiscard]] Result<void> check() const;  // that it has what it needs of the system
  [[nodiscard]] std::vector<std::string> notes() const;
  [[nodiscard]] std::string sandbox() const;

  const LocalEngineOptions options;
  const Layout layout;

 private:
  struct Attempt {
    AttemptId id;
    std::string directory;
    std::optional<ports::AttemptOrder> order;  // none: met on the disk alone
    bool preparing = false;                    // the worker makes the job's directory
    bool spawned = false;                      // a supervisor, in this life of the engine
    std::optional<model::StopReason> stop;
    Fd supervisor;           // of the process that has the claim
    int watch = -1;          // inotify's; -1: the directory is looked at now and then instead
    Duration retryAt{-1};    // monotonic; negative: nothing to retry
    Duration retryAfter;     // the last pause
    Duration tornSince{-1};  // monotonic: since when its claim cannot be read
    bool runningTold = false;
    std::set<std::string> checkpointsTold;  // keys of those still in progress.json
    std::string checkpointsSeen;            // which list in progress.json was looked through last
    std::vector<std::string> notes;
    std::set<std::uint16_t> ports;
    std::optional<ports::AttemptFinished> finished;
  };

  [[nodiscard]] std::string supervisorProgram() const;

  // engine_core.cc: the thread, its events, its messages
  // What an event of epoll is about: a kind in the upper bits, a number in the lower.
  enum class Source : std::uint64_t { kWake, kInotify, kChild, kSupervisor };
  static constexpr int kKindShift = 60;
  static constexpr std::uint64_t tagOf(Source source, std::uint64_t number) {
    return (static_cast<std::uint64_t>(source) << kKindShift) | number;
  }
  void run();
  void wait();
  [[nodiscard]] int waitMillis();
  void handleMessages();
  void handleNotifications();
  void handleChild(int fd);
  void retryDue();
  void watchDirectory(Attempt& attempt);
  void unwatch(Attempt& attempt);
  [[nodiscard]] bool watchProcess(const Fd& pidfd, std::uint64_t tag);
  void retryLater(Attempt& attempt, Duration first, Duration most);
  Attempt* find(AttemptId id);
  Attempt& add(AttemptId id);

  // engine_examine.cc: what the files call for
  void examine(Attempt& attempt);
  void observe(Attempt& attempt);
  void tellCheckpoints(Attempt& attempt, const supervise::Progress& progress);
  bool finishFromEnd(Attempt& attempt);
  void finish(Attempt& attempt, ports::AttemptFinished finished);
  void watchSupervisor(Attempt& attempt, const supervise::Claim& claim);
  void clearAfter(Attempt& attempt, const supervise::Claim& claim);
  void unclaimed(Attempt& attempt);
  [[nodiscard]] supervise::Launch launchOf(const Attempt& attempt);
  [[nodiscard]] std::size_t rankCount(const Attempt& attempt);
  [[nodiscard]] std::optional<model::StopReason> stopWanted(const Attempt& attempt);

  // engine_launch.cc: from an order to a supervisor
  void prepare(Attempt& attempt);
  void launch(Attempt& attempt);
  [[nodiscard]] Result<void> writeLaunchFiles(Attempt& attempt);
  [[nodiscard]] Result<LaunchPlace> placeOf(Attempt& attempt);
  [[nodiscard]] Result<void> spawnSupervisor(Attempt& attempt);
  [[nodiscard]] WorkRequest workRequest(const ports::AttemptOrder& order) const;
  [[nodiscard]] std::optional<Owner> ownerOf(const ports::AttemptOrder& order) const;
  void abandon(Attempt& attempt, model::AttemptOutcome outcome, std::string note);
  [[nodiscard]] std::string lastWords(const Attempt& attempt) const;

  Clock& clock_;
  HostFacts host_;
  FreePorts freePorts_;
  std::function<void(ports::EngineReport)> report_;

  Fd epoll_;
  Fd wake_;  // eventfd
  Fd inotify_;
  std::map<AttemptId, Attempt> attempts_;
  std::unordered_map<int, AttemptId> watches_;  // inotify's numbers
  struct Child {
    AttemptId attempt;
    Fd pidfd;
  };
  std::unordered_map<int, Child>
      children_;            // supervisors of ours that are not reaped yet, by descriptor
  LogRetention retention_;  // the worker's

  std::mutex queueMutex_;
  std::vector<std::function<void()>> queue_;
  bool stopping_ = false;  // of the queue

  mutable std::mutex progressMutex_;
  std::map<AttemptId, model::ProgressView> progress_;

  std::optional<Worker> worker_;
  std::thread thread_;
};

}  // namespace bole::engine
