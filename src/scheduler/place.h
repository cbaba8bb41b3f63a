// Placing one gang on what is free.
#pragma once

#include <optional>
#include <vector>

#include "model/plan.h"
#include "scheduler/free.h"

namespace bole::scheduler {

// All ranks of the shape, taken from `free`; fewer where they do not all fit and the shape's
// minimum allows it; or nothing, with `free` as before. Ranks go to as few nodes as the order of
// tasks (most GPUs first) allows, to the node with the fewest GPUs left over, on the GPUs with the
// best links among themselves that spoil the least for later jobs.
[[nodiscard]] std::optional<std::vector<model::RankPlacement>> placeGang(
    FreeCapacity& free, const model::JobShape& shape);

// One try, rank by rank, that stops at the first task of which too few fit and takes nothing back.
struct GangTry {
  struct Lacking {
    std::uint32_t task;
    std::size_t before;  // FreeCapacity::mark() before the first rank of this task
  };
  std::vector<model::RankPlacement> ranks;
  std::optional<Lacking> lacking;
};
[[nodiscard]] GangTry placeRanks(FreeCapacity& free, const model::JobShape& shape);

// The fewest replicas of this task with which the gang may start.
[[nodiscard]] std::uint32_t leastReplicas(const model::JobShape& shape, std::uint32_t task);

// The idle GPUs of the node that the request means.
[[nodiscard]] std::vector<std::uint32_t> candidates(const FreeNode& node,
                                                    const model::GpuRequest& request);

}  // namespace bole::scheduler
