#include "gpu/topo.h"

#include <fmt/format.h>

#include <algorithm>

#include "gpu/host_info.h"

namespace bole::gpu {
namespace {

constexpr std::string_view kLegend =
    "\nLegend:\n"
    "  X    = itself\n"
    "  SYS  = PCIe and the link between NUMA nodes (UPI, Infinity Fabric)\n"
    "  NODE = PCIe and the link between host bridges of one NUMA node\n"
    "  PHB  = a PCIe host bridge, typically the CPU\n"
    "  PXB  = several PCIe bridges, without a host bridge\n"
    "  PIX  = at most one PCIe bridge\n"
    "  NV#  = a bonded set of # NVLinks\n";

std::string cpusOf(const model::Node& node, std::int32_t numa) {
  const auto label = numaCpusLabel(numa);
  for (const auto& [name, value] : node.labels) {
    if (name == label) return value;
  }
  return "N/A";
}

std::string title(const model::Node& node) {
  std::string text = node.name + ": ";
  for (std::size_t first = 0; first < node.gpus.size();) {
    std::size_t last = first + 1;
    while (last < node.gpus.size() && node.gpus[last].model == node.gpus[first].model) ++last;
    text += fmt::format("{}{} x {}", first == 0 ? "" : ", ", last - first, node.gpus[first].model);
    first = last;
  }
  if (node.gpus.empty()) text += "no GPUs";
  return text + (node.emulated ? " (emulated)\n" : "\n");
}

}  // namespace

std::string linkText(const model::Link& link) {
  switch (link.kind) {
    case model::LinkKind::kSelf:
      return "X";
    case model::LinkKind::kNvLink:
      return fmt::format("NV{}", link.nvLinks);
    case model::LinkKind::kPix:
      return "PIX";
    case model::LinkKind::kPxb:
      return "PXB";
    case model::LinkKind::kPhb:
      return "PHB";
    case model::LinkKind::kNode:
      return "NODE";
    case model::LinkKind::kSys:
      break;
  }
  return "SYS";
}

std::string formatTopology(const model::Node& node) {
  std::string text = title(node);
  const auto count = node.gpus.size();
  if (count == 0) return text;
  // More than eight GPUs fit a screen's width only with bare numbers above narrow columns.
  const bool wide = count > 8;
  std::size_t width = wide ? 3 : 6;
  for (const auto& link : node.links) width = std::max(width, linkText(link).size() + 1);
  text += fmt::format("\n{:6}", "");
  for (std::size_t i = 0; i < count; ++i)
    text +=
        fmt::format(" {:<{}}", wide ? fmt::format("{:>2}", i) : fmt::format("GPU{}", i), width - 1);
  std::size_t cpuWidth = 4;
  for (const auto& gpu : node.gpus)
    cpuWidth = std::max(cpuWidth, cpusOf(node, gpu.numaNode).size());
  text += fmt::format(" {:<{}}  NUMA\n", "CPUs", cpuWidth);
  for (std::size_t a = 0; a < count; ++a) {
    text += fmt::format("{:<6}", fmt::format("GPU{}", a));
    for (std::size_t b = 0; b < count; ++b) {
      const auto cell = a == b ? std::string(" X") : linkText(node.link(a, b));
      text += fmt::format(" {:<{}}", cell, width - 1);
    }
    const auto numa = node.gpus[a].numaNode;
    text += fmt::format(" {:<{}}  {}\n", cpusOf(node, numa), cpuWidth,
                        numa < 0 ? "N/A" : std::to_string(numa));
  }
  return text.append(kLegend);
}

}  // namespace bole::gpu
