// One planning cycle, and the question whether something could ever run: what plan() and Planner
// share.
#pragma once

#include <vector>

#include "base/result.h"
#include "model/plan.h"
#include "scheduler/outlook.h"
#include "scheduler/scheduler.h"

namespace bole::scheduler {

// Of an outlook that has been brought to these tables and this time; leaves it as it was.
[[nodiscard]] model::Plan planFrom(Outlook& outlook, const model::Tables& tables,
                                   const std::vector<JobId>& queue, Timestamp now,
                                   const Options& options);

// Could this ever start in an empty cloud? Leaves it empty.
[[nodiscard]] Result<void> canEverRunIn(World& empty, const model::JobShape& shape);

}  // namespace bole::scheduler
