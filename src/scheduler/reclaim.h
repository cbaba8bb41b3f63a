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
  // The victims of one node, and what it costs to clear it.
  struct OnNode {
    double cost = 0;
    Choice victims;
  };
  // Of nodes that could serve the job, the cheapest to clear first.
  [[nodiscard]] static std::vector<OnNode> nodesWith(World& later, const model::JobRecord& job,
                                                     const Choice& victims);
  // An order in which victims are tried: as they stand in each of these lists, each once.
  using Way = std::vector<const Choice*>;
  [[nodiscard]] std::optional<Found> follow(World& later, const model::JobRecord& job,
                                            const Amount& more, const Way& way) const;
  // How many of these, in their order, are enough; they are given back already, each after its
  // mark.
  [[nodiscard]] static std::size_t fewest(World& later, const model::JobRecord& job,
                                          const std::vector<std::size_t>& marks,
                                          const Choice& victims, std::size_t tooFew);
  [[nodiscard]] Choice spare(World& later, const model::JobRecord& job, Choice victims) const;

  const model::Tables& tables_;
  const Running& running_;
  Timestamp now_;
  std::map<AttemptId, Victim> victims_;  // those that were looked at so far
  std::set<JobId> chosen_;
};

}  // namespace bole::scheduler
