// The one writer. It takes commands and reports in batches, asks state and scheduler, makes the events durable in one
// append, and only then answers, publishes a snapshot and tells the engine.
//
// One thread calls process(); it neither reads a clock nor draws a random number, so the same code runs live, simulated
// and under injected faults. ControllerThread (controller_thread.h) is the mailbox and thread around it.
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
#include "scheduler/scheduler.h"
#include "state/state.h"

namespace bole::controller {

// Who asks, as the door has established it.
struct Caller {
  std::string user;  // the machine's user name, or a service account's
  std::string source = "api";
  std::string requestId;
};

struct SubmitJobs {
  Caller caller;
  std::string project = "default";
  std::vector<model::JobSpec> jobs;
  std::vector<std::vector<std::string>> warnings;  // of each job, handed through to the answer
  bool dryRun = false;
  std::function<void(Result<model::SubmitAnswer>)> reply;  // called on the controller's thread, after the commit
};

struct StopJob {
  Caller caller;
  JobId job;
  Duration grace{-1};  // negative: the job's own
  model::StopReason reason = model::StopReason::kCancelled;
  std::function<void(Result<void>)> reply;
};

// The inventory as probed at start, or changed.
struct NodesProbed {
  std::vector<model::Node> nodes;
};

// Time may have changed something: a back-off or a retention ended.
struct Tick {};

using Message = std::variant<SubmitJobs, StopJob, NodesProbed, Tick, ports::EngineReport>;

struct ControllerOptions {
  std::string version;  // of Bole, for server.started
  std::string bootId;   // of the machine's kernel
  scheduler::Policy policy;
  std::uint64_t sealAfterEvents = 50'000;  // a segment's length
  std::size_t keepFinishedJobs = 10'000;   // in the state; older ones stay in the ledger
};

class Controller {
 public:
  // Reads the newest snapshot and the tail behind it. Errors: kCorrupt, kUnsupported.
  [[nodiscard]] static Result<std::unique_ptr<Controller>> open(ControllerOptions options, ports::Ledger& ledger,
                                                                ports::Engine& engine, Clock& clock);

  // Records the start and hands every live attempt to the engine, whose reports must reach process() as messages.
  [[nodiscard]] Result<void> start(std::vector<model::Node> nodes);

  void process(std::vector<Message> batch);

  // The newest published snapshot; safe from any thread.
  [[nodiscard]] std::shared_ptr<const Snapshot> snapshot() const;

  // When process() should be called with a Tick at the latest; 0: no need. Only the controller's thread.
  [[nodiscard]] Timestamp nextTick() const { return nextTick_; }

  // Called on the controller's thread after each published snapshot.
  void onPublish(std::function<void()> listener) { published_ = std::move(listener); }

  [[nodiscard]] const state::State& state() const { return state_; }

 private:
  struct Batch;  // events, replies and effects in the making

  Controller(ControllerOptions options, ports::Ledger& ledger, ports::Engine& engine, Clock& clock);

  Result<void> replay();
  void loadTexts();
  Timestamp ledgerNow(Batch& batch);
  Result<void> emit(Batch& batch, model::Event event, const Caller& caller, ProjectId project,
                    std::vector<ports::SideValue> side = {});
  SideId addSide(std::vector<ports::SideValue>& side, std::string value);
  void rememberText(SideId id, std::shared_ptr<const model::JobText> text);
  void rememberName(SideId id, std::string value);

  void handle(Batch& batch, SubmitJobs& message);
  void handle(Batch& batch, StopJob& message);
  void handle(Batch& batch, NodesProbed& message);
  void handle(Batch& batch, Tick& message);
  void handle(Batch& batch, ports::EngineReport& message);
  Result<void> submitOne(Batch& batch, const SubmitJobs& message, std::size_t index, model::SubmitAnswer& answer);
  Result<void> checkRequest(const SubmitJobs& message, std::optional<model::SubmitAnswer>& seen);
  Result<ProjectId> projectNamed(Batch& batch, const std::string& name, const Caller& caller);
  Result<UserId> userNamed(Batch& batch, const std::string& name);
  Result<void> stopOne(Batch& batch, const StopJob& message);
  Result<void> attemptRunning(Batch& batch, const ports::AttemptRunning& report);
  Result<void> attemptFinished(Batch& batch, const ports::AttemptFinished& report);
  Result<void> checkpointSeen(Batch& batch, const ports::CheckpointSeen& report);
  Result<void> settle(Batch& batch, const model::JobRecord& job, const ports::AttemptFinished& report);
  Result<void> requeue(Batch& batch, const model::JobRecord& job, std::uint32_t retries);
  void schedule(Batch& batch);
  void forgetOld(Batch& batch);
  Result<void> commit(Batch& batch);
  void rollBack(const model::Tables& before);
  void processUrgent(std::vector<Message>& batch, const Error& why);
  void publish();
  void sealIfLong();
  [[nodiscard]] Result<ports::AttemptOrder> orderOf(AttemptId attempt);

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
  std::unordered_map<std::string, std::vector<model::Submitted>> requests_;  // by user and request id
  bool writable_ = true;
  std::string problem_;
  bool needsPlan_ = false;
  Timestamp nextTick_;
  std::uint64_t sealedAt_ = 0;
  std::uint64_t revision_ = 0;
  Timestamp wallSeen_;      // the last readings, for clock.adjusted
  Duration monotonicSeen_;
  Duration boottimeSeen_;
  std::shared_ptr<const Snapshot> snapshot_;  // through std::atomic_load and std::atomic_store
  std::function<void()> published_;
};

}  // namespace bole::controller
