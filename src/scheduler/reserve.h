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
#include "scheduler/running.h"
#include "scheduler/world.h"

namespace bole::scheduler {

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
  Reserve(const model::Tables& tables, const Running& running, Timestamp now);

  // Where and when the job could start if nothing more than `world` holds came before it. Nothing:
  // not even when all that runs has gone. Leaves `world` as it was.
  [[nodiscard]] std::optional<Reserved> find(World& world, const model::JobRecord& job);

 private:
  struct Release {
    Timestamp at;
    const model::JobRecord* job;
    const model::AttemptRecord* attempt;
  };
  // The release at this place, soonest first; nullptr: there are fewer.
  const Release* releaseAt(std::size_t place);
  // The fewest releases after which the job fits.
  [[nodiscard]] std::optional<std::size_t> releasesFor(World& world, const model::JobRecord& job);
  bool release(World& world, std::size_t count);
  [[nodiscard]] std::optional<Reserved> findIn(World& world, const model::JobRecord& job);

  const model::Tables& tables_;
  Timestamp now_;
  Running::Releases next_;
  std::vector<Release> releases_;   // those that were asked for so far
  std::vector<std::size_t> marks_;  // of the world, before each of them and after the last
};

// Sets the reservation's parts aside, and charges the job's queue with what it will take.
void keepReserved(World& world, const Claim& claim, const Reserved& reserved);

}  // namespace bole::scheduler
