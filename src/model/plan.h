// What the scheduler answers: which jobs start where, and why every other one waits.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/units.h"
#include "model/event.h"

namespace bole::model {

// What stands between a job and its start. A reason is a set of these; with all of them gone the
// job starts.
enum class Obstacle : std::uint8_t {
  kGpus,         // not enough free GPUs of the kind asked for
  kGpusPerNode,  // enough in all, but no node has the number that one replica needs
  kCpus,
  kMemory,
  kAhead,        // capacity is being kept for a job ahead
  kBackoff,      // waiting before a retry
  kNoNodes,      // no node is present
  kNotLookedAt,  // the cycle has not come to it yet
  kQueueLimit,   // its queue, or one above it, may have no more
  kGuaranteed,   // what is left is guaranteed to others, and it cannot be stopped for them
  kStopping,     // jobs are being stopped for it; it starts when they have gone
  kUserLimit,    // its user may have no more in this queue
  kGpuShare,     // no GPU has so large a part free
  kLabels,       // no node that is asked for by its labels
  kDependency,   // a job that it waits for has not ended
  kBegin,        // it is not to start before a time
  kWindow,       // its queue starts jobs only at other hours
  kArrayLimit,   // as many elements of its array run as may
  kBooked,       // what is left is booked for others before it would end
};

struct Reason {
  Obstacle obstacle = Obstacle::kNotLookedAt;
  std::int64_t needed = 0;     // in the obstacle's own unit: GPUs, thousandths of a CPU, bytes
  std::int64_t available = 0;  // the most that is free now, in the same unit
  JobId ahead;                 // for kAhead: who; for kDependency: for which
  std::string queue;           // for kQueueLimit, kGuaranteed, kUserLimit, kWindow: which
  Timestamp until;             // for kBackoff and, where known, when it is expected to go
  std::string detail;          // "A100, 80 GB": what kind was looked for; no personal data
  bool operator==(const Reason&) const = default;
};

struct Start {
  JobId job;
  std::vector<RankPlacement> ranks;
};

// An attempt to be stopped so that another job can start.
struct Eviction {
  JobId job;
  JobId beneficiary;
};

// A place that is kept for a job that has waited too long, or that others are stopped for.
struct Reservation {
  JobId job;
  std::vector<NodeId> nodes;
  Timestamp start;  // expected; 0: when those have gone
};

struct Waiting {
  JobId job;
  std::vector<Reason> reasons;  // at least one
};

struct Plan {
  std::vector<Start> starts;  // in the order decided
  std::vector<Eviction> evictions;
  std::vector<Reservation> reservations;
  std::vector<Waiting> waiting;  // every queued job that does not start, in queue order
  Timestamp nextLook;            // when time alone may change the plan (a back-off ends); 0: never
  // Capacity is kept for a job, or is being freed for one: the next plan must look at the whole
  // queue.
  bool keeps = false;
};

}  // namespace bole::model
