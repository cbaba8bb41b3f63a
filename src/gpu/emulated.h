// Emulated inventories: machines that are not here, with the true shapes of machines that exist.
//
// A specification says how many of which GPU, and optionally how many machines:
//   8xA100-SXM4-80GB         one machine with eight
//   4x[8xH100]               four machines with eight each
//   2x[8xH100]+1x[4xT4]      a mixed cloud; a comma does as well as a plus
//   2xDGX-H100               machines by their own name
// Names are matched without regard to case and separators; a common short form does (h100, v100,
// 3090).
//
// CPUs and memory are the shape's usual ones, not the host's, so that placement looks as it would
// on the real machine; the host's own figures stand in the labels bole.host.cpus and
// bole.host.memory. The same specification always gives the same names, UUIDs and PCI ids. See
// docs/emulated-gpus.md.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gpu/host_info.h"
#include "model/node.h"
#include "ports/gpu_probe.h"

namespace bole::gpu {

inline constexpr std::size_t kMostEmulatedNodes = 1024;

// At least one node, at most kMostEmulatedNodes. Errors: kInvalid, with a "did you mean".
[[nodiscard]] Result<std::vector<model::Node>> parseEmulation(std::string_view spec,
                                                              const HostInfo& host);

// What a machine without a driver offers when nobody said what to emulate: one node with four
// A100-PCIE-40GB in NVLink-bridged pairs. It takes a gang of four ranks on any host.
[[nodiscard]] std::vector<model::Node> defaultEmulation(const HostInfo& host);

// The specification of defaultEmulation, for messages: "4xA100-PCIE-40GB".
inline constexpr std::string_view kDefaultEmulation = "4xA100-PCIE-40GB";

// The GPUs that can be emulated, as people write them, for help and completion.
[[nodiscard]] std::vector<std::string> emulatedModels();

class EmulatedProbe final : public ports::GpuProbe {
 public:
  explicit EmulatedProbe(std::vector<model::Node> nodes) : nodes_(std::move(nodes)) {}
  [[nodiscard]] Result<std::vector<model::Node>> probe() override { return nodes_; }

 private:
  std::vector<model::Node> nodes_;
};

}  // namespace bole::gpu
