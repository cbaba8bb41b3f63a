// What a replica asks of a node's hardware: GPUs and labels, without CPUs and memory. Found out
// once for each kind of node and each state that GPUs are in, and kept.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "model/job.h"
#include "scheduler/hardware.h"

namespace bole::scheduler {

// What of one GPU is free.
struct GpuFree {
  std::int64_t share = 0;   // thousandths
  std::int64_t memory = 0;  // bytes
  auto operator<=>(const GpuFree&) const = default;
};

// GPUs of one kind of node in one state: which of those that are alike is which is left out.
struct GpuState {
  HardwareId hardware = 0;
  std::vector<GpuFree> free;  // in Hardware::order; of those alike the least free first
  bool operator==(const GpuState&) const = default;
};
[[nodiscard]] std::size_t hashOf(const GpuState& state);

// Nobody holds anything of the GPU, and it is healthy.
[[nodiscard]] inline bool isIdle(const model::Gpu& gpu, const GpuFree& free) {
  return free.share == kWholeGpu.value && free.memory == gpu.memory.value &&
         gpu.health == model::GpuHealth::kHealthy;
}

class Ask {
 public:
  Ask(model::GpuRequest gpus, std::vector<std::pair<std::string, std::string>> labels)
      : gpus_(std::move(gpus)), labels_(std::move(labels)) {}

  // What it means on a kind of node.
  struct OnHardware {
    bool isKnown = false;
    bool isLabelled = false;              // has the labels
    bool isOpen = false;                  // and is healthy
    std::vector<std::uint32_t> gpus;      // that match, in order of index; none without labels
    std::vector<model::GpuGrant> grants;  // of each of these
    std::vector<std::int32_t> ofGpu;      // of each GPU of the node: its place in these, or -1
    [[nodiscard]] bool serves(std::uint32_t count) const { return isOpen && gpus.size() >= count; }
  };
  const OnHardware& on(HardwareId id, const Hardware& hardware);

  // What it finds on GPUs in a state.
  static constexpr std::int32_t kEndless = std::numeric_limits<std::int32_t>::max();
  struct Fit {
    std::int32_t ranks = 0;  // replicas that fit by GPUs alone; kEndless where none are asked for
    std::int32_t gpus = 0;   // that have what one replica takes of one GPU
    std::int32_t parts = 0;  // how often all of them have that
    // Which state is the better place, less first: for parts one with a GPU that is shared already,
    // the fullest; else that with the fewest idle GPUs.
    std::int32_t preference = 0;
  };
  [[nodiscard]] Fit fitOf(const GpuState& state, const Hardware& hardware);

  [[nodiscard]] const model::GpuRequest& gpus() const { return gpus_; }
  [[nodiscard]] const std::vector<std::pair<std::string, std::string>>& labels() const {
    return labels_;
  }

 private:
  model::GpuRequest gpus_;
  std::vector<std::pair<std::string, std::string>> labels_;
  std::vector<OnHardware> on_;  // by HardwareId
};

}  // namespace bole::scheduler
