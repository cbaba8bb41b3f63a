// The experiment of "Beware of Fragmentation" (USENIX ATC 2023) on the openb trace: pods arrive one
// after the other, none leaves, one that does not fit is dropped; how much of the cluster's GPUs is
// allocated when NN percent of them have been asked for?
//
// Deterministic: the same lists, seed and policy give the same figures on every machine.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "simulator/openb.h"

namespace bole::bench {

inline constexpr std::size_t kMostGpus = 8;     // of a node
inline constexpr std::size_t kMostModels = 64;  // of a cluster

// What is free on a node. GPUs keep their place; unused places stay 0.
struct NodeState {
  std::int64_t cpus = 0;                       // milli
  std::int64_t memory = 0;                     // MiB
  std::array<std::int32_t, kMostGpus> gpus{};  // milli
  std::uint8_t gpuCount = 0;
  std::uint8_t model = 0;  // index into Cluster::models
  bool operator==(const NodeState&) const = default;
};

struct Cluster {
  std::vector<std::string> models;
  std::vector<NodeState> nodes;  // all free
  std::int64_t gpuMilli = 0;     // of all nodes
};

// Pods alike in all that placement looks at.
struct PodKind {
  std::int64_t cpus = 0;
  std::int64_t memory = 0;
  std::int32_t gpus = 0;
  std::int32_t perGpu = 0;       // milli; 0 where gpus is 0
  std::uint64_t models = ~0ULL;  // bit i: models[i] is allowed; all ones for any
  [[nodiscard]] std::int64_t gpuMilli() const { return std::int64_t{gpus} * perGpu; }
  [[nodiscard]] bool isShare() const { return gpus == 1 && perGpu < 1000; }
  auto operator<=>(const PodKind&) const = default;
};

// A kind of the workload's history with its share of the pods; memory is 0 there, as in the paper.
struct TypicalPod {
  PodKind kind;
  double share = 0;
};

struct Workload {
  std::string name;
  std::vector<PodKind> kinds;
  std::vector<std::uint32_t> pods;  // the original list by name: index into kinds
  std::vector<TypicalPod> typical;  // 95 % of the pods by count, renormalised
};

struct Placement {
  std::uint32_t node = 0;
  std::uint8_t gpus = 0;  // bit i: GPU i of the node
};

// One policy on one replay. It keeps what it likes of the cluster's state; the harness keeps its
// own and aborts on a placement that does not fit and on a refusal of a pod that does.
class Policy {
 public:
  virtual ~Policy() = default;
  Policy() = default;
  Policy(const Policy&) = delete;
  Policy& operator=(const Policy&) = delete;
  [[nodiscard]] virtual std::optional<Placement> place(std::uint32_t kind) = 0;
};

// Splitmix64 (Steele, Lea, Flood 2014): one small generator that is the same everywhere.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();
  std::size_t below(std::size_t bound);  // uniform in [0, bound), bound 1 or more
  template <class T>
  void shuffle(std::vector<T>& values) {
    for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[below(i)]);
  }

 private:
  std::uint64_t state_;
};

[[nodiscard]] Result<Cluster> loadCluster(const std::string& path);
[[nodiscard]] Result<Workload> loadWorkload(const std::string& path, const std::string& name,
                                            const Cluster& cluster);

// Kinds in the order of arrival: the shuffled list, inflated with pods drawn from it (or thinned)
// until the GPUs asked for are `tune` times the cluster's.
[[nodiscard]] std::vector<std::uint32_t> arrivalsOf(const Workload& workload,
                                                    const Cluster& cluster, std::uint64_t seed,
                                                    double tune = 1.3);

// The order in which nodes that are as good as one another are taken: rank of each node.
[[nodiscard]] std::vector<std::uint32_t> tieRanks(const Cluster& cluster, std::uint64_t seed);

// Share of the GPUs allocated (percent) by percent asked for: mean over the arrivals whose rounded
// arrived share is that percent.
using Curve = std::map<int, double>;

struct Replay {
  Curve allocated;
  std::vector<std::uint32_t> refused;  // by kind
  std::int64_t freeMilli = 0;          // at the end
};
[[nodiscard]] Replay replay(const Cluster& cluster, const Workload& workload,
                            const std::vector<std::uint32_t>& arrivals, Policy& policy);

// Does the kind fit on the node? For each GPU used: free >= perGpu.
[[nodiscard]] bool fits(const NodeState& node, const PodKind& kind);
// Takes the pod's share; the GPUs are those of the bits of `gpus`.
void take(NodeState& node, const PodKind& kind, std::uint8_t gpus);

}  // namespace bole::bench
