#include "scheduler/value/mix.h"

#include "base/result.h"

namespace bole::scheduler {

std::uint64_t Mix::weight() const {
  std::uint64_t sum = 0;
  for (const auto& kind : kinds) sum += kind.weight;
  return sum;
}

MixCounter::MixCounter(std::size_t mostKinds) : mostKinds_(mostKinds) {
  BOLE_ASSERT(mostKinds > 0);
}

void MixCounter::add(const Request& request, std::uint64_t count) {
  if (count == 0) return;
  counts_[request] += count;
  while (counts_.size() > mostKinds_) {
    for (auto& [kind, seen] : counts_) seen /= 2;
    std::erase_if(counts_, [](const auto& entry) { return entry.second == 0; });
  }
}

Mix MixCounter::mix() const {
  Mix mix;
  for (const auto& [request, count] : counts_) mix.kinds.push_back({request, count});
  return mix;
}

}  // namespace bole::scheduler
