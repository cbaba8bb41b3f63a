#include "scheduler/value/fill_value.h"

#include <algorithm>
#include <bit>

#include "base/result.h"

namespace bole::scheduler {
namespace {

constexpr std::size_t kLength = 64;

std::uint64_t scramble(std::uint64_t z) {
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31U);
}

std::size_t hashOf(const FreeState& s) {
  std::uint64_t h = static_cast<std::uint64_t>(s.cpus) * 0x9E3779B97F4A7C15ULL +
                    static_cast<std::uint64_t>(s.memory) * 0xD6E8FEB86659FD93ULL + s.model;
  const auto words = std::bit_cast<std::array<std::uint64_t, 4>>(s.gpus);
  for (const auto w : words) h = (std::rotl(h, 23) ^ w) * 0x9E3779B97F4A7C15ULL;
  return scramble(h);
}

void sortUnique(std::vector<std::int64_t>& v) {
  std::sort(v.begin(), v.end());
  v.erase(std::unique(v.begin(), v.end()), v.end());
}

}  // namespace

FillValue::FillValue(const Mix& mix, FillOptions options) : sequences_(options.sequences) {
  std::vector<Kind> kinds;
  std::uint64_t total = 0;
  for (const auto& kind : mix.kinds) {
    if (kind.request.gpus == 0) continue;
    kinds.push_back(kind);
    total += kind.weight;
  }
  std::map<std::uint16_t, std::vector<std::int64_t>> perGpu;
  for (const auto& kind : kinds) {
    cpuSteps_.push_back(kind.request.cpus);
    memorySteps_.push_back(kind.request.memory);
    perGpu[kind.request.gpus].push_back(kind.request.perGpu);
  }
  sortUnique(cpuSteps_);
  sortUnique(memorySteps_);
  std::size_t offset = cpuSteps_.size() + 1;
  memoryOffset_ = offset;
  offset += memorySteps_.size() + 1;
  modelOffset_ = offset;
  offset += kMostModelsValued;
  for (auto& [gpus, steps] : perGpu) {
    sortUnique(steps);
    Group group{gpus, offset, {}};
    for (std::size_t free = 0; free <= kWholeGpuMilli; ++free)
      group.rank[free] = static_cast<std::uint8_t>(
          std::upper_bound(steps.begin(), steps.end(), static_cast<std::int64_t>(free)) -
          steps.begin());
    groups_.push_back(group);
    offset += steps.size() + 1;
  }
  stride_ = offset;
  masks_.resize(stride_ * sequences_);
  std::uint64_t state = options.seed;
  for (std::size_t k = 0; k < sequences_ && total > 0; ++k) {
    auto* masks = &masks_[k * stride_];
    for (std::size_t at = 0; at < kLength; ++at) {
      state += 0x9E3779B97F4A7C15ULL;
      auto drawn = scramble(state) % total;
      std::size_t i = 0;
      while (drawn >= kinds[i].weight) drawn -= kinds[i++].weight;
      const auto& r = kinds[i].request;
      forms_.push_back({r.cpus, r.memory, r.gpus, r.perGpu});
      const auto bit = 1ULL << at;
      for (std::size_t c = 0; c < cpuSteps_.size(); ++c)
        if (cpuSteps_[c] >= r.cpus) masks[c + 1] |= bit;
      for (std::size_t c = 0; c < memorySteps_.size(); ++c)
        if (memorySteps_[c] >= r.memory) masks[memoryOffset_ + c + 1] |= bit;
      for (std::size_t m = 0; m < kMostModelsValued; ++m)
        if ((r.models >> m & 1U) != 0) masks[modelOffset_ + m] |= bit;
      for (const auto& group : groups_) {
        if (group.gpus != r.gpus) continue;
        for (auto c = static_cast<std::size_t>(group.rank[r.perGpu]); c <= group.rank[1000]; ++c)
          masks[group.offset + c] |= bit;
      }
    }
  }
  memo_.resize(std::bit_ceil(options.mostRemembered * 2));
}

std::int64_t FillValue::of(const FreeState& state) {
  if (state.gpus[0] == 0) return 0;
  const auto mask = memo_.size() - 1;
  auto at = hashOf(state) & mask;
  while (memo_[at].value >= 0) {
    if (memo_[at].state == state) return memo_[at].value;
    at = (at + 1) & mask;
  }
  const auto value = compute(state);
  ++computed;
  if (2 * remembered_ >= memo_.size()) {
    for (auto& entry : memo_) entry.value = -1;
    remembered_ = 0;
    at = hashOf(state) & mask;
  }
  memo_[at] = {state, value};
  ++remembered_;
  return value;
}

std::int64_t FillValue::compute(const FreeState& state) const {
  const auto cpuRank = static_cast<std::size_t>(
      std::upper_bound(cpuSteps_.begin(), cpuSteps_.end(), state.cpus) - cpuSteps_.begin());
  const auto memoryRank = static_cast<std::size_t>(
      std::upper_bound(memorySteps_.begin(), memorySteps_.end(), state.memory) -
      memorySteps_.begin());
  std::int64_t sum = 0;
  for (std::size_t k = 0; k < sequences_; ++k) sum += leftFree(state, k, cpuRank, memoryRank);
  return sum;
}

std::uint32_t FillValue::leftFree(const FreeState& state, std::size_t sequence,
                                  std::size_t cpuRank, std::size_t memoryRank) const {
  const auto* masks = &masks_[sequence * stride_];
  const auto* forms = &forms_[sequence * kLength];
  auto gpus = state.gpus;
  auto cpus = state.cpus;
  auto memory = state.memory;
  std::size_t n = 0;  // of GPUs with something free
  while (n < gpus.size() && gpus[n] > 0) ++n;
  auto left = masks[modelOffset_ + state.model];
  while (n > 0) {
    std::uint64_t fit = 0;
    for (const auto& group : groups_) {
      if (group.gpus <= n) fit |= masks[group.offset + group.rank[gpus[group.gpus - 1U]]];
    }
    left &= fit & masks[cpuRank] & masks[memoryOffset_ + memoryRank];
    if (left == 0) break;
    const auto& form = forms[std::countr_zero(left)];
    left &= left - 1;
    cpus -= form.cpus;
    memory -= form.memory;
    while (cpuRank > 0 && cpuSteps_[cpuRank - 1] > cpus) --cpuRank;
    while (memoryRank > 0 && memorySteps_[memoryRank - 1] > memory) --memoryRank;
    std::size_t end = n;
    while (gpus[end - 1] < form.perGpu) --end;
    for (std::size_t i = end - form.gpus; i < end; ++i)
      gpus[i] = static_cast<std::uint16_t>(gpus[i] - form.perGpu);
    // What was taken from is still in order; it sinks into those after it, the last of it first.
    for (std::size_t i = end; i-- > end - form.gpus;) {
      const auto value = gpus[i];
      std::size_t at = i;
      for (; at + 1 < n && gpus[at + 1] > value; ++at) gpus[at] = gpus[at + 1];
      gpus[at] = value;
    }
    while (n > 0 && gpus[n - 1] == 0) --n;
  }
  std::uint32_t free = 0;
  for (std::size_t i = 0; i < n; ++i) free += gpus[i];
  return free;
}

}  // namespace bole::scheduler
