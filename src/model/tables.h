// The state as plain tables: what room `state` folds events into, what the scheduler and every
// reader look at.
//
// A copy is cheap (copy-on-write chunks) and never changes under its reader.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/cow_table.h"
#include "model/event.h"
#include "model/job.h"
#include "model/node.h"
#include "model/policy.h"

namespace bole::model {

struct JobRecord {
  JobId id;
  ProjectId project;
  UserId user;
  SideId text;
  std::shared_ptr<const JobShape> shape;  // never null
  JobState state = JobState::kQueued;
  Timestamp submittedAt;
  // Since when it could have started: submitted, its time come, and what it waited for ended. Keeps
  // its value over retries and preemptions: the old place in the queue.
  Timestamp queuedAt;
  Timestamp notBefore;  // backing off until then; 0: free to start
  Timestamp startedAt;  // of the newest attempt: when its capacity was taken; 0: never
  Timestamp runningAt;  // of the newest attempt: when every rank ran; 0: never
  Timestamp endedAt;    // 0: not yet
  AttemptId attempt;    // the live one, else the newest
  std::uint32_t attempts = 0;
  std::uint32_t retries = 0;  // paid for by the restart policy
  StopReason stop = StopReason::kNone;
  std::vector<NodeId> reservedOn;    // while it waits: nodes that are being drained for it
  bool promised = false;             // while it waits: others were stopped for it, so it is next
  JobId freedFor;                    // while it stops for the sake of another: for whom
  std::vector<Dependency> waitsFor;  // of its shape's: those that have not ended
  JobId brokenBy;                    // one that ended otherwise than it asks: it can never start
  std::vector<JobId> dependents;     // until it ends: who waits for it
  std::optional<AttemptOutcome> outcome;  // of the newest ended attempt
  std::int32_t firstFailed = -1;
  std::optional<RankExit> failure;  // of that rank
  std::int64_t milliGpuMicros =
      0;  // GPU-time of ended attempts: thousandths of a GPU x microseconds of ledger time
  std::uint64_t checkpoints = 0;
  std::uint64_t checkpointEpoch = 0;  // of the newest
  SideId checkpointPath;
};

struct AttemptRecord {
  AttemptId id;
  JobId job;
  std::uint32_t number = 1;
  bool live = true;  // holds its capacity
  std::vector<RankPlacement> ranks;
  Timestamp plannedAt;
  Timestamp startedAt;  // 0: not yet
  Timestamp endedAt;    // 0: not yet
  std::optional<AttemptOutcome> outcome;
  std::vector<RankExit> exits;
  std::int32_t firstFailed = -1;  // rank; -1: none
  SideId note;
  Duration leapsBefore;                 // Tables::leaps when it was planned
  std::uint64_t checkpointEpoch = 0;    // of its newest checkpoint; 0: none
  Timestamp checkpointAt;               // when that was seen
  StopReason stop = StopReason::kNone;  // why it was asked to stop, if it was
  JobId stoppedFor;                     // and for whose sake
};

// What an operator, or Bole itself, says of a node or of one of its GPUs, beside what the probe
// sees.
struct HealthMark {
  std::int32_t gpu = -1;  // index; -1: the node as a whole
  GpuHealth health = GpuHealth::kDraining;
  Timestamp until;  // healthy again from then on; 0: until someone says so
  SideId why;       // unset: not told
  bool operator==(const HealthMark&) const = default;
};

struct NodeRecord {
  NodeId id;
  std::shared_ptr<const Node> node;                         // with marks and labels; never null
  std::optional<Node> probed;                               // without, where they differ
  std::vector<HealthMark> marks;                            // each GPU, and the whole, at most once
  std::vector<std::pair<std::string, std::string>> labels;  // given by operators
  bool present = true;
  std::vector<MilliGpu> gpuUsed;     // of each GPU, 0 to 1000
  std::vector<Bytes> gpuMemoryUsed;  // of each GPU, by who holds a share of it
  std::vector<AttemptId> gpuHolder;  // of each GPU: who holds it whole; unset: none
  MilliCpu cpusUsed;
  Bytes memoryUsed;
};

// What a queue has used, each as a mean in which the past counts half after each half-life of the
// policy; and what it holds since `at`.
struct QueueUse {
  QueueId id;
  Timestamp at;       // until when the means are reckoned
  double gpus = 0;    // thousandths
  double cpus = 0;    // thousandths
  double memory = 0;  // bytes
  MilliGpu gpusHeld = {};
  MilliCpu cpusHeld = {};
  Bytes memoryHeld = {};
  bool operator==(const QueueUse&) const = default;
};

// How long a user's newest jobs of about one size ran: what may be expected of the next.
struct RunTimes {
  static constexpr std::size_t kMostKept = 8;
  struct OfSize {
    std::uint32_t size = 0;        // 0: no GPU, 1: up to one, 2: 2 or 3, 3: 4 to 7, and so on
    std::vector<Duration> newest;  // oldest first
    bool operator==(const OfSize&) const = default;
  };
  UserId id;
  std::vector<OfSize> sizes;  // by size
  bool operator==(const RunTimes&) const = default;
};

struct Tables {
  CowTable<JobId, JobRecord> jobs;
  CowTable<AttemptId, AttemptRecord> attempts;
  CowTable<NodeId, NodeRecord> nodes;
  CowTable<ProjectId, SideId> projects;  // their names
  CowTable<UserId, SideId> users;
  CowTable<QueueId, QueueUse> queueUse;  // of those that ever used anything
  CowTable<UserId, RunTimes> runTimes;   // the same
  std::shared_ptr<const Policy> policy = std::make_shared<const Policy>();  // never null
  std::uint64_t sequence = 0;  // of the last event folded
  Timestamp time;              // of it
  Duration leaps;              // all that ledger time ever skipped: clock jumps and suspends
  std::uint64_t lastJob = 0;   // the highest id ever given, and so on
  std::uint64_t lastAttempt = 0;
  std::uint64_t lastNode = 0;
  std::uint64_t lastProject = 0;
  std::uint64_t lastUser = 0;
  std::uint64_t lastSide = 0;
  std::uint64_t lastQueue = kDefaultQueue.value;
  std::string bootId;  // of the machine when the server last started
};

}  // namespace bole::model
