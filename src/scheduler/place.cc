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

// Parts of GPUs: of those that are shared already, the one with the least left; else the idle one
// that spoils the least.
std::vector<std::uint32_t> tightest(const FreeNode& node, std::vector<std::uint32_t> from,
                                    std::size_t count) {
  std::stable_sort(from.begin(), from.end(), [&](std::uint32_t a, std::uint32_t b) {
    if (node.idle[a] != node.idle[b]) return !node.idle[a];
    if (node.idle[a]) return spoiltBy(node, {a}) < spoiltBy(node, {b});
    return std::pair(node.share[a], node.gpuMemory[a]) <
           std::pair(node.share[b], node.gpuMemory[b]);
  });
  from.resize(count);
  std::sort(from.begin(), from.end());
  return from;
}

std::vector<std::uint32_t> chosenFrom(const FreeNode& node, const std::vector<std::uint32_t>& from,
                                      const model::GpuRequest& request) {
  if (request.count == 0) return {};
  return request.isWhole() ? bestLinked(node, from, request.count)
                           : tightest(node, from, request.count);
}

// What makes a node the better place: one that this gang already uses; for a part of a GPU one that
// is shared already, the fullest; else the one with the fewest idle GPUs.
using NodeRank = std::tuple<bool, bool, std::int64_t>;

NodeRank rankOf(const FreeNode& node, const model::GpuRequest& request, bool used,
                const std::vector<std::uint32_t>& possible) {
  if (request.isWhole() || request.count == 0) return {!used, false, node.idleCount};
  std::int64_t least = kWholeGpu.value;
  for (const auto gpu : possible)
    if (!node.idle[gpu]) least = std::min(least, node.share[gpu].value);
  const bool opens = least == kWholeGpu.value;
  return {!used, opens, opens ? node.idleCount : least};
}

// The node for one replica: one that this gang already uses, else the one with the fewest idle GPUs
// left over.
struct Seat {
  std::optional<std::size_t> node;
  std::vector<std::uint32_t> gpus;         // idle ones that would do
  std::optional<Queues::Refusal> refusal;  // some node has room, but the queue may take no more
};

Seat nodeFor(const World& world, const Claim& claim, std::uint32_t t, const std::vector<bool>& used,
             Quotas quotas) {
  const auto& task = claim.shape.tasks[t];
  Seat seat;
  NodeRank bestRank;
  for (std::size_t n = 0; n < world.nodes().size(); ++n) {
    const auto& node = world.nodes()[n];
    if (!world.hasRoom(n, task)) continue;
    if (task.gpus.isWhole() && seat.node && rankOf(node, task.gpus, used[n], {}) >= bestRank)
      continue;
    auto possible = candidates(node, task.gpus);
    if (possible.size() < task.gpus.count) continue;
    const auto rank = rankOf(node, task.gpus, used[n], possible);
    if (seat.node && rank >= bestRank) continue;
    if (quotas == Quotas::kHeld) {
      auto refusal = world.refusal(claim, t, n, possible);
      if (refusal) {
        if (!seat.refusal) seat.refusal = refusal;
        continue;
      }
    }
    seat.node = n;
    bestRank = rank;
    seat.gpus = std::move(possible);
  }
  return seat;
}

// For whole gangs on one node: GPUs of all ranks are chosen together, so that the gang is well
// linked, not each rank alone.
std::optional<std::vector<model::RankPlacement>> placeOnOneNode(World& world, const Claim& claim,
                                                                std::size_t at, Quotas quotas) {
  const auto& shape = claim.shape;
  const auto& node = world.nodes()[at];
  const auto& request = shape.tasks.front().gpus;
  std::size_t gpus = 0;
  MilliCpu cpus;
  Bytes memory;
  for (const auto& task : shape.tasks) {
    auto alike = request;
    alike.count = task.gpus.count;
    if (task.gpus.count > 0 && (task.gpus != alike || !alike.isWhole()))
      return std::nullopt;  // several kinds, or parts of GPUs: rank by rank
    if (!labelsMatch(task, *node.node)) return std::nullopt;
    gpus += std::size_t{task.replicas} * task.gpus.count;
    cpus += task.cpus * task.replicas;
    memory += task.memory * task.replicas;
  }
  if (!node.open || node.node->health != model::GpuHealth::kHealthy || gpus == 0 ||
      node.cpus < cpus || node.memory < memory)
    return std::nullopt;
  const auto from = candidates(node, request);
  if (from.size() < gpus) return std::nullopt;
  auto chosen = bestLinked(node, from, gpus);
  const auto mark = world.mark();
  std::vector<model::RankPlacement> ranks;
  std::size_t next = 0;
  for (std::uint32_t t = 0; t < shape.tasks.size(); ++t) {
    const auto& task = shape.tasks[t];
    for (std::uint32_t r = 0; r < task.replicas; ++r) {
      std::vector<std::uint32_t> own(
          chosen.begin() + static_cast<std::ptrdiff_t>(next),
          chosen.begin() + static_cast<std::ptrdiff_t>(next + task.gpus.count));
      next += task.gpus.count;
      if (quotas == Quotas::kHeld && world.refusal(claim, t, at, own)) {
        world.rollBack(mark);
        return std::nullopt;
      }
      ranks.push_back(world.take(at, claim, t, r, std::move(own)));
    }
  }
  return ranks;
}

// The node with the fewest idle GPUs that takes the whole gang.
std::optional<std::vector<model::RankPlacement>> placeTogether(World& world, const Claim& claim,
                                                               Quotas quotas) {
  std::vector<std::size_t> order(world.nodes().size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return world.nodes()[a].idleCount < world.nodes()[b].idleCount;
  });
  for (const auto at : order) {
    if (auto ranks = placeOnOneNode(world, claim, at, quotas)) return ranks;
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
    const auto& gpu = node.node->gpus[i];
    if (request.isWhole()) {
      if (node.idle[i] && matches(request, gpu)) out.push_back(i);
      continue;
    }
    if (!matches(request, gpu)) continue;
    const auto grant = grantOf(request, gpu);
    if (node.share[i] >= grant.share && node.gpuMemory[i] >= grant.memory) out.push_back(i);
  }
  return out;
}

bool couldServe(const FreeNode& node, const model::JobShape& shape) {
  if (node.node->health != model::GpuHealth::kHealthy) return false;
  return std::any_of(shape.tasks.begin(), shape.tasks.end(), [&](const model::TaskShape& task) {
    const auto gpus = std::count_if(node.node->gpus.begin(), node.node->gpus.end(),
                                    [&](const model::Gpu& gpu) { return matches(task.gpus, gpu); });
    return gpus >= task.gpus.count && node.node->cpus >= task.cpus &&
           node.node->memory >= task.memory && labelsMatch(task, *node.node);
  });
}

std::vector<NodeId> nodesOf(const std::vector<model::RankPlacement>& ranks) {
  std::vector<NodeId> out;
  out.reserve(ranks.size());
  for (const auto& rank : ranks) out.push_back(rank.node);
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

std::uint32_t leastReplicas(const model::JobShape& shape, std::uint32_t task) {
  const auto& own = shape.tasks[task];
  const auto others = shape.replicas() - own.replicas;
  const auto forGang = shape.minAvailable > others ? shape.minAvailable - others : 0;
  return std::min(own.replicas, std::max(own.minAvailable, forGang));
}

namespace {

// The ranks of one gang as they find their places.
class Seating {
 public:
  Seating(World& world, const Claim& claim, Quotas quotas)
      : world_(world), claim_(claim), quotas_(quotas), used_(world.nodes().size()) {}

  // Replicas `from` to `to` of the task, as far as they fit; how many did.
  std::uint32_t seat(std::uint32_t t, std::uint32_t from, std::uint32_t to) {
    const auto& task = claim_.shape.tasks[t];
    for (auto r = from; r < to; ++r) {
      const auto seat = nodeFor(world_, claim_, t, used_, quotas_);
      if (!seat.node) {
        if (!gang_.refusal) gang_.refusal = seat.refusal;
        return r - from;  // the rest are like this one
      }
      const auto at = *seat.node;
      auto gpus = chosenFrom(world_.nodes()[at], seat.gpus, task.gpus);
      gang_.ranks.push_back(world_.take(at, claim_, t, r, std::move(gpus)));
      used_[at] = true;
    }
    return to - from;
  }

  GangTry& gang() { return gang_; }

 private:
  World& world_;
  const Claim& claim_;
  Quotas quotas_;
  std::vector<bool> used_;
  GangTry gang_;
};

}  // namespace

// First of every task what the gang cannot do without, then as many more as there is room for.
GangTry placeRanks(World& world, const Claim& claim, Quotas quotas) {
  const auto& shape = claim.shape;
  Seating seating(world, claim, quotas);
  const auto order = hardestFirst(shape);
  for (const auto t : order) {
    const auto least = leastReplicas(shape, t);
    const auto before = world.mark();
    if (seating.seat(t, 0, least) == least) continue;
    seating.gang().lacking = {{t, before}};
    return std::move(seating.gang());
  }
  for (const auto t : order) seating.seat(t, leastReplicas(shape, t), shape.tasks[t].replicas);
  auto& ranks = seating.gang().ranks;
  std::sort(ranks.begin(), ranks.end(), [](const auto& a, const auto& b) {
    return std::tie(a.task, a.replica) < std::tie(b.task, b.replica);
  });
  return std::move(seating.gang());
}

namespace {

// Places what a gang of several tasks cannot do without by trying: rank by rank, on each node that
// has room, and back. Bounded; where it gives up the gang waits, though a place may exist.
class Trying {
 public:
  Trying(World& world, const Claim& claim, Quotas quotas)
      : world_(world), claim_(claim), quotas_(quotas) {
    for (const auto t : hardestFirst(claim.shape)) {
      for (std::uint32_t r = 0; r < leastReplicas(claim.shape, t); ++r)
        ranks_.push_back({t, r, {}, {}, {}});
    }
  }

  // The ranks, taken from the world.
  std::optional<std::vector<model::RankPlacement>> run() {
    if (!from(0, 0)) return std::nullopt;
    return std::move(ranks_);
  }

 private:
  static constexpr int kMostSteps = 2000;

  bool from(std::size_t at, std::size_t lowest) {
    if (at == ranks_.size()) return at >= claim_.shape.minAvailable;
    auto& rank = ranks_[at];
    const auto& task = claim_.shape.tasks[rank.task];
    for (std::size_t n = lowest; n < world_.nodes().size(); ++n) {
      if (!world_.hasRoom(n, task)) continue;
      auto possible = candidates(world_.nodes()[n], task.gpus);
      if (possible.size() < task.gpus.count || ++steps_ > kMostSteps) continue;
      if (quotas_ == Quotas::kHeld && world_.refusal(claim_, rank.task, n, possible)) continue;
      auto gpus = chosenFrom(world_.nodes()[n], possible, task.gpus);
      const auto mark = world_.mark();
      rank = world_.take(n, claim_, rank.task, rank.replica, std::move(gpus));
      // Replicas of a task are alike: only in the order of nodes.
      const bool alike = at + 1 < ranks_.size() && ranks_[at + 1].task == rank.task;
      if (from(at + 1, alike ? n : 0)) return true;
      world_.rollBack(mark);
    }
    return false;
  }

  World& world_;
  const Claim& claim_;
  Quotas quotas_;
  std::vector<model::RankPlacement> ranks_;
  int steps_ = 0;
};

}  // namespace

std::optional<std::vector<model::RankPlacement>> placeGang(World& world, const Claim& claim,
                                                           Quotas quotas) {
  const auto& shape = claim.shape;
  const auto mark = world.mark();
  if (quotas == Quotas::kHeld && !world.begin(claim)) return std::nullopt;
  if (auto together = placeTogether(world, claim, quotas)) return together;
  const auto begun = world.mark();
  auto gang = placeRanks(world, claim, quotas);
  if (!gang.lacking && gang.ranks.size() >= shape.minAvailable) return std::move(gang.ranks);
  world.rollBack(begun);
  std::optional<std::vector<model::RankPlacement>> tried;
  // One task is placed if it can be.
  if (shape.tasks.size() > 1) tried = Trying(world, claim, quotas).run();
  if (!tried) world.rollBack(mark);
  if (tried) {
    std::sort(tried->begin(), tried->end(), [](const auto& a, const auto& b) {
      return std::tie(a.task, a.replica) < std::tie(b.task, b.replica);
    });
  }
  return tried;
}

}  // namespace bole::scheduler
