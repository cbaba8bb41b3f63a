#include "scheduler/free.h"

#include <algorithm>

namespace bole::scheduler {

FreeCapacity::FreeCapacity(const model::Tables& tables, bool empty) {
  tables.nodes.forEach([&](NodeId id, const model::NodeRecord& record) {
    if (!record.present) return true;
    FreeNode free;
    free.id = id;
    free.node = record.node.get();
    free.cpus = empty ? record.node->cpus : record.node->cpus - record.cpusUsed;
    free.memory = empty ? record.node->memory : record.node->memory - record.memoryUsed;
    for (std::size_t i = 0; i < record.node->gpus.size(); ++i) {
      const bool healthy = record.node->gpus[i].health == model::GpuHealth::kHealthy;
      const bool idle = (empty || record.gpuUsed[i].value == 0) && healthy;
      free.idle.push_back(idle);
      free.idleCount += idle ? 1 : 0;
    }
    nodes_.push_back(std::move(free));
    return true;
  });
}

void FreeCapacity::take(std::size_t node, MilliCpu cpus, Bytes memory,
                        const std::vector<std::uint32_t>& gpus) {
  auto& free = nodes_[node];
  for (const auto gpu : gpus) free.idle[gpu] = false;
  free.idleCount -= static_cast<std::int64_t>(gpus.size());
  free.cpus -= cpus;
  free.memory -= memory;
  undo_.push_back({node, cpus, memory, gpus});
}

void FreeCapacity::take(const model::JobShape& shape,
                        const std::vector<model::RankPlacement>& ranks) {
  for (const auto& rank : ranks) {
    const auto at = std::lower_bound(nodes_.begin(), nodes_.end(), rank.node,
                                     [](const FreeNode& node, NodeId id) { return node.id < id; });
    take(static_cast<std::size_t>(at - nodes_.begin()), shape.tasks[rank.task], rank.gpus);
  }
}

void FreeCapacity::rollBack(std::size_t mark) {
  while (undo_.size() > mark) {
    const auto& last = undo_.back();
    auto& free = nodes_[last.node];
    for (const auto gpu : last.gpus) free.idle[gpu] = true;
    free.idleCount += static_cast<std::int64_t>(last.gpus.size());
    free.cpus += last.cpus;
    free.memory += last.memory;
    undo_.pop_back();
  }
}

}  // namespace bole::scheduler
