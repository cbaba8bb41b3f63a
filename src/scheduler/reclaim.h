// Whose jobs are stopped so that a job with the better right can start.
//
// Legal victims: spot jobs, for any job that is not; jobs of a queue that uses more than it is
// guaranteed, for a job within what its own queue is guaranteed, and never so many that the queue
// would keep less than its guarantee; jobs of the same queue with a lower priority, where the queue
// says so. Never a job that cannot be preempted. A set of victims is taken only if the job then
// fits with all its checks, it has no member that could be spared, and of the sets looked at it
// loses the least work: (time since the last checkpoint, or the start, plus what a restart costs) x
// GPUs.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "model/plan.h"
#include "model/tables.h"
#include "scheduler/running.h"
#include "scheduler/world.h"

namespace bole::scheduler {

struct Reclaimed {
  std::vector<JobId> victims;  // none: what is being stopped already is enough
  std::vector<model::RankPlacement> ranks;
};

class Reclaim {
 public:
  Reclaim(const model::Tables& tables, const Running& running, Timestamp now)
      : tables_(tables), running_(running), now_(now) {}

  // Takes the job's ranks from `later`, with the victims given back; or nothing, with `later` as it
  // was. Who has been chosen once is chosen no more.
  [[nodiscard]] std::optional<Reclaimed> find(World& later, const model::JobRecord& job);

 private:
  struct Victim {
    const model::JobRecord* job;
    const model::AttemptRecord* attempt;
    std::size_t queue;
    Amount amount;
    double cost;  // GPU-seconds lost
  };
  using Choice = std::vector<const Victim*>;
  struct Found {
    Choice victims;
    double cost = 0;
    std::vector<model::RankPlacement> ranks;
  };

  // All that are legal now, cheapest first.
  [[nodiscard]] Choice victimsFor(const World& later, const model::JobRecord& job,
                                  const Amount& more);
  const Victim& victimOf(const World& later, AttemptId attempt);
  // May any of these be stopped for the job, as far as that hangs on their queue?
  [[nodiscard]] static bool mayLose(const World& later, const model::JobRecord& job,
                                    const Amount& more, const Running::Group& group);
  [[nodiscard]] bool legal(const World& later, const model::JobRecord& job, const Amount& more,
                           const Victim& victim) const;
  [[nodiscard]] static bool enough(World& later, const model::JobRecord& job,
                                   const Choice& victims);
  [[nodiscard]] static std::vector<Choice> ways(World& later, const model::JobRecord& job,
                                                const Choice& victims);
  [[nodiscard]] std::optional<Found> follow(World& later, const model::JobRecord& job,
                                            const Amount& more, const Choice& way) const;
  [[nodiscard]] Choice spare(World& later, const model::JobRecord& job, Choice victims) const;

  const model::Tables& tables_;
  const Running& running_;
  Timestamp now_;
  std::map<AttemptId, Victim> victims_;  // those that were looked at so far
  std::set<JobId> chosen_;
};

}  // namespace bole::scheduler
