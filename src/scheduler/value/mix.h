// A workload's own distribution: which kinds of request come, and how often. Learnt from a history
// of requests, in bounded memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "scheduler/value/free_state.h"

namespace bole::scheduler {

struct Kind {
  Request request;
  std::uint64_t weight = 0;  // 1 or more; all of a mix together below 2^40
  bool operator==(const Kind&) const = default;
};

// Kinds in the order of their requests, each once.
struct Mix {
  std::vector<Kind> kinds;
  [[nodiscard]] std::uint64_t weight() const;
  bool operator==(const Mix&) const = default;
};

// Counts requests. The same requests give the same mix, and in any order as long as there is room
// for their kinds. When a kind too many comes, all counts are halved and the rarest kinds
// forgotten, down to three quarters of the room: what was asked for lately weighs more.
class MixCounter {
 public:
  explicit MixCounter(std::size_t mostKinds = 1024);  // 4 or more
  void add(const Request& request, std::uint64_t count = 1);
  [[nodiscard]] Mix mix() const;

 private:
  void makeRoom();

  std::size_t mostKinds_;
  std::map<Request, std::uint64_t> counts_;
};

// How much requests without GPUs count in FillValue, in thousandths. Where CPUs are plenty beside
// the GPUs, such requests find room that no GPU will need, and counting them only blurs the rest:
// 0 as long as the mix asks for less than nine tenths of the CPUs when it asks for all GPUs, rising
// to 300 when it asks for all of both. `cpus` (milli) and `gpus` (milli) are the cloud's; above 0.
[[nodiscard]] std::uint32_t cpuOnlyWeight(const Mix& mix, std::int64_t cpus, std::int64_t gpus);

}  // namespace bole::scheduler
