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
  std::string emulation;           // as typed; empty: none was asked for
};

// `emulate` as typed; empty: what is here. Where there is no driver that is what was emulated last
// in this home (keepEmulation), at first four A100.
[[nodiscard]] Result<Inventory> takeInventory(const std::string& home, const gpu::HostInfo& host,
                                              const std::vector<std::string>& emulate);

// For the next start in this home, by who holds it; in HOME/emulate.
[[nodiscard]] Result<void> keepEmulation(const std::string& home, const Inventory& inventory);

}  // namespace bole::app
