// Seeded numbers and hashes that are the same on every machine. The generator is splitmix64
// (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "scheduler/value/free_state.h"

namespace bole::scheduler {

constexpr std::uint64_t kGoldenGamma = 0x9E3779B97F4A7C15ULL;

constexpr std::uint64_t scramble(std::uint64_t z) {
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31U);
}

class Scrambler {
 public:
  explicit Scrambler(std::uint64_t seed) : state_(seed) {}
  // In [0, bound); bound is 1 or more and far below 2^64, so that its remainders are as good as
  // even.
  std::uint64_t below(std::uint64_t bound) {
    state_ += kGoldenGamma;
    return scramble(state_) % bound;
  }

 private:
  std::uint64_t state_;
};

// For tables only: no order of decisions hangs on it.
inline std::size_t hashOf(const FreeState& state) {
  auto hash = static_cast<std::uint64_t>(state.cpus) * kGoldenGamma +
              static_cast<std::uint64_t>(state.memory) * 0xD6E8FEB86659FD93ULL + state.model;
  for (std::size_t i = 0; i < state.gpus.size(); i += 4) {
    std::uint64_t word = 0;
    for (std::size_t j = 0; j < 4; ++j) word = word << 16U | state.gpus[i + j];
    hash = (std::rotl(hash, 23) ^ word) * kGoldenGamma;
  }
  return scramble(hash);
}

}  // namespace bole::scheduler
