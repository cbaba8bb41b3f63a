// Events: what happened, as it stands in the ledger. The state is a fold of these and of nothing
// else.
//
// Bodies hold opaque ids and numbers. What belongs to a person is named by a SideId and lies in the
// side table. A body's form never changes once written; a new form gets a new version
// (docs/checklists/add-an-event.md).
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/units.h"
#include "model/job.h"
#include "model/node.h"
#include "model/policy.h"

namespace bole::model {

// A server came up: the state before this event is what the last one left. Live attempts are looked
// up, not assumed.
struct ServerStarted {
  static constexpr const char* kKind = "server.started";
  std::string version;
  std::string bootId;  // of the machine's kernel
};

// The machine's clock moved by itself against the monotonic one: set by hand or NTP, or a suspend.
struct ClockAdjusted {
  static constexpr const char* kKind = "clock.adjusted";
  Duration jump;       // wall time gained (or lost, negative) beyond what the monotonic clock saw
  Duration suspended;  // of it, what the machine slept; 0 or more
  Duration leap;       // what ledger time skipped because of it; 0 or more: no one's GPU-time
};

struct ProjectCreated {
  static constexpr const char* kKind = "project.created";
  ProjectId project;
  SideId name;
};

struct UserSeen {
  static constexpr const char* kKind = "user.seen";
  UserId user;
  SideId name;
};

// A node joined, or came back different. Sent again with the same id when its inventory changes.
struct NodeRegistered {
  static constexpr const char* kKind = "node.registered";
  NodeId id;
  Node node;
};

struct NodeLost {
  static constexpr const char* kKind = "node.lost";
  NodeId id;
};

// A node, or one of its GPUs, is in this state from here on.
struct HealthSet {
  static constexpr const char* kKind = "node.health_set";
  NodeId node;
  std::int32_t gpu = -1;  // -1: the node as a whole
  GpuHealth health = GpuHealth::kHealthy;
  Timestamp until;  // healthy again from then on; 0: until someone says so
  SideId why;
};

// All labels that operators have given the node.
struct NodeLabelled {
  static constexpr const char* kKind = "node.labelled";
  NodeId node;
  std::vector<std::pair<std::string, std::string>> labels;
};

struct JobSubmitted {
  static constexpr const char* kKind = "job.submitted";
  JobId job;
  ProjectId project;
  UserId user;
  JobShape shape;
  SideId text;
};

// One rank's place. Ranks are numbered 0, 1, ... over the tasks in order.
struct RankPlacement {
  std::uint32_t task = 0;     // index into tasks
  std::uint32_t replica = 0;  // index within the task
  NodeId node;
  std::vector<std::uint32_t> gpus;    // indices on the node, in the order the rank sees them
  std::vector<GpuGrant> grants = {};  // of each of `gpus`; none: whole ones
  bool operator==(const RankPlacement&) const = default;

  [[nodiscard]] GpuGrant grant(std::size_t gpu) const {
    return gpu < grants.size() ? grants[gpu] : GpuGrant();
  }
};

// The scheduler decided and the intent is durable: from here on the capacity is taken.
struct AttemptPlanned {
  static constexpr const char* kKind = "attempt.planned";
  AttemptId attempt;
  JobId job;
  std::uint32_t number = 1;  // the job's first, second, ... attempt
  std::vector<RankPlacement> ranks;
};

struct AttemptStarted {
  static constexpr const char* kKind = "attempt.started";
  AttemptId attempt;
};

struct RankExit {
  std::uint32_t rank = 0;
  bool known = false;       // false: the status was never written down; nothing is made up
  std::int32_t status = 0;  // the raw wait status, where known
  bool operator==(const RankExit&) const = default;
};

struct StopRequested {
  static constexpr const char* kKind = "job.stop_requested";
  JobId job;
  StopReason reason = StopReason::kCancelled;
  Duration grace;
  JobId beneficiary;  // for kPreempted: the job that what is freed is held for
};

// From here on these nodes are drained for a job that has waited too long; none: no longer.
struct ReservationMade {
  static constexpr const char* kKind = "reservation.made";
  JobId job;
  std::vector<NodeId> nodes;
};

// How the cloud is shared from here on.
struct PolicySet {
  static constexpr const char* kKind = "policy.set";
  Policy policy;
};

// No process of the attempt is left; its capacity is free from here on.
struct AttemptEnded {
  static constexpr const char* kKind = "attempt.ended";
  AttemptId attempt;
  AttemptOutcome outcome = AttemptOutcome::kCompleted;
  std::int32_t firstFailed = -1;  // the rank that failed first; -1: none
  std::vector<RankExit> ranks;
  SideId note;  // what the engine had to say; unset: nothing
};

// The job will be tried again, not before `notBefore`. `retries` counts failures that the restart
// policy pays for.
struct JobRequeued {
  static constexpr const char* kKind = "job.requeued";
  JobId job;
  Timestamp notBefore;
  std::uint32_t retries = 0;
};

struct JobEnded {
  static constexpr const char* kKind = "job.ended";
  JobId job;
  JobState state = JobState::kSucceeded;
  StopReason reason = StopReason::kNone;
};

struct CheckpointRecorded {
  static constexpr const char* kKind = "checkpoint.recorded";
  AttemptId attempt;
  std::uint64_t epoch = 0;
  Bytes size;
  SideId path;
};

// A finished job leaves the state (its events stay in the ledger).
struct JobForgotten {
  static constexpr const char* kKind = "job.forgotten";
  JobId job;
};

using Event = std::variant<ServerStarted, ClockAdjusted, ProjectCreated, UserSeen, NodeRegistered,
                           NodeLost, JobSubmitted, AttemptPlanned, AttemptStarted, StopRequested,
                           AttemptEnded, JobRequeued, JobEnded, CheckpointRecorded, JobForgotten,
                           PolicySet, ReservationMade, HealthSet, NodeLabelled>;

[[nodiscard]] inline const char* kindOf(const Event& event) {
  return std::visit([](const auto& body) { return std::decay_t<decltype(body)>::kKind; }, event);
}

}  // namespace bole::model
