#include "scheduler/place.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "scheduler/links.h"

namespace bole::scheduler {
namespace {

using Ranks = std::vector<model::RankPlacement>;

std::vector<std::uint32_t> chosenFrom(World& world, std::size_t node,
                                      std::vector<std::uint32_t> from,
                                      const model::GpuRequest& request) {
  if (request.count == 0) return {};
  if (request.isWhole()) return world.bestLinked(node, from, request.count);
  const auto& free = world.nodes()[node];
  return leastLeft(free, world.shelves().hardware(free.hardware), std::move(from), request.count);
}

// Does what queues say of a rank hang on the node that it is given?
bool dependsOnNode(const World& world, const model::GpuRequest& request) {
  return world.queues().dimensions() > kFirstKind || request.share.value == 0;
}

void sortRanks(Ranks& ranks) {
  std::sort(ranks.begin(), ranks.end(), [](const auto& a, const auto& b) {
    return std::tie(a.task, a.replica) < std::tie(b.task, b.replica);
  });
}

// The whole gang as one replica, if all of its GPUs are whole ones of one kind.
std::optional<model::TaskShape> asOne(const model::JobShape& shape) {
  model::TaskShape one;
  one.gpus.count = 0;
  one.cpus = MilliCpu(0);
  std::size_t gpus = 0;
  for (const auto& task : shape.tasks) {
    if (task.gpus.count > 0) {
      if (gpus == 0) one.gpus = task.gpus;
      auto alike = one.gpus;
      alike.count = task.gpus.count;
      if (task.gpus != alike || !alike.isWhole())
        return std::nullopt;  // several kinds, or parts of GPUs: rank by rank
    }
    gpus += std::size_t{task.replicas} * task.gpus.count;
    one.cpus += task.cpus * task.replicas;
    one.memory += task.memory * task.replicas;
    for (const auto& label : task.nodeLabels) {
      if (std::find(one.nodeLabels.begin(), one.nodeLabels.end(), label) == one.nodeLabels.end())
        one.nodeLabels.push_back(label);
    }
  }
  if (gpus == 0) return std::nullopt;
  one.gpus.count = static_cast<std::uint32_t>(std::min<std::size_t>(gpus, ~0U));
  return one;
}

// GPUs of all ranks are chosen together, so that the gang is well linked, not each rank alone.
std::optional<Ranks> shareOut(World& world, const Claim& claim, std::size_t node,
                              const std::vector<std::uint32_t>& chosen, Quotas quotas) {
  const auto mark = world.mark();
  Ranks ranks;
  auto next = chosen.begin();
  for (std::uint32_t t = 0; t < claim.shape.tasks.size(); ++t) {
    const auto& task = claim.shape.tasks[t];
    for (std::uint32_t r = 0; r < task.replicas; ++r) {
      std::vector<std::uint32_t> own(next, next + task.gpus.count);
      next += task.gpus.count;
      if (quotas == Quotas::kHeld && world.refusal(claim, t, node, own)) {
        world.rollBack(mark);
        return std::nullopt;
      }
      ranks.push_back(world.take(node, claim, t, r, std::move(own)));
    }
  }
  return ranks;
}

// On the best node that takes the whole gang.
std::optional<Ranks> placeTogether(World& world, const Claim& claim, Quotas quotas) {
  const auto one = asOne(claim.shape);
  if (!one || one->gpus.count > world.mostGpus()) return std::nullopt;
  auto& listing = world.listingOf(*one);
  World::Refused refused;
  while (const auto node = world.best(listing, besideOf(*one), 1, refused)) {
    const auto chosen =
        world.bestLinked(*node, world.candidates(*node, listing.ask), one->gpus.count);
    if (auto ranks = shareOut(world, claim, *node, chosen, quotas)) return ranks;
    if (!dependsOnNode(world, one->gpus)) break;
    refused.push_back(world.nodes()[*node].hardware);
    world.bringUpToDate(listing);
  }
  return std::nullopt;
}

// The tasks by what is hardest to find: those with the most GPUs first, so that a launcher does not
// sit down where only a worker could.
std::vector<std::uint32_t> hardestFirst(const model::JobShape& shape) {
  std::vector<std::uint32_t> order(shape.tasks.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return shape.tasks[a].gpus.count > shape.tasks[b].gpus.count;
  });
  return order;
}

}  // namespace

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
      : world_(world), claim_(claim), quotas_(quotas) {}

  // Replicas `from` to `to` of the task, as far as they fit; how many did.
  std::uint32_t seat(std::uint32_t t, std::uint32_t from, std::uint32_t to) {
    const auto& task = claim_.shape.tasks[t];
    auto& listing = world_.listingOf(task);
    refused_.clear();
    done_ = false;
    auto next = from;
    for (const auto node : usedByPreference(listing)) {
      if (next == to || done_) break;
      next += fill(t, listing, node, next, to);
    }
    while (next < to && !done_) {
      world_.bringUpToDate(listing);
      const auto node = nodeFor(listing, besideOf(task), to - next);
      if (!node) break;
      next += fill(t, listing, *node, next, to);
      if (std::find(used_.begin(), used_.end(), *node) == used_.end()) used_.push_back(*node);
    }
    return next - from;
  }

  GangTry& gang() { return gang_; }

 private:
  std::vector<std::size_t> usedByPreference(Listing& listing) {
    auto nodes = used_;
    std::sort(nodes.begin(), nodes.end(), [&](std::size_t a, std::size_t b) {
      return std::pair(world_.preferenceOf(a, listing), a) <
             std::pair(world_.preferenceOf(b, listing), b);
    });
    return nodes;
  }

  // One that takes all that are left, else one that takes the most of them.
  std::optional<std::size_t> nodeFor(Listing& listing, const Beside& each, std::uint32_t left) {
    if (auto node = world_.best(listing, each, left, refused_)) return node;
    if (left == 1) return std::nullopt;
    const auto place = world_.roomiest(listing, each, left, refused_);
    if (!place) return std::nullopt;
    return place->node;
  }

  // As many replicas as the node takes and the queue allows.
  std::uint32_t fill(std::uint32_t t, Listing& listing, std::size_t node, std::uint32_t from,
                     std::uint32_t to) {
    const auto& task = claim_.shape.tasks[t];
    const auto& hardware = world_.nodes()[node].hardware;
    if (std::find(refused_.begin(), refused_.end(), hardware) != refused_.end()) return 0;
    world_.bringUpToDate(listing);
    const auto room = world_.roomOn(node, listing, besideOf(task), to - from);
    for (std::uint32_t r = 0; r < room; ++r) {
      auto possible = world_.candidates(node, listing.ask);
      if (possible.size() < task.gpus.count) return r;
      if (quotas_ == Quotas::kHeld) {
        if (auto refusal = world_.refusal(claim_, t, node, possible)) {
          if (!gang_.refusal) gang_.refusal = refusal;
          done_ = !dependsOnNode(world_, task.gpus);
          refused_.push_back(hardware);
          return r;
        }
      }
      auto gpus = chosenFrom(world_, node, std::move(possible), task.gpus);
      gang_.ranks.push_back(world_.take(node, claim_, t, from + r, std::move(gpus)));
    }
    return static_cast<std::uint32_t>(room);
  }

  World& world_;
  const Claim& claim_;
  Quotas quotas_;
  std::vector<std::size_t> used_;
  World::Refused refused_;  // by what queues may have of the task's
  bool done_ = false;       // refused wherever it were
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
  for (const auto t : order) {
    const auto least = leastReplicas(shape, t);
    if (least < shape.tasks[t].replicas) seating.seat(t, least, shape.tasks[t].replicas);
  }
  sortRanks(seating.gang().ranks);
  return std::move(seating.gang());
}

namespace {

// Places what a gang of several tasks cannot do without by trying: rank by rank, on each node that
// has room, and back. Bounded; where it gives up the gang waits, though a place may exist.
class Trying {
 public:
  Trying(World& world, const Claim& claim, Quotas quotas)
      : world_(world), claim_(claim), quotas_(quotas), nodes_(claim.shape.tasks.size()) {
    for (const auto t : hardestFirst(claim.shape)) {
      for (std::uint32_t r = 0; r < leastReplicas(claim.shape, t); ++r)
        ranks_.push_back({t, r, {}, {}, {}});
    }
  }

  // The ranks, taken from the world.
  std::optional<Ranks> run() {
    if (ranks_.size() > kMostSteps) return std::nullopt;
    for (std::uint32_t t = 0; t < nodes_.size(); ++t)
      nodes_[t] = world_.examples(world_.listingOf(claim_.shape.tasks[t]),
                                  besideOf(claim_.shape.tasks[t]), ranks_.size());
    if (!from(0, 0)) return std::nullopt;
    return std::move(ranks_);
  }

 private:
  static constexpr std::size_t kMostSteps = 2000;
  static constexpr std::size_t kMostLooks = 100'000;

  bool from(std::size_t at, std::size_t lowest) {
    if (at == ranks_.size()) return at >= claim_.shape.minAvailable;
    auto& rank = ranks_[at];
    const auto& task = claim_.shape.tasks[rank.task];
    auto& listing = world_.listingOf(task);
    const auto& nodes = nodes_[rank.task];
    for (auto n = std::lower_bound(nodes.begin(), nodes.end(), lowest); n != nodes.end(); ++n) {
      if (++looks_ > kMostLooks || steps_ > kMostSteps) return false;
      world_.bringUpToDate(listing);
      if (world_.roomOn(*n, listing, besideOf(task), 1) == 0) continue;
      auto possible = world_.candidates(*n, listing.ask);
      if (possible.size() < task.gpus.count || ++steps_ > kMostSteps) continue;
      if (quotas_ == Quotas::kHeld && world_.refusal(claim_, rank.task, *n, possible)) continue;
      auto gpus = chosenFrom(world_, *n, std::move(possible), task.gpus);
      const auto mark = world_.mark();
      rank = world_.take(*n, claim_, rank.task, rank.replica, std::move(gpus));
      // Replicas of a task are alike: only in the order of nodes.
      const bool alike = at + 1 < ranks_.size() && ranks_[at + 1].task == rank.task;
      if (from(at + 1, alike ? *n : 0)) return true;
      world_.rollBack(mark);
    }
    return false;
  }

  World& world_;
  const Claim& claim_;
  Quotas quotas_;
  std::vector<std::vector<std::size_t>> nodes_;  // of each task, where it may be tried
  Ranks ranks_;
  std::size_t steps_ = 0;
  std::size_t looks_ = 0;
};

}  // namespace

bool mayFit(World& world, const model::JobShape& shape) {
  for (std::uint32_t t = 0; t < shape.tasks.size(); ++t) {
    const auto least = std::int64_t{leastReplicas(shape, t)};
    auto& listing = world.listingOf(shape.tasks[t]);
    if (world.roomInAll(listing, besideOf(shape.tasks[t]), least) < least) return false;
  }
  return true;
}

std::optional<Ranks> placeGang(World& world, const Claim& claim, Quotas quotas) {
  const auto& shape = claim.shape;
  const bool isOne = shape.tasks.size() == 1 && shape.tasks[0].replicas == 1;
  if (!isOne && !mayFit(world, shape)) return std::nullopt;
  const auto mark = world.mark();
  if (quotas == Quotas::kHeld && !world.begin(claim)) return std::nullopt;
  if (!isOne) {
    if (auto together = placeTogether(world, claim, quotas)) return together;
  }
  const auto begun = world.mark();
  auto gang = placeRanks(world, claim, quotas);
  if (!gang.lacking && gang.ranks.size() >= shape.minAvailable) return std::move(gang.ranks);
  world.rollBack(begun);
  std::optional<Ranks> tried;
  // One task is placed if it can be.
  if (shape.tasks.size() > 1) tried = Trying(world, claim, quotas).run();
  if (!tried) world.rollBack(mark);
  if (tried) sortRanks(*tried);
  return tried;
}

}  // namespace bole::scheduler
