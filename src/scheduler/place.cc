#include "scheduler/place.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "scheduler/match.h"

namespace bole::scheduler {
namespace {

// How good a link is: higher is nearer. NVLinks count; then the order of `nvidia-smi topo`.
std::int64_t linkScore(const model::Link& link) {
  switch (link.kind) {
    case model::LinkKind::kNvLink:
      return 100 + link.nvLinks;
    case model::LinkKind::kPix:
      return 50;
    case model::LinkKind::kPxb:
      return 40;
    case model::LinkKind::kPhb:
      return 30;
    case model::LinkKind::kNode:
      return 20;
    case model::LinkKind::kSys:
      return 10;
    case model::LinkKind::kSelf:
      break;
  }
  return 0;
}

// What taking these GPUs spoils for later jobs; less is better. First the strongest link from them
// to an idle GPU that stays behind (a pair broken), then the idle GPUs left on their sockets (a
// socket opened that was whole), then all links to idle GPUs.
using Spoilt = std::tuple<std::int64_t, std::int64_t, std::int64_t>;

Spoilt spoiltBy(const FreeNode& node, const std::vector<std::uint32_t>& chosen) {
  std::int64_t strongest = 0;
  std::int64_t onSockets = 0;
  std::int64_t links = 0;
  for (std::uint32_t other = 0; other < node.idle.size(); ++other) {
    if (!node.idle[other] || std::find(chosen.begin(), chosen.end(), other) != chosen.end())
      continue;
    bool near = false;
    for (const auto gpu : chosen) {
      const auto score = linkScore(node.node->link(gpu, other));
      strongest = std::max(strongest, score);
      links += score;
      near = near || node.node->gpus[gpu].numaNode == node.node->gpus[other].numaNode;
    }
    onSockets += near ? 1 : 0;
  }
  return {strongest, onSockets, links};
}

// `count` of the candidates: grown from each start by the best linked next one; the best sum of
// links wins, ties by what is spoilt least, then by lowest index. Exact for pairs, and for the
// symmetrical shapes of real machines.
std::vector<std::uint32_t> bestLinked(const FreeNode& node, const std::vector<std::uint32_t>& from,
                                      std::size_t count) {
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
        for (const auto other : chosen) gain += linkScore(node.node->link(gpu, other));
        if (gain > gainMost) {
          gainMost = gain;
          next = gpu;
        }
      }
      chosen.push_back(next);
      score += gainMost;
    }
    if (score < bestScore) continue;
    const auto spoilt = spoiltBy(node, chosen);
    if (score == bestScore && spoilt >= bestSpoilt) continue;
    bestScore = score;
    bestSpoilt = spoilt;
    best = std::move(chosen);
  }
  std::sort(best.begin(), best.end());
  return best;
}

bool hasRoom(const FreeNode& node, const model::TaskShape& task) {
  return node.cpus >= task.cpus && node.memory >= task.memory &&
         node.idleCount >= static_cast<std::int64_t>(task.gpus.count);
}

// The node for one replica: one that this gang already uses, else the one with the fewest idle GPUs
// left over.
std::optional<std::size_t> nodeFor(const FreeCapacity& free, const model::TaskShape& task,
                                   const std::vector<bool>& used,
                                   std::vector<std::uint32_t>& gpus) {
  std::optional<std::size_t> best;
  std::pair<int, std::int64_t> bestRank;
  for (std::size_t n = 0; n < free.nodes().size(); ++n) {
    const auto& node = free.nodes()[n];
    if (!hasRoom(node, task)) continue;
    const std::pair<int, std::int64_t> rank = {used[n] ? 0 : 1, node.idleCount};
    if (best && rank >= bestRank) continue;
    auto possible = candidates(node, task.gpus);
    if (possible.size() < task.gpus.count) continue;
    best = n;
    bestRank = rank;
    gpus = std::move(possible);
  }
  return best;
}

// For whole gangs on one node: GPUs of all ranks are chosen together, so that the gang is well
// linked, not each rank alone.
std::optional<std::vector<model::RankPlacement>> placeOnOneNode(FreeCapacity& free,
                                                                const model::JobShape& shape,
                                                                std::size_t at) {
  const auto& node = free.nodes()[at];
  const auto& request = shape.tasks.front().gpus;
  std::size_t gpus = 0;
  MilliCpu cpus;
  Bytes memory;
  for (const auto& task : shape.tasks) {
    if (task.gpus.count > 0 &&
        !(task.gpus.models == request.models && task.gpus.memoryMin == request.memoryMin &&
          task.gpus.memoryMax == request.memoryMax)) {
      return std::nullopt;  // several kinds: rank by rank
    }
    gpus += std::size_t{task.replicas} * task.gpus.count;
    cpus += task.cpus * task.replicas;
    memory += task.memory * task.replicas;
  }
  if (gpus == 0 || node.cpus < cpus || node.memory < memory) return std::nullopt;
  const auto from = candidates(node, request);
  if (from.size() < gpus) return std::nullopt;
  auto chosen = bestLinked(node, from, gpus);
  std::vector<model::RankPlacement> ranks;
  std::size_t next = 0;
  for (std::uint32_t t = 0; t < shape.tasks.size(); ++t) {
    const auto& task = shape.tasks[t];
    for (std::uint32_t r = 0; r < task.replicas; ++r) {
      std::vector<std::uint32_t> own(
          chosen.begin() + static_cast<std::ptrdiff_t>(next),
          chosen.begin() + static_cast<std::ptrdiff_t>(next + task.gpus.count));
      next += task.gpus.count;
      free.take(at, task, own);
      ranks.push_back({t, r, node.id, std::move(own)});
    }
  }
  return ranks;
}

// The node with the fewest idle GPUs that takes the whole gang.
std::optional<std::vector<model::RankPlacement>> placeTogether(FreeCapacity& free,
                                                               const model::JobShape& shape) {
  std::vector<std::size_t> order(free.nodes().size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return free.nodes()[a].idleCount < free.nodes()[b].idleCount;
  });
  for (const auto at : order) {
    if (auto ranks = placeOnOneNode(free, shape, at)) return ranks;
  }
  return std::nullopt;
}

// The tasks by what is hardest to find: those with the most GPUs first, so that a launcher does not
// sit down where only a worker could.
std::vector<std::uint32_t> hardestFirst(const model::JobShape& shape) {
  std::vector<std::uint32_t> order(shape.tasks.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return shape.tasks[a].gpus.count > shape.tasks[b].gpus.count;
  });
  return order;
}

}  // namespace

std::vector<std::uint32_t> candidates(const FreeNode& node, const model::GpuRequest& request) {
  std::vector<std::uint32_t> out;
  for (std::uint32_t i = 0; i < node.idle.size(); ++i) {
    if (node.idle[i] && matches(request, node.node->gpus[i])) out.push_back(i);
  }
  return out;
}

std::uint32_t leastReplicas(const model::JobShape& shape, std::uint32_t task) {
  const auto& own = shape.tasks[task];
  const auto others = shape.replicas() - own.replicas;
  const auto forGang = shape.minAvailable > others ? shape.minAvailable - others : 0;
  return std::min(own.replicas, std::max(own.minAvailable, forGang));
}

GangTry placeRanks(FreeCapacity& free, const model::JobShape& shape) {
  GangTry gang;
  std::vector<bool> used(free.nodes().size());
  for (const auto t : hardestFirst(shape)) {
    const auto& task = shape.tasks[t];
    const auto before = free.mark();
    for (std::uint32_t r = 0; r < task.replicas; ++r) {
      std::vector<std::uint32_t> possible;
      const auto at = nodeFor(free, task, used, possible);
      if (!at) {
        // The rest of this task are like this one: none of them fits. The gang may do without.
        if (r >= leastReplicas(shape, t)) break;
        gang.lacking = {{t, before}};
        return gang;
      }
      auto gpus = task.gpus.count == 0 ? std::vector<std::uint32_t>()
                                       : bestLinked(free.nodes()[*at], possible, task.gpus.count);
      free.take(*at, task, gpus);
      used[*at] = true;
      gang.ranks.push_back({t, r, free.nodes()[*at].id, std::move(gpus)});
    }
  }
  std::sort(gang.ranks.begin(), gang.ranks.end(), [](const auto& a, const auto& b) {
    return std::tie(a.task, a.replica) < std::tie(b.task, b.replica);
  });
  return gang;
}

std::optional<std::vector<model::RankPlacement>> placeGang(FreeCapacity& free,
                                                           const model::JobShape& shape) {
  if (auto together = placeTogether(free, shape)) return together;
  const auto mark = free.mark();
  auto gang = placeRanks(free, shape);
  if (!gang.lacking && gang.ranks.size() >= shape.minAvailable) return std::move(gang.ranks);
  free.rollBack(mark);
  return std::nullopt;
}

}  // namespace bole::scheduler
