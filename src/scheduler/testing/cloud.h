// A cloud with jobs in its queue, without a State: what plan() reads.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/scheduler.h"

namespace bole::scheduler {

inline constexpr Timestamp kNow{1'000'000'000};

inline model::Node nodeOf(std::uint32_t gpus, const std::string& model = "A100-SXM4-80GB",
                          std::int64_t cpus = 64) {
  model::Node node;
  node.name = "n";
  node.cpus = MilliCpu(cpus * 1000);
  node.memory = kGiB * 256;
  for (std::uint32_t i = 0; i < gpus; ++i) {
    model::Gpu gpu;
    gpu.model = model;
    gpu.memory = kGiB * 80;
    node.gpus.push_back(gpu);
  }
  node.links.assign(std::size_t{gpus} * gpus, model::Link{model::LinkKind::kSys, 0});
  return node;
}

inline void link(model::Node& node, std::uint32_t a, std::uint32_t b, std::uint8_t count) {
  node.links[a * node.gpus.size() + b] =
      node.links[b * node.gpus.size() + a] = {model::LinkKind::kNvLink, count};
}

inline model::JobShape shapeOf(std::uint32_t replicas, std::uint32_t gpus) {
  model::JobShape shape;
  model::TaskShape task;
  task.replicas = task.minAvailable = replicas;
  task.gpus.count = gpus;
  shape.tasks = {task};
  shape.minAvailable = replicas;
  return shape;
}

struct Cloud {
  model::Tables tables;
  std::vector<JobId> queue;

  NodeId add(model::Node node) {
    const NodeId id(++tables.lastNode);
    model::NodeRecord record;
    record.id = id;
    record.gpuUsed.resize(node.gpus.size());
    record.gpuHolder.resize(node.gpus.size());
    record.node = std::make_shared<const model::Node>(std::move(node));
    tables.nodes.put(id, record);
    return id;
  }
  void hold(NodeId id, std::uint32_t gpu) {
    auto* node = tables.nodes.edit(id);
    node->gpuUsed[gpu] = kWholeGpu;
    node->gpuHolder[gpu] = AttemptId(99);
  }
  JobId queued(model::JobShape shape, Timestamp since = kNow) {
    const JobId id(++tables.lastJob);
    model::JobRecord job;
    job.id = id;
    job.queuedAt = since;
    job.shape = std::make_shared<const model::JobShape>(std::move(shape));
    tables.jobs.put(id, job);
    queue.push_back(id);
    return id;
  }
  [[nodiscard]] model::Plan plan(Policy policy = {}, Timestamp now = kNow) const {
    return scheduler::plan(tables, queue, now, policy);
  }
  // What the plan starts holds its capacity and is queued no more; and back.
  void begin(const model::Start& start) {
    hold(start, true);
    std::erase(queue, start.job);
  }
  void end(const model::Start& start) { hold(start, false); }

 private:
  void hold(const model::Start& start, bool held) {
    const auto& shape = *tables.jobs.find(start.job)->shape;
    for (const auto& rank : start.ranks) {
      auto* node = tables.nodes.edit(rank.node);
      const auto& task = shape.tasks[rank.task];
      node->cpusUsed += task.cpus * (held ? 1 : -1);
      node->memoryUsed += task.memory * (held ? 1 : -1);
      for (const auto gpu : rank.gpus) node->gpuUsed[gpu] = held ? kWholeGpu : MilliGpu(0);
    }
  }
};

}  // namespace bole::scheduler
