// What GPUs this machine has: NVML where there is a driver, an emulated inventory otherwise.
#pragma once

#include <vector>

#include "base/result.h"
#include "model/node.h"

namespace bole::ports {

class GpuProbe {
 public:
  virtual ~GpuProbe() = default;

  // The machines this probe sees: one for the real one, one or more when emulated. Names, GPUs in
  // PCI order, links; CPUs, memory and NUMA of the host (an emulated node has its own machine's).
  [[nodiscard]] virtual Result<std::vector<model::Node>> probe() = 0;
};

}  // namespace bole::ports
