// What a node with so much free is worth less than it seems: the GPU-milli that stay free on it in
// the end, in expectation over what the workload may yet ask for.
//
// A fixed set of sequences of requests is drawn from the mix. Each is offered to the node as if it
// stood alone: what fits is placed (on the tightest GPUs), the rest is passed over. The value is
// the sum over the sequences of what is left free. So 0 is best, and the cost of a placement is the
// value after it less the value before, which may be below 0.
//
// Deterministic: integers only, and the same mix and options give the same values everywhere. What
// is remembered never changes a value. Not safe for use by several threads at once.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "scheduler/value/mix.h"
#include "scheduler/value/scramble.h"

namespace bole::scheduler {

struct FillOptions {
  std::uint64_t seed = 1;
  std::uint32_t sequences = 64;            // 1 to 4096; the time of a new state grows with it
  std::uint32_t cpuOnlyWeight = 0;         // 0 to 1000: see cpuOnlyWeight() of mix.h
  std::size_t mostRemembered = 1U << 16U;  // states, of about 70 bytes each; 1 or more
};

class FillValue {
 public:
  explicit FillValue(const Mix& mix, FillOptions options = {});

  // 0 to scale() x the state's GPU-milli. The state is arranged.
  [[nodiscard]] std::int64_t of(const FreeState& state);
  // So many units of value are one GPU-milli.
  [[nodiscard]] std::int64_t scale() const { return sequences_; }

  // The same without looking at or keeping what is remembered.
  [[nodiscard]] std::int64_t compute(const FreeState& state) const;
  // How often a value had to be computed so far.
  [[nodiscard]] std::uint64_t computed() const { return computed_; }

 private:
  // What is offered at one position of a sequence.
  struct Offer {
    std::int64_t cpus;
    std::int64_t memory;
    std::uint16_t gpus;
    std::uint16_t perGpu;
  };
  // Offers that ask for the same number of GPUs. rank[f]: how many of their distinct shares are at
  // most f.
  struct Width {
    std::uint16_t gpus;
    std::size_t masks;  // offset of its masks within a sequence's
    std::array<std::uint16_t, kWholeGpuMilli + 1> rank;
  };
  struct Ranks {
    std::size_t cpus;
    std::size_t memory;
  };
  struct Entry {
    FreeState state;
    std::int64_t value;
  };

  struct HashState {
    std::size_t operator()(const FreeState& state) const { return hashOf(state); }
  };

  void layOut(const std::vector<Kind>& kinds);
  void draw(const std::vector<Kind>& kinds, std::uint64_t seed);
  void write(std::size_t sequence, std::size_t position, const Request& request);
  // What a sequence comes to: the GPU-milli left free, what is left of the rest, and a mask of the
  // positions whose offers were placed.
  struct Course {
    std::uint32_t left;
    std::int64_t cpus;
    std::int64_t memory;
    std::uint64_t placed;
  };
  // Of those positions of the sequence that are in `coming`.
  [[nodiscard]] Course leftFree(FreeState& state, std::size_t sequence, Ranks ranks,
                                std::uint64_t coming) const;
  static void take(FreeState& state, std::size_t& n, const Offer& offer);
  // What each sequence comes to on these GPUs where CPUs and memory never lack, and in place of
  // what is left of these what it takes: where there is so much, the answer is the same.
  const Course* coursesOf(const FreeState& state);
  [[nodiscard]] std::uint32_t leftAfter(const Course& course, const FreeState& state,
                                        std::size_t sequence, Ranks ranks) const;
  [[nodiscard]] std::int64_t valueBy(const Course* courses, const FreeState& state) const;
  // The slot of the state, or the empty one where it belongs.
  [[nodiscard]] std::size_t slotOf(const FreeState& state) const;
  void remember(const FreeState& state, std::int64_t value);

  std::uint32_t sequences_;
  std::vector<std::int64_t> cpuSteps_;  // distinct requests, ascending
  std::vector<std::int64_t> memorySteps_;
  std::vector<Width> widths_;  // ascending
  std::vector<Offer> offers_;  // kLength a sequence
  // stride_ words a sequence, each a mask over its positions: those whose need of CPUs is among the
  // first r steps, of memory among the first r, that may run on model m, that need no GPU, that
  // are of a width and whose share is among its first r.
  std::vector<std::uint64_t> masks_;
  std::size_t stride_ = 0;
  std::size_t memoryMasks_ = 0;
  std::size_t modelMasks_ = 0;
  std::size_t noGpuMask_ = 0;

  std::unordered_map<FreeState, std::size_t, HashState> courseOf_;  // by GPUs and model alone
  std::vector<Course> courses_;  // so many as there are sequences, one after the other

  std::size_t mostRemembered_;
  std::vector<Entry> entries_;
  std::vector<std::uint32_t> slots_;  // index into entries_ plus 1; a power of two of them
  std::uint64_t computed_ = 0;
};

}  // namespace bole::scheduler
