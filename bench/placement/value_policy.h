// Bole's own policy on the experiment: src/scheduler/value applied to nodes as the harness has
// them.
#pragma once

#include <memory>
#include <string>

#include "experiment.h"

namespace bole::bench {

// "Bole", or with other constants than the usual ones, "Bole:share=30:sequences=128" (the table of
// names is in the source). Null for another name or constant. The workload must outlive the policy.
[[nodiscard]] std::unique_ptr<Policy> makeValuePolicy(const std::string& name,
                                                      const Cluster& cluster,
                                                      const Workload& workload, std::uint64_t seed);

}  // namespace bole::bench
