#include "peers.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

namespace bole::bench {
namespace {

// A pod's place on one node, and how good it is: 0 to 100, higher is better.
struct Scored {
  std::int64_t score = 0;
  std::uint8_t gpus = 0;
};

// What a policy's score needs to know of a node besides what is free.
struct PeerNode {
  NodeState free;
  std::vector<std::int32_t> sizes;  // of the pods with GPUs here, sorted, each once
};

// What GpuClustering calls alike: all shares of a GPU, and whole GPUs of the same count.
std::int32_t sizeOf(const PodKind& kind) {
  return kind.isShare() ? 0 : kind.gpus;
}

std::int32_t idleGpus(const NodeState& node) {
  std::int32_t idle = 0;
  for (std::size_t i = 0; i < node.gpuCount; ++i) idle += node.gpus[i] == 1000 ? 1 : 0;
  return idle;
}

std::int64_t freeMilli(const NodeState& node) {
  std::int64_t free = 0;
  for (const auto gpu : node.gpus) free += gpu;
  return free;
}

// The GPUs with the least free that still fit; the lowest index among equals.
std::uint8_t bestFitGpus(const NodeState& node, const PodKind& kind) {
  std::uint8_t chosen = 0;
  for (std::int32_t n = 0; n < kind.gpus; ++n) {
    std::size_t best = kMostGpus;
    for (std::size_t i = 0; i < node.gpuCount; ++i) {
      if ((chosen >> i & 1U) != 0 || node.gpus[i] < kind.perGpu) continue;
      if (best == kMostGpus || node.gpus[i] < node.gpus[best]) best = i;
    }
    chosen = static_cast<std::uint8_t>(chosen | 1U << best);
  }
  return chosen;
}

std::int64_t bestFitScore(const PeerNode& node, const PodKind& kind) {
  const auto cpus = static_cast<double>(node.free.cpus - kind.cpus);
  const auto gpus = static_cast<double>(freeMilli(node.free) - kind.gpuMilli());
  return static_cast<std::int64_t>(100 * (1 - 0.5 * (cpus / 128000 + gpus / 8000)));
}

std::int64_t dotProdScore(const PeerNode& node, const PodKind& kind) {
  const auto cpus = static_cast<double>(node.free.cpus) * static_cast<double>(kind.cpus);
  const auto gpus =
      static_cast<double>(freeMilli(node.free)) * static_cast<double>(kind.gpuMilli());
  return static_cast<std::int64_t>(100 *
                                   (1 - (cpus / (128000.0 * 128000) + gpus / (8000.0 * 8000)) / 2));
}

// Shared GPUs first (the fuller the better), then idle ones of a node in use, then an idle node.
std::int64_t packingScore(const PeerNode& node, const PodKind& kind) {
  if (kind.gpus == 0) return 0;
  const auto idle = idleGpus(node.free);
  if (idle == node.free.gpuCount) return std::max(33 - idle, idle);
  const auto chosen = bestFitGpus(node.free, kind);
  std::int64_t idleUsed = 0;
  std::int64_t sharedPercent = 0;
  for (std::size_t i = 0; i < node.free.gpuCount; ++i) {
    if ((chosen >> i & 1U) == 0) continue;
    idleUsed += node.free.gpus[i] == 1000 ? 1 : 0;
    sharedPercent += node.free.gpus[i] / 10;
  }
  if (idleUsed > 0) return std::max<std::int64_t>(33, 50 - idleUsed);
  return std::max<std::int64_t>(50, 100 - sharedPercent / 10);
}

// Nodes with pods of this size only, then with such and others, then empty ones, then others.
std::int64_t clusteringScore(const PeerNode& node, const PodKind& kind) {
  if (kind.gpus == 0) return 0;
  const bool same = std::binary_search(node.sizes.begin(), node.sizes.end(), sizeOf(kind));
  std::int64_t band = 0;
  if (same) {
    band = node.sizes.size() == 1 ? 75 : 50;
  } else if (node.sizes.empty()) {
    band = 25;
  }
  return band + 25 * (8000 - freeMilli(node.free)) / 8000;
}

using ScoreFunction = std::int64_t (*)(const PeerNode&, const PodKind&);

// Remembers each kind's score of each node, and asks again only about nodes that changed since.
class ScoredPolicy : public Policy {
 public:
  ScoredPolicy(const Cluster& cluster, const Workload& workload, std::uint64_t seed)
      : workload_(workload), ranks_(tieRanks(cluster, seed)), kinds_(workload.kinds.size()) {
    for (const auto& node : cluster.nodes) nodes_.push_back({node, {}});
  }

  std::optional<Placement> place(std::uint32_t kind) final {
    refresh(kind);
    const auto at = choose(kinds_[kind].scores);
    if (!at) return std::nullopt;
    const Placement placement{*at, kinds_[kind].scores[*at].gpus};
    auto& node = nodes_[*at];
    const auto& pod = workload_.kinds[kind];
    take(node.free, pod, placement.gpus);
    if (pod.gpus > 0) {
      const auto size = sizeOf(pod);
      const auto place = std::lower_bound(node.sizes.begin(), node.sizes.end(), size);
      if (place == node.sizes.end() || *place != size) node.sizes.insert(place, size);
    }
    changes_.push_back(*at);
    changed(*at, node);
    return placement;
  }

 protected:
  static constexpr std::int64_t kNoFit = -1;

  virtual Scored score(std::uint32_t node, const PeerNode& state, const PodKind& kind) = 0;
  virtual void changed(std::uint32_t /*node*/, const PeerNode& /*state*/) {}
  // The best by score, ties by rank; score kNoFit is none.
  virtual std::optional<std::uint32_t> choose(const std::vector<Scored>& scores) {
    std::optional<std::uint32_t> best;
    for (std::uint32_t n = 0; n < scores.size(); ++n) {
      if (scores[n].score == kNoFit) continue;
      if (!best || scores[n].score > scores[*best].score ||
          (scores[n].score == scores[*best].score && ranks_[n] < ranks_[*best]))
        best = n;
    }
    return best;
  }
  [[nodiscard]] const std::vector<PeerNode>& nodes() const { return nodes_; }

 private:
  struct Known {
    std::vector<Scored> scores;
    std::size_t seen = 0;  // of changes_
  };

  void ask(std::uint32_t node, const PodKind& kind, Scored& into) {
    into = fits(nodes_[node].free, kind) ? score(node, nodes_[node], kind) : Scored{kNoFit, 0};
  }

  void refresh(std::uint32_t kind) {
    auto& known = kinds_[kind];
    const auto& pod = workload_.kinds[kind];
    if (known.scores.empty()) {
      known.scores.resize(nodes_.size());
      for (std::uint32_t n = 0; n < nodes_.size(); ++n) ask(n, pod, known.scores[n]);
    } else {
      for (auto i = known.seen; i < changes_.size(); ++i)
        ask(changes_[i], pod, known.scores[changes_[i]]);
    }
    known.seen = changes_.size();
  }

  const Workload& workload_;
  std::vector<PeerNode> nodes_;
  std::vector<std::uint32_t> ranks_;
  std::vector<Known> kinds_;
  std::vector<std::uint32_t> changes_;
};

// A formula on the node and the best-fit GPU; normalised to 0..100 over the nodes that fit or not.
class FormulaPolicy final : public ScoredPolicy {
 public:
  FormulaPolicy(const Cluster& cluster, const Workload& workload, std::uint64_t seed,
                ScoreFunction function, bool normalised)
      : ScoredPolicy(cluster, workload, seed), function_(function), normalised_(normalised) {}

 private:
  Scored score(std::uint32_t /*node*/, const PeerNode& state, const PodKind& kind) override {
    return {function_(state, kind), bestFitGpus(state.free, kind)};
  }

  std::optional<std::uint32_t> choose(const std::vector<Scored>& scores) override {
    if (!normalised_) return ScoredPolicy::choose(scores);
    std::int64_t most = 0;
    auto least = std::numeric_limits<std::int64_t>::max();
    for (const auto& scored : scores) {
      if (scored.score == kNoFit) continue;
      most = std::max(most, scored.score);
      least = std::min(least, scored.score);
    }
    const auto range = std::max<std::int64_t>(most - least, 1);
    auto normal = scores;
    for (auto& scored : normal) {
      if (scored.score != kNoFit) scored.score = (scored.score - least) * 100 / range;
    }
    return ScoredPolicy::choose(normal);
  }

  ScoreFunction function_;
  bool normalised_;
};

class RandomPolicy final : public ScoredPolicy {
 public:
  RandomPolicy(const Cluster& cluster, const Workload& workload, std::uint64_t seed)
      : ScoredPolicy(cluster, workload, seed), random_(seed ^ 0x52616E646F6DULL) {}

 private:
  Scored score(std::uint32_t /*node*/, const PeerNode& state, const PodKind& kind) override {
    std::vector<std::uint8_t> possible;
    for (std::uint8_t i = 0; i < state.free.gpuCount; ++i) {
      if (state.free.gpus[i] >= kind.perGpu) possible.push_back(i);
    }
    std::uint8_t chosen = 0;
    if (kind.gpus > 0) random_.shuffle(possible);
    for (std::int32_t i = 0; i < kind.gpus; ++i)
      chosen = static_cast<std::uint8_t>(chosen | 1U << possible[static_cast<std::size_t>(i)]);
    return {0, chosen};
  }

  std::optional<std::uint32_t> choose(const std::vector<Scored>& scores) override {
    std::vector<std::uint32_t> possible;
    for (std::uint32_t n = 0; n < scores.size(); ++n) {
      if (scores[n].score != kNoFit) possible.push_back(n);
    }
    if (possible.empty()) return std::nullopt;
    return possible[random_.below(possible.size())];
  }

  Random random_;
};

class FgdPolicy final : public ScoredPolicy {
 public:
  FgdPolicy(const Cluster& cluster, const Workload& workload, std::uint64_t seed)
      : ScoredPolicy(cluster, workload, seed), typical_(workload.typical) {
    for (const auto& node : cluster.nodes) now_.push_back(fragmentation(node, typical_));
  }

 private:
  Scored score(std::uint32_t node, const PeerNode& state, const PodKind& kind) override {
    if (!kind.isShare()) {
      const auto gpus = bestFitGpus(state.free, kind);
      return {gain(node, state.free, kind, gpus), gpus};
    }
    Scored best{kNoFit, 0};
    for (std::size_t i = 0; i < state.free.gpuCount; ++i) {
      if (state.free.gpus[i] < kind.perGpu) continue;
      const auto gpus = static_cast<std::uint8_t>(1U << i);
      const auto is = gain(node, state.free, kind, gpus);
      if (is > best.score) best = {is, gpus};
    }
    return best;
  }

  [[nodiscard]] std::int64_t gain(std::uint32_t node, NodeState state, const PodKind& kind,
                                  std::uint8_t gpus) const {
    take(state, kind, gpus);
    const auto less = now_[node] - fragmentation(state, typical_);
    return static_cast<std::int64_t>(100 / (1 + std::exp(-less / 1000)));
  }

  void changed(std::uint32_t node, const PeerNode& state) override {
    now_[node] = fragmentation(state.free, typical_);
  }

  const std::vector<TypicalPod>& typical_;
  std::vector<double> now_;
};

}  // namespace

double fragmentation(const NodeState& node, const std::vector<TypicalPod>& typical) {
  const auto free = freeMilli(node);
  double expected = 0;
  for (const auto& [kind, share] : typical) {
    std::int64_t lost = free;
    if (kind.gpus > 0 && fits(node, kind)) {
      lost = 0;
      for (const auto gpu : node.gpus) lost += gpu < kind.perGpu ? gpu : 0;
    }
    expected += share * static_cast<double>(lost);
  }
  return expected;
}

const std::vector<std::string>& peerNames() {
  static const std::vector<std::string> names = {"Random",     "DotProd", "GpuClustering",
                                                 "GpuPacking", "BestFit", "FGD"};
  return names;
}

std::unique_ptr<Policy> makePeer(const std::string& name, const Cluster& cluster,
                                 const Workload& workload, std::uint64_t seed) {
  if (name == "Random") return std::make_unique<RandomPolicy>(cluster, workload, seed);
  if (name == "FGD") return std::make_unique<FgdPolicy>(cluster, workload, seed);
  const auto formula = [&](ScoreFunction function, bool normalised) {
    return std::make_unique<FormulaPolicy>(cluster, workload, seed, function, normalised);
  };
  if (name == "DotProd") return formula(dotProdScore, false);
  if (name == "GpuClustering") return formula(clusteringScore, false);
  if (name == "GpuPacking") return formula(packingScore, false);
  if (name == "BestFit") return formula(bestFitScore, true);
  return nullptr;
}

}  // namespace bole::bench
