#include "scheduler/reclaim.h"

#include <algorithm>
#include <map>

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

// Orders in which victims are tried: all by what they cost; and node by node, beginning with each
// of the nodes that cost least to clear.
std::vector<Reclaim::Choice> Reclaim::ways(World& later, const model::JobRecord& job,
                                           const Choice& victims) {
  std::map<NodeId, std::pair<double, Choice>> onNodes;
  std::vector<bool> serves;  // by kind of node
  for (HardwareId id = 0; id < later.shelves().hardwareCount(); ++id)
    serves.push_back(later.couldServe(id, *job.shape));
  std::vector<Choice> out = {victims};
  for (const auto* victim : victims) {
    std::set<NodeId> on;
    for (const auto& rank : victim->attempt->ranks) {
      if (serves[later.nodes()[later.indexOf(rank.node)].hardware]) on.insert(rank.node);
    }
    for (const auto node : on) {
      auto& [cost, choice] = onNodes[node];
      cost += victim->cost;
      choice.push_back(victim);
    }
  }
  std::vector<const std::pair<double, Choice>*> nodes;
  nodes.reserve(onNodes.size());
  for (const auto& [id, costAndChoice] : onNodes) nodes.push_back(&costAndChoice);
  std::stable_sort(nodes.begin(), nodes.end(),
                   [](const auto* a, const auto* b) { return a->first < b->first; });
  for (std::size_t first = 0; first < std::min(nodes.size(), kMostNodes); ++first) {
    Choice way;
    std::set<const Victim*> seen;
    const auto add = [&](const Choice& more) {
      for (const auto* victim : more)
        if (seen.insert(victim).second) way.push_back(victim);
    };
    add(nodes[first]->second);
    for (std::size_t n = 0; n < nodes.size(); ++n)
      if (n != first) add(nodes[n]->second);
    out.push_back(std::move(way));
  }
  return out;
}

// Would it fit if all who could be stopped went at once?
bool Reclaim::enough(World& later, const model::JobRecord& job, const Choice& victims) {
  const auto mark = later.mark();
  for (const auto* victim : victims) later.giveBack(*victim->job, victim->attempt->ranks);
  const bool fits = placeGang(later, job).has_value();
  later.rollBack(mark);
  return fits;
}

std::optional<Reclaim::Found> Reclaim::follow(World& later, const model::JobRecord& job,
                                              const Amount& more, const Choice& way) const {
  const auto mark = later.mark();
  Found found;
  bool fits = false;
  for (const auto* victim : way) {
    if (!legal(later, job, more, *victim)) continue;
    later.giveBack(*victim->job, victim->attempt->ranks);
    found.victims.push_back(victim);
    const auto before = later.mark();
    fits = placeGang(later, job).has_value();
    later.rollBack(before);
    if (fits) break;
  }
  later.rollBack(mark);
  if (!fits) return std::nullopt;
  found.victims = spare(later, job, std::move(found.victims));
  for (const auto* victim : found.victims) {
    later.giveBack(*victim->job, victim->attempt->ranks);
    found.cost += victim->cost;
  }
  found.ranks = *placeGang(later, job);
  later.rollBack(mark);
  return found;
}

// Without those that need not go, the dearest first.
Reclaim::Choice Reclaim::spare(World& later, const model::JobRecord& job, Choice victims) const {
  auto byCost = victims;
  std::stable_sort(byCost.begin(), byCost.end(),
                   [](const Victim* a, const Victim* b) { return a->cost > b->cost; });
  const auto mark = later.mark();
  for (const auto* spared : byCost) {
    for (const auto* victim : victims) {
      if (victim != spared) later.giveBack(*victim->job, victim->attempt->ranks);
    }
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
  std::optional<Found> best;
  for (const auto& way : ways(later, job, victims)) {
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
