// Small clouds and jobs to test with.
#pragma once

#include <string>

#include "model/job.h"
#include "model/node.h"

namespace bole::test {

// `gpus` of `model` with 80 GiB, all linked alike; 4 CPUs and 32 GiB a GPU (8 and 64 without any).
[[nodiscard]] model::Node node(const std::string& name, std::uint32_t gpus,
                               const std::string& model = "A100-SXM4-80GB");

// One task `worker` of `replicas` ranks with `gpus` each.
[[nodiscard]] model::JobSpec job(std::uint32_t replicas, std::uint32_t gpus,
                                 const std::string& name = "train");

}  // namespace bole::test
