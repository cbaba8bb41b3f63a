// What a scenario's tables show: jobs and queues as a snapshot has them, in plain words.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "controller/snapshot.h"
#include "scenario/table.h"
#include "scenario/world.h"

namespace bole::test {

// Columns: job, state, where, why, and if asked for user, queue, priority, attempts, ranks, kept,
// gpu-hours, checkpoint.
[[nodiscard]] const std::vector<std::string>& jobColumns();
[[nodiscard]] std::vector<std::string> usualColumns(bool ofQueues);
// Those in which a decision shows: of a place that is kept only that one is, as it moves with time.
[[nodiscard]] std::vector<std::string> whatDecides();

[[nodiscard]] std::vector<JobId> everyJob(const model::Tables& tables);

// At one moment. References: lives no longer than what it was made from.
struct Moment {
  const controller::Snapshot& snapshot;
  const std::map<JobId, JobName>& names;
  Timestamp now;
};

// One row a job. Jobs of one group that differ only in their places are one row.
[[nodiscard]] TextTable jobTable(const std::vector<JobId>& jobs, const Moment& moment,
                                 const std::vector<std::string>& columns,
                                 const std::vector<Refused>& refused = {});

// Columns: queue, waiting, running, and guaranteed, limit, used of GPUs or, as "used cpus", "used
// memory", "limit A100", of something else. Errors: a column that is none of these.
[[nodiscard]] Result<TextTable> queueTable(const controller::Snapshot& snapshot,
                                           const std::vector<std::string>& columns);

}  // namespace bole::test
