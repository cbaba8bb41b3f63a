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
};

struct Reason {
  Obstacle obstacle = Obstacle::kNotLookedAt;
  std::int64_t needed = 0;     // in the obstacle's own unit: GPUs, thousandths of a CPU, bytes
  std::int64_t available = 0;  // the most that is free now, in the same unit
  JobId ahead;                 // for kAhead: who
  Timestamp until;             // for kBackoff and, where known, when it is expected to go
  std::string detail;          // "A100, 80 GB": what kind was looked for; no personal data
  bool operator==(const Reason&) const = default;
};

struct Start {
  JobId job;
  std::vector<RankPlacement> ranks;
};

struct Waiting {
  JobId job;
  std::vector<Reason> reasons;  // at least one
};

struct Plan {
  std::vector<Start> starts;     // in the order decided
  std::vector<Waiting> waiting;  // every queued job that does not start, in queue order
  Timestamp nextLook;            // when time alone may change the plan (a back-off ends); 0: never
  bool keeps =
      false;  // capacity is being kept for a job: the next plan must look at the whole queue
};

}  // namespace bole::model
