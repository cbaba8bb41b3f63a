#include "scheduler/world.h"

#include <algorithm>
#include <bit>
#include <tuple>

#include "base/result.h"
#include "model/use.h"
#include "scheduler/links.h"
#include "scheduler/match.h"

namespace bole::scheduler {
namespace {

// Whether something could ever run is not asked of what is drained for a while.
std::shared_ptr<const model::Node> withoutMarks(const model::NodeRecord& record) {
  auto whole = std::make_shared<model::Node>(*record.node);
  whole->health = record.probed->health;
  for (std::size_t g = 0; g < whole->gpus.size(); ++g)
    whole->gpus[g].health = record.probed->gpus[g].health;
  return whole;
}

std::vector<std::shared_ptr<const model::Node>> presentIn(const model::Tables& tables, Of of) {
  std::vector<std::shared_ptr<const model::Node>> nodes;
  tables.nodes.forEach([&](NodeId, const model::NodeRecord& record) {
    if (!record.present) return true;
    const bool isMarked = !record.marks.empty() && record.probed;
    nodes.push_back(of == Of::kEmpty && isMarked ? withoutMarks(record) : record.node);
    return true;
  });
  return nodes;
}

std::vector<const model::Node*> plain(
    const std::vector<std::shared_ptr<const model::Node>>& nodes) {
  std::vector<const model::Node*> out;
  out.reserve(nodes.size());
  for (const auto& node : nodes) out.push_back(node.get());
  return out;
}

bool isIdleOn(const FreeNode& free, std::size_t gpu) {
  return isIdle(free.node->gpus[gpu], {free.share[gpu].value, free.gpuMemory[gpu].value});
}

void fill(FreeNode& free, const model::NodeRecord& record, Of of) {
  const bool empty = of == Of::kEmpty;
  free.cpus = empty ? free.node->cpus : free.node->cpus - record.cpusUsed;
  free.memory = empty ? free.node->memory : free.node->memory - record.memoryUsed;
  free.idleCount = 0;
  const auto gpus = free.node->gpus.size();
  free.share.resize(gpus);
  free.gpuMemory.resize(gpus);
  free.idle.resize(gpus);
  for (std::size_t i = 0; i < gpus; ++i) {
    const auto& gpu = free.node->gpus[i];
    free.share[i] = empty ? kWholeGpu : kWholeGpu - record.gpuUsed[i];
    free.gpuMemory[i] = empty ? gpu.memory : gpu.memory - record.gpuMemoryUsed[i];
    free.idle[i] = isIdleOn(free, i);
    free.idleCount += free.idle[i] ? 1 : 0;
  }
}

GpuState stateOf(const FreeNode& free, const Hardware& hardware) {
  GpuState state;
  state.hardware = free.hardware;
  state.free.reserve(hardware.order.size());
  for (const auto gpu : hardware.order)
    state.free.push_back({free.share[gpu].value, free.gpuMemory[gpu].value});
  for (std::size_t from = 0; from < state.free.size();) {
    auto to = from + 1;
    while (to < state.free.size() && hardware.alike[to] == from) ++to;
    std::sort(state.free.begin() + static_cast<std::ptrdiff_t>(from),
              state.free.begin() + static_cast<std::ptrdiff_t>(to));
    from = to;
  }
  return state;
}

// No less than nothing.
Beside ofUse(const FreeNode& free) {
  if (free.node->health != model::GpuHealth::kHealthy) return {};
  return {std::max<std::int64_t>(free.cpus.value, 0), std::max<std::int64_t>(free.memory.value, 0)};
}

}  // namespace

World::World(const model::Tables& tables, Of of, Timestamp now)
    : present_(presentIn(tables, of)), queues_(*tables.policy, plain(present_), now) {
  tables.nodes.forEach([&](NodeId id, const model::NodeRecord& record) {
    if (!record.present) return true;
    byId_[id] = nodes_.size();
    FreeNode free;
    free.id = id;
    free.node = present_[nodes_.size()].get();
    free.hardware = shelves_.hardwareOf(*free.node);
    fill(free, record, of);
    mostGpus_ = std::max(mostGpus_, free.node->gpus.size());
    nodes_.push_back(std::move(free));
    return true;
  });
  isMoved_.resize(nodes_.size());
  for (std::size_t n = 0; n < nodes_.size(); ++n) {
    const auto free = ofUse(nodes_[n]);
    freeInAll_ = {freeInAll_.cpus + free.cpus, freeInAll_.memory + free.memory};
    touch(n);
  }
  settle();
  if (of == Of::kEmpty) return;
  count(tables);
  remember(tables, now);
}

void World::count(const model::Tables& tables) {
  tables.attempts.forEach([&](AttemptId, const model::AttemptRecord& attempt) {
    if (attempt.live) countIn(*tables.jobs.find(attempt.job), attempt);
    return true;
  });
}

void World::recount(const model::Tables& tables, Timestamp now) {
  BOLE_ASSERT(undo_.empty());
  queues_ = Queues(*tables.policy, plain(present_), now);
  count(tables);
}

void World::remember(const model::Tables& tables, Timestamp now) {
  queues_.forget();
  const auto halfLife = tables.policy->halfLife;
  if (halfLife.value <= 0) return;
  tables.queueUse.forEach([&](QueueId id, const model::QueueUse& use) {
    queues_.remember(queues_.indexOf(id), model::useAt(use, now, halfLife));
    return true;
  });
}

void World::countIn(const model::JobRecord& job, const model::AttemptRecord& attempt) {
  const auto queue = queues_.indexOf(job.shape->queue);
  queues_.add(queue, Amount(), holdOf(job), 1);
  for (const auto& rank : attempt.ranks)
    queues_.add(queue, amountOf(*job.shape, rank), holdOf(job));
}

void World::countOut(const model::JobRecord& job, const model::AttemptRecord& attempt) {
  const auto queue = queues_.indexOf(job.shape->queue);
  queues_.remove(queue, Amount(), holdOf(job), 1);
  for (const auto& rank : attempt.ranks)
    queues_.remove(queue, amountOf(*job.shape, rank), holdOf(job));
}

void World::update(NodeId id, const model::NodeRecord& record) {
  BOLE_ASSERT(undo_.empty());
  const auto n = byId_.at(id);
  const auto before = ofUse(nodes_[n]);
  fill(nodes_[n], record, Of::kNow);
  const auto after = ofUse(nodes_[n]);
  freeInAll_.cpus += after.cpus - before.cpus;
  freeInAll_.memory += after.memory - before.memory;
  touch(n);
}

// The node is to be put on its shelf anew, before anyone looks.
void World::touch(std::size_t node) {
  if (isMoved_[node]) return;
  isMoved_[node] = true;
  moved_.push_back(static_cast<std::uint32_t>(node));
}

void World::settle() {
  for (const auto n : moved_) {
    isMoved_[n] = false;
    const auto& free = nodes_[n];
    const auto state = stateOf(free, shelves_.hardware(free.hardware));
    shelves_.put(n, state, free.beside());
    if (appraiser_) appraiser_->put(n, state, free.beside());
  }
  moved_.clear();
}

void World::value(const model::Tables& tables, const Lesson& lesson) {
  settle();
  appraiser_ = Appraiser::make(tables, lesson, shelves_, nodes_.size());
  if (!appraiser_) return;
  for (std::uint32_t n = 0; n < nodes_.size(); ++n)
    appraiser_->put(n, shelves_.stateOn(shelves_.shelfOf(n)), nodes_[n].beside());
}

Listing& World::listingOf(const model::TaskShape& task) {
  settle();
  return shelves_.listingOf(task);
}

void World::bringUpToDate(Listing& listing) {
  settle();
  shelves_.catchUp(listing);
}

namespace {

bool isRefused(const World::Refused& refused, HardwareId hardware) {
  return std::find(refused.begin(), refused.end(), hardware) != refused.end();
}

}  // namespace

std::int64_t World::roomOn(std::size_t node, const Listing& listing, const Beside& each,
                           std::int64_t most) const {
  const auto fits = listing.fits[shelves_.shelfOf(static_cast<std::uint32_t>(node))].ranks;
  if (fits == 0) return 0;
  return nodes_[node].beside().times(each, std::min<std::int64_t>(fits, most));
}

std::optional<std::size_t> World::tightest(const Listing& listing, const Beside& each,
                                           std::int64_t ranks, const Refused& refused) const {
  std::optional<std::size_t> best;
  std::int32_t preference = 0;
  const auto offer = [&](std::size_t node, std::int32_t here) {
    if (best && std::pair(here, node) >= std::pair(preference, *best)) return;
    best = node;
    preference = here;
  };
  if (only_) {
    for (const auto node : *only_) {
      if (isRefused(refused, nodes_[node].hardware)) continue;
      if (roomOn(node, listing, each, ranks) == ranks) offer(node, preferenceOf(node, listing));
    }
    return best;
  }
  const Beside all{each.cpus * ranks, each.memory * ranks};
  for (const auto id : listing.order) {
    const auto& fit = listing.fits[id];
    if (best && fit.preference > preference) break;
    const auto& shelf = shelves_.shelf(id);
    if (shelf.size() == 0 || fit.ranks < ranks) continue;
    if (isRefused(refused, shelves_.hardwareOn(id))) continue;
    if (const auto node = shelf.first(all)) offer(*node, fit.preference);
  }
  return best;
}

std::optional<std::size_t> World::best(Listing& listing, const Beside& each, std::int64_t ranks,
                                       const Refused& refused) {
  const auto plain = tightest(listing, each, ranks, refused);
  if (!plain || !appraiser_ || only_ || !refused.empty()) return plain;
  const auto valued = appraiser_->best(listing.ask, each, ranks);
  if (!valued || roomOn(*valued, listing, each, ranks) < ranks) return plain;
  return *valued;
}

std::optional<World::Place> World::roomiest(const Listing& listing, const Beside& each,
                                            std::int64_t most, const Refused& refused) const {
  std::optional<Place> best;
  std::int32_t preference = 0;
  const auto offer = [&](std::size_t node, std::int64_t ranks, std::int32_t here) {
    if (ranks == 0) return;
    if (best &&
        std::tuple(-ranks, here, node) >= std::tuple(-best->ranks, preference, best->node)) {
      return;
    }
    best = {node, ranks};
    preference = here;
  };
  if (only_) {
    for (const auto node : *only_) {
      if (isRefused(refused, nodes_[node].hardware)) continue;
      offer(node, roomOn(node, listing, each, most), preferenceOf(node, listing));
    }
    return best;
  }
  for (const auto id : listing.order) {
    const auto& fit = listing.fits[id];
    const auto bound = std::min<std::int64_t>(fit.ranks, most);
    if (best && (bound < best->ranks || (bound == best->ranks && fit.preference > preference)))
      continue;
    if (shelves_.shelf(id).size() == 0 || isRefused(refused, shelves_.hardwareOn(id))) continue;
    if (const auto found = shelves_.shelf(id).roomiest(each, bound))
      offer(found->node, found->times, fit.preference);
  }
  return best;
}

std::int64_t World::roomInAll(const Listing& listing, const Beside& each,
                              std::int64_t enough) const {
  std::int64_t all = 0;
  if (only_) {
    for (const auto node : *only_) all += roomOn(node, listing, each, enough - all);
    return all;
  }
  for (const auto id : listing.order) {
    const auto& shelf = shelves_.shelf(id);
    if (shelf.size() == 0) continue;
    all += shelf.fitting(each, listing.fits[id].ranks, enough - all);
    if (all >= enough) return enough;
  }
  return all;
}

std::vector<std::size_t> World::examples(const Listing& listing, const Beside& each,
                                         std::size_t most) const {
  std::vector<std::size_t> out;
  if (only_) {
    for (const auto node : *only_)
      if (roomOn(node, listing, each, 1) > 0) out.push_back(node);
  } else {
    for (const auto id : listing.order) shelves_.shelf(id).examples(each, most, out);
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<std::uint32_t> World::candidates(std::size_t node, Ask& ask) const {
  std::vector<std::uint32_t> out;
  const auto& free = nodes_[node];
  const auto& on = ask.on(free.hardware, shelves_.hardware(free.hardware));
  for (std::size_t i = 0; i < on.gpus.size(); ++i) {
    const auto gpu = on.gpus[i];
    const auto& grant = on.grants[i];
    if (ask.gpus().isWhole()
            ? free.idle[gpu]
            : free.share[gpu] >= grant.share && free.gpuMemory[gpu] >= grant.memory)
      out.push_back(gpu);
  }
  return out;
}

std::size_t World::HashLinkKey::operator()(const LinkKey& key) const {
  const auto mixed = (key.idle * 0x9E3779B97F4A7C15ULL ^ key.from) * 0xBF58476D1CE4E5B9ULL;
  return static_cast<std::size_t>((mixed ^ (mixed >> 31U)) + key.hardware * 64U + key.count);
}

// The answer hangs on nothing but the hardware, which GPUs are idle and which would do.
std::vector<std::uint32_t> World::bestLinked(std::size_t node,
                                             const std::vector<std::uint32_t>& from,
                                             std::size_t count) {
  const auto& free = nodes_[node];
  const auto& hardware = shelves_.hardware(free.hardware);
  if (from.size() == count) return from;
  if (free.idle.size() > 64) return scheduler::bestLinked(free, hardware, from, count);
  LinkKey key{free.hardware, static_cast<std::uint32_t>(count), 0, 0};
  for (std::size_t g = 0; g < free.idle.size(); ++g)
    if (free.idle[g]) key.idle |= 1ULL << g;
  for (const auto gpu : from) key.from |= 1ULL << gpu;
  constexpr std::size_t kMostLinked = 1U << 16U;
  if (linked_.size() >= kMostLinked) linked_.clear();
  const auto [known, isNew] = linked_.try_emplace(key, 0);
  if (isNew) {
    for (const auto gpu : scheduler::bestLinked(free, hardware, from, count))
      known->second |= 1ULL << gpu;
  }
  std::vector<std::uint32_t> out;
  for (auto left = known->second; left != 0; left &= left - 1)
    out.push_back(static_cast<std::uint32_t>(std::countr_zero(left)));
  return out;
}

bool World::areLabelled(const model::TaskShape& task) {
  auto& ask = listingOf(task).ask;
  for (HardwareId id = 0; id < shelves_.hardwareCount(); ++id)
    if (ask.on(id, shelves_.hardware(id)).isLabelled) return true;
  return false;
}

bool World::couldServe(HardwareId hardware, const model::JobShape& shape) {
  const auto& node = *shelves_.hardware(hardware).like;
  return std::any_of(shape.tasks.begin(), shape.tasks.end(), [&](const model::TaskShape& task) {
    return node.cpus >= task.cpus && node.memory >= task.memory &&
           shelves_.listingOf(task)
               .ask.on(hardware, shelves_.hardware(hardware))
               .serves(task.gpus.count);
  });
}

Amount World::amountOf(const model::JobShape& shape, const model::RankPlacement& rank) const {
  const auto& task = shape.tasks[rank.task];
  const auto at = byId_.find(rank.node);
  if (at == byId_.end()) return queues_.amountOf(task);
  const auto& node = *nodes_[at->second].node;
  return queues_.amountOf(task, node, rank);
}

std::optional<Queues::Refusal> World::refusal(const Claim& claim, std::uint32_t task,
                                              std::size_t node,
                                              std::vector<std::uint32_t> gpus) const {
  const auto& shape = claim.shape;
  gpus.resize(std::min<std::size_t>(gpus.size(), shape.tasks[task].gpus.count));
  return queues_.refusal(queues_.indexOf(shape.queue),
                         queues_.amountOf(shape.tasks[task], *nodes_[node].node, gpus),
                         holdOf(claim));
}

bool World::begin(const Claim& claim) {
  const auto queue = queues_.indexOf(claim.shape.queue);
  if (queues_.fullFor(queue, claim.user)) return false;
  count(claim, 1);
  return true;
}

void World::count(const Claim& claim, std::int64_t jobs) {
  Change change{kNowhere, {}, {}, {}};
  change.queue = queues_.indexOf(claim.shape.queue);
  change.hold = holdOf(claim);
  change.jobs = jobs;
  put(std::move(change));
}

model::RankPlacement World::take(std::size_t node, const Claim& claim, std::uint32_t task,
                                 std::uint32_t replica, std::vector<std::uint32_t> gpus) {
  const auto& shape = claim.shape;
  const auto& request = shape.tasks[task].gpus;
  model::RankPlacement rank{task, replica, nodes_[node].id, std::move(gpus), {}};
  if (!request.isWhole()) {
    for (const auto gpu : rank.gpus)
      rank.grants.push_back(grantOf(request, nodes_[node].node->gpus[gpu]));
  }
  take(claim, rank);
  return rank;
}

void World::take(const Claim& claim, const model::RankPlacement& rank) {
  const auto& task = claim.shape.tasks[rank.task];
  Change change{byId_.at(rank.node), task.cpus, task.memory, partsOf(rank)};
  change.queue = queues_.indexOf(claim.shape.queue);
  change.amount = amountOf(claim.shape, rank);
  change.hold = holdOf(claim);
  put(std::move(change));
}

std::vector<World::GpuPart> World::partsOf(const model::RankPlacement& rank) const {
  std::vector<GpuPart> parts;
  const auto at = byId_.find(rank.node);
  if (at == byId_.end()) return parts;
  // A GPU that is not there any more is not free when it is given back.
  const auto there = nodes_[at->second].share.size();
  for (std::size_t i = 0; i < rank.gpus.size(); ++i) {
    const auto grant = rank.grant(i);
    if (rank.gpus[i] < there) parts.push_back({rank.gpus[i], grant.share, grant.memory});
  }
  return parts;
}

void World::take(const Claim& claim, const std::vector<model::RankPlacement>& ranks) {
  count(claim, 1);
  for (const auto& rank : ranks) take(claim, rank);
}

void World::hold(const Claim& claim, const std::vector<model::RankPlacement>& ranks) {
  const auto& shape = claim.shape;
  count(claim, 1);
  for (const auto& rank : ranks) {
    const auto node = byId_.at(rank.node);
    const auto& free = nodes_[node];
    const auto& task = shape.tasks[rank.task];
    Change change{node, std::clamp(free.cpus, MilliCpu(0), task.cpus),
                  std::clamp(free.memory, Bytes(0), task.memory), partsOf(rank)};
    for (auto& part : change.gpus) {
      part.share = std::min(part.share, free.share[part.gpu]);
      part.memory = std::min(part.memory, free.gpuMemory[part.gpu]);
    }
    change.queue = queues_.indexOf(shape.queue);
    change.amount = amountOf(shape, rank);
    change.hold = holdOf(claim);
    put(std::move(change));
  }
}

void World::giveBack(const Claim& claim, const std::vector<model::RankPlacement>& ranks) {
  const auto& shape = claim.shape;
  count(claim, -1);
  for (const auto& rank : ranks) {
    const auto at = byId_.find(rank.node);
    const auto& task = shape.tasks[rank.task];
    Change change{at == byId_.end() ? kNowhere : at->second, task.cpus, task.memory, partsOf(rank)};
    change.queue = queues_.indexOf(shape.queue);
    change.amount = amountOf(shape, rank);
    change.hold = holdOf(claim);
    change.taken = false;
    put(std::move(change));
  }
}

void World::keep(std::size_t node, MilliCpu cpus, Bytes memory, std::vector<GpuPart> gpus) {
  put({node, cpus, memory, std::move(gpus)});
}

void World::charge(const Claim& claim, const std::vector<model::RankPlacement>& ranks) {
  const auto& shape = claim.shape;
  count(claim, 1);
  for (const auto& rank : ranks) {
    Change change{kNowhere, {}, {}, {}};
    change.queue = queues_.indexOf(shape.queue);
    change.amount = amountOf(shape, rank);
    change.hold = holdOf(claim);
    put(std::move(change));
  }
}

void World::openOnly(const std::vector<NodeId>& nodes) {
  only_.emplace();
  for (const auto id : nodes) {
    const auto at = byId_.find(id);
    if (at != byId_.end()) only_->push_back(at->second);
  }
}

void World::openAll() {
  only_.reset();
}

void World::put(Change change) {
  apply(change, change.taken);
  undo_.push_back(std::move(change));
}

void World::apply(const Change& change, bool taken) {
  if (change.node != kNowhere) {
    auto& free = nodes_[change.node];
    const auto before = ofUse(free);
    const auto sign = taken ? -1 : 1;
    for (const auto& part : change.gpus) {
      free.share[part.gpu] += part.share * sign;
      free.gpuMemory[part.gpu] += part.memory * sign;
      const bool idle = isIdleOn(free, part.gpu);
      free.idleCount +=
          static_cast<std::int64_t>(idle) - static_cast<std::int64_t>(free.idle[part.gpu]);
      free.idle[part.gpu] = idle;
    }
    free.cpus += change.cpus * sign;
    free.memory += change.memory * sign;
    const auto after = ofUse(free);
    freeInAll_.cpus += after.cpus - before.cpus;
    freeInAll_.memory += after.memory - before.memory;
    touch(change.node);
  }
  if (change.queue == kNowhere) return;
  if (taken)
    queues_.add(change.queue, change.amount, change.hold, change.jobs);
  else
    queues_.remove(change.queue, change.amount, change.hold, change.jobs);
}

void World::rollBack(std::size_t mark) {
  while (undo_.size() > mark) {
    apply(undo_.back(), !undo_.back().taken);
    undo_.pop_back();
  }
}

}  // namespace bole::scheduler
