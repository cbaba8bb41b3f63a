#include "scheduler/ask.h"

#include <algorithm>

#include "scheduler/match.h"

namespace bole::scheduler {
namespace {

constexpr std::int32_t kOpens = 1'000'000;  // an idle GPU is worse than any that is shared

// How many replicas the parts of GPUs serve: each has its parts on different GPUs.
std::int32_t servedBy(const std::vector<std::int32_t>& parts, std::uint32_t count) {
  std::int32_t replicas = 0;
  for (;; ++replicas) {
    std::int64_t usable = 0;
    for (const auto here : parts) usable += std::min(here, replicas + 1);
    if (usable < std::int64_t{replicas + 1} * count) return replicas;
  }
}

}  // namespace

std::size_t hashOf(const GpuState& state) {
  std::uint64_t hash = state.hardware;
  for (const auto& [share, memory] : state.free) {
    hash = (hash ^ static_cast<std::uint64_t>(share)) * 0x9E3779B97F4A7C15ULL;
    hash = (hash ^ (hash >> 29U) ^ static_cast<std::uint64_t>(memory)) * 0xBF58476D1CE4E5B9ULL;
  }
  return static_cast<std::size_t>(hash ^ (hash >> 32U));
}

const Ask::OnHardware& Ask::on(HardwareId id, const Hardware& hardware) {
  if (id >= on_.size()) on_.resize(id + std::size_t{1});
  auto& on = on_[id];
  if (on.isKnown) return on;
  on.isKnown = true;
  const auto& node = *hardware.like;
  on.isLabelled = hasLabels(node, labels_);
  on.ofGpu.assign(node.gpus.size(), -1);
  on.isOpen = on.isLabelled && node.health == model::GpuHealth::kHealthy;
  if (!on.isOpen || gpus_.count == 0) return on;
  for (std::uint32_t g = 0; g < node.gpus.size(); ++g) {
    // Those of one kind lie together in most machines: the answer is the same.
    const bool isSame = g > 0 && node.gpus[g].model == node.gpus[g - 1].model &&
                        node.gpus[g].memory == node.gpus[g - 1].memory &&
                        node.gpus[g].health == node.gpus[g - 1].health &&
                        node.gpus[g].computeCapability == node.gpus[g - 1].computeCapability;
    const bool isMeant = isSame ? on.ofGpu[g - 1] >= 0 : matches(gpus_, node.gpus[g]);
    if (!isMeant) continue;
    on.ofGpu[g] = static_cast<std::int32_t>(on.gpus.size());
    on.gpus.push_back(g);
    on.grants.push_back(grantOf(gpus_, node.gpus[g]));
  }
  return on;
}

Ask::Fit Ask::fitOf(const GpuState& state, const Hardware& hardware) {
  const auto& on = this->on(state.hardware, hardware);
  Fit fit;
  if (!on.isOpen) return fit;
  std::int32_t idle = 0;
  std::int64_t least = kWholeGpu.value;  // free of one that is shared and will do
  std::vector<std::int32_t> parts;
  for (std::size_t i = 0; i < state.free.size(); ++i) {
    const auto g = hardware.order[i];
    const auto& free = state.free[i];
    const bool isWhole = isIdle(hardware.like->gpus[g], free);
    idle += isWhole ? 1 : 0;
    if (on.ofGpu[g] < 0 || (gpus_.isWhole() && !isWhole)) continue;
    std::int64_t times = 1;
    if (!gpus_.isWhole()) {
      const auto& grant = on.grants[static_cast<std::size_t>(on.ofGpu[g])];
      if (free.share < grant.share.value || free.memory < grant.memory.value) continue;
      times = free.share / grant.share.value;
      if (grant.memory.value > 0) times = std::min(times, free.memory / grant.memory.value);
      if (!isWhole) least = std::min(least, free.share);
    }
    ++fit.gpus;
    parts.push_back(static_cast<std::int32_t>(times));
    fit.parts += parts.back();
  }
  fit.preference = idle;
  if (gpus_.count == 0) {
    fit.ranks = kEndless;
    return fit;
  }
  if (gpus_.isWhole()) {
    fit.ranks = fit.gpus / static_cast<std::int32_t>(gpus_.count);
    return fit;
  }
  fit.ranks = gpus_.count == 1 ? fit.parts : servedBy(parts, gpus_.count);
  fit.preference = least < kWholeGpu.value ? static_cast<std::int32_t>(least) : kOpens + idle;
  return fit;
}

}  // namespace bole::scheduler
