// The one writer. It takes commands and reports in batches, asks state and scheduler, makes the
// events durable in one append, and only then answers, publishes a snapshot and tells the engine.
//
// One thread calls process(); nothing here draws a random number, and time comes from the Clock it
// was given, so the same code runs live, simulated and under injected faults. ControllerThread
// (controller_thread.h) is the mailbox and thread around it. When the ledger cannot be written (a
// full disk), new jobs are refused with the reason, running ones go on, stops still work, and what
// the engine reports is kept until it can be recorded.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "controller/snapshot.h"
#include "model/job.h"
#include "model/views.h"
#include "ports/engine.h"
#include "ports/ledger.h"
#include "scheduler/planner.h"
#include "state/state.h"

namespace bole::controller {

// Who asks, as the door has established it.
struct Caller {
  std::string user;  // the machine's user name, or a service account's; empty: Bole itself
  std::string source = "api";
  std::string requestId;  // at most 128 bytes
};

struct SubmitJobs {
  Caller caller;
  std::string project = "default";
  std::vector<model::JobSpec> jobs;                // all of them are accepted, or none
  std::vector<std::vector<std::string>> warnings;  // of each job, handed through to the answer
  bool dryRun = false;
  // Called on the controller's thread, after the commit.
  std::function<void(Result<model::SubmitAnswer>)> reply;
};

struct StopJob {
  Caller caller;
  JobId job;
  Duration grace{-1};  // negative: the job's own
  model::StopReason reason = model::StopReason::kCancelled;
  bool wholeArray = false;  // all elements of the job's array
  std::function<void(Result<void>)> reply;
};

// What an operator says of a node, or of one of its GPUs. Where it is down, what runs there is
// stopped and queued again.
struct SetHealth {
  Caller caller;
  std::string node;
  std::int32_t gpu = -1;  // -1: the node as a whole
  model::GpuHealth health = model::GpuHealth::kHealthy;
  Duration lasts;  // healthy again after that; 0: until someone says so
  std::string why;
  std::function<void(Result<void>)> reply;
};

// Labels that an operator gives a node, or takes from it.
struct SetLabels {
  Caller caller;
  std::string node;
  std::vector<std::pair<std::string, std::string>> set;
  std::vector<std::string> remove;
  std::function<void(Result<void>)> reply;
};

// How the cloud is shared from here on. Queues are known by their names: one that was there keeps
// its number; the numbers given here only tie children to parents.
struct SetPolicy {
  Caller caller;
  model::Policy policy;
  bool dryRun = false;  // only ask whether it could be set
  std::function<void(Result<void>)> reply;
};

// The inventory as probed at start, or changed.
struct NodesProbed {
  std::vector<model::Node> nodes;
};

// Time may have changed something: a back-off or a retention ended.
struct Tick {};

using Message = std::variant<SubmitJobs, StopJob, SetPolicy, SetHealth, SetLabels, NodesProbed,
                             Tick, ports::EngineReport>;

struct ControllerOptions {
  std::string version;  // of Bole, for server.started
  std::string bootId;   // of the machine's kernel
  scheduler::Options scheduling;
  std::uint64_t sealAfterEvents =
      10'000;  // a segment's length, or the number of jobs if there are more
  std::size_t keepFinishedJobs = 5'000;  // in the state; older ones stay in the ledger
  std::size_t maxLiveJobs = 200'000;     // more are refused for now
};

class Controller {
 public:
  // Reads the newest snapshot and the tail behind it. Errors: kCorrupt, kUnsupported. The three
  // outlive it.
  [[nodiscard]] static Result<std::unique_ptr<Controller>> open(ControllerOptions options,
                                                                ports::Ledger& ledger,
                                                                ports::Engine& engine,
                                                                Clock& clock);

  // Records the start and hands every live attempt to the engine, whose reports must reach
  // process() as messages. On a full disk it starts all the same, and refuses new jobs.
  [[nodiscard]] Result<void> start(const std::vector<model::Node>& nodes);

  void process(std::vector<Message> batch);

  // A clean end: seals the open segment, so that the next start has no tail to read.
  void close();

  // The newest published snapshot; safe from any thread.
  [[nodiscard]] std::shared_ptr<const Snapshot> snapshot() const {
    return std::atomic_load(&snapshot_);
  }

  // How long process() may be left without a Tick; negative: for ever. Only the controller's
  // thread.
  [[nodiscard]] Duration untilNextTick();

  // Called on the controller's thread after each published snapshot.
  void onPublish(std::function<void()> listener) { published_ = std::move(listener); }

  [[nodiscard]] const state::State& state() const { return state_; }

 private:
  struct Batch;  // events, replies and effects in the making (batch.h)
  struct Readings {
    Timestamp wall;
    Duration monotonic;
    Duration boottime;
    Timestamp ledger;  // ledger time then
  };

  Controller(ControllerOptions options, ports::Ledger& ledger, ports::Engine& engine, Clock& clock);

  // opening.cc: from the ledger to the state and what readers see beside it.
  Result<void> replay();
  void loadTexts();
  void loadName(SideId id);

  // controller.cc: the life of a batch.
  Result<void> emit(Batch& batch, model::Event event, const Caller& caller, ProjectId project,
                    std::vector<ports::SideValue> side = {});
  SideId addSide(std::vector<ports::SideValue>& side, std::string value);
  void readClock(Batch& batch);
  [[nodiscard]] Result<void> startUrgently(const std::vector<model::Node>& nodes, const Error& why);
  [[nodiscard]] Result<void> beginLife(Batch& batch, const std::vector<model::Node>& nodes);
  void takeInventory(Batch& batch, const std::vector<model::Node>& nodes);
  void schedule(Batch& batch);
  Result<void> startAttempt(Batch& batch, const model::Start& start);
  void evict(Batch& batch, const model::Eviction& eviction);
  bool setWaiting(model::Waiting waiting);  // false: it was known
  void forgetOld(Batch& batch);
  void commit(Batch& batch);
  void rollBack(Batch& batch);
  void passStopOn(const StopJob& message, const Error& why);
  void processUrgent(std::vector<Message>& messages, const Error& why);
  void publish();
  void sealIfLong();
  [[nodiscard]] ports::AttemptOrder orderOf(const model::AttemptRecord& attempt) const;

  // commands.cc
  void handle(Batch& batch, const SubmitJobs& message);
  void handle(Batch& batch, const StopJob& message);
  void handle(Batch& batch, const SetPolicy& message);
  void handle(Batch& batch, const SetHealth& message);
  void handle(Batch& batch, const SetLabels& message);
  void handle(Batch& batch, const NodesProbed& message);
  void handle(Batch& batch, const Tick& message);
  Result<model::SubmitAnswer> submit(Batch& batch, const SubmitJobs& message);
  Result<void> submitOne(Batch& batch, const SubmitJobs& message, std::size_t index,
                         ProjectId project, UserId user, QueueId queue,
                         model::SubmitAnswer& answer);
  // links.cc
  [[nodiscard]] Result<std::vector<model::Dependency>> dependenciesOf(
      const SubmitJobs& message, std::size_t index, const model::SubmitAnswer& before) const;
  [[nodiscard]] Result<std::vector<JobId>> jobsNamed(const SubmitJobs& message,
                                                     const std::string& name,
                                                     const model::SubmitAnswer& before) const;
  void endBroken(Batch& batch);
  // health.cc
  Result<void> setHealth(Batch& batch, const SetHealth& message);
  Result<void> setLabels(Batch& batch, const SetLabels& message);
  [[nodiscard]] const model::NodeRecord* nodeNamed(const std::string& name) const;
  void stopWhatRunsOn(Batch& batch, NodeId node, std::int32_t gpu);
  void admitAgain(Batch& batch);
  void noteHealth();
  Result<ProjectId> projectNamed(Batch& batch, const std::string& name, const Caller& caller);
  Result<UserId> userNamed(Batch& batch, const std::string& name);
  Result<void> setPolicy(Batch& batch, const SetPolicy& message);
  [[nodiscard]] Result<QueueId> queueNamed(const std::string& name) const;
  Result<void> stopOne(Batch& batch, const StopJob& message);
  Result<void> stopArray(Batch& batch, const StopJob& message, const model::ArrayPlace& array);

  // reports.cc
  void handle(Batch& batch, const ports::EngineReport& message);
  Result<void> take(Batch& batch, const ports::AttemptRunning& report);
  Result<void> take(Batch& batch, const ports::AttemptFinished& report);
  Result<void> take(Batch& batch, const ports::CheckpointSeen& report);
  Result<void> settle(Batch& batch, JobId id, const ports::AttemptFinished& report);

  ControllerOptions options_;
  ports::Ledger& ledger_;
  ports::Engine& engine_;
  Clock& clock_;
  state::State state_;
  CowTable<JobId, std::vector<model::Reason>> waiting_;
  CowTable<SideId, std::shared_ptr<const model::JobText>> texts_;
  CowTable<SideId, std::shared_ptr<const std::string>> names_;
  std::unordered_map<std::string, ProjectId> projectIds_;
  std::unordered_map<std::string, UserId> userIds_;
  std::unordered_map<std::string, std::vector<JobId>> requests_;  // by user and request id
  bool writable_ = true;
  Error problem_;                  // why not, where it is not
  Duration triedAt_;               // monotonic, of the last failed append
  std::vector<Message> deferred_;  // reports that could not be recorded yet
  scheduler::Planner planner_;
  bool wholeQueue_ = true;  // the next plan looks at every queued job, not at the new ones alone
  Timestamp nextLook_;      // when time alone may change the plan; 0: never
  std::uint64_t sealedAt_ = 0;
  std::uint64_t revision_ = 0;
  bool keeps_ = false;         // capacity is kept for a job: every plan looks at the whole queue
  Timestamp nextExpiry_;       // of a finished job's retention; 0: none
  Timestamp nextHealthy_;      // when a node or GPU is healthy again by itself; 0: never
  ports::NumbersInUse inUse_;  // by what the engine found at the start
  Readings seen_;
  std::shared_ptr<const Snapshot> snapshot_;  // through std::atomic_load and std::atomic_store
  std::function<void()> published_;
};

}  // namespace bole::controller
