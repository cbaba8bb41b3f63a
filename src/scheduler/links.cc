#include "scheduler/links.h"

#include <algorithm>
#include <tuple>

namespace bole::scheduler {
namespace {

// What taking these GPUs spoils for later jobs; less is better. First the strongest link from them
// to an idle GPU that stays behind (a pair broken), then the idle GPUs left on their sockets (a
// socket opened that was whole), then all links to idle GPUs.
using Spoilt = std::tuple<std::int64_t, std::int64_t, std::int64_t>;

Spoilt spoiltBy(const FreeNode& node, const Hardware& hardware,
                const std::vector<std::uint32_t>& chosen) {
  std::int64_t strongest = 0;
  std::int64_t onSockets = 0;
  std::int64_t links = 0;
  for (std::uint32_t other = 0; other < node.idle.size(); ++other) {
    if (!node.idle[other] || std::find(chosen.begin(), chosen.end(), other) != chosen.end())
      continue;
    bool near = false;
    for (const auto gpu : chosen) {
      const std::int64_t score = hardware.score(gpu, other);
      strongest = std::max(strongest, score);
      links += score;
      near = near || node.node->gpus[gpu].numaNode == node.node->gpus[other].numaNode;
    }
    onSockets += near ? 1 : 0;
  }
  return {strongest, onSockets, links};
}

}  // namespace

std::vector<std::uint32_t> bestLinked(const FreeNode& node, const Hardware& hardware,
                                      const std::vector<std::uint32_t>& from, std::size_t count) {
  if (from.size() == count) return from;
  std::vector<std::uint32_t> best;
  std::int64_t bestScore = -1;
  Spoilt bestSpoilt;
  for (const auto start : from) {
    std::vector<std::uint32_t> chosen = {start};
    std::int64_t score = 0;
    while (chosen.size() < count) {
      std::int64_t gainMost = -1;
      std::uint32_t next = 0;
      for (const auto gpu : from) {
        if (std::find(chosen.begin(), chosen.end(), gpu) != chosen.end()) continue;
        std::int64_t gain = 0;
        for (const auto other : chosen) gain += hardware.score(gpu, other);
        if (gain > gainMost) {
          gainMost = gain;
          next = gpu;
        }
      }
      chosen.push_back(next);
      score += gainMost;
    }
    if (score < bestScore) continue;
    const auto spoilt = spoiltBy(node, hardware, chosen);
    if (score == bestScore && spoilt >= bestSpoilt) continue;
    bestScore = score;
    bestSpoilt = spoilt;
    best = std::move(chosen);
  }
  std::sort(best.begin(), best.end());
  return best;
}

std::vector<std::uint32_t> leastLeft(const FreeNode& node, const Hardware& hardware,
                                     std::vector<std::uint32_t> from, std::size_t count) {
  std::stable_sort(from.begin(), from.end(), [&](std::uint32_t a, std::uint32_t b) {
    if (node.idle[a] != node.idle[b]) return !node.idle[a];
    if (node.idle[a]) return spoiltBy(node, hardware, {a}) < spoiltBy(node, hardware, {b});
    return std::pair(node.share[a], node.gpuMemory[a]) <
           std::pair(node.share[b], node.gpuMemory[b]);
  });
  from.resize(count);
  std::sort(from.begin(), from.end());
  return from;
}

}  // namespace bole::scheduler
