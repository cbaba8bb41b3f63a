// When waiting jobs are expected to start: the scheduler itself, run ahead on a copy of the state,
// with the ends that are expected.
//
// Expected are: what runs ends after what its user's jobs of that size took, by its time limit, or
// after as long again as it has run (scheduler/reserve.h); what starts meanwhile after what was
// learnt, its time limit, or `unknownRunTime`. Nobody submits or stops anything, and nothing fails.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "model/plan.h"
#include "model/tables.h"
#include "scheduler/scheduler.h"

namespace bole::controller {

struct ForecastOptions {
  std::size_t mostSteps = 200;  // moments that are looked at
  std::size_t mostJobs = 1000;  // that wait; more are not looked at, nor told of
  Duration horizon = hours(24 * 30);
  Duration unknownRunTime = hours(1);
  scheduler::Options scheduling;
};

struct Expected {
  Timestamp at;
  std::vector<model::RankPlacement> ranks;
};

// Of each job that is expected to start within the options' bounds. With `wanted` it ends as soon
// as those have started, and they are among the jobs looked at. Takes time in proportion to the
// bounds and the cloud: not for the controller's thread.
[[nodiscard]] std::map<JobId, Expected> forecast(const model::Tables& tables, Timestamp now,
                                                 const std::set<JobId>& wanted = {},
                                                 const ForecastOptions& options = {});

// The same of jobs that are not submitted yet, each in its place; nothing: not within the bounds.
[[nodiscard]] std::vector<std::optional<Expected>> forecastNew(
    model::Tables tables, Timestamp now, const std::vector<model::JobShape>& shapes, UserId user,
    const ForecastOptions& options = {});

}  // namespace bole::controller
