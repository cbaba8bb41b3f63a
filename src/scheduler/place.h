// Placing one gang on what is free.
#pragma once

#include <optional>
#include <vector>

#include "model/plan.h"
#include "scheduler/claim.h"
#include "scheduler/world.h"

namespace bole::scheduler {

// Whether what queues may have is held against a gang, or only what hardware there is.
enum class Quotas : std::uint8_t { kHeld, kIgnored };

// All ranks of the shape, taken from `world`; fewer where they do not all fit and the shape's
// minimum allows it; or nothing, with `world` as before. A gang goes to one node where it can;
// else task by task (most GPUs first) to nodes that it uses already, and then to as few more as it
// can. Of nodes that will do the one with the fewest idle GPUs is taken, on it the GPUs with the
// best links among themselves that spoil the least for later jobs.
[[nodiscard]] std::optional<std::vector<model::RankPlacement>> placeGang(
    World& world, const Claim& claim, Quotas quotas = Quotas::kHeld);

// One try, rank by rank, that stops at the first task of which too few fit and takes nothing back.
struct GangTry {
  struct Lacking {
    std::uint32_t task;
    std::size_t before;  // World::mark() before the first rank of this task
  };
  std::vector<model::RankPlacement> ranks;
  std::optional<Lacking> lacking;
  std::optional<Queues::Refusal> refusal;  // where a rank was refused only by what queues may have
};
[[nodiscard]] GangTry placeRanks(World& world, const Claim& claim, Quotas quotas = Quotas::kHeld);

// Is there room for the least of every task, whatever the others take? Where it has one task: does
// it fit, whatever its queue may have?
[[nodiscard]] bool mayFit(World& world, const model::JobShape& shape);

// Their nodes, in order, each once.
[[nodiscard]] std::vector<NodeId> nodesOf(const std::vector<model::RankPlacement>& ranks);

// The fewest replicas of this task with which the gang may start.
[[nodiscard]] std::uint32_t leastReplicas(const model::JobShape& shape, std::uint32_t task);

}  // namespace bole::scheduler
