#include "experiment.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace bole::bench {
namespace {

std::uint64_t maskOf(const std::vector<std::string>& allowed, const Cluster& cluster) {
  if (allowed.empty()) return ~0ULL;
  std::uint64_t mask = 0;
  for (const auto& model : allowed) {
    const auto at = std::find(cluster.models.begin(), cluster.models.end(), model);
    if (at != cluster.models.end()) mask |= 1ULL << (at - cluster.models.begin());
  }
  return mask;
}

PodKind kindOf(const simulator::OpenbPod& pod, const Cluster& cluster) {
  PodKind kind;
  kind.cpus = pod.cpus.value;
  kind.memory = pod.memory.value / kMiB.value;
  kind.gpus = static_cast<std::int32_t>(pod.gpus);
  kind.perGpu = static_cast<std::int32_t>(pod.perGpu.value);
  kind.models = maskOf(pod.models, cluster);
  return kind;
}

std::vector<TypicalPod> typicalOf(const std::vector<PodKind>& kinds,
                                  const std::vector<std::uint32_t>& pods) {
  std::map<PodKind, std::size_t> counts;
  for (const auto pod : pods) {
    auto kind = kinds[pod];
    kind.memory = 0;
    ++counts[kind];
  }
  // Among equals the larger first: which of them still counts as typical shows in the figures of
  // gpuspec25, and this order comes nearest to the published ones.
  std::vector<std::pair<PodKind, std::size_t>> byCount(counts.rbegin(), counts.rend());
  std::stable_sort(byCount.begin(), byCount.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::vector<TypicalPod> typical;
  std::size_t taken = 0;
  for (const auto& [kind, count] : byCount) {
    if (static_cast<double>(taken) >= 0.95 * static_cast<double>(pods.size())) break;
    taken += count;
    typical.push_back({kind, static_cast<double>(count)});
  }
  for (auto& type : typical) type.share /= static_cast<double>(taken);
  return typical;
}

bool fitsAnywhere(const std::vector<NodeState>& nodes, const PodKind& kind) {
  return std::any_of(nodes.begin(), nodes.end(),
                     [&](const auto& node) { return fits(node, kind); });
}

}  // namespace

std::uint64_t Random::next() {
  state_ += 0x9E3779B97F4A7C15ULL;
  auto z = state_;
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31U);
}

std::size_t Random::below(std::size_t bound) {
  const auto limit =
      std::numeric_limits<std::uint64_t>::max() - std::numeric_limits<std::uint64_t>::max() % bound;
  for (;;) {
    const auto drawn = next();
    if (drawn < limit) return drawn % bound;
  }
}

Result<Cluster> loadCluster(const std::string& path) {
  BOLE_ASSIGN(const auto nodes, simulator::readOpenbNodes(path));
  Cluster cluster;
  for (const auto& node : nodes) {
    if (node.gpus > kMostGpus) {
      return fail(makeError(ErrorCode::kUnsupported, "a node with more GPUs than the bench counts")
                      .at(path)
                      .foundValue(node.name + " with " + std::to_string(node.gpus))
                      .expectedValue(std::to_string(kMostGpus) + " at most"));
    }
    auto at = std::find(cluster.models.begin(), cluster.models.end(), node.model);
    if (at == cluster.models.end()) {
      cluster.models.push_back(node.model);
      at = cluster.models.end() - 1;
    }
    NodeState state;
    state.cpus = node.cpus.value;
    state.memory = node.memory.value / kMiB.value;
    state.gpuCount = static_cast<std::uint8_t>(node.gpus);
    std::fill_n(state.gpus.begin(), node.gpus, 1000);
    state.model = static_cast<std::uint8_t>(at - cluster.models.begin());
    cluster.nodes.push_back(state);
    cluster.gpuMilli += std::int64_t{1000} * node.gpus;
  }
  if (cluster.models.size() > kMostModels) {
    return fail(makeError(ErrorCode::kUnsupported, "more GPU models than the bench counts")
                    .at(path)
                    .foundValue(std::to_string(cluster.models.size()))
                    .expectedValue(std::to_string(kMostModels) + " at most"));
  }
  return cluster;
}

Result<Workload> loadWorkload(const std::string& path, const std::string& name,
                              const Cluster& cluster) {
  BOLE_ASSIGN(auto pods, simulator::readOpenbPods(path));
  std::stable_sort(pods.begin(), pods.end(),
                   [](const auto& a, const auto& b) { return a.name < b.name; });
  Workload workload;
  workload.name = name;
  std::map<PodKind, std::uint32_t> known;
  for (const auto& pod : pods) {
    const auto kind = kindOf(pod, cluster);
    const auto [at, isNew] = known.emplace(kind, static_cast<std::uint32_t>(workload.kinds.size()));
    if (isNew) workload.kinds.push_back(kind);
    workload.pods.push_back(at->second);
  }
  workload.typical = typicalOf(workload.kinds, workload.pods);
  return workload;
}

std::vector<std::uint32_t> arrivalsOf(const Workload& workload, const Cluster& cluster,
                                      std::uint64_t seed, double tune) {
  Random random(seed);
  auto pods = workload.pods;
  random.shuffle(pods);
  const auto most = static_cast<std::int64_t>(tune * static_cast<double>(cluster.gpuMilli));
  std::int64_t asked = 0;
  for (const auto pod : pods) asked += workload.kinds[pod].gpuMilli();
  while (asked > most) {
    const auto at = random.below(pods.size());
    asked -= workload.kinds[pods[at]].gpuMilli();
    pods.erase(pods.begin() + static_cast<std::ptrdiff_t>(at));
  }
  if (pods.size() < workload.pods.size()) return pods;
  for (;;) {
    const auto pod = workload.pods[random.below(workload.pods.size())];
    asked += workload.kinds[pod].gpuMilli();
    if (asked > most) return pods;
    pods.push_back(pod);
  }
}

std::vector<std::uint32_t> tieRanks(const Cluster& cluster, std::uint64_t seed) {
  Random random(seed ^ 0x7469657344ULL);
  std::vector<std::uint32_t> order(cluster.nodes.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  random.shuffle(order);
  return order;
}

bool fits(const NodeState& node, const PodKind& kind) {
  if (node.cpus < kind.cpus || node.memory < kind.memory) return false;
  if (kind.gpus == 0) return true;
  if ((kind.models >> node.model & 1U) == 0) return false;
  std::int32_t there = 0;
  for (std::size_t i = 0; i < node.gpuCount; ++i) there += node.gpus[i] >= kind.perGpu ? 1 : 0;
  return there >= kind.gpus;
}

void take(NodeState& node, const PodKind& kind, std::uint8_t gpus) {
  node.cpus -= kind.cpus;
  node.memory -= kind.memory;
  for (std::size_t i = 0; i < node.gpuCount; ++i) {
    if ((gpus >> i & 1U) != 0) node.gpus[i] -= kind.perGpu;
  }
}

Replay replay(const Cluster& cluster, const Workload& workload,
              const std::vector<std::uint32_t>& arrivals, Policy& policy) {
  auto nodes = cluster.nodes;
  Replay result;
  result.refused.resize(workload.kinds.size());
  std::int64_t asked = 0;
  std::int64_t allocated = 0;
  std::map<int, std::pair<double, int>> sums;
  const auto total = static_cast<double>(cluster.gpuMilli);
  for (const auto arrival : arrivals) {
    const auto& kind = workload.kinds[arrival];
    asked += kind.gpuMilli();
    if (const auto placement = policy.place(arrival)) {
      auto& node = nodes.at(placement->node);
      BOLE_ASSERT(fits(node, kind));
      take(node, kind, placement->gpus);
      std::int32_t bits = 0;
      for (std::size_t i = 0; i < kMostGpus; ++i) {
        BOLE_ASSERT(node.gpus[i] >= 0);
        bits += placement->gpus >> i & 1;
      }
      BOLE_ASSERT(bits == kind.gpus);
      allocated += kind.gpuMilli();
    } else {
      BOLE_ASSERT(!fitsAnywhere(nodes, kind));
      ++result.refused[arrival];
    }
    auto& [sum, count] =
        sums[static_cast<int>(std::lround(100.0 * static_cast<double>(asked) / total))];
    sum += 100.0 * static_cast<double>(allocated) / total;
    ++count;
  }
  for (const auto& [percent, sum] : sums) result.allocated[percent] = sum.first / sum.second;
  result.freeMilli = cluster.gpuMilli - allocated;
  return result;
}

}  // namespace bole::bench
