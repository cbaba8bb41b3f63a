#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/value/mix.h"

namespace bole::scheduler {

struct FillOptions {
  std::uint64_t seed = 1;
  std::uint32_t sequences = 128;
  std::size_t mostRemembered = 1U << 17U;
};

class FillValue {
 public:
  explicit FillValue(const Mix& mix, FillOptions options = {});
  [[nodiscard]] std::int64_t of(const FreeState& state);
  [[nodiscard]] std::int64_t scale() const { return sequences_; }
  std::size_t computed = 0;

 private:
  struct Form {  // all a step needs of a kind
    std::int64_t cpus;
    std::int64_t memory;
    std::uint16_t gpus;
    std::uint16_t perGpu;
  };
  struct Group {
    std::uint16_t gpus;
    std::size_t offset;
    std::array<std::uint8_t, kWholeGpuMilli + 1> rank;
  };
  [[nodiscard]] std::int64_t compute(const FreeState& state) const;
  [[nodiscard]] std::uint32_t leftFree(const FreeState& state, std::size_t sequence,
                                       std::size_t cpuRank, std::size_t memoryRank) const;

  std::uint32_t sequences_;
  std::vector<Form> forms_;             // of each position of each sequence
  std::vector<std::int64_t> cpuSteps_;  // distinct, ascending
  std::vector<std::int64_t> memorySteps_;
  std::vector<Group> groups_;
  std::size_t stride_ = 0;
  std::size_t memoryOffset_ = 0;
  std::size_t modelOffset_ = 0;
  std::vector<std::uint64_t> masks_;

  struct Entry {
    FreeState state;
    std::int64_t value = -1;
  };
  std::vector<Entry> memo_;
  std::size_t remembered_ = 0;
};

}  // namespace bole::scheduler
