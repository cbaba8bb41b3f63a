// The six policies that the paper compares, rewritten from the description of the experiment:
// Random, DotProd, GpuClustering, GpuPacking, BestFit and FGD (fragmentation gradient descent).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "experiment.h"

namespace bole::bench {

// In the order of the paper's table.
[[nodiscard]] const std::vector<std::string>& peerNames();

// Null for a name that is not among them. The cluster and the workload must outlive the policy.
[[nodiscard]] std::unique_ptr<Policy> makePeer(const std::string& name, const Cluster& cluster,
                                               const Workload& workload, std::uint64_t seed);

// F of the paper: the GPU-milli of the node that the typical pods cannot use, in expectation.
[[nodiscard]] double fragmentation(const NodeState& node, const std::vector<TypicalPod>& typical);

}  // namespace bole::bench
