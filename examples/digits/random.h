// Numbers that depend on (seed, stream) alone: the same on every machine, compiler and rank, which
// the distributions of the standard library do not promise.
#pragma once

#include <cstdint>

namespace digits {

// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014).
class Random {
 public:
  Random(std::uint64_t seed, std::uint64_t stream) : state_(seed * kMix + stream) {
    state_ = next() ^ (stream * kGolden);
  }

  std::uint64_t next() {
    state_ += kGolden;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * kMix;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }

  // 0 to bound - 1; the bias of the remainder is below 2^-32 for the small bounds used here.
  std::uint64_t below(std::uint64_t bound) { return next() % bound; }

  // low <= value < high
  float uniform(float low, float high) {
    const auto unit = static_cast<float>(next() >> 40) * 0x1p-24F;
    return low + (high - low) * unit;
  }

  // Nearly Gaussian with mean 0 and deviation 1: the sum of four uniform numbers. Without log or
  // cos, whose last bit differs between libraries.
  float bell() {
    const std::uint64_t bits = next();
    float sum = 0;
    for (unsigned i = 0; i < 4; ++i) sum += static_cast<float>((bits >> (16 * i)) & 0xffff);
    return (sum * 0x1p-16F - 2.0F) * 1.7320508F;
  }

 private:
  static constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15ULL;
  static constexpr std::uint64_t kMix = 0xbf58476d1ce4e5b9ULL;
  std::uint64_t state_;
};

}  // namespace digits
