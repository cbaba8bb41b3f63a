#include "scheduler/obstacles.h"

#include <fmt/format.h>

#include <algorithm>

#include "scheduler/match.h"
#include "scheduler/place.h"

namespace bole::scheduler {
namespace {

using model::Obstacle;

model::Reason shortage(Obstacle obstacle, std::int64_t needed, std::int64_t available,
                       std::string detail = {}) {
  model::Reason reason;
  reason.obstacle = obstacle;
  reason.needed = needed;
  reason.available = std::max<std::int64_t>(available, 0);
  reason.detail = std::move(detail);
  return reason;
}

double cpuCount(std::int64_t milli) {
  return static_cast<double>(milli) / 1000;
}

// "A100 GPU of 80 GiB" of one, "A100 GPUs of 80 GiB" of more.
std::string plural(std::string kind, std::int64_t count) {
  const auto at = kind.find("GPU");
  if (count != 1 && at != std::string::npos) kind.insert(at + 3, "s");
  return kind;
}

// Which of a replica's needs are looked at.
struct Needs {
  bool cpus;
  bool memory;
};

// How many replicas like this one would fit, at most `enough`, if only these needs counted (GPUs
// always do).
std::int64_t replicasThatFit(const FreeCapacity& free, const model::TaskShape& task, Needs needs,
                             std::int64_t enough) {
  std::int64_t all = 0;
  for (const auto& node : free.nodes()) {
    auto here = enough;
    if (needs.cpus && task.cpus.value > 0) here = std::min(here, node.cpus.value / task.cpus.value);
    if (needs.memory && task.memory.value > 0)
      here = std::min(here, node.memory.value / task.memory.value);
    if (task.gpus.count > 0 && here > 0) {
      here = std::min(
          here, static_cast<std::int64_t>(candidates(node, task.gpus).size()) / task.gpus.count);
    }
    all += std::max<std::int64_t>(here, 0);
    if (all >= enough) return enough;
  }
  return all;
}

// "beside 4 A100 GPUs and 16 GiB of memory": what must lie on the same node.
std::string beside(const model::TaskShape& task, bool memory) {
  std::string text;
  if (task.gpus.count > 0)
    text = fmt::format("{} {}", task.gpus.count, plural(kindText(task.gpus), task.gpus.count));
  if (memory && task.memory.value > 0)
    text += (text.empty() ? "" : " and ") + formatBytes(task.memory) + " of memory";
  return text.empty() ? text : " beside " + text;
}

// CPUs or memory are lacking beside what else a replica needs. Where no replica fits, the most that
// one node has beside it.
model::Reason lackingBeside(const FreeCapacity& free, const model::TaskShape& task,
                            std::int64_t replicas, Obstacle obstacle, Needs needs) {
  const bool isCpu = obstacle == Obstacle::kCpus;
  const auto each = isCpu ? task.cpus.value : task.memory.value;
  const auto where = beside(task, isCpu && needs.memory);
  const auto fit = replicasThatFit(free, task, needs, replicas);
  if (fit > 0) {
    const auto group = isCpu ? fmt::format("{:g}", cpuCount(each)) : formatBytes(Bytes(each));
    return shortage(obstacle, replicas * each, fit * each,
                    fmt::format("in groups of {} on one node{}", group, where));
  }
  std::int64_t most = 0;
  for (const auto& node : free.nodes()) {
    if (candidates(node, task.gpus).size() < task.gpus.count) continue;
    if (isCpu && needs.memory && node.memory < task.memory) continue;
    most = std::max(most, isCpu ? node.cpus.value : node.memory.value);
  }
  return shortage(obstacle, each, most, "on one node" + where);
}

// What keeps `replicas` of the task from fitting, if anything, were it alone on `free`.
std::optional<model::Reason> lackingOf(const FreeCapacity& free, const model::TaskShape& task,
                                       std::int64_t replicas) {
  if (task.gpus.count > 0) {
    std::int64_t total = 0;
    std::int64_t most = 0;
    for (const auto& node : free.nodes()) {
      const auto idle = static_cast<std::int64_t>(candidates(node, task.gpus).size());
      total += idle;
      most = std::max(most, idle);
    }
    const auto needed = replicas * task.gpus.count;
    if (total < needed) return shortage(Obstacle::kGpus, needed, total, kindText(task.gpus));
    if (most < task.gpus.count)
      return shortage(Obstacle::kGpusPerNode, task.gpus.count, most, kindText(task.gpus));
    const auto fit = replicasThatFit(free, task, {false, false}, replicas);
    if (fit < replicas) {
      return shortage(
          Obstacle::kGpus, needed, fit * task.gpus.count,
          fmt::format("{} in groups of {} on one node", kindText(task.gpus), task.gpus.count));
    }
  }
  if (replicasThatFit(free, task, {true, false}, replicas) < replicas)
    return lackingBeside(free, task, replicas, Obstacle::kCpus, {true, false});
  if (replicasThatFit(free, task, {false, true}, replicas) < replicas)
    return lackingBeside(free, task, replicas, Obstacle::kMemory, {false, true});
  if (replicasThatFit(free, task, {true, true}, replicas) < replicas)
    return lackingBeside(free, task, replicas, Obstacle::kCpus, {true, true});
  return std::nullopt;
}

// Each task would fit alone: what the others leave to the first that does not.
model::Reason lackingTogether(FreeCapacity rest, const model::JobShape& shape) {
  auto gang = placeRanks(rest, shape);
  std::uint32_t task = 0;
  std::int64_t replicas = 0;
  if (gang.lacking) {
    task = gang.lacking->task;
    replicas = leastReplicas(shape, task);
    rest.rollBack(gang.lacking->before);
  } else {
    // Every task has its least and all together are too few: any further rank would do.
    replicas = static_cast<std::int64_t>(shape.minAvailable - gang.ranks.size());
    for (task = 0; task + 1 < shape.tasks.size(); ++task) {
      if (std::count_if(gang.ranks.begin(), gang.ranks.end(), [&](const auto& rank) {
            return rank.task == task;
          }) < shape.tasks[task].replicas) {
        break;
      }
    }
  }
  auto reason = lackingOf(rest, shape.tasks[task], replicas);
  if (!reason) reason = shortage(Obstacle::kCpus, replicas * shape.tasks[task].cpus.value, 0);
  reason->detail += std::string(reason->detail.empty() ? "" : " ") + "beside the job's other ranks";
  return *reason;
}

// "GPU", "GPUs", "A100 GPUs of 80 GiB or more".
std::string gpuWords(const model::Reason& reason) {
  return plural(reason.detail.empty() ? "GPU" : reason.detail, reason.needed);
}

// "4 A100 GPUs", "1 CPU", "16 CPUs on one node beside 4 GPUs", "3 GiB of memory".
std::string amount(const model::Reason& reason) {
  const auto detail = reason.detail.empty() ? "" : " " + reason.detail;
  switch (reason.obstacle) {
    case Obstacle::kCpus:
      return fmt::format("{:g} CPU{}{}", cpuCount(reason.needed), reason.needed == 1000 ? "" : "s",
                         detail);
    case Obstacle::kMemory:
      return fmt::format("{} of memory{}", formatBytes(Bytes(reason.needed)), detail);
    default:
      return fmt::format("{} {}", reason.needed, gpuWords(reason));
  }
}

// What there is of it, without the unit where the need already names it.
std::string available(const model::Reason& reason) {
  if (reason.obstacle == Obstacle::kMemory) return formatBytes(Bytes(reason.available));
  if (reason.obstacle == Obstacle::kCpus) return fmt::format("{:g}", cpuCount(reason.available));
  return fmt::format("{}", reason.available);
}

}  // namespace

std::vector<model::Reason> obstacles(const FreeCapacity& free, const model::JobShape& shape) {
  if (free.nodes().empty()) return {shortage(Obstacle::kNoNodes, 1, 0)};
  MilliCpu cpus;
  MilliCpu cpusFree;
  Bytes memory;
  Bytes memoryFree;
  for (const auto& node : free.nodes()) {
    cpusFree += std::max(node.cpus, MilliCpu(0));
    memoryFree += std::max(node.memory, Bytes(0));
  }
  std::vector<model::Reason> inAll;
  std::vector<model::Reason> inOnePlace;
  for (std::uint32_t t = 0; t < shape.tasks.size(); ++t) {
    const auto& task = shape.tasks[t];
    const auto replicas = std::int64_t{leastReplicas(shape, t)};
    cpus += task.cpus * replicas;
    memory += task.memory * replicas;
    const auto lacking = lackingOf(free, task, replicas);
    if (!lacking) continue;
    const bool gpus =
        lacking->obstacle == Obstacle::kGpus || lacking->obstacle == Obstacle::kGpusPerNode;
    (gpus ? inAll : inOnePlace).push_back(*lacking);
  }
  if (cpusFree < cpus) inAll.push_back(shortage(Obstacle::kCpus, cpus.value, cpusFree.value));
  if (memoryFree < memory)
    inAll.push_back(shortage(Obstacle::kMemory, memory.value, memoryFree.value));
  if (!inAll.empty()) return inAll;
  if (!inOnePlace.empty()) return inOnePlace;
  return {lackingTogether(free, shape)};
}

std::string sentence(const model::Reason& reason) {
  switch (reason.obstacle) {
    case Obstacle::kGpus:
    case Obstacle::kCpus:
    case Obstacle::kMemory:
      return fmt::format("waits for {}: {} free now", amount(reason), available(reason));
    case Obstacle::kGpusPerNode:
      return fmt::format("waits for a node with {} free {}: the most on one node is {}",
                         reason.needed, gpuWords(reason), reason.available);
    case Obstacle::kAhead:
      return fmt::format("waits behind job {}, for which capacity is being kept",
                         reason.ahead.value);
    case Obstacle::kBackoff:
      return fmt::format("waits until {} UTC before trying again", formatTimestamp(reason.until));
    case Obstacle::kNoNodes:
      return "waits for a node: none is present";
    case Obstacle::kNotLookedAt:
      return "waits for the scheduler to come to it";
  }
  return {};
}

std::string neverSentence(const model::Reason& reason) {
  switch (reason.obstacle) {
    case Obstacle::kGpus:
    case Obstacle::kCpus:
    case Obstacle::kMemory:
      return fmt::format("needs {}, this cloud has {}", amount(reason), available(reason));
    case Obstacle::kGpusPerNode:
      return fmt::format("needs {} in one node, the largest has {}", amount(reason),
                         reason.available);
    default:
      return sentence(reason);
  }
}

}  // namespace bole::scheduler
