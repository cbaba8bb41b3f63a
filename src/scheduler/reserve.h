// What is held for a job that has waited too long for others to pass it any more.
//
// It is given the earliest time and place at which it could start, from the time limits of what
// runs and, where there are none, from what may be expected. What it will use there, beyond what is
// freed until then, is kept from now on: others take the rest, or end before. The nodes, once
// chosen, stay chosen (JobRecord::reservedOn): they drain, so the wait is bounded by what runs
// there.
#pragma once

#include <optional>
#include <vector>

#include "model/plan.h"
#include "model/tables.h"
#include "scheduler/world.h"

namespace bole::scheduler {

// When the attempt is expected to have gone: after what its user's jobs of this size take
// (model/run_time.h); where none has ended, or it has run that long already, by its time limit;
// without one it is expected to run as long again as it has, and no less than `kLeastExpected`.
inline constexpr Duration kLeastExpected = minutes(10);
[[nodiscard]] Timestamp expectedEnd(const model::Tables& tables, const model::JobRecord& job,
                                    const model::AttemptRecord& attempt, Timestamp now);

struct Reserved {
  JobId job;
  Timestamp start;  // expected
  std::vector<model::RankPlacement> ranks;
  // What has to stay free now, of each node in `ranks`.
  struct Part {
    std::size_t node;
    MilliCpu cpus;
    Bytes memory;
    std::vector<World::GpuPart> gpus;
  };
  std::vector<Part> parts;

  // Would these ranks take something of it?
  [[nodiscard]] bool touches(const World& world,
                             const std::vector<model::RankPlacement>& other) const;
};

class Reserve {
 public:
  Reserve(const model::Tables& tables, Timestamp now);

  // Where and when the job could start if nothing more than `world` holds came before it. Nothing:
  // not even when all that runs has gone.
  [[nodiscard]] std::optional<Reserved> find(const World& world, const model::JobRecord& job) const;

 private:
  struct Release {
    Timestamp at;
    const model::JobRecord* job;
    const model::AttemptRecord* attempt;
  };
  [[nodiscard]] std::optional<Reserved> findOn(World future, const model::JobRecord& job) const;

  Timestamp now_;
  std::vector<Release> releases_;  // soonest first
};

// Sets the reservation's parts aside, and charges the job's queue with what it will take.
void keepReserved(World& world, const Claim& claim, const Reserved& reserved);

}  // namespace bole::scheduler
