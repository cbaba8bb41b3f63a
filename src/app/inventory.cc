#include "app/inventory.h"

#include <fmt/format.h>

#include "gpu/emulated.h"
#include "gpu/nvml_probe.h"

namespace bole::app {
namespace {

// "4 x A100-PCIE-40GB" for each run of like GPUs.
std::string gpusOf(const model::Node& node) {
  std::string text;
  for (std::size_t first = 0; first < node.gpus.size();) {
    auto last = first;
    while (last < node.gpus.size() && node.gpus[last].model == node.gpus[first].model) ++last;
    text +=
        fmt::format("{}{} x {}", text.empty() ? "" : ", ", last - first, node.gpus[first].model);
    first = last;
  }
  return text.empty() ? "no GPUs" : text;
}

}  // namespace

Result<Inventory> takeInventory(const gpu::HostInfo& host,
                                const std::vector<std::string>& emulate) {
  Inventory out;
  if (!emulate.empty()) {
    std::string all;
    for (const auto& spec : emulate) all += (all.empty() ? "" : "+") + spec;
    BOLE_ASSIGN(out.nodes, gpu::parseEmulation(all, host));
    out.notes.push_back(
        fmt::format("GPUs are emulated: {} ({} node{}); jobs run on this machine's CPUs",
                    gpusOf(out.nodes.front()), out.nodes.size(), out.nodes.size() == 1 ? "" : "s"));
    return out;
  }
  gpu::NvmlProbe probe(host);
  auto probed = probe.probe();
  if (probed) {
    out.nodes = std::move(*probed);
    out.notes.push_back(fmt::format("GPUs: {}, driver {}", gpusOf(out.nodes.front()),
                                    out.nodes.front().driverVersion));
    for (const auto& note : probe.notes()) out.notes.push_back(note);
    return out;
  }
  if (probed.error().code == ErrorCode::kNotFound) {
    out.nodes = gpu::defaultEmulation(host);
    out.notes.push_back(
        fmt::format("no NVIDIA driver here: {} are emulated, jobs run on this machine's CPUs",
                    gpusOf(out.nodes.front())));
    return out;
  }
  // A driver that is here and does not work is told, and not papered over with emulation.
  out.nodes = {gpu::hostNode(host)};
  out.notes.push_back("the GPUs cannot be used: " + probed.error().message());
  return out;
}

}  // namespace bole::app
