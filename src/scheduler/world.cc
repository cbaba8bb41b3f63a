#include "scheduler/world.h"

#include <algorithm>

#include "model/use.h"
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

std::vector<std::shared_ptr<const model::Node>> presentIn(const model::Tables& tables, bool empty) {
  std::vector<std::shared_ptr<const model::Node>> nodes;
  tables.nodes.forEach([&](NodeId, const model::NodeRecord& record) {
    if (!record.present) return true;
    nodes.push_back(empty && !record.marks.empty() && record.probed ? withoutMarks(record)
                                                                    : record.node);
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

bool isIdle(const FreeNode& free, std::size_t gpu) {
  const auto& device = free.node->gpus[gpu];
  return free.share[gpu] == kWholeGpu && free.gpuMemory[gpu] == device.memory &&
         device.health == model::GpuHealth::kHealthy;
}

FreeNode freeOf(NodeId id, const model::NodeRecord& record, const model::Node& node, bool empty) {
  FreeNode free;
  free.id = id;
  free.node = &node;
  free.cpus = empty ? free.node->cpus : free.node->cpus - record.cpusUsed;
  free.memory = empty ? free.node->memory : free.node->memory - record.memoryUsed;
  for (std::size_t i = 0; i < free.node->gpus.size(); ++i) {
    const auto& gpu = free.node->gpus[i];
    free.share.push_back(empty ? kWholeGpu : kWholeGpu - record.gpuUsed[i]);
    free.gpuMemory.push_back(empty ? gpu.memory : gpu.memory - record.gpuMemoryUsed[i]);
    free.idle.push_back(isIdle(free, i));
    free.idleCount += free.idle[i] ? 1 : 0;
  }
  return free;
}

}  // namespace

World::World(const model::Tables& tables, Of of, Timestamp now)
    : present_(presentIn(tables, of == Of::kEmpty)), queues_(*tables.policy, plain(present_), now) {
  tables.nodes.forEach([&](NodeId id, const model::NodeRecord& record) {
    if (!record.present) return true;
    const auto at = nodes_.size();
    byId_[id] = at;
    nodes_.push_back(freeOf(id, record, *present_[at], of == Of::kEmpty));
    return true;
  });
  if (of == Of::kEmpty) return;
  const auto halfLife = tables.policy->halfLife;
  tables.queueUse.forEach([&](QueueId id, const model::QueueUse& use) {
    if (halfLife.value > 0) queues_.remember(queues_.indexOf(id), model::useAt(use, now, halfLife));
    return true;
  });
  tables.attempts.forEach([&](AttemptId, const model::AttemptRecord& attempt) {
    if (!attempt.live) return true;
    const auto& job = *tables.jobs.find(attempt.job);
    const auto queue = queues_.indexOf(job.shape->queue);
    queues_.add(queue, Amount(), holdOf(job), 1);
    for (const auto& rank : attempt.ranks)
      queues_.add(queue, amountOf(*job.shape, rank), holdOf(job));
    if (of == Of::kLater && job.state == model::JobState::kStopping) giveBack(job, attempt.ranks);
    return true;
  });
  undo_.clear();
}

Amount World::amountOf(const model::JobShape& shape, const model::RankPlacement& rank) const {
  const auto& task = shape.tasks[rank.task];
  const auto at = byId_.find(rank.node);
  if (at == byId_.end()) return queues_.amountOf(task);
  const auto& node = *nodes_[at->second].node;
  return queues_.amountOf(task, node, rank);
}

bool World::hasRoom(std::size_t node, const model::TaskShape& task) const {
  const auto& free = nodes_[node];
  return free.open && free.node->health == model::GpuHealth::kHealthy && free.cpus >= task.cpus &&
         free.memory >= task.memory &&
         (free.idleCount >= static_cast<std::int64_t>(task.gpus.count) || !task.gpus.isWhole()) &&
         labelsMatch(task, *free.node);
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
  for (auto& node : nodes_)
    node.open = std::find(nodes.begin(), nodes.end(), node.id) != nodes.end();
}

void World::openAll() {
  for (auto& node : nodes_) node.open = true;
}

void World::put(Change change) {
  apply(change, change.taken);
  undo_.push_back(std::move(change));
}

void World::apply(const Change& change, bool taken) {
  if (change.node != kNowhere) {
    auto& free = nodes_[change.node];
    const auto sign = taken ? -1 : 1;
    for (const auto& part : change.gpus) {
      free.share[part.gpu] += part.share * sign;
      free.gpuMemory[part.gpu] += part.memory * sign;
      const bool idle = isIdle(free, part.gpu);
      free.idleCount +=
          static_cast<std::int64_t>(idle) - static_cast<std::int64_t>(free.idle[part.gpu]);
      free.idle[part.gpu] = idle;
    }
    free.cpus += change.cpus * sign;
    free.memory += change.memory * sign;
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
