// What is free on each node, and what each queue uses, while a plan is made.
//
// The only thing that planning changes. Every change can be undone to a mark, so that a gang, a set
// of victims and a move are tried by the same code that does them. Between two plans it is brought
// up to what has changed, no more.
#pragma once

#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "model/event.h"
#include "model/tables.h"
#include "scheduler/appraiser.h"
#include "scheduler/claim.h"
#include "scheduler/queues.h"
#include "scheduler/shelves.h"

namespace bole::scheduler {

struct FreeNode {
  NodeId id;
  const model::Node* node = nullptr;
  HardwareId hardware = 0;
  std::vector<bool> idle;       // of each GPU: healthy and held by nobody
  std::vector<MilliGpu> share;  // of each GPU: what is free, healthy or not
  std::vector<Bytes> gpuMemory;
  std::int64_t idleCount = 0;
  MilliCpu cpus;
  Bytes memory;

  [[nodiscard]] Beside beside() const { return {cpus.value, memory.value}; }
};

// What one replica needs of a node beside its GPUs.
[[nodiscard]] inline Beside besideOf(const model::TaskShape& task) {
  return {task.cpus.value, task.memory.value};
}

// Of which moment.
enum class Of : std::uint8_t {
  kNow,
  kEmpty,  // as if nothing ran, to ask whether something could ever run
};

class World {
 public:
  World(const model::Tables& tables, Of of, Timestamp now);
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  [[nodiscard]] const std::vector<FreeNode>& nodes() const { return nodes_; }
  [[nodiscard]] const Queues& queues() const { return queues_; }

  // ---- where is room?

  // What the task's GPUs and labels mean here; up to date until something is taken or given back.
  Listing& listingOf(const model::TaskShape& task);
  void bringUpToDate(Listing& listing);
  // The most GPUs that a node has.
  [[nodiscard]] std::size_t mostGpus() const { return mostGpus_; }
  [[nodiscard]] const Shelves& shelves() const { return shelves_; }

  struct Place {
    std::size_t node = 0;
    std::int64_t ranks = 0;
  };
  // Kinds of node that are out of the question.
  using Refused = std::vector<HardwareId>;
  // The best node by preference that takes so many replicas with these needs, the lowest number of
  // equals.
  [[nodiscard]] std::optional<std::size_t> tightest(const Listing& listing, const Beside& each,
                                                    std::int64_t ranks,
                                                    const Refused& refused = {}) const;
  // The same by what nodes are worth to the jobs to come, where that is known (appraiser.h).
  [[nodiscard]] std::optional<std::size_t> best(Listing& listing, const Beside& each,
                                                std::int64_t ranks, const Refused& refused = {});
  // The node that takes the most replicas, at most `most`; the best by preference of equals.
  [[nodiscard]] std::optional<Place> roomiest(const Listing& listing, const Beside& each,
                                              std::int64_t most, const Refused& refused = {}) const;
  // How many replicas the node takes, at most `most`.
  [[nodiscard]] std::int64_t roomOn(std::size_t node, const Listing& listing, const Beside& each,
                                    std::int64_t most) const;
  // How many replicas all nodes take; stops counting at `enough`.
  [[nodiscard]] std::int64_t roomInAll(const Listing& listing, const Beside& each,
                                       std::int64_t enough) const;
  // Nodes that take a replica, in order: of those that are alike in all but their number no more
  // than the first so many.
  [[nodiscard]] std::vector<std::size_t> examples(const Listing& listing, const Beside& each,
                                                  std::size_t most) const;
  // Less is the better place.
  [[nodiscard]] std::int32_t preferenceOf(std::size_t node, const Listing& listing) const {
    return listing.fits[shelves_.shelfOf(static_cast<std::uint32_t>(node))].preference;
  }
  // All that the nodes have free, each no less than nothing.
  [[nodiscard]] const Beside& freeInAll() const { return freeInAll_; }

  // Is there a node with the labels that the task asks for?
  [[nodiscard]] bool areLabelled(const model::TaskShape& task);

  // The GPUs of the node that the request means and that have enough free: all of a whole one.
  [[nodiscard]] std::vector<std::uint32_t> candidates(std::size_t node, Ask& ask) const;
  // Of these GPUs of the node, those that a whole request for so many is best given.
  [[nodiscard]] std::vector<std::uint32_t> bestLinked(std::size_t node,
                                                      const std::vector<std::uint32_t>& from,
                                                      std::size_t count);

  // Could a rank of the shape ever be on such nodes?
  [[nodiscard]] bool couldServe(HardwareId hardware, const model::JobShape& shape);

  // Why the job's queue may not take one more replica of the task with the first of these GPUs.
  [[nodiscard]] std::optional<Queues::Refusal> refusal(const Claim& claim, std::uint32_t task,
                                                       std::size_t node,
                                                       std::vector<std::uint32_t> gpus) const;

  // ---- changes that can be undone

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

  [[nodiscard]] std::size_t mark() const { return undo_.size(); }
  void rollBack(std::size_t mark);

  // Nothing more is placed on any other node, until all are open again.
  void openOnly(const std::vector<NodeId>& nodes);
  void openAll();

  [[nodiscard]] std::size_t indexOf(NodeId id) const { return byId_.at(id); }

  // ---- from one plan to the next; nothing is left to undo

  // Other parts of the node are in use now.
  void update(NodeId id, const model::NodeRecord& record);
  // The attempt of the job lives, or lives no more: as queues count it.
  void countIn(const model::JobRecord& job, const model::AttemptRecord& attempt);
  void countOut(const model::JobRecord& job, const model::AttemptRecord& attempt);
  // All that queues hold, anew: what is booked has come nearer.
  void recount(const model::Tables& tables, Timestamp now);
  // What queues have used in the past, as of `now`.
  void remember(const model::Tables& tables, Timestamp now);
  // Nodes are valued by what is learnt from these jobs; none: by preference alone.
  void value(const model::Tables& tables, const Lesson& lesson);
  // Bounds what is kept between two jobs.
  void forget() { shelves_.forget(); }

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
  struct LinkKey {
    HardwareId hardware;
    std::uint32_t count;
    std::uint64_t idle;
    std::uint64_t from;
    bool operator==(const LinkKey&) const = default;
  };
  struct HashLinkKey {
    std::size_t operator()(const LinkKey& key) const;
  };

  void apply(const Change& change, bool taken);
  void put(Change change);
  void take(const Claim& claim, const model::RankPlacement& rank);
  void touch(std::size_t node);
  void settle();
  void count(const model::Tables& tables);
  [[nodiscard]] std::vector<GpuPart> partsOf(const model::RankPlacement& rank) const;
  void count(const Claim& claim, std::int64_t jobs);
  [[nodiscard]] Amount amountOf(const model::JobShape& shape,
                                const model::RankPlacement& rank) const;

  std::vector<std::shared_ptr<const model::Node>> present_;  // by id
  Queues queues_;
  std::vector<FreeNode> nodes_;                   // the same
  std::unordered_map<NodeId, std::size_t> byId_;  // never iterated
  std::vector<Change> undo_;
  Shelves shelves_;
  std::unique_ptr<Appraiser> appraiser_;
  std::vector<bool> isMoved_;         // of each node: changed since it was put on its shelf
  std::vector<std::uint32_t> moved_;  // these nodes
  Beside freeInAll_;
  std::size_t mostGpus_ = 0;
  std::optional<std::vector<std::size_t>> only_;                    // the nodes that are open
  std::unordered_map<LinkKey, std::uint64_t, HashLinkKey> linked_;  // a cache of bestLinked
};

}  // namespace bole::scheduler
