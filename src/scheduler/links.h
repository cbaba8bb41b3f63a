// Which GPUs of one node: those with the best links among themselves that spoil the least for later
// jobs.
#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/world.h"

namespace bole::scheduler {

// `count` (1 or more) of the candidates, in order: grown from each start by the best linked next
// one; the best sum of links wins, ties by what is spoilt least, then by lowest index. Exact for
// pairs, and for the symmetrical shapes of real machines.
[[nodiscard]] std::vector<std::uint32_t> bestLinked(const FreeNode& node, const Hardware& hardware,
                                                    const std::vector<std::uint32_t>& from,
                                                    std::size_t count);

// Parts of GPUs: of those that are shared already, the one with the least left; else the idle one
// that spoils the least.
[[nodiscard]] std::vector<std::uint32_t> leastLeft(const FreeNode& node, const Hardware& hardware,
                                                   std::vector<std::uint32_t> from,
                                                   std::size_t count);

}  // namespace bole::scheduler
