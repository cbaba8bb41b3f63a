// What is free on each node, and what each queue uses, while a plan is made.
//
// The only thing that planning changes. Every change can be undone to a mark, so that a gang, a set
// of victims and a move are tried by the same code that does them.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "model/event.h"
#include "model/tables.h"
#include "scheduler/claim.h"
#include "scheduler/queues.h"

namespace bole::scheduler {

struct FreeNode {
  NodeId id;
  const model::Node* node = nullptr;
  std::vector<bool> idle;       // of each GPU: healthy and held by nobody
  std::vector<MilliGpu> share;  // of each GPU: what is free, healthy or not
  std::vector<Bytes> gpuMemory;
  std::int64_t idleCount = 0;
  MilliCpu cpus;
  Bytes memory;
  bool open = true;  // may be placed on
};

// Of which moment.
enum class Of : std::uint8_t {
  kNow,
  kLater,  // when all that is being stopped has gone
  kEmpty,  // as if nothing ran, to ask whether something could ever run
};

class World {
 public:
  World(const model::Tables& tables, Of of, Timestamp now);

  [[nodiscard]] const std::vector<FreeNode>& nodes() const { return nodes_; }
  [[nodiscard]] const Queues& queues() const { return queues_; }

  // Does a replica of `task` fit on this node beside what is there, whatever its GPUs? (Its CPUs,
  // memory, labels and number of idle GPUs, not their kind.)
  [[nodiscard]] bool hasRoom(std::size_t node, const model::TaskShape& task) const;

  // Why the job's queue may not take one more replica of the task with the first of these GPUs.
  [[nodiscard]] std::optional<Queues::Refusal> refusal(const Claim& claim, std::uint32_t task,
                                                       std::size_t node,
                                                       std::vector<std::uint32_t> gpus) const;

  // One more job of its user runs in its queue; false: no more may, and nothing has changed.
  [[nodiscard]] bool begin(const Claim& claim);
  // A rank of `claim` on these GPUs of the node; counted in the job's queue.
  model::RankPlacement take(std::size_t node, const Claim& claim, std::uint32_t task,
                            std::uint32_t replica, std::vector<std::uint32_t> gpus);
  // All of a gang's ranks, placed in another copy of the same nodes.
  void take(const Claim& claim, const std::vector<model::RankPlacement>& ranks);
  // The same for ranks whose place is still being freed: what of it is free now is set aside, and
  // the queue is charged with all.
  void hold(const Claim& claim, const std::vector<model::RankPlacement>& ranks);
  // What a live attempt holds is free again, and counted no more.
  void giveBack(const Claim& claim, const std::vector<model::RankPlacement>& ranks);
  // What of one GPU.
  struct GpuPart {
    std::uint32_t gpu;
    MilliGpu share;
    Bytes memory;
  };
  // Set aside, for nobody's queue.
  void keep(std::size_t node, MilliCpu cpus, Bytes memory, std::vector<GpuPart> gpus);

  // Counts the ranks in the job's queue, wherever they will be.
  void charge(const Claim& claim, const std::vector<model::RankPlacement>& ranks);
  // Nothing more is placed on any other node, until all are open again.
  void openOnly(const std::vector<NodeId>& nodes);
  void openAll();

  [[nodiscard]] std::size_t indexOf(NodeId id) const { return byId_.at(id); }

  [[nodiscard]] std::size_t mark() const { return undo_.size(); }
  void rollBack(std::size_t mark);

 private:
  static constexpr std::size_t kNowhere = SIZE_MAX;
  struct Change {
    std::size_t node;
    MilliCpu cpus;
    Bytes memory;
    std::vector<GpuPart> gpus;
    std::size_t queue = kNowhere;
    Amount amount = {};
    Hold hold = {};
    std::int64_t jobs = 0;
    bool taken = true;  // false: given back
  };
  void apply(const Change& change, bool taken);
  void put(Change change);
  void take(const Claim& claim, const model::RankPlacement& rank);
  [[nodiscard]] std::vector<GpuPart> partsOf(const model::RankPlacement& rank) const;
  void count(const Claim& claim, std::int64_t jobs);
  [[nodiscard]] Amount amountOf(const model::JobShape& shape,
                                const model::RankPlacement& rank) const;

  std::vector<std::shared_ptr<const model::Node>> present_;  // by id
  Queues queues_;
  std::vector<FreeNode> nodes_;  // the same
  std::map<NodeId, std::size_t> byId_;
  std::vector<Change> undo_;
};

}  // namespace bole::scheduler
