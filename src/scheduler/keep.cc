#include "scheduler/keep.h"

#include <algorithm>

#include "scheduler/match.h"
#include "scheduler/place.h"

namespace bole::scheduler {
namespace {

// How many replicas the node could hold if it were empty.
std::int64_t mostOn(const model::Node& node, const model::TaskShape& task) {
  std::int64_t most = task.replicas;
  if (task.cpus.value > 0) most = std::min(most, node.cpus.value / task.cpus.value);
  if (task.memory.value > 0) most = std::min(most, node.memory.value / task.memory.value);
  if (task.gpus.count > 0) {
    const auto gpus = std::count_if(node.gpus.begin(), node.gpus.end(),
                                    [&](const model::Gpu& gpu) { return matches(task.gpus, gpu); });
    most = std::min(most, std::int64_t{gpus} / task.gpus.count);
  }
  return most;
}

bool sameKind(const model::GpuRequest& a, const model::GpuRequest& b) {
  return a.models == b.models && a.memoryMin == b.memoryMin && a.memoryMax == b.memoryMax;
}

// What these tasks could use of one node.
void keepOn(World& world, std::size_t at, const std::vector<model::TaskShape>& tasks) {
  const auto& node = world.nodes()[at];
  MilliCpu cpus;
  Bytes memory;
  std::size_t wanted = 0;
  bool oneKind = true;
  const model::GpuRequest* kind = nullptr;
  std::vector<std::uint32_t> gpus;
  for (const auto& task : tasks) {
    const auto most = mostOn(*node.node, task);
    if (most == 0) continue;
    cpus += task.cpus * most;
    memory += task.memory * most;
    if (task.gpus.count == 0) continue;
    wanted += static_cast<std::size_t>(most) * task.gpus.count;
    oneKind = oneKind && (!kind || sameKind(*kind, task.gpus));
    kind = &task.gpus;
    for (const auto gpu : candidates(node, task.gpus)) {
      if (std::find(gpus.begin(), gpus.end(), gpu) == gpus.end()) gpus.push_back(gpu);
    }
  }
  // Tasks of several kinds may want the same GPU: which of them gets it shows when it starts.
  if (oneKind && gpus.size() > wanted) gpus.resize(wanted);
  cpus = std::clamp(node.cpus, MilliCpu(0), cpus);
  memory = std::clamp(node.memory, Bytes(0), memory);
  world.keep(at, cpus, memory, gpus);
}

void keepEverywhere(World& world, const std::vector<model::TaskShape>& tasks) {
  for (std::size_t n = 0; n < world.nodes().size(); ++n) keepOn(world, n, tasks);
}

}  // namespace

void keepFor(World& world, const model::JobShape& shape) {
  std::vector<model::TaskShape> withGpus;
  model::JobShape without;
  for (const auto& task : shape.tasks) {
    (task.gpus.count > 0 ? withGpus : without.tasks).push_back(task);
  }
  keepEverywhere(world, withGpus);
  if (without.tasks.empty()) return;
  without.minAvailable = without.replicas();
  if (!withGpus.empty() && placeGang(world, without, Quotas::kIgnored)) return;
  keepEverywhere(world, without.tasks);
}

}  // namespace bole::scheduler
