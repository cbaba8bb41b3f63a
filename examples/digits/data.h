// Generated pictures of the digits 0 to 9, and which rank holds and uses which of them.
//
// Picture number i depends on (seed, i) alone, so that no rank needs another's pictures. The
// batches of an epoch are the same sets whatever the number of ranks: training gives the same
// result, up to rounding.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace digits {

inline constexpr std::size_t kSide = 16;
inline constexpr std::size_t kPixels = kSide * kSide;
inline constexpr std::size_t kClasses = 10;

using Image = std::array<float, kPixels>;  // roughly -0.5 (paper) to 1.5 (ink)

struct Sample {
  Image image{};
  std::uint8_t label = 0;
};

// A digit at a random place, size, angle and weight of ink, with noise.
[[nodiscard]] Sample renderSample(std::uint64_t seed, std::uint64_t number);

// The part of the training set that one rank holds.
//
// The set is `samples` pictures in blocks of `batch` (samples is a multiple of batch). A batch
// takes for each of its positions p one picture of those at position p of a block; positions p with
// p % worldSize == rank are this rank's. So shards are fixed, even within one picture, and the
// batches do not depend on worldSize.
class Shard {
 public:
  Shard(std::uint64_t seed, std::size_t samples, std::size_t batch, std::size_t rank,
        std::size_t worldSize);

  [[nodiscard]] std::size_t size() const { return samples_.size(); }
  [[nodiscard]] std::size_t stepsPerEpoch() const { return blocks_; }

  // Decides the batches of this epoch.
  void shuffle(std::uint64_t epoch);
  // This rank's part of batch `step` (0 to stepsPerEpoch() - 1): pointers that live as long as the
  // shard.
  [[nodiscard]] std::vector<const Sample*> batchPart(std::size_t step) const;

 private:
  std::uint64_t seed_;
  std::size_t rank_;
  std::size_t worldSize_;
  std::size_t blocks_;
  std::size_t positions_;             // this rank's positions in a batch
  std::vector<Sample> samples_;       // block by block
  std::vector<std::uint32_t> order_;  // [position][step]: the block to take
};

// This rank's part of the test set; its pictures are never used for training.
[[nodiscard]] std::vector<Sample> testShard(std::uint64_t seed, std::size_t samples,
                                            std::size_t rank, std::size_t worldSize);

}  // namespace digits
