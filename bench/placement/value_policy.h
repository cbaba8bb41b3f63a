// Bole's own policy on the experiment: src/scheduler/value applied to nodes as the harness has them.
#pragma once

#include <memory>
#include <string>

#include "experiment.h"

namespace bole::bench {

// "Bole", or "Bole:name=value:name=value..." with other constants than the usual (for research).
[[nodiscard]] std::unique_ptr<Policy> makeValuePolicy(const std::string& name,
                                                      const Cluster& cluster,
                                                      const Workload& workload,
                                                      std::uint64_t seed);

}  // namespace bole::bench
