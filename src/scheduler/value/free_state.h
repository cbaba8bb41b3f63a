// What is free on one node, and what one pod or rank asks of it, as plain numbers: all that the
// value functions look at. Which GPU is which is left out on purpose, so that nodes alike share one
// state; links, MIG and memory of a GPU are the placer's to check.
//
// Units: CPU in thousandths, memory in MiB, GPUs in thousandths of one (0 to 1000).
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace bole::scheduler {

inline constexpr std::size_t kMostGpusValued = 16;    // of a node
inline constexpr std::size_t kMostModelsValued = 64;  // of a cloud
inline constexpr std::uint32_t kWholeGpuMilli = 1000;

struct FreeState {
  std::int64_t cpus = 0;
  std::int64_t memory = 0;
  std::array<std::uint16_t, kMostGpusValued> gpus{};  // most free first; places not there are 0
  std::uint8_t model = 0;                             // below kMostModelsValued
  auto operator<=>(const FreeState&) const = default;

  [[nodiscard]] std::uint32_t gpuMilli() const;
  // Puts the GPUs in order; to be called by whoever filled them in by hand.
  void arrange();
};

struct Request {
  std::int64_t cpus = 0;
  std::int64_t memory = 0;
  std::uint16_t gpus = 0;        // 0 to kMostGpusValued
  std::uint16_t perGpu = 0;      // of each of them: 1 to 1000, 0 exactly where gpus is 0
  std::uint64_t models = ~0ULL;  // bit m: model m will do; not looked at where gpus is 0
  auto operator<=>(const Request&) const = default;

  [[nodiscard]] std::uint32_t gpuMilli() const { return std::uint32_t{gpus} * perGpu; }
  [[nodiscard]] bool isShare() const { return gpus == 1 && perGpu < kWholeGpuMilli; }
};

[[nodiscard]] bool fits(const FreeState& state, const Request& request);

// The state after the request is placed with its last GPU at `last`: on gpus[last - n + 1 .. last].
// The request fits, and each of these GPUs has enough free.
[[nodiscard]] FreeState after(const FreeState& state, const Request& request, std::size_t last);

// The last index of the tightest GPUs that will do. The request fits and asks for GPUs.
[[nodiscard]] std::size_t tightest(const FreeState& state, const Request& request);

}  // namespace bole::scheduler
