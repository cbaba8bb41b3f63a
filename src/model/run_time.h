// How long jobs are expected to run.
#pragma once

#include <algorithm>
#include <bit>
#include <optional>
#include <vector>

#include "model/tables.h"

namespace bole::model {

// RunTimes::OfSize::size of a job of this shape.
[[nodiscard]] inline std::uint32_t sizeOf(const JobShape& shape) {
  std::uint64_t gpus = 0;
  for (const auto& task : shape.tasks) {
    const auto each = task.gpus.share.value == 0 ? kWholeGpu.value : task.gpus.share.value;
    gpus += std::uint64_t{task.replicas} * task.gpus.count * static_cast<std::uint64_t>(each);
  }
  return static_cast<std::uint32_t>(std::bit_width((gpus + 999) / 1000));
}

inline void noteRunTime(RunTimes& times, std::uint32_t size, Duration ran) {
  auto& sizes = times.sizes;
  auto at = std::find_if(sizes.begin(), sizes.end(), [&](const auto& s) { return s.size >= size; });
  if (at == sizes.end() || at->size != size) at = sizes.insert(at, {size, {}});
  if (at->newest.size() == RunTimes::kMostKept) at->newest.erase(at->newest.begin());
  at->newest.push_back(ran);
}

// The median of what the user's newest jobs of this size took, else of the nearest size; nothing
// where none has ended yet. Never above the time limit.
[[nodiscard]] inline std::optional<Duration> learntRunTime(const Tables& tables,
                                                           const JobRecord& job) {
  const auto* times = job.user.isSet() ? tables.runTimes.find(job.user) : nullptr;
  if (!times || times->sizes.empty()) return std::nullopt;
  const auto size = sizeOf(*job.shape);
  const auto far = [&](const RunTimes::OfSize& s) {
    return s.size > size ? s.size - size : size - s.size;
  };
  const auto nearest =
      std::min_element(times->sizes.begin(), times->sizes.end(),
                       [&](const auto& a, const auto& b) { return far(a) < far(b); });
  auto sorted = nearest->newest;
  std::sort(sorted.begin(), sorted.end());
  const auto median = sorted[sorted.size() / 2];
  const auto limit = job.shape->timeLimit;
  return limit.value > 0 ? std::min(median, limit) : median;
}

}  // namespace bole::model
