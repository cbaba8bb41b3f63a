// All nodes, by kind of hardware and state of their GPUs: those in one state stand on one shelf,
// and a placement moves a node between two. A request looks at shelves, in its own order of
// preference, and within a shelf at blocks of nodes (shelf.h).
//
// A shelf stays when its last node has gone, so that what a request makes of it is found out once.
// No answer depends on the order in which shelves came up.
#pragma once

#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "model/job.h"
#include "scheduler/ask.h"
#include "scheduler/shelf.h"

namespace bole::scheduler {

using ShelfId = std::uint32_t;

// What a request makes of the shelves.
struct Listing {
  Ask ask;
  std::vector<Ask::Fit> fits;   // by ShelfId
  std::vector<ShelfId> order;   // on which a replica fits by its GPUs, by preference
  std::vector<ShelfId> tooFew;  // that have some of the GPUs for one replica
};

class Shelves {
 public:
  static constexpr std::uint32_t kNowhere = ~0U;

  HardwareId hardwareOf(const model::Node& node) { return hardware_.idOf(node); }
  [[nodiscard]] const Hardware& hardware(HardwareId id) const { return hardware_.at(id); }
  [[nodiscard]] std::size_t hardwareCount() const { return hardware_.size(); }

  // Moves the node there; it need not be anywhere yet.
  void put(std::uint32_t node, const GpuState& state, const Beside& free);

  // Up to date with all shelves. Stays where it is until forget().
  Listing& listingOf(const model::TaskShape& task);
  void catchUp(Listing& listing);
  // Drops what requests made of the shelves, where it has become much.
  void forget();
  // Many more states were seen than there are nodes: better begun afresh.
  [[nodiscard]] bool areMany() const;

  // What a request finds on all nodes, for those who must be told why it does not fit.
  struct GpusFree {
    std::int64_t total = 0;      // how often what one replica takes of one GPU is free
    std::int64_t mostOnOne = 0;  // GPUs that have it, of one node
  };
  [[nodiscard]] GpusFree gpusFree(const Listing& listing) const;
  // Calls visit(const model::Gpu&, const GpuFree&) for all GPUs that the request means, of each
  // state once; in no order that means anything.
  template <class Visit>
  void forEachPart(Listing& listing, Visit&& visit) const {
    for (const auto& [state, nodes] : shelves_) {
      if (nodes.size() == 0) continue;
      const auto& hardware = hardware_.at(state->hardware);
      const auto& on = listing.ask.on(state->hardware, hardware);
      for (std::size_t i = 0; i < state->free.size(); ++i) {
        const auto gpu = hardware.order[i];
        if (on.ofGpu[gpu] >= 0) visit(hardware.like->gpus[gpu], state->free[i]);
      }
    }
  }
  // The most on one node that has the GPUs for a replica; 0 where none has.
  [[nodiscard]] std::int64_t mostCpus(const Listing& listing, std::int64_t memory) const;
  [[nodiscard]] std::int64_t mostMemory(const Listing& listing) const;

  [[nodiscard]] const Shelf& shelf(ShelfId id) const { return shelves_[id].nodes; }
  [[nodiscard]] HardwareId hardwareOn(ShelfId id) const { return shelves_[id].state->hardware; }
  [[nodiscard]] const GpuState& stateOn(ShelfId id) const { return *shelves_[id].state; }
  [[nodiscard]] ShelfId shelfOf(std::uint32_t node) const { return at_[node]; }

 private:
  struct HashState {
    std::size_t operator()(const GpuState& state) const { return hashOf(state); }
  };
  struct OnShelf {
    const GpuState* state;  // the key in byState_
    Shelf nodes;
  };
  struct AskKey {
    const model::GpuRequest* gpus;
    const std::vector<std::pair<std::string, std::string>>* labels;
    bool operator==(const AskKey& other) const {
      return *gpus == *other.gpus && *labels == *other.labels;
    }
  };
  struct HashAsk {
    std::size_t operator()(const AskKey& key) const;
  };

  HardwareTable hardware_;
  std::vector<OnShelf> shelves_;
  std::unordered_map<GpuState, ShelfId, HashState> byState_;                // never iterated
  std::vector<ShelfId> at_;                                                 // of each node
  std::unordered_map<AskKey, std::unique_ptr<Listing>, HashAsk> listings_;  // never iterated
};

}  // namespace bole::scheduler
