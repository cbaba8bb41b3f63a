#include "scheduler/hardware.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <tuple>

namespace bole::scheduler {
namespace {

auto kindOf(const model::Gpu& gpu) {
  return std::tie(gpu.model, gpu.memory, gpu.computeCapability, gpu.health);
}

bool sameGpu(const model::Gpu& a, const model::Gpu& b) {
  return kindOf(a) == kindOf(b) && a.numaNode == b.numaNode;
}

bool sameHardware(const model::Node& a, const model::Node& b) {
  return a.cpus == b.cpus && a.memory == b.memory && a.health == b.health && a.labels == b.labels &&
         a.links == b.links &&
         std::equal(a.gpus.begin(), a.gpus.end(), b.gpus.begin(), b.gpus.end(), sameGpu);
}

std::size_t hashOf(const model::Node& node) {
  auto hash = static_cast<std::size_t>(node.cpus.value * 31 + node.memory.value);
  const auto mix = [&](const std::string& text) {
    hash = hash * 1'000'003 + std::hash<std::string>()(text);
  };
  for (const auto& gpu : node.gpus) {
    hash = hash * 31 + static_cast<std::size_t>(gpu.health);
    mix(gpu.model);
  }
  for (const auto& [name, value] : node.labels) {
    mix(name);
    mix(value);
  }
  return hash;
}

// How good a link is: NVLinks count; then the order of `nvidia-smi topo`.
std::int32_t scoreOf(const model::Link& link) {
  switch (link.kind) {
    case model::LinkKind::kNvLink:
      return 100 + link.nvLinks;
    case model::LinkKind::kPix:
      return 50;
    case model::LinkKind::kPxb:
      return 40;
    case model::LinkKind::kPhb:
      return 30;
    case model::LinkKind::kNode:
      return 20;
    case model::LinkKind::kSys:
      return 10;
    case model::LinkKind::kSelf:
      break;
  }
  return 0;
}

Hardware hardwareOf(const model::Node& node) {
  Hardware hardware;
  hardware.like = &node;
  hardware.order.resize(node.gpus.size());
  std::iota(hardware.order.begin(), hardware.order.end(), 0U);
  std::stable_sort(hardware.order.begin(), hardware.order.end(),
                   [&](std::uint32_t a, std::uint32_t b) {
                     return kindOf(node.gpus[a]) < kindOf(node.gpus[b]);
                   });
  for (std::uint32_t i = 0; i < hardware.order.size(); ++i) {
    const bool isSame =
        i > 0 && kindOf(node.gpus[hardware.order[i]]) == kindOf(node.gpus[hardware.order[i - 1]]);
    hardware.alike.push_back(isSame ? hardware.alike.back() : i);
  }
  hardware.isMixed = std::any_of(node.gpus.begin(), node.gpus.end(), [&](const model::Gpu& gpu) {
    return gpu.model != node.gpus.front().model || gpu.memory != node.gpus.front().memory ||
           gpu.computeCapability != node.gpus.front().computeCapability;
  });
  for (const auto& link : node.links) hardware.linkScore.push_back(scoreOf(link));
  return hardware;
}

}  // namespace

HardwareId HardwareTable::idOf(const model::Node& node) {
  const auto hash = hashOf(node);
  const auto [from, to] = byHash_.equal_range(hash);
  for (auto it = from; it != to; ++it)
    if (sameHardware(*all_[it->second].like, node)) return it->second;
  const auto id = static_cast<HardwareId>(all_.size());
  all_.push_back(hardwareOf(node));
  byHash_.emplace(hash, id);
  return id;
}

}  // namespace bole::scheduler
