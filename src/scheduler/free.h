// What is free on each node during one planning cycle, with an undo log for what-ifs.
#pragma once

#include <vector>

#include "model/plan.h"
#include "model/tables.h"

namespace bole::scheduler {

struct FreeNode {
  NodeId id;
  const model::Node* node = nullptr;
  std::vector<bool> idle;  // of each GPU: healthy and held by nobody
  std::int64_t idleCount = 0;
  MilliCpu cpus;
  Bytes memory;
};

class FreeCapacity {
 public:
  // `empty`: as if nothing ran, to ask whether something could ever run.
  FreeCapacity(const model::Tables& tables, bool empty);

  [[nodiscard]] const std::vector<FreeNode>& nodes() const { return nodes_; }

  void take(std::size_t node, MilliCpu cpus, Bytes memory, const std::vector<std::uint32_t>& gpus);
  void take(std::size_t node, const model::TaskShape& task,
            const std::vector<std::uint32_t>& gpus) {
    take(node, task.cpus, task.memory, gpus);
  }
  // Takes what ranks of `shape` were given elsewhere, in another copy of the same nodes.
  void take(const model::JobShape& shape, const std::vector<model::RankPlacement>& ranks);
  [[nodiscard]] std::size_t mark() const { return undo_.size(); }
  void rollBack(std::size_t mark);

 private:
  struct Taken {
    std::size_t node;
    MilliCpu cpus;
    Bytes memory;
    std::vector<std::uint32_t> gpus;
  };
  std::vector<FreeNode> nodes_;  // by id
  std::vector<Taken> undo_;
};

}  // namespace bole::scheduler
