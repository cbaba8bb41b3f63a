#include "value_policy.h"

#include <algorithm>
#include <limits>
#include <map>
#include <sstream>

#include "scheduler/value/fill_value.h"

namespace bole::bench {
namespace {

using scheduler::FillValue;
using scheduler::FreeState;
using scheduler::Request;

FreeState stateOf(const NodeState& node) {
  FreeState s;
  s.cpus = node.cpus;
  s.memory = 0;
  s.model = node.model;
  for (std::size_t i = 0; i < node.gpuCount; ++i)
    s.gpus[i] = static_cast<std::uint16_t>(node.gpus[i]);
  s.arrange();
  return s;
}

Request requestOf(const PodKind& k) {
  return {k.cpus, 0, static_cast<std::uint16_t>(k.gpus), static_cast<std::uint16_t>(k.perGpu),
          k.models};
}

class ResearchPolicy final : public Policy {
 public:
  ResearchPolicy(const std::string& name, const Cluster& cluster, const Workload& workload,
                 std::uint64_t seed)
      : workload_(workload), nodes_(cluster.nodes), ranks_(tieRanks(cluster, seed)) {
    std::stringstream stream(name);
    std::string item;
    std::getline(stream, item, ':');
    while (std::getline(stream, item, ':')) {
      const auto at = item.find('=');
      options_[item.substr(0, at)] = std::stod(item.substr(at + 1));
    }
    scheduler::MixCounter counter(100000);
    for (const auto pod : workload.pods) counter.add(requestOf(workload.kinds[pod]));
    scheduler::FillOptions fill;
    fill.sequences = static_cast<std::uint32_t>(option("k", 128));
    fill.seed = static_cast<std::uint64_t>(option("seed", 1));
    value_ = std::make_unique<FillValue>(counter.mix(), fill);
    known_.resize(workload.kinds.size());
    for (const auto& kind : workload.kinds) requests_.push_back(requestOf(kind));
    for (const auto& node : nodes_) {
      states_.push_back(stateOf(node));
      phi_.push_back(value_->of(states_.back()));
    }
    tauWhole_ = static_cast<std::int64_t>(option("tw", 120) * static_cast<double>(value_->scale()));
    tauShare_ = static_cast<std::int64_t>(option("ts", 30) * static_cast<double>(value_->scale()));
    tauCpu_ = static_cast<std::int64_t>(option("tc", 100) * static_cast<double>(value_->scale()));
  }

  std::optional<Placement> place(std::uint32_t kind) override {
    refresh(kind);
    const auto& pod = workload_.kinds[kind];
    const auto& known = known_[kind];
    auto least = kNone;
    for (const auto& c : known.costs) least = std::min(least, c.cost);
    if (least == kNone) return std::nullopt;
    const auto tau = pod.gpus == 0 ? tauCpu_ : pod.isShare() ? tauShare_ : tauWhole_;
    std::uint32_t best = ~0U;
    for (std::uint32_t n = 0; n < nodes_.size(); ++n) {
      if (known.costs[n].cost == kNone || known.costs[n].cost > least + tau) continue;
      if (best == ~0U) {
        best = n;
        continue;
      }
      bool better = ranks_[n] < ranks_[best];
      if (pod.gpus == 0) better = nodes_[n].cpus < nodes_[best].cpus;
      if (better) best = n;
    }
    const auto gpus = gpusFor(nodes_[best], pod, states_[best], known.costs[best].last);
    take(nodes_[best], pod, gpus);
    states_[best] = stateOf(nodes_[best]);
    phi_[best] = value_->of(states_[best]);
    changes_.push_back(best);
    return Placement{best, gpus};
  }

 private:
  static constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();
  struct Cost {
    std::int64_t cost = kNone;
    std::size_t last = 0;
  };
  struct Known {
    std::vector<Cost> costs;
    std::size_t seen = 0;
  };

  double option(const std::string& name, double usual) const {
    const auto at = options_.find(name);
    return at == options_.end() ? usual : at->second;
  }

  static std::uint8_t gpusFor(const NodeState& node, const PodKind& pod, const FreeState& state,
                              std::size_t last) {
    std::uint8_t chosen = 0;
    for (std::int32_t j = 0; j < pod.gpus; ++j) {
      const auto value = state.gpus[last - static_cast<std::size_t>(j)];
      for (std::size_t i = 0; i < node.gpuCount; ++i) {
        if ((chosen >> i & 1U) != 0 || node.gpus[i] != value) continue;
        chosen = static_cast<std::uint8_t>(chosen | 1U << i);
        break;
      }
    }
    return chosen;
  }

  void ask(std::uint32_t n, std::uint32_t kind, Cost& into) {
    into = {};
    if (!bench::fits(nodes_[n], workload_.kinds[kind])) return;
    const auto& r = requests_[kind];
    const auto& s = states_[n];
    if (r.gpus == 0) {
      into.cost = value_->of(after(s, r, 0)) - phi_[n];
      return;
    }
    if (!r.isShare()) {
      into.last = tightest(s, r);
      into.cost = value_->of(after(s, r, into.last)) - phi_[n];
      return;
    }
    for (std::size_t i = 0; i < kMostGpus && s.gpus[i] >= r.perGpu; ++i) {
      if (i + 1 < kMostGpus && s.gpus[i + 1] == s.gpus[i]) continue;
      const auto cost = value_->of(after(s, r, i)) - phi_[n];
      if (cost <= into.cost) into = {cost, i};
    }
  }

  void refresh(std::uint32_t kind) {
    auto& known = known_[kind];
    if (known.costs.empty()) {
      known.costs.resize(nodes_.size());
      for (std::uint32_t n = 0; n < nodes_.size(); ++n) ask(n, kind, known.costs[n]);
    } else {
      for (auto i = known.seen; i < changes_.size(); ++i)
        ask(changes_[i], kind, known.costs[changes_[i]]);
    }
    known.seen = changes_.size();
  }

  const Workload& workload_;
  std::vector<NodeState> nodes_;
  std::vector<std::uint32_t> ranks_;
  std::map<std::string, double> options_;
  std::unique_ptr<FillValue> value_;
  std::vector<Request> requests_;
  std::vector<FreeState> states_;
  std::vector<std::int64_t> phi_;
  std::vector<Known> known_;
  std::vector<std::uint32_t> changes_;
  std::int64_t tauWhole_ = 0;
  std::int64_t tauShare_ = 0;
  std::int64_t tauCpu_ = 0;
};

}  // namespace

std::unique_ptr<Policy> makeValuePolicy(const std::string& name, const Cluster& cluster,
                                        const Workload& workload, std::uint64_t seed) {
  return std::make_unique<ResearchPolicy>(name, cluster, workload, seed);
}

}  // namespace bole::bench
