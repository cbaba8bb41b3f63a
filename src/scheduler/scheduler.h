// Which jobs start where, and why every other one waits: a pure function of a snapshot, the time
// and a policy.
//
// Order: priority, then arrival. A gang starts with all of its ranks or not at all. A job that does
// not fit is passed by smaller ones behind it until it has waited for `policy.patience`; from then
// on what it could use, and no more, is kept for it (keep.h; Obstacle::kAhead). Bounded work: at
// most policy.maxJobs jobs are placed or refused a cycle; jobs alike in shape are tried once.
#pragma once

#include <vector>

#include "base/result.h"
#include "model/plan.h"
#include "model/tables.h"

namespace bole::scheduler {

struct Policy {
  Duration patience = minutes(10);
  std::size_t maxJobs = 100'000;
};

// `queue` lists the QUEUED jobs of `tables` in order.
[[nodiscard]] model::Plan plan(const model::Tables& tables, const std::vector<JobId>& queue,
                               Timestamp now, const Policy& policy);

// Could this ever start if the cloud were empty and whole? If not: kRefused, with the numbers.
[[nodiscard]] Result<void> canEverRun(const model::Tables& tables, const model::JobShape& shape);

// One plain sentence for a person: "waits for 4 A100 GPUs: 2 are free now".
[[nodiscard]] std::string explain(const std::vector<model::Reason>& reasons);

}  // namespace bole::scheduler
