#include "cli/topology.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/text.h"

namespace bole::cli {
namespace {

std::string padded(const std::string& text, std::size_t width) {
  return text + std::string(width - std::min(width, text.size()), ' ');
}

// The server tells which CPUs a NUMA node has in a label.
std::string cpusOf(const model::Node& node, std::int32_t numa) {
  const auto label = fmt::format("bole.numa-{}.cpus", numa);
  for (const auto& [name, value] : node.labels) {
    if (name == label) return neutralised(value);
  }
  return "N/A";
}

std::string titleOf(const model::Node& node) {
  auto text = neutralised(node.name) + ": ";
  for (std::size_t first = 0; first < node.gpus.size();) {
    std::size_t last = first + 1;
    while (last < node.gpus.size() && node.gpus[last].model == node.gpus[first].model) ++last;
    text += fmt::format("{}{} x {}", first == 0 ? "" : ", ", last - first,
                        neutralised(node.gpus[first].model));
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

std::string topologyText(const model::Node& node) {
  auto text = titleOf(node);
  const auto count = node.gpus.size();
  if (count == 0 || node.links.size() < count * count) return text;
  // More than eight GPUs fit only with bare numbers above narrow columns.
  const bool narrow = count > 8;
  std::size_t width = narrow ? 2 : 5;
  for (const auto& link : node.links) width = std::max(width, linkText(link).size());
  std::size_t cpuWidth = 4;
  for (const auto& gpu : node.gpus)
    cpuWidth = std::max(cpuWidth, cpusOf(node, gpu.numaNode).size());
  text += "\n      ";
  for (std::size_t i = 0; i < count; ++i) {
    text += " " + padded(narrow ? fmt::format("{:>2}", i) : fmt::format("GPU{}", i), width);
  }
  text += " " + padded("CPUs", cpuWidth) + "  NUMA\n";
  for (std::size_t a = 0; a < count; ++a) {
    text += padded(fmt::format("GPU{}", a), 6);
    for (std::size_t b = 0; b < count; ++b) {
      text += " " + padded(a == b ? " X" : linkText(node.link(a, b)), width);
    }
    const auto numa = node.gpus[a].numaNode;
    text += " " + padded(cpusOf(node, numa), cpuWidth) + "  " +
            (numa < 0 ? std::string("N/A") : std::to_string(numa)) + "\n";
  }
  return text;
}

std::string topologyLegend() {
  return "Legend:\n"
         "  X    = itself\n"
         "  SYS  = PCIe and the link between NUMA nodes (UPI, Infinity Fabric)\n"
         "  NODE = PCIe and the link between host bridges of one NUMA node\n"
         "  PHB  = a PCIe host bridge, typically the CPU\n"
         "  PXB  = several PCIe bridges, without a host bridge\n"
         "  PIX  = at most one PCIe bridge\n"
         "  NV#  = a bonded set of # NVLinks\n";
}

}  // namespace bole::cli
