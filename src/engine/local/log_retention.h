// Which old logs go when there are too many: the oldest attempts' first.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/local/layout.h"

namespace bole::engine {

struct RetentionLimits {
  std::size_t attempts = 2'000;  // ended ones whose logs are kept
  Bytes bytes = kGiB * 8;        // of their logs together
};

// True if nothing but logs and a claim is left in the attempt's directory.
[[nodiscard]] bool isForgotten(const std::string& attemptDirectory);

// The attempts that have a directory.
[[nodiscard]] std::uint64_t highestNumberIn(const std::string& directory);  // 0: none
[[nodiscard]] std::vector<AttemptId> attemptsOnDisk(const Layout& layout);

// Attempts that are forgotten but for their logs. One thread; blocks on the disk.
class LogRetention {
 public:
  LogRetention(Layout layout, RetentionLimits limits)
      : layout_(std::move(layout)), limits_(limits) {}

  // Finds what earlier lives of the server have left.
  void scan();

  // Removes all of the attempt but its logs and its claim, and whatever else is too much then. The
  // claim stays so that a supervisor that was spawned long ago and is slow to wake can still not
  // start anything.
  [[nodiscard]] Result<void> keepOnlyLogs(AttemptId attempt);

  [[nodiscard]] std::size_t size() const { return kept_.size(); }

 private:
  void keep(AttemptId attempt);
  void trim();

  Layout layout_;
  RetentionLimits limits_;
  std::map<AttemptId, Bytes> kept_;
  Bytes total_;
};

}  // namespace bole::engine
