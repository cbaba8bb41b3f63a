// Which GPUs this server offers: the machine's own, or emulated ones.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "gpu/host_info.h"
#include "model/node.h"

namespace bole::app {

struct Inventory {
  std::vector<model::Node> nodes;
  std::vector<std::string> notes;  // plain lines for people
};

// `emulate` as typed; empty: what is here, and the default emulation where there is no driver.
[[nodiscard]] Result<Inventory> takeInventory(const gpu::HostInfo& host,
                                              const std::vector<std::string>& emulate);

}  // namespace bole::app
