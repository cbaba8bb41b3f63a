// A workload's own distribution: which kinds of request come, and how often. Learnt from a history
// of requests; the same history in any order gives the same mix.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "scheduler/value/free_state.h"

namespace bole::scheduler {

struct Kind {
  Request request;
  std::uint64_t weight = 0;  // above 0
  bool operator==(const Kind&) const = default;
};

// Kinds in the order of their requests; each request once.
struct Mix {
  std::vector<Kind> kinds;
  [[nodiscard]] std::uint64_t weight() const;
};

// Counts of requests, of a bounded number of kinds: when one too many is new, every count is halved
// (and what falls to 0 forgotten) until there is room. So what was asked for lately weighs more.
class MixCounter {
 public:
  explicit MixCounter(std::size_t mostKinds = 1024);  // 1 or more
  void add(const Request& request, std::uint64_t count = 1);
  [[nodiscard]] Mix mix() const;

 private:
  std::size_t mostKinds_;
  std::map<Request, std::uint64_t> counts_;
};

}  // namespace bole::scheduler
