#include "scheduler/value/fill_value.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "base/result.h"
#include "scheduler/value/scramble.h"

namespace bole::scheduler {
namespace {

constexpr std::size_t kLength = 64;  // positions of a sequence: one bit each
constexpr std::size_t kFirstSlots = 1024;
constexpr std::size_t kMostCourses = 16384;  // states of GPUs, of about 1.5 KiB each

std::vector<std::int64_t> distinct(std::vector<std::int64_t> values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

std::size_t atMost(const std::vector<std::int64_t>& steps, std::int64_t value) {
  return static_cast<std::size_t>(std::upper_bound(steps.begin(), steps.end(), value) -
                                  steps.begin());
}

using Gpus = std::array<std::uint16_t, kMostGpusValued>;

// How many have something free.
std::size_t widthOf(const Gpus& gpus) {
  std::size_t n = 0;
  while (n < gpus.size() && gpus[n] > 0) ++n;
  return n;
}

// Takes the offer from the tightest of the first n GPUs (sorted, all above 0); it fits.
void takeTightest(Gpus& gpus, std::size_t n, std::uint16_t count, std::uint16_t share) {
  auto end = n;
  while (gpus[end - 1] < share) --end;
  for (auto i = end - count; i < end; ++i) gpus[i] = static_cast<std::uint16_t>(gpus[i] - share);
  // What was taken from is still in order; it sinks into those after it, the last of it first.
  for (auto i = end; i-- > end - count;) {
    const auto value = gpus[i];
    auto at = i;
    for (; at + 1 < n && gpus[at + 1] > value; ++at) gpus[at] = gpus[at + 1];
    gpus[at] = value;
  }
}

}  // namespace

FillValue::FillValue(const Mix& mix, FillOptions options)
    : sequences_(options.sequences), mostRemembered_(options.mostRemembered), slots_(kFirstSlots) {
  BOLE_ASSERT(options.sequences >= 1 && options.sequences <= 4096);
  BOLE_ASSERT(options.cpuOnlyWeight <= 1000 && options.mostRemembered >= 1);
  std::vector<Kind> kinds;
  for (auto kind : mix.kinds) {
    kind.weight *= kind.request.gpus > 0 ? 1000 : options.cpuOnlyWeight;
    if (kind.weight > 0) kinds.push_back(kind);
  }
  layOut(kinds);
  if (!kinds.empty()) draw(kinds, options.seed);
}

void FillValue::layOut(const std::vector<Kind>& kinds) {
  std::map<std::uint16_t, std::vector<std::int64_t>> shares;
  for (const auto& [request, weight] : kinds) {
    cpuSteps_.push_back(request.cpus);
    memorySteps_.push_back(request.memory);
    if (request.gpus > 0) shares[request.gpus].push_back(request.perGpu);
  }
  cpuSteps_ = distinct(std::move(cpuSteps_));
  memorySteps_ = distinct(std::move(memorySteps_));
  memoryMasks_ = cpuSteps_.size() + 1;
  modelMasks_ = memoryMasks_ + memorySteps_.size() + 1;
  noGpuMask_ = modelMasks_ + kMostModelsValued;
  stride_ = noGpuMask_ + 1;
  for (auto& [gpus, all] : shares) {
    const auto steps = distinct(all);
    auto& width = widths_.emplace_back(Width{gpus, stride_, {}});
    for (std::size_t free = 0; free <= kWholeGpuMilli; ++free)
      width.rank[free] = static_cast<std::uint16_t>(atMost(steps, static_cast<std::int64_t>(free)));
    stride_ += steps.size() + 1;
  }
  masks_.resize(stride_ * sequences_);
  offers_.resize(kLength * sequences_);
}

// At each position the sequences share out the whole of the mix among them, in a random order: so
// few of them are as even as many drawn blindly.
void FillValue::draw(const std::vector<Kind>& kinds, std::uint64_t seed) {
  Scrambler random(seed);
  const auto total = Mix{kinds}.weight();
  std::vector<std::uint64_t> order(sequences_);
  for (std::size_t position = 0; position < kLength; ++position) {
    std::iota(order.begin(), order.end(), 0);
    for (auto k = order.size(); k > 1; --k) std::swap(order[k - 1], order[random.below(k)]);
    for (std::size_t sequence = 0; sequence < sequences_; ++sequence) {
      const auto low = total * order[sequence] / sequences_;
      const auto high = total * (order[sequence] + 1) / sequences_;
      auto drawn = low + random.below(std::max<std::uint64_t>(high - low, 1));
      auto kind = kinds.begin();
      while (drawn >= kind->weight) drawn -= (kind++)->weight;
      write(sequence, position, kind->request);
    }
  }
}

void FillValue::write(std::size_t sequence, std::size_t position, const Request& request) {
  auto* masks = &masks_[sequence * stride_];
  const auto bit = 1ULL << position;
  offers_[sequence * kLength + position] = {request.cpus, request.memory, request.gpus,
                                            request.perGpu};
  for (auto r = atMost(cpuSteps_, request.cpus); r <= cpuSteps_.size(); ++r) masks[r] |= bit;
  for (auto r = atMost(memorySteps_, request.memory); r <= memorySteps_.size(); ++r)
    masks[memoryMasks_ + r] |= bit;
  for (std::size_t m = 0; m < kMostModelsValued; ++m) {
    if (request.gpus == 0 || (request.models >> m & 1U) != 0) masks[modelMasks_ + m] |= bit;
  }
  if (request.gpus == 0) masks[noGpuMask_] |= bit;
  for (const auto& width : widths_) {
    if (width.gpus != request.gpus) continue;
    for (std::size_t r = width.rank[request.perGpu]; r <= width.rank[kWholeGpuMilli]; ++r)
      masks[width.masks + r] |= bit;
  }
}

std::int64_t FillValue::of(const FreeState& state) {
  if (state.gpus[0] == 0) return 0;
  const auto slot = slots_[slotOf(state)];
  if (slot != 0) return entries_[slot - 1].value;
  const auto value = valueBy(coursesOf(state), state);
  ++computed_;
  remember(state, value);
  return value;
}

std::size_t FillValue::slotOf(const FreeState& state) const {
  auto at = hashOf(state) & (slots_.size() - 1);
  while (slots_[at] != 0 && entries_[slots_[at] - 1].state != state)
    at = (at + 1) & (slots_.size() - 1);
  return at;
}

void FillValue::remember(const FreeState& state, std::int64_t value) {
  if (entries_.size() >= mostRemembered_) {
    entries_.clear();
    slots_.assign(kFirstSlots, 0);
  }
  if (2 * entries_.size() >= slots_.size()) {
    slots_.assign(2 * slots_.size(), 0);
    for (std::uint32_t i = 0; i < entries_.size(); ++i) slots_[slotOf(entries_[i].state)] = i + 1;
  }
  const auto at = slotOf(state);
  entries_.push_back({state, value});
  slots_[at] = static_cast<std::uint32_t>(entries_.size());
}

std::int64_t FillValue::compute(const FreeState& state) const {
  const Ranks ranks{atMost(cpuSteps_, state.cpus), atMost(memorySteps_, state.memory)};
  std::int64_t sum = 0;
  for (std::size_t k = 0; k < sequences_; ++k) {
    auto run = state;
    sum += leftFree(run, k, ranks, ~0ULL).left;
  }
  return sum;
}

const FillValue::Course* FillValue::coursesOf(const FreeState& state) {
  constexpr auto kPlenty = std::numeric_limits<std::int64_t>::max();
  auto gpus = state;
  gpus.cpus = gpus.memory = 0;
  if (courseOf_.size() >= kMostCourses) {
    courseOf_.clear();
    courses_.clear();
  }
  const auto [known, isNew] = courseOf_.try_emplace(gpus, courses_.size());
  if (isNew) {
    for (std::size_t k = 0; k < sequences_; ++k) {
      auto run = gpus;
      run.cpus = run.memory = kPlenty;
      const auto end = leftFree(run, k, {cpuSteps_.size(), memorySteps_.size()}, ~0ULL);
      courses_.push_back({end.left, kPlenty - end.cpus, kPlenty - end.memory, end.placed});
    }
  }
  return &courses_[known->second];
}

std::int64_t FillValue::valueBy(const Course* courses, const FreeState& state) const {
  const Ranks ranks{atMost(cpuSteps_, state.cpus), atMost(memorySteps_, state.memory)};
  std::int64_t sum = 0;
  for (std::size_t k = 0; k < sequences_; ++k) {
    const auto& course = courses[k];
    const bool isPlenty = state.cpus >= course.cpus && state.memory >= course.memory;
    sum += isPlenty ? course.left : leftAfter(course, state, k, ranks);
  }
  return sum;
}

// As far as CPUs and memory last all is as if they never lacked: no need to look for what fits.
std::uint32_t FillValue::leftAfter(const Course& course, const FreeState& state,
                                   std::size_t sequence, Ranks ranks) const {
  auto run = state;
  auto n = widthOf(run.gpus);
  for (auto rest = course.placed; rest != 0; rest &= rest - 1) {
    const auto position = std::countr_zero(rest);
    const auto& offer = offers_[sequence * kLength + static_cast<std::size_t>(position)];
    if (offer.cpus > run.cpus || offer.memory > run.memory)
      return leftFree(run, sequence, ranks, ~0ULL << position).left;
    take(run, n, offer);
  }
  return run.gpuMilli();
}

void FillValue::take(FreeState& state, std::size_t& n, const Offer& offer) {
  state.cpus -= offer.cpus;
  state.memory -= offer.memory;
  if (offer.gpus == 0) return;
  takeTightest(state.gpus, n, offer.gpus, offer.perGpu);
  while (n > 0 && state.gpus[n - 1] == 0) --n;
}

// What is left only shrinks: an offer passed over once would never fit later. So one mask holds
// those still to come, and the next that fits by its GPUs is its lowest bit; whether CPUs and memory
// are enough for it is asked then.
FillValue::Course FillValue::leftFree(FreeState& state, std::size_t sequence, Ranks ranks,
                                      std::uint64_t coming) const {
  const auto* masks = &masks_[sequence * stride_];
  const auto* offers = &offers_[sequence * kLength];
  auto n = widthOf(state.gpus);
  std::uint64_t placed = 0;
  coming &= masks[modelMasks_ + state.model] & masks[ranks.cpus] &
            masks[memoryMasks_ + ranks.memory];
  while (n > 0 && coming != 0) {
    auto fitting = masks[noGpuMask_];
    for (const auto& width : widths_) {
      if (width.gpus > n) break;
      fitting |= masks[width.masks + width.rank[state.gpus[width.gpus - 1U]]];
    }
    coming &= fitting;
    const Offer* offer = nullptr;
    for (; coming != 0 && !offer; coming &= coming - 1) {
      const auto& next = offers[std::countr_zero(coming)];
      if (next.cpus > state.cpus || next.memory > state.memory) continue;
      offer = &next;
      placed |= coming & -coming;
    }
    if (!offer) break;
    take(state, n, *offer);
  }
  return {state.gpuMilli(), state.cpus, state.memory, placed};
}

}  // namespace bole::scheduler
