// What the ranks report of themselves (docs/progress.md), newest first in mind: lines of standard
// output and the file BOLE_PROGRESS_FILE. Anything that is not written as documented is no report
// and no error.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>

#include "engine/local/supervise/attempt_files.h"

namespace bole::supervise {

class ProgressBook {
 public:
  // A whole line of a rank's standard output. True if it was a report.
  bool takeLine(std::uint32_t rank, std::string_view line, Timestamp now);
  // The content of the rank's progress file. True if it says something new.
  bool takeFile(std::uint32_t rank, std::string_view content, Timestamp now);

  [[nodiscard]] Progress snapshot() const;

 private:
  std::map<std::uint32_t, RankProgress> ranks_;
  std::vector<CheckpointReport> checkpoints_;
};

// "key=value key=value": empty if it is not that (no pair at all, a word without '=', more than 64
// pairs).
[[nodiscard]] std::optional<ProgressValues> parseProgressValues(std::string_view text);

}  // namespace bole::supervise
