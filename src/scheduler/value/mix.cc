#include "scheduler/value/mix.h"

#include <algorithm>

#include "base/result.h"

namespace bole::scheduler {

std::uint64_t Mix::weight() const {
  std::uint64_t sum = 0;
  for (const auto& kind : kinds) sum += kind.weight;
  return sum;
}

MixCounter::MixCounter(std::size_t mostKinds) : mostKinds_(mostKinds) {
  BOLE_ASSERT(mostKinds >= 4);
}

void MixCounter::add(const Request& request, std::uint64_t count) {
  if (count == 0) return;
  const auto known = counts_.find(request);
  if (known != counts_.end()) {
    known->second += count;
    return;
  }
  if (counts_.size() == mostKinds_) makeRoom();
  counts_.emplace(request, count);
}

void MixCounter::makeRoom() {
  std::vector<std::uint64_t> sorted;
  for (const auto& [request, count] : counts_) sorted.push_back(count);
  const auto dropped = sorted.size() - mostKinds_ * 3 / 4;
  const auto last = sorted.begin() + static_cast<std::ptrdiff_t>(dropped - 1);
  std::nth_element(sorted.begin(), last, sorted.end());
  // Among the equally rare the first by request go, just as many as are too many.
  auto tied = static_cast<std::size_t>(
      std::count(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(dropped), *last));
  const auto limit = *last;
  std::erase_if(counts_, [&](const auto& entry) {
    if (entry.second != limit) return entry.second < limit;
    if (tied == 0) return false;
    --tied;
    return true;
  });
  for (auto& [request, count] : counts_) count = std::max<std::uint64_t>(count / 2, 1);
}

Mix MixCounter::mix() const {
  Mix mix;
  for (const auto& [request, count] : counts_) mix.kinds.push_back({request, count});
  return mix;
}

std::uint32_t cpuOnlyWeight(const Mix& mix, std::int64_t cpus, std::int64_t gpus) {
  BOLE_ASSERT(cpus > 0 && gpus > 0);
  double askedCpus = 0;
  double askedGpus = 0;
  for (const auto& kind : mix.kinds) {
    const auto weight = static_cast<double>(kind.weight);
    askedCpus += weight * static_cast<double>(kind.request.cpus);
    askedGpus += weight * kind.request.gpuMilli();
  }
  constexpr double kFrom = 0.9;
  constexpr double kMost = 300;
  if (askedGpus == 0) return static_cast<std::uint32_t>(kMost);
  const auto ratio = askedCpus / askedGpus * static_cast<double>(gpus) / static_cast<double>(cpus);
  const auto weight = std::clamp((ratio - kFrom) / (1 - kFrom), 0.0, 1.0) * kMost;
  return static_cast<std::uint32_t>(weight);
}

}  // namespace bole::scheduler
