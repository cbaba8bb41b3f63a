#include "scheduler/place.h"

#include <algorithm>
#include <limits>

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

std::vector<std::uint32_t> candidates(const FreeNode& node, const model::GpuRequest& request) {
  std::vector<std::uint32_t> out;
  for (std::uint32_t i = 0; i < node.idle.size(); ++i) {
    if (node.idle[i] && matches(request, node.node->gpus[i])) out.push_back(i);
  }
  return out;
}

// Links from `gpu` to idle GPUs that are not wanted: taking a well linked GPU alone breaks a pair
// that a later job may want.
std::int64_t linksBroken(const FreeNode& node, std::uint32_t gpu) {
  std::int64_t best = 0;
  for (std::uint32_t other = 0; other < node.idle.size(); ++other) {
    if (other != gpu && node.idle[other])
      best = std::max(best, linkScore(node.node->link(gpu, other)));
  }
  return best;
}

// `count` of the candidates: grown from each start by the best linked next one; the best sum of
// links wins, ties by least links broken, then by lowest index. Exact for pairs, and for the
// symmetrical shapes of real machines.
std::vector<std::uint32_t> bestLinked(const FreeNode& node, const std::vector<std::uint32_t>& from,
                                      std::size_t count) {
  std::vector<std::uint32_t> best;
  std::int64_t bestScore = std::numeric_limits<std::int64_t>::min();
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
    if (count == 1) score = -linksBroken(node, start);
    if (score > bestScore) {
      bestScore = score;
      best = std::move(chosen);
    }
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

model::Reason shortage(model::Obstacle obstacle, std::int64_t needed, std::int64_t available,
                       std::string detail = {}) {
  model::Reason reason;
  reason.obstacle = obstacle;
  reason.needed = needed;
  reason.available = available;
  reason.detail = std::move(detail);
  return reason;
}

}  // namespace

std::optional<std::vector<model::RankPlacement>> placeGang(FreeCapacity& free,
                                                           const model::JobShape& shape) {
  if (auto together = placeTogether(free, shape)) return together;
  const auto mark = free.mark();
  std::vector<model::RankPlacement> ranks;
  std::vector<bool> used(free.nodes().size());
  for (std::uint32_t t = 0; t < shape.tasks.size(); ++t) {
    const auto& task = shape.tasks[t];
    for (std::uint32_t r = 0; r < task.replicas; ++r) {
      std::vector<std::uint32_t> possible;
      const auto at = nodeFor(free, task, used, possible);
      if (!at) {
        // The rest of this task are like this one: none of them fits. The gang may do without.
        if (r >= task.minAvailable && shape.minAvailable < shape.replicas()) break;
        free.rollBack(mark);
        return std::nullopt;
      }
      auto gpus = task.gpus.count == 0 ? std::vector<std::uint32_t>()
                                       : bestLinked(free.nodes()[*at], possible, task.gpus.count);
      free.take(*at, task, gpus);
      used[*at] = true;
      ranks.push_back({t, r, free.nodes()[*at].id, std::move(gpus)});
    }
  }
  if (ranks.size() < shape.minAvailable) {
    free.rollBack(mark);
    return std::nullopt;
  }
  return ranks;
}

std::vector<model::Reason> obstacles(const FreeCapacity& free, const model::JobShape& shape) {
  using model::Obstacle;
  if (free.nodes().empty()) return {shortage(Obstacle::kNoNodes, 1, 0)};
  std::vector<model::Reason> out;
  MilliCpu cpus;
  MilliCpu cpusFree;
  Bytes memory;
  Bytes memoryFree;
  for (const auto& node : free.nodes()) {
    cpusFree += node.cpus;
    memoryFree += node.memory;
  }
  for (const auto& task : shape.tasks) {
    cpus += task.cpus * task.replicas;
    memory += task.memory * task.replicas;
    if (task.gpus.count == 0) continue;
    std::int64_t total = 0;
    std::int64_t most = 0;
    for (const auto& node : free.nodes()) {
      const auto idle = static_cast<std::int64_t>(candidates(node, task.gpus).size());
      total += idle;
      most = std::max(most, idle);
    }
    const auto needed = std::int64_t{task.replicas} * task.gpus.count;
    if (total < needed)
      out.push_back(shortage(Obstacle::kGpus, needed, total, kindText(task.gpus)));
    else if (most < task.gpus.count) {
      out.push_back(shortage(Obstacle::kGpusPerNode, task.gpus.count, most, kindText(task.gpus)));
    }
  }
  if (cpusFree < cpus) out.push_back(shortage(Obstacle::kCpus, cpus.value, cpusFree.value));
  if (memoryFree < memory)
    out.push_back(shortage(Obstacle::kMemory, memory.value, memoryFree.value));
  if (!out.empty()) return out;
  // Enough of everything in all, but not in the same place: the tasks compete, or a node has GPUs
  // and no CPUs left.
  for (const auto& task : shape.tasks) {
    if (task.gpus.count > 0) {
      const auto needed = std::int64_t{task.replicas} * task.gpus.count;
      out.push_back(shortage(Obstacle::kGpus, needed, 0,
                             kindText(task.gpus) + " with CPUs and memory beside it"));
    }
  }
  if (out.empty()) out.push_back(shortage(Obstacle::kCpus, cpus.value, cpusFree.value));
  return out;
}

}  // namespace bole::scheduler
