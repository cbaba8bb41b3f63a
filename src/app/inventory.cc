#include "app/inventory.h"

#include <fmt/format.h>

#include "gpu/emulated.h"
#include "gpu/nvml_probe.h"
#include "ledger/files.h"

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

// "4 x A100-PCIE-40GB", "2 nodes of 4 x A100-PCIE-40GB", "a node of 8 x H100, 2 nodes of 4 x T4".
std::string gpusOf(const std::vector<model::Node>& nodes) {
  if (nodes.size() == 1) return gpusOf(nodes.front());
  std::string text;
  for (std::size_t first = 0; first < nodes.size();) {
    const auto gpus = gpusOf(nodes[first]);
    auto last = first;
    while (last < nodes.size() && gpusOf(nodes[last]) == gpus) ++last;
    const auto count = last - first;
    text += text.empty() ? "" : ", ";
    text += count == 1 ? "a node of " + gpus : fmt::format("{} nodes of {}", count, gpus);
    first = last;
  }
  return text;
}

std::string keptIn(const std::string& home) {
  return home + "/emulate";
}

std::string lastEmulation(const std::string& home) {
  auto last = ledger::readSmallFile(keptIn(home), 4096).value_or(std::string());
  while (!last.empty() && last.back() == '\n') last.pop_back();
  return last;
}

}  // namespace

Result<Inventory> takeInventory(const std::string& home, const gpu::HostInfo& host,
                                const std::vector<std::string>& emulate) {
  Inventory out;
  if (!emulate.empty()) {
    std::string all;
    for (const auto& spec : emulate) all += (all.empty() ? "" : "+") + spec;
    BOLE_ASSIGN(out.nodes, gpu::parseEmulation(all, host));
    out.emulation = all;
    out.notes.push_back(
        fmt::format("GPUs are emulated: {}; jobs run on this machine's CPUs", gpusOf(out.nodes)));
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
  if (const auto last = lastEmulation(home);
      probed.error().code == ErrorCode::kNotFound && !last.empty()) {
    auto nodes = gpu::parseEmulation(last, host);
    if (!nodes) {
      auto error = std::move(nodes).error();
      error.where = keptIn(home) + (error.where.empty() ? "" : ", " + error.where);
      return fail(std::move(error));
    }
    out.nodes = std::move(*nodes);
    out.notes.push_back(
        fmt::format("GPUs are emulated as at the last start: {}; jobs run on this machine's CPUs",
                    gpusOf(out.nodes)));
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

Result<void> keepEmulation(const std::string& home, const Inventory& inventory) {
  if (inventory.emulation.empty() || inventory.emulation == lastEmulation(home)) return {};
  return ledger::writeFileDurably(keptIn(home), inventory.emulation + "\n", 0600);
}

}  // namespace bole::app
