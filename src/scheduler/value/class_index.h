// Where does a request go? Nodes with the same free state are one class; of each kind of request
// the classes stand in the order of what a placement there costs, so that the best is found without
// looking at all nodes, and only classes that came up since the kind was last asked for are valued.
//
// The cost of a placement is FillValue after it less before it, plus what Scarcity charges. Among
// placements that cost at most a little more than the least, the node with the lowest number
// is taken (of those for a request without GPUs, the one with the least CPU free): so nodes fill up
// one after the other, and what is far from needed stays whole.
//
// A request that fits on some node always gets one. Deterministic; not for several threads at once.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "scheduler/value/fill_value.h"
#include "scheduler/value/scarcity.h"
#include "scheduler/value/scramble.h"

namespace bole::scheduler {

// How much more than the least a placement may cost, in GPU-milli; 0 or more.
struct Tolerances {
  std::int64_t share = 10;  // a part of one GPU
  std::int64_t whole = 60;
  std::int64_t cpuOnly = 100;
};

struct Choice {
  std::uint32_t node = 0;
  std::uint32_t lastGpu = 0;  // the GPUs are [lastGpu + 1 - request.gpus .. lastGpu] of the node's
                              // state; 0 where the request has none
  std::int64_t cost = 0;      // in units of FillValue; may be below 0
  bool operator==(const Choice&) const = default;
};

class ClassIndex {
 public:
  // The value outlives the index.
  ClassIndex(const Mix& mix, FillValue& value, Tolerances tolerances = {}, Stakes stakes = {});

  // Numbers are the order of preference among equals; from 0, with few gaps. put() adds the node or
  // replaces its state, which is arranged; remove() forgets it, known or not.
  void put(std::uint32_t node, const FreeState& state);
  void remove(std::uint32_t node);
  [[nodiscard]] std::optional<FreeState> stateOf(std::uint32_t node) const;

  // Nothing where the request fits nowhere. Changes no state.
  [[nodiscard]] std::optional<Choice> best(const Request& request);

  // Tries: what is put and removed after mark() is taken back by undo(mark), or made to stay by
  // keep(), after which earlier marks no longer hold.
  [[nodiscard]] std::size_t mark();
  void undo(std::size_t mark);
  void keep();

  [[nodiscard]] std::size_t classes() const { return classOf_.size(); }

 private:
  using ClassId = std::uint32_t;
  static constexpr ClassId kNoClass = ~0U;

  struct NodeClass {
    FreeState state;
    std::int64_t value = 0;
    Scarcity::Wide wide = 0;
    std::vector<std::uint32_t> nodes;  // the lowest last
    std::uint32_t life = 0;            // counts the states this place has held
  };
  struct Entry {
    std::int64_t cost;
    ClassId at;
    std::uint32_t life;
    std::uint32_t lastGpu;
  };
  // Classes whose placements have the same prices.
  struct Bucket {
    Scarcity::Wide lost = 0;
    std::uint8_t model = 0;
    std::vector<Entry> entries;  // cheapest first; may hold some of classes that are no more
  };
  struct KindIndex {
    std::vector<Bucket> buckets;
    std::size_t seen = 0;  // of born_
  };
  struct Birth {
    ClassId at;
    std::uint32_t life;
  };
  struct Change {
    std::uint32_t node;
    std::optional<FreeState> before;
  };
  struct HashState {
    std::size_t operator()(const FreeState& state) const { return hashOf(state); }
  };

  void leave(std::uint32_t node);
  void enter(std::uint32_t node, const FreeState& state);
  ClassId classFor(const FreeState& state);
  void boundMemory();
  [[nodiscard]] bool lives(ClassId at, std::uint32_t life) const;
  void refresh(const Request& request, KindIndex& kind);
  void rank(const Request& request, KindIndex& kind, ClassId at);
  [[nodiscard]] Entry price(const Request& request, ClassId at);
  [[nodiscard]] std::int64_t toleranceFor(const Request& request) const;
  [[nodiscard]] const Entry* cheapest(Bucket& bucket) const;
  [[nodiscard]] bool better(const Request& request, const Entry& one, const Entry& other) const;

  FillValue& value_;
  Scarcity scarcity_;
  Tolerances tolerances_;
  std::vector<ClassId> nodes_;  // class of each
  std::size_t known_ = 0;
  std::vector<NodeClass> places_;
  std::vector<ClassId> unused_;
  std::unordered_map<FreeState, ClassId, HashState> classOf_;  // never iterated
  std::vector<Birth> born_;                                    // in order
  std::map<Request, KindIndex> kinds_;
  std::vector<Change> changes_;
  bool trying_ = false;
};

}  // namespace bole::scheduler
