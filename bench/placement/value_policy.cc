#include "value_policy.h"

#include <charconv>
#include <functional>
#include <map>
#include <sstream>

#include "scheduler/value/class_index.h"

namespace bole::bench {
namespace {

using scheduler::ClassIndex;
using scheduler::FillValue;
using scheduler::FreeState;
using scheduler::Mix;
using scheduler::Request;

FreeState stateOf(const NodeState& node) {
  FreeState state;
  state.cpus = node.cpus;
  state.memory = node.memory;
  state.model = node.model;
  for (std::size_t i = 0; i < node.gpuCount; ++i)
    state.gpus[i] = static_cast<std::uint16_t>(node.gpus[i]);
  state.arrange();
  return state;
}

Request requestOf(const PodKind& kind) {
  return {kind.cpus, kind.memory, static_cast<std::uint16_t>(kind.gpus),
          static_cast<std::uint16_t>(kind.perGpu), kind.models};
}

Mix mixOf(const Workload& workload) {
  scheduler::MixCounter counter;
  for (const auto pod : workload.pods) counter.add(requestOf(workload.kinds[pod]));
  return counter.mix();
}

struct Constants {
  scheduler::FillOptions fill;
  scheduler::Tolerances tolerances;
  scheduler::Stakes stakes;
};

class ValuePolicy final : public Policy {
 public:
  ValuePolicy(const Cluster& cluster, const Workload& workload, std::uint64_t seed,
              Constants constants)
      : workload_(workload), nodes_(cluster.nodes), mix_(mixOf(workload)) {
    std::int64_t cpus = 0;
    for (const auto& node : nodes_) cpus += node.cpus;
    constants.fill.cpuOnlyWeight = scheduler::cpuOnlyWeight(mix_, cpus, cluster.gpuMilli);
    value_ = std::make_unique<FillValue>(mix_, constants.fill);
    index_ = std::make_unique<ClassIndex>(mix_, *value_, constants.tolerances, constants.stakes);
    const auto ranks = tieRanks(cluster, seed);
    byRank_.resize(nodes_.size());
    for (std::uint32_t n = 0; n < nodes_.size(); ++n) {
      byRank_[ranks[n]] = n;
      index_->put(ranks[n], stateOf(nodes_[n]));
    }
  }

  std::optional<Placement> place(std::uint32_t kind) override {
    const auto& pod = workload_.kinds[kind];
    const auto choice = index_->best(requestOf(pod));
    if (!choice) return std::nullopt;
    auto& node = nodes_[byRank_[choice->node]];
    const auto gpus = gpusOf(node, pod, choice->lastGpu);
    take(node, pod, gpus);
    index_->put(choice->node, stateOf(node));
    return Placement{byRank_[choice->node], gpus};
  }

 private:
  // GPUs of the node with as much free as those that the index means.
  static std::uint8_t gpusOf(const NodeState& node, const PodKind& pod, std::uint32_t last) {
    const auto state = stateOf(node);
    std::uint8_t chosen = 0;
    for (std::int32_t taken = 0; taken < pod.gpus; ++taken) {
      const auto free = state.gpus[last - static_cast<std::uint32_t>(taken)];
      std::size_t i = 0;
      while ((chosen >> i & 1U) != 0 || node.gpus[i] != free) ++i;
      chosen = static_cast<std::uint8_t>(chosen | 1U << i);
    }
    return chosen;
  }

  const Workload& workload_;
  std::vector<NodeState> nodes_;
  Mix mix_;
  std::unique_ptr<FillValue> value_;
  std::unique_ptr<ClassIndex> index_;
  std::vector<std::uint32_t> byRank_;  // the node that the index knows by this number
};

bool set(Constants& constants, const std::string& name, double value) {
  const auto whole = static_cast<std::int64_t>(value);
  const std::map<std::string, std::function<void()>> table = {
      {"share", [&] { constants.tolerances.share = whole; }},
      {"whole", [&] { constants.tolerances.whole = whole; }},
      {"cpuOnly", [&] { constants.tolerances.cpuOnly = whole; }},
      {"sequences", [&] { constants.fill.sequences = static_cast<std::uint32_t>(whole); }},
      {"seed", [&] { constants.fill.seed = static_cast<std::uint64_t>(whole); }},
      {"wide", [&] { constants.stakes.wide = value; }},
      {"bound", [&] { constants.stakes.bound = value; }},
  };
  const auto known = table.find(name);
  if (known == table.end()) return false;
  known->second();
  return true;
}

}  // namespace

std::unique_ptr<Policy> makeValuePolicy(const std::string& name, const Cluster& cluster,
                                        const Workload& workload, std::uint64_t seed) {
  std::stringstream stream(name);
  std::string word;
  std::getline(stream, word, ':');
  if (word != "Bole") return nullptr;
  Constants constants;
  while (std::getline(stream, word, ':')) {
    const auto equals = word.find('=');
    double value = 0;
    if (equals == std::string::npos) return nullptr;
    const auto* end = word.data() + word.size();
    const auto [stop, error] = std::from_chars(word.data() + equals + 1, end, value);
    if (error != std::errc{} || stop != end || !set(constants, word.substr(0, equals), value))
      return nullptr;
  }
  return std::make_unique<ValuePolicy>(cluster, workload, seed, constants);
}

}  // namespace bole::bench
