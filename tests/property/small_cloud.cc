#include "small_cloud.h"

#include <algorithm>
#include <functional>

#include "scheduler/match.h"

namespace bole::test {

SmallCloud::SmallCloud(std::uint64_t seed, Making making) : random_(seed), making_(making) {
  if (seed % 2 == 0) options_.learnFrom = 1;
  addNodes();
  leaves_ = {model::kDefaultQueue};
  if (making_.queues) addQueues();
}

void SmallCloud::addNodes() {
  const auto nodes = 1 + below(4);
  for (std::size_t n = 0; n < nodes; ++n) {
    auto node = scheduler::nodeOf(static_cast<std::uint32_t>(below(5)),
                                  chance(70) ? "A100-SXM4-80GB" : "H100-SXM5-80GB",
                                  static_cast<std::int64_t>(4 + below(13)));
    node.memory = kGiB * static_cast<std::int64_t>(8 + below(25));
    for (auto& gpu : node.gpus) {
      if (chance(5)) gpu.health = model::GpuHealth::kDown;
    }
    for (std::uint32_t a = 0; a + 1 < node.gpus.size(); a += 2) {
      if (chance(50)) scheduler::link(node, a, a + 1, 4);
    }
    if (making_.labels && chance(50)) node.labels = {{"disk", "ssd"}};
    cloud.add(node);
  }
}

void SmallCloud::addQueues() {
  const auto queues = 1 + below(4);
  QueueId parent;
  for (std::size_t q = 0; q < queues; ++q) {
    auto queue = scheduler::queueOf(std::string("q") + static_cast<char>('0' + q),
                                    chance(60) ? static_cast<std::int64_t>(below(6)) : -1,
                                    chance(30) ? static_cast<std::int64_t>(6 + below(6)) : -1);
    queue.weight = static_cast<std::int32_t>(1 + below(3));
    if (chance(20)) queue.limit.kinds = {{"H100", kWholeGpu * static_cast<std::int64_t>(below(4))}};
    if (making_.evictions && chance(40)) queue.preemption = model::Preemption::kLowerPriority;
    if (parent.isSet() && chance(50)) {
      queue.parent = parent;
      std::erase(leaves_, parent);
    }
    const auto id = cloud.addQueue(queue);
    leaves_.push_back(id);
    parent = id;
  }
}

void SmallCloud::addJob() {
  model::JobShape shape;
  const auto tasks = making_.tasks && chance(25) ? 2 : 1;
  for (int t = 0; t < tasks; ++t) {
    auto task = scheduler::shapeOf(making_.gangs ? static_cast<std::uint32_t>(1 + below(4)) : 1,
                                   static_cast<std::uint32_t>(chance(20) ? 0 : 1 + below(3)))
                    .tasks[0];
    task.cpus = MilliCpu(static_cast<std::int64_t>(below(4)) * 1000);
    task.memory = kGiB * static_cast<std::int64_t>(below(5));
    if (task.gpus.count > 0 && chance(25)) task.gpus.models = {chance(50) ? "H100" : "A100"};
    if (making_.parts && tasks == 1 && task.gpus.count == 1 && chance(40))
      task.gpus.share = MilliGpu(static_cast<std::int64_t>(1 + below(9)) * 100);
    if (making_.labels && chance(10)) task.nodeLabels = {{"disk", "ssd"}};
    if (chance(20)) task.minAvailable = static_cast<std::uint32_t>(1 + below(task.replicas));
    shape.tasks.push_back(task);
  }
  shape.minAvailable = 0;
  for (const auto& task : shape.tasks) shape.minAvailable += task.minAvailable;
  shape.queue = leaves_[below(leaves_.size())];
  shape.priority = static_cast<std::int32_t>(below(3));
  if (making_.limits && chance(40))
    shape.timeLimit = minutes(static_cast<std::int64_t>(1 + below(60)));
  if (making_.evictions) {
    shape.spot = chance(15);
    shape.preemptible = !chance(20);
  }
  if (!scheduler::canEverRun(cloud.tables, shape)) return;
  cloud.queued(shape, now_, UserId(1 + below(3)));
}

void SmallCloud::turn() {
  now_ = now_ + minutes(static_cast<std::int64_t>(below(8)));
  for (auto jobs = below(4); jobs > 0; --jobs) addJob();
  std::vector<JobId> running;
  cloud.tables.attempts.forEach([&](AttemptId, const model::AttemptRecord& attempt) {
    if (attempt.live) running.push_back(attempt.job);
    return true;
  });
  for (const auto id : running) {
    const bool stopping = cloud.job(id).state == model::JobState::kStopping;
    if (!chance(stopping ? 60 : 20)) continue;
    if (stopping)
      cloud.requeue(id);
    else
      cloud.end(id);
  }
}

void SmallCloud::changeHardware() {
  const NodeId id(1 + below(cloud.tables.lastNode));
  if (chance(30)) {
    cloud.add(*cloud.tables.nodes.find(id)->node);
    return;
  }
  auto node = *cloud.tables.nodes.find(id)->node;
  if (node.gpus.empty()) return;
  auto& health = node.gpus[below(node.gpus.size())].health;
  const bool isWhole = health == model::GpuHealth::kHealthy;
  health = isWhole ? model::GpuHealth::kDown : model::GpuHealth::kHealthy;
  cloud.tables.nodes.edit(id)->node = std::make_shared<const model::Node>(std::move(node));
}

void SmallCloud::learn() {
  model::RunTimes times;
  times.id = UserId(1 + below(3));
  for (std::uint32_t size = 0; size < 3; ++size)
    times.sizes.push_back({size, {minutes(static_cast<std::int64_t>(1 + below(60)))}});
  cloud.tables.runTimes.put(times.id, times);
  model::QueueUse use;
  use.id = leaves_[below(leaves_.size())];
  use.at = now_;
  use.gpus = static_cast<double>(below(4000));
  cloud.tables.queueUse.put(use.id, use);
}

void SmallCloud::changePolicy() {
  auto policy = *cloud.tables.policy;
  policy.patience = minutes(static_cast<std::int64_t>(1 + below(20)));
  policy.bookings.clear();
  if (chance(30)) {
    const auto from = now_ + minutes(static_cast<std::int64_t>(below(60)));
    model::Amounts amounts;
    amounts.gpus = kWholeGpu * static_cast<std::int64_t>(1 + below(3));
    policy.bookings.push_back(
        {"b", leaves_[below(leaves_.size())], amounts, from, from + hours(1)});
  }
  policy.halfLife = hours(static_cast<std::int64_t>(below(48)));
  cloud.tables.policy = std::make_shared<const model::Policy>(policy);
}

void SmallCloud::follow(const model::Plan& plan) {
  cloud.follow(plan, now_);
}

std::map<NodeId, Room> roomIn(const model::Tables& tables) {
  std::map<NodeId, Room> rooms;
  tables.nodes.forEach([&](NodeId id, const model::NodeRecord& record) {
    if (!record.present) return true;
    auto& room = rooms[id];
    room.node = record.node.get();
    room.cpus = record.node->cpus.value;
    room.memory = record.node->memory.value;
    for (const auto& gpu : record.node->gpus)
      room.share.push_back(gpu.health == model::GpuHealth::kHealthy ? kWholeGpu.value : 0);
    return true;
  });
  tables.attempts.forEach([&](AttemptId, const model::AttemptRecord& attempt) {
    if (!attempt.live) return true;
    const auto& shape = *tables.jobs.find(attempt.job)->shape;
    for (const auto& rank : attempt.ranks) {
      auto& room = rooms.at(rank.node);
      room.cpus -= shape.tasks[rank.task].cpus.value;
      room.memory -= shape.tasks[rank.task].memory.value;
      for (std::size_t i = 0; i < rank.gpus.size(); ++i)
        room.share[rank.gpus[i]] -= rank.grant(i).share.value;
    }
    return true;
  });
  return rooms;
}

std::map<QueueId, std::int64_t> gpusOfQueues(const model::Tables& tables, bool withSpot) {
  std::map<QueueId, std::int64_t> use;
  tables.attempts.forEach([&](AttemptId, const model::AttemptRecord& attempt) {
    if (!attempt.live) return true;
    const auto& shape = *tables.jobs.find(attempt.job)->shape;
    if (shape.spot && !withSpot) return true;
    std::int64_t gpus = 0;
    for (const auto& rank : attempt.ranks) {
      for (std::size_t i = 0; i < rank.gpus.size(); ++i) gpus += rank.grant(i).share.value;
    }
    for (auto id = shape.queue; id.isSet(); id = tables.policy->find(id)->parent) use[id] += gpus;
    return true;
  });
  return use;
}

namespace {

// Ranks one by one, each on every node; how many of each task are placed is chosen too.
class Search {
 public:
  Search(std::map<NodeId, Room> rooms, const model::JobShape& shape)
      : rooms_(std::move(rooms)), shape_(shape) {}

  bool from(std::size_t task, std::uint32_t placed, std::uint32_t all, NodeId lowest) {
    if (task == shape_.tasks.size()) return all >= shape_.minAvailable;
    const auto& own = shape_.tasks[task];
    if (placed >= own.minAvailable && from(task + 1, 0, all, NodeId())) return true;
    if (placed == own.replicas) return false;
    for (auto& [id, room] : rooms_) {
      if (id < lowest) continue;  // replicas of a task are alike: only in order
      if (!scheduler::labelsMatch(own, *room.node)) continue;
      const auto part = own.gpus.share.value;
      std::vector<std::size_t> free;
      for (std::size_t g = 0; g < room.share.size(); ++g) {
        if (room.share[g] >= part && scheduler::matches(own.gpus, room.node->gpus[g]))
          free.push_back(g);
      }
      if (free.size() < own.gpus.count || room.cpus < own.cpus.value ||
          room.memory < own.memory.value) {
        continue;
      }
      // Of one kind on a node here, and parts only in jobs where all are equal: which ones does not
      // matter.
      free.resize(own.gpus.count);
      for (const auto g : free) room.share[g] -= part;
      room.cpus -= own.cpus.value;
      room.memory -= own.memory.value;
      const bool fits = from(task, placed + 1, all + 1, id);
      for (const auto g : free) room.share[g] += part;
      room.cpus += own.cpus.value;
      room.memory += own.memory.value;
      if (fits) return true;
    }
    return false;
  }

 private:
  std::map<NodeId, Room> rooms_;
  const model::JobShape& shape_;
};

}  // namespace

bool fitsSomehow(const std::map<NodeId, Room>& room, const model::JobShape& shape) {
  return Search(room, shape).from(0, 0, 0, NodeId());
}

}  // namespace bole::test
