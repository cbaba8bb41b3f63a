// Placing one gang on what is free.
#pragma once

#include <optional>
#include <vector>

#include "model/plan.h"
#include "scheduler/free.h"

namespace bole::scheduler {

// All ranks of the shape, taken from `free`; fewer where they do not all fit and the shape's
// minimum allows it; or nothing, with `free` as before. Ranks go to as few nodes as the order of
// tasks allows, to the node with the fewest GPUs left over, on the GPUs with the best links among
// themselves.
[[nodiscard]] std::optional<std::vector<model::RankPlacement>> placeGang(
    FreeCapacity& free, const model::JobShape& shape);

// Why placeGang gave nothing: what it needed and the most that is free. Never empty.
[[nodiscard]] std::vector<model::Reason> obstacles(const FreeCapacity& free,
                                                   const model::JobShape& shape);

}  // namespace bole::scheduler
