// Which jobs start where, and why every other one waits: a pure function of a snapshot, the time
// and a policy.
//
// Order: down the tree of queues (order.h), within a queue priority, then arrival. A gang starts
// with all of its ranks or not at all, and never beyond what its queue may have (queues.h). A job
// with the better right may have others stopped (reclaim.h); what they free is held for it. A job
// that does not fit is passed by others behind it until it has waited for the policy's patience;
// from then on what it could use, and no more, is kept for it (keep.h; Obstacle::kAhead). Bounded
// work: at most options.maxJobs jobs are placed or refused a cycle; jobs alike are tried once.
#pragma once

#include <vector>

#include "base/result.h"
#include "model/plan.h"
#include "model/tables.h"

namespace bole::scheduler {

struct Options {
  std::size_t maxJobs = 100'000;
  // From this job on nodes are chosen by what they are worth to jobs such as have come so far;
  // before, by how little is left over.
  std::size_t learnFrom = 64;
};

// `queue`: QUEUED jobs of `tables`, in any order; the policy stands in `tables`.
[[nodiscard]] model::Plan plan(const model::Tables& tables, const std::vector<JobId>& queue,
                               Timestamp now, const Options& options);

// Could this ever start if the cloud were empty and whole? If not: kRefused, with the numbers.
[[nodiscard]] Result<void> canEverRun(const model::Tables& tables, const model::JobShape& shape);

// One plain sentence for a person: "waits for 4 A100 GPUs: 2 are free now".
[[nodiscard]] std::string explain(const std::vector<model::Reason>& reasons);

}  // namespace bole::scheduler
