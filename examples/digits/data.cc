#include "data.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "random.h"

namespace digits {
namespace {

constexpr int kGlyphWidth = 5;
constexpr int kGlyphHeight = 7;
constexpr std::uint64_t kTestBase = 1ULL << 40;     // numbers of test pictures start here
constexpr std::uint64_t kShuffleBase = 1ULL << 48;  // and the streams that shuffle here

constexpr std::array<std::string_view, kClasses> kGlyphs = {
    " ### "
    "#   #"
    "#  ##"
    "# # #"
    "##  #"
    "#   #"
    " ### ",
    "  #  "
    " ##  "
    "  #  "
    "  #  "
    "  #  "
    "  #  "
    " ### ",
    " ### "
    "#   #"
    "    #"
    "   # "
    "  #  "
    " #   "
    "#####",
    "#### "
    "    #"
    "    #"
    " ### "
    "    #"
    "    #"
    "#### ",
    "   # "
    "  ## "
    " # # "
    "#  # "
    "#####"
    "   # "
    "   # ",
    "#####"
    "#    "
    "#### "
    "    #"
    "    #"
    "#   #"
    " ### ",
    "  ## "
    " #   "
    "#    "
    "#### "
    "#   #"
    "#   #"
    " ### ",
    "#####"
    "    #"
    "   # "
    "  #  "
    "  #  "
    "  #  "
    "  #  ",
    " ### "
    "#   #"
    "#   #"
    " ### "
    "#   #"
    "#   #"
    " ### ",
    " ### "
    "#   #"
    "#   #"
    " ####"
    "    #"
    "   # "
    " ##  ",
};

float inkAt(std::string_view glyph, int column, int row) {
  if (column < 0 || column >= kGlyphWidth || row < 0 || row >= kGlyphHeight) return 0;
  return glyph[static_cast<std::size_t>(row * kGlyphWidth + column)] == '#' ? 1.0F : 0.0F;
}

// Bilinear; cell (0, 0) has its centre at (0, 0).
float inkBetween(std::string_view glyph, float x, float y) {
  if (x <= -1 || x >= kGlyphWidth || y <= -1 || y >= kGlyphHeight) return 0;
  const int column = static_cast<int>(x + 1) - 1;  // floor, for x > -1
  const int row = static_cast<int>(y + 1) - 1;
  const float right = x - static_cast<float>(column);
  const float below = y - static_cast<float>(row);
  const float top = inkAt(glyph, column, row) * (1 - right) + inkAt(glyph, column + 1, row) * right;
  const float bottom =
      inkAt(glyph, column, row + 1) * (1 - right) + inkAt(glyph, column + 1, row + 1) * right;
  return top * (1 - below) + bottom * below;
}

}  // namespace

Sample renderSample(std::uint64_t seed, std::uint64_t number) {
  Random random(seed, number);
  Sample sample;
  sample.label = static_cast<std::uint8_t>(random.below(kClasses));
  const auto glyph = kGlyphs[sample.label];
  const float cellWidth = random.uniform(1.3F, 2.1F);
  const float cellHeight = random.uniform(1.3F, 1.9F);
  const float turn = random.uniform(-0.2F, 0.2F);  // tangent of the angle: small turns need no sin
  const float centreX = kSide / 2.0F - 0.5F + random.uniform(-1.5F, 1.5F);
  const float centreY = kSide / 2.0F - 0.5F + random.uniform(-1, 1);
  const float ink = random.uniform(0.6F, 1.0F);
  const float noise = random.uniform(0.1F, 0.25F);
  for (std::size_t y = 0; y < kSide; ++y) {
    for (std::size_t x = 0; x < kSide; ++x) {
      const float dx = static_cast<float>(x) - centreX;
      const float dy = static_cast<float>(y) - centreY;
      const float column = (dx + turn * dy) / cellWidth + (kGlyphWidth - 1) / 2.0F;
      const float row = (dy - turn * dx) / cellHeight + (kGlyphHeight - 1) / 2.0F;
      const float value = ink * inkBetween(glyph, column, row) + noise * random.bell();
      sample.image[y * kSide + x] = 2 * value - 0.5F;
    }
  }
  return sample;
}

Shard::Shard(std::uint64_t seed, std::size_t samples, std::size_t batch, std::size_t rank,
             std::size_t worldSize)
    : seed_(seed),
      rank_(rank),
      worldSize_(worldSize),
      blocks_(samples / batch),
      positions_((batch - rank + worldSize - 1) / worldSize) {
  samples_.reserve(blocks_ * positions_);
  for (std::size_t block = 0; block < blocks_; ++block) {
    for (std::size_t p = rank; p < batch; p += worldSize) {
      samples_.push_back(renderSample(seed, block * batch + p));
    }
  }
  order_.resize(positions_ * blocks_);
}

void Shard::shuffle(std::uint64_t epoch) {
  for (std::size_t k = 0; k < positions_; ++k) {
    const std::span row(order_.data() + k * blocks_, blocks_);
    for (std::size_t i = 0; i < blocks_; ++i) row[i] = static_cast<std::uint32_t>(i);
    const std::uint64_t position = rank_ + k * worldSize_;
    Random random(seed_, kShuffleBase + (epoch << 20) + position);
    for (std::size_t i = blocks_; i > 1; --i) std::swap(row[i - 1], row[random.below(i)]);
  }
}

std::vector<const Sample*> Shard::batchPart(std::size_t step) const {
  std::vector<const Sample*> part;
  part.reserve(positions_);
  for (std::size_t k = 0; k < positions_; ++k) {
    part.push_back(&samples_[order_[k * blocks_ + step] * positions_ + k]);
  }
  return part;
}

std::vector<Sample> testShard(std::uint64_t seed, std::size_t samples, std::size_t rank,
                              std::size_t worldSize) {
  std::vector<Sample> shard;
  shard.reserve(samples / worldSize + 1);
  for (std::size_t i = rank; i < samples; i += worldSize) {
    shard.push_back(renderSample(seed, kTestBase + i));
  }
  return shard;
}

}  // namespace digits
