#include "cloud.h"

#include <algorithm>

namespace bole::bench {
namespace {

// Two sockets with four GPUs each, all of them on NVLink but where the model has none.
model::Node nodeOf(const std::string& gpuModel, std::int64_t gib, bool isFast) {
  constexpr std::uint32_t kGpus = 8;
  model::Node node;
  node.name = "n";
  node.cpus = MilliCpu(128'000);
  node.memory = kGiB * 1024;
  node.numaNodes = 2;
  const bool isLinked = gpuModel != "L40S";
  for (std::uint32_t g = 0; g < kGpus; ++g) {
    model::Gpu gpu;
    gpu.model = gpuModel;
    gpu.memory = kGiB * gib;
    gpu.computeCapability = gpuModel.starts_with("A100") ? "8.0" : isLinked ? "9.0" : "8.9";
    gpu.numaNode = g < kGpus / 2 ? 0 : 1;
    node.gpus.push_back(gpu);
  }
  for (std::uint32_t a = 0; a < kGpus; ++a) {
    for (std::uint32_t b = 0; b < kGpus; ++b) {
      const bool near = a / 4 == b / 4;
      model::Link link{near ? model::LinkKind::kNode : model::LinkKind::kSys, 0};
      if (isLinked) link = {model::LinkKind::kNvLink, 12};
      if (a == b) link = {model::LinkKind::kSelf, 0};
      node.links.push_back(link);
    }
  }
  if (isFast) node.labels = {{"disk", "fast"}};
  return node;
}

}  // namespace

std::uint64_t Dice::below(std::uint64_t bound) {
  state_ += 0x9E3779B97F4A7C15ULL;
  auto z = state_;
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EBULL;
  return (z ^ (z >> 31U)) % bound;
}

LargeCloud::LargeCloud(std::size_t nodes, std::uint64_t seed) : dice_(seed) {
  for (std::size_t n = 0; n < nodes; ++n) {
    const auto drawn = n % 10;
    const auto* gpuModel = drawn < 5 ? "A100-SXM4-80GB" : drawn < 8 ? "H100-SXM5-80GB" : "L40S";
    model::NodeRecord record;
    record.id = NodeId(++tables_.lastNode);
    record.node = std::make_shared<const model::Node>(
        nodeOf(gpuModel, drawn < 8 ? 80 : 48, dice_.chance(25)));
    record.gpuUsed.resize(record.node->gpus.size());
    record.gpuMemoryUsed.resize(record.node->gpus.size());
    record.gpuHolder.resize(record.node->gpus.size());
    tables_.nodes.put(record.id, record);
  }
  addQueues();
}

// Two departments with four teams each.
void LargeCloud::addQueues() {
  auto policy = *tables_.policy;
  const auto add = [&](const std::string& name, QueueId parent, std::int32_t weight) {
    model::Queue queue;
    queue.id = QueueId(policy.queues.size() + 1);
    queue.name = name;
    queue.parent = parent;
    queue.weight = weight;
    policy.queues.push_back(queue);
    return queue.id;
  };
  for (const auto* department : {"a", "b"}) {
    const auto above = add(department, QueueId(), 1);
    for (std::int32_t team = 1; team <= 4; ++team)
      leaves_.push_back(add(std::string(department) + std::to_string(team), above, team));
  }
  tables_.lastQueue = policy.queues.size();
  tables_.policy = std::make_shared<const model::Policy>(policy);
}

model::TaskShape LargeCloud::anyTask() {
  model::TaskShape task;
  constexpr std::int64_t kCpusPerGpu[] = {2, 4, 8, 12};
  constexpr std::int64_t kGibPerGpu[] = {8, 16, 32, 64};
  auto& gpus = task.gpus;
  const auto drawn = dice_.below(100);
  if (drawn < 45) {
    gpus.count = 1;
  } else if (drawn < 65) {
    gpus.count = 1;
    constexpr std::int64_t kShares[] = {100, 200, 250, 500, 500};
    gpus.share = MilliGpu(kShares[dice_.below(5)]);
  } else if (drawn < 72) {
    gpus.count = 2;
  } else if (drawn < 78) {
    gpus.count = 4;
  } else if (drawn < 83) {
    gpus.count = 8;
  } else if (drawn < 85) {  // gangs
    gpus.count = dice_.chance(50) ? 8 : 4;
    task.replicas = task.minAvailable = static_cast<std::uint32_t>(2 + dice_.below(7));
  }
  const auto size = std::max<std::int64_t>(gpus.count, 1);
  task.cpus = MilliCpu(size * kCpusPerGpu[dice_.below(4)] * 1000);
  task.memory = kGiB * (size * kGibPerGpu[dice_.below(4)]);
  if (gpus.count > 0 && !gpus.isWhole()) {
    task.cpus = MilliCpu(1000);
    task.memory = kGiB * 4;
  }
  if (gpus.count > 0 && dice_.chance(30)) {
    constexpr const char* kModels[] = {"A100", "H100", "L40S"};
    gpus.models = {kModels[dice_.below(3)]};
  }
  if (dice_.chance(5)) task.nodeLabels = {{"disk", "fast"}};
  return task;
}

JobId LargeCloud::submit() {
  model::JobShape shape;
  shape.tasks = {anyTask()};
  shape.minAvailable = shape.tasks[0].minAvailable;
  shape.priority = static_cast<std::int32_t>(dice_.below(3));
  return add(std::move(shape));
}

void LargeCloud::fill() {
  for (std::size_t n = 0; n < tables_.nodes.size() * 8; ++n) {
    model::JobShape shape;
    shape.tasks.resize(1);
    shape.tasks[0].gpus.count = 1;
    shape.tasks[0].cpus = MilliCpu(1000 * static_cast<std::int64_t>(2 + dice_.below(12)));
    shape.tasks[0].memory = kGiB * static_cast<std::int64_t>(4 + dice_.below(100));
    add(std::move(shape));
  }
}

JobId LargeCloud::submitOdd() {
  model::JobShape shape;
  shape.tasks = {anyTask()};
  auto& task = shape.tasks[0];
  if (task.gpus.count == 0) task.cpus = MilliCpu(100'000);
  task.memory += kMiB * static_cast<std::int64_t>(++odd_);
  shape.minAvailable = task.minAvailable;
  return add(std::move(shape));
}

JobId LargeCloud::submitEntitled() {
  auto policy = *tables_.policy;
  model::Queue queue;
  queue.id = QueueId(policy.queues.size() + 1);
  queue.name = "entitled";
  queue.guaranteed.gpus = kWholeGpu * 64;
  policy.queues.push_back(queue);
  tables_.policy = std::make_shared<const model::Policy>(policy);
  model::JobShape shape;
  shape.tasks.resize(1);
  shape.tasks[0].gpus.count = 8;
  return add(std::move(shape), queue.id);
}

JobId LargeCloud::add(model::JobShape shape) {
  return add(std::move(shape), leaves_[dice_.below(leaves_.size())]);
}

JobId LargeCloud::add(model::JobShape shape, QueueId queue) {
  shape.queue = queue;
  model::JobRecord job;
  job.id = JobId(++tables_.lastJob);
  job.submittedAt = job.queuedAt = now_;
  job.user = UserId(1 + dice_.below(100));
  job.shape = std::make_shared<const model::JobShape>(std::move(shape));
  tables_.jobs.put(job.id, job);
  queue_.push_back(job.id);
  return job.id;
}

void LargeCloud::hold(const model::JobShape& shape, const std::vector<model::RankPlacement>& ranks,
                      std::int64_t sign) {
  for (const auto& rank : ranks) {
    auto* node = tables_.nodes.edit(rank.node);
    node->cpusUsed += shape.tasks[rank.task].cpus * sign;
    node->memoryUsed += shape.tasks[rank.task].memory * sign;
    for (std::size_t i = 0; i < rank.gpus.size(); ++i) {
      node->gpuUsed[rank.gpus[i]] += rank.grant(i).share * sign;
      node->gpuMemoryUsed[rank.gpus[i]] += rank.grant(i).memory * sign;
    }
  }
}

void LargeCloud::follow(const model::Plan& plan) {
  for (const auto& start : plan.starts) {
    model::AttemptRecord attempt;
    attempt.id = AttemptId(++tables_.lastAttempt);
    attempt.job = start.job;
    attempt.ranks = start.ranks;
    attempt.plannedAt = attempt.startedAt = now_;
    tables_.attempts.put(attempt.id, attempt);
    auto* job = tables_.jobs.edit(start.job);
    job->state = model::JobState::kRunning;
    job->attempt = attempt.id;
    hold(*job->shape, start.ranks, 1);
    running_.push_back(start.job);
  }
  std::erase_if(queue_,
                [&](JobId id) { return tables_.jobs.find(id)->state != model::JobState::kQueued; });
}

void LargeCloud::endOne() {
  if (running_.empty()) return;
  std::swap(running_[dice_.below(running_.size())], running_.back());
  auto* job = tables_.jobs.edit(running_.back());
  running_.pop_back();
  auto* attempt = tables_.attempts.edit(job->attempt);
  attempt->live = false;
  job->state = model::JobState::kSucceeded;
  hold(*job->shape, attempt->ranks, -1);
}

}  // namespace bole::bench
