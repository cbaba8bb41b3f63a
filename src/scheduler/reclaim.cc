#include "scheduler/reclaim.h"

#include <algorithm>
#include <bit>
#include <iterator>

#include "scheduler/match.h"
#include "scheduler/place.h"

namespace bole::scheduler {
namespace {

constexpr Duration kRestartCost = minutes(1);  // what starting again takes beside the lost work
constexpr std::size_t kMostNodes = 16;         // that are each tried first
constexpr double kMicros = 1e6;

double costOf(const model::AttemptRecord& attempt, Timestamp now) {
  const auto since = std::max(attempt.checkpointAt, attempt.plannedAt);
  double gpus = 0;
  for (const auto& rank : attempt.ranks) {
    for (std::size_t i = 0; i < rank.gpus.size(); ++i)
      gpus += static_cast<double>(rank.grant(i).share.value) / 1000;
  }
  // A job without GPUs loses little, but not nothing.
  return std::max(gpus, 0.01) * static_cast<double>((now - since + kRestartCost).value) / kMicros;
}

// What the job will take of each dimension whatever place it is given: a kind of GPU counts where
// every GPU that would do is of it.
Amount certainAmount(World& world, const model::JobShape& shape) {
  Amount all;
  for (std::uint32_t t = 0; t < shape.tasks.size(); ++t) {
    const auto& task = shape.tasks[t];
    auto& ask = world.listingOf(task).ask;
    std::optional<Amount> each;
    for (HardwareId id = 0; id < world.shelves().hardwareCount(); ++id) {
      const auto& hardware = world.shelves().hardware(id);
      for (std::uint32_t g = 0; g < hardware.order.size() && task.gpus.count > 0; ++g) {
        if (ask.on(id, hardware).ofGpu[g] < 0) continue;
        const auto here = world.queues().amountOf(task, *hardware.like,
                                                  std::vector<std::uint32_t>(task.gpus.count, g));
        if (!each) each = here;
        for (std::size_t d = 0; d < kMostDimensions; ++d)
          each->of[d] = std::min(each->of[d], here.of[d]);
      }
    }
    if (!each) each = world.queues().amountOf(task);
    for (std::uint32_t r = 0; r < leastReplicas(shape, t); ++r) all += *each;
  }
  return all;
}

}  // namespace

const Reclaim::Victim& Reclaim::victimOf(const World& later, AttemptId id) {
  const auto known = victims_.find(id);
  if (known != victims_.end()) return known->second;
  const auto& attempt = *tables_.attempts.find(id);
  const auto& job = *tables_.jobs.find(attempt.job);
  const auto& queues = later.queues();
  Victim victim{&job, &attempt, queues.indexOf(job.shape->queue), {}, costOf(attempt, now_)};
  for (const auto& rank : attempt.ranks) {
    const auto* node = tables_.nodes.find(rank.node);
    victim.amount += queues.amountOf(job.shape->tasks[rank.task], *node->node, rank);
  }
  return victims_.emplace(id, victim).first->second;
}

bool Reclaim::mayLose(const World& later, const model::JobRecord& job, const Amount& more,
                      const Running::Group& group) {
  const auto& queues = later.queues();
  const auto& shape = *job.shape;
  const auto [id, isSpot] = group;
  if (isSpot || shape.spot) return isSpot && !shape.spot;
  const auto own = queues.indexOf(shape.queue);
  const auto other = queues.indexOf(id);
  if (own == other) return queues.at(own).preemption == model::Preemption::kLowerPriority;
  const auto [mine, theirs] = queues.branches(own, other);
  return mine != theirs && queues.entitled(mine, more);
}

Reclaim::Choice Reclaim::victimsFor(const World& later, const model::JobRecord& job,
                                    const Amount& more) {
  Choice out;
  for (const auto& [group, attempts] : running_.victims()) {
    if (!mayLose(later, job, more, group)) continue;
    for (const auto id : attempts) {
      const auto& victim = victimOf(later, id);
      if (legal(later, job, more, victim)) out.push_back(&victim);
    }
  }
  std::sort(out.begin(), out.end(), [](const Victim* a, const Victim* b) {
    return std::pair(a->cost, a->attempt->id) < std::pair(b->cost, b->attempt->id);
  });
  return out;
}

bool Reclaim::legal(const World& later, const model::JobRecord& job, const Amount& more,
                    const Victim& victim) const {
  if (chosen_.contains(victim.job->id)) return false;
  const auto& queues = later.queues();
  const auto& shape = *job.shape;
  if (victim.job->shape->spot && !shape.spot) return true;
  if (shape.spot || victim.job->shape->spot) return false;
  const auto own = queues.indexOf(shape.queue);
  if (own == victim.queue) {
    return queues.at(own).preemption == model::Preemption::kLowerPriority &&
           victim.job->shape->priority < shape.priority;
  }
  const auto [mine, theirs] = queues.branches(own, victim.queue);
  if (mine == theirs || !queues.entitled(mine, more)) return false;
  for (auto q = victim.queue;; q = queues.at(q).parent) {
    if (!queues.canLose(q, victim.amount)) return false;
    if (q == theirs) return true;
  }
}

std::vector<Reclaim::OnNode> Reclaim::nodesWith(World& later, const model::JobRecord& job,
                                                const Choice& victims) {
  std::vector<bool> serves;  // by kind of node
  for (HardwareId id = 0; id < later.shelves().hardwareCount(); ++id)
    serves.push_back(later.couldServe(id, *job.shape));
  std::vector<OnNode> all(later.nodes().size());
  std::vector<std::size_t> on;
  for (const auto* victim : victims) {
    on.clear();
    for (const auto& rank : victim->attempt->ranks) {
      const auto node = later.indexOf(rank.node);
      if (serves[later.nodes()[node].hardware]) on.push_back(node);
    }
    std::sort(on.begin(), on.end());
    on.erase(std::unique(on.begin(), on.end()), on.end());
    for (const auto node : on) {
      all[node].cost += victim->cost;
      all[node].victims.push_back(victim);
    }
  }
  std::erase_if(all, [](const OnNode& node) { return node.victims.empty(); });
  std::stable_sort(all.begin(), all.end(),
                   [](const OnNode& a, const OnNode& b) { return a.cost < b.cost; });
  return all;
}

namespace {

bool fitsNow(World& later, const model::JobRecord& job) {
  const auto mark = later.mark();
  const bool fits = placeGang(later, job).has_value();
  later.rollBack(mark);
  return fits;
}

// Is it worth to ask whether so many are enough? In steps that double.
bool isPowerOfTwo(std::size_t count) {
  return std::has_single_bit(count);
}

}  // namespace

// Would it fit if all who could be stopped went at once?
bool Reclaim::enough(World& later, const model::JobRecord& job, const Choice& victims) {
  const auto mark = later.mark();
  bool fits = false;
  for (std::size_t i = 0; i < victims.size() && !fits; ++i) {
    later.giveBack(*victims[i]->job, victims[i]->attempt->ranks);
    if (isPowerOfTwo(i + 1) || i + 1 == victims.size()) fits = fitsNow(later, job);
  }
  later.rollBack(mark);
  return fits;
}

std::size_t Reclaim::fewest(World& later, const model::JobRecord& job,
                            const std::vector<std::size_t>& marks, const Choice& victims,
                            std::size_t tooFew) {
  std::size_t given = victims.size();
  const auto giveJust = [&](std::size_t count) {
    if (count < given) later.rollBack(marks[count]);
    for (; given < count; ++given)
      later.giveBack(*victims[given]->job, victims[given]->attempt->ranks);
    given = count;
  };
  auto isEnough = victims.size();
  while (tooFew + 1 < isEnough) {
    const auto middle = tooFew + (isEnough - tooFew) / 2;
    giveJust(middle);
    (fitsNow(later, job) ? isEnough : tooFew) = middle;
  }
  return isEnough;
}

std::optional<Reclaim::Found> Reclaim::follow(World& later, const model::JobRecord& job,
                                              const Amount& more, const Way& way) const {
  const auto start = later.mark();
  Found found;
  std::vector<std::size_t> marks;  // before each of them
  std::set<const Victim*> seen;
  std::size_t tooFew = 0;
  bool fits = false;
  const auto ask = [&] {
    fits = fitsNow(later, job);
    if (!fits) tooFew = found.victims.size();
  };
  for (const auto* list : way) {
    for (const auto* victim : *list) {
      if (victim->attempt->ranks.size() > 1 && !seen.insert(victim).second) continue;
      if (!legal(later, job, more, *victim)) continue;
      marks.push_back(later.mark());
      later.giveBack(*victim->job, victim->attempt->ranks);
      found.victims.push_back(victim);
      if (isPowerOfTwo(found.victims.size())) ask();
      if (fits) break;
    }
    if (fits) break;
  }
  if (!fits && tooFew < found.victims.size()) ask();
  if (fits) found.victims.resize(fewest(later, job, marks, found.victims, tooFew));
  later.rollBack(start);
  if (!fits) return std::nullopt;
  found.victims = spare(later, job, std::move(found.victims));
  for (const auto* victim : found.victims) {
    later.giveBack(*victim->job, victim->attempt->ranks);
    found.cost += victim->cost;
  }
  found.ranks = *placeGang(later, job);
  later.rollBack(start);
  return found;
}

// Without those that need not go: all at once who hold nothing where the job would be, then one by
// one, the dearest first.
Reclaim::Choice Reclaim::spare(World& later, const model::JobRecord& job, Choice victims) const {
  const auto mark = later.mark();
  const auto giveBack = [&](const Choice& those, const Victim* but) {
    for (const auto* victim : those)
      if (victim != but) later.giveBack(*victim->job, victim->attempt->ranks);
  };
  giveBack(victims, nullptr);
  const auto nodes = nodesOf(*placeGang(later, job));
  later.rollBack(mark);
  Choice there;
  std::copy_if(victims.begin(), victims.end(), std::back_inserter(there), [&](const Victim* v) {
    return std::any_of(v->attempt->ranks.begin(), v->attempt->ranks.end(), [&](const auto& rank) {
      return std::binary_search(nodes.begin(), nodes.end(), rank.node);
    });
  });
  giveBack(there, nullptr);
  if (placeGang(later, job)) victims = std::move(there);
  later.rollBack(mark);
  auto byCost = victims;
  std::stable_sort(byCost.begin(), byCost.end(),
                   [](const Victim* a, const Victim* b) { return a->cost > b->cost; });
  for (const auto* spared : byCost) {
    giveBack(victims, spared);
    if (placeGang(later, job)) std::erase(victims, spared);
    later.rollBack(mark);
  }
  return victims;
}

std::optional<Reclaimed> Reclaim::find(World& later, const model::JobRecord& job) {
  if (auto ranks = placeGang(later, job)) return Reclaimed{{}, std::move(*ranks)};
  if (running_.victims().empty()) return std::nullopt;
  const auto more = certainAmount(later, *job.shape);
  const auto victims = victimsFor(later, job, more);
  if (victims.empty() || !enough(later, job, victims)) return std::nullopt;
  // All by what they cost; and node by node, beginning with each of those that cost least to clear.
  auto best = follow(later, job, more, {&victims});
  const auto nodes = nodesWith(later, job, victims);
  for (std::size_t first = 0; first < std::min(nodes.size(), kMostNodes); ++first) {
    Way way = {&nodes[first].victims};
    for (std::size_t n = 0; n < nodes.size(); ++n)
      if (n != first) way.push_back(&nodes[n].victims);
    auto found = follow(later, job, more, way);
    if (found && (!best || found->cost < best->cost)) best = std::move(found);
  }
  if (!best) return std::nullopt;
  Reclaimed out;
  for (const auto* victim : best->victims) {
    later.giveBack(*victim->job, victim->attempt->ranks);
    chosen_.insert(victim->job->id);
    out.victims.push_back(victim->job->id);
  }
  later.take(job, best->ranks);
  out.ranks = std::move(best->ranks);
  return out;
}

}  // namespace bole::scheduler
