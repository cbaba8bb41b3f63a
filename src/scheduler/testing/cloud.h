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
    record.gpuMemoryUsed.resize(node.gpus.size());
    record.gpuHolder.resize(node.gpus.size());
    record.node = std::make_shared<const model::Node>(std::move(node));
    tables.nodes.put(id, record);
    return id;
  }
  // Somebody's job runs there.
  void hold(NodeId id, std::uint32_t gpu) {
    auto shape = shapeOf(1, 1);
    shape.tasks[0].cpus = MilliCpu(0);
    begin({queued(shape), {{0, 0, id, {gpu}}}});
  }
  JobId queued(model::JobShape shape, Timestamp since = kNow, UserId user = {}) {
    const JobId id(++tables.lastJob);
    model::JobRecord job;
    job.id = id;
    job.queuedAt = since;
    job.user = user;
    job.shape = std::make_shared<const model::JobShape>(std::move(shape));
    tables.jobs.put(id, job);
    queue.push_back(id);
    return id;
  }
  [[nodiscard]] model::Plan plan(Options options = {}, Timestamp now = kNow) const {
    return scheduler::plan(tables, queue, now, options);
  }
  [[nodiscard]] const model::JobRecord& job(JobId id) const { return *tables.jobs.find(id); }

  // What the plan starts holds its capacity and is queued no more.
  void begin(const model::Start& start, Timestamp at = kNow) {
    const AttemptId id(++tables.lastAttempt);
    model::AttemptRecord attempt;
    attempt.id = id;
    attempt.job = start.job;
    attempt.ranks = start.ranks;
    attempt.plannedAt = attempt.startedAt = at;
    tables.attempts.put(id, attempt);
    auto* job = tables.jobs.edit(start.job);
    job->state = model::JobState::kRunning;
    job->promised = false;
    job->attempt = id;
    hold(start, true);
    std::erase(queue, start.job);
  }
  void end(const model::Start& start) { end(start.job); }
  void end(JobId id) {
    auto* job = tables.jobs.edit(id);
    auto* attempt = tables.attempts.edit(job->attempt);
    attempt->live = false;
    job->state = model::JobState::kSucceeded;
    job->freedFor = JobId();
    hold({id, attempt->ranks}, false);
  }
  void stopFor(const model::Eviction& eviction) {
    auto* job = tables.jobs.edit(eviction.job);
    job->state = model::JobState::kStopping;
    job->stop = model::StopReason::kPreempted;
    job->freedFor = eviction.beneficiary;
    tables.jobs.edit(eviction.beneficiary)->promised = true;
  }
  // The victim has gone and waits again.
  void requeue(JobId id) {
    end(id);
    tables.jobs.edit(id)->state = model::JobState::kQueued;
    queue.push_back(id);
  }
  // All that the plan decides happens at once, but the ends of what it stops.
  void follow(const model::Plan& plan, Timestamp at = kNow) {
    for (const auto& start : plan.starts) begin(start, at);
    for (const auto& eviction : plan.evictions) stopFor(eviction);
    for (const auto& reservation : plan.reservations)
      tables.jobs.edit(reservation.job)->reservedOn = reservation.nodes;
  }
  // Plans and follows until nothing more is decided; what is stopped goes in between.
  void settle(Timestamp at = kNow) {
    for (int i = 0; i < 100; ++i) {
      const auto next = plan({}, at);
      if (next.starts.empty() && next.evictions.empty()) return;
      follow(next, at);
      for (const auto& eviction : next.evictions) requeue(eviction.job);
    }
  }

  QueueId addQueue(model::Queue added) {
    auto policy = *tables.policy;
    added.id = QueueId(policy.queues.size() + 1);
    policy.queues.push_back(added);
    tables.policy = std::make_shared<const model::Policy>(policy);
    return added.id;
  }
  // GPUs held by running and stopping jobs of a queue.
  [[nodiscard]] std::int64_t gpusOf(QueueId id) const {
    std::int64_t gpus = 0;
    tables.attempts.forEach([&](AttemptId, const model::AttemptRecord& attempt) {
      if (!attempt.live || job(attempt.job).shape->queue != id) return true;
      for (const auto& rank : attempt.ranks) gpus += static_cast<std::int64_t>(rank.gpus.size());
      return true;
    });
    return gpus;
  }

 private:
  void hold(const model::Start& start, bool held) {
    const auto& shape = *tables.jobs.find(start.job)->shape;
    for (const auto& rank : start.ranks) {
      auto* node = tables.nodes.edit(rank.node);
      const auto& task = shape.tasks[rank.task];
      node->cpusUsed += task.cpus * (held ? 1 : -1);
      node->memoryUsed += task.memory * (held ? 1 : -1);
      for (std::size_t i = 0; i < rank.gpus.size(); ++i) {
        node->gpuUsed[rank.gpus[i]] += rank.grant(i).share * (held ? 1 : -1);
        node->gpuMemoryUsed[rank.gpus[i]] += rank.grant(i).memory * (held ? 1 : -1);
      }
    }
  }
};

// A queue with so many GPUs guaranteed and at most so many; negative: not named.
inline model::Queue queueOf(const std::string& name, std::int64_t guaranteed,
                            std::int64_t limit = -1) {
  model::Queue queue;
  queue.name = name;
  if (guaranteed >= 0) queue.guaranteed.gpus = kWholeGpu * guaranteed;
  if (limit >= 0) queue.limit.gpus = kWholeGpu * limit;
  return queue;
}

inline model::JobShape in(QueueId queue, model::JobShape shape) {
  shape.queue = queue;
  return shape;
}

}  // namespace bole::scheduler
