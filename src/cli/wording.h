// What people read of the server's answers, and what they may write: names of jobs, times, lists of
// GPUs. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "cli/table.h"
#include "model/views.h"

namespace bole::cli {

[[nodiscard]] std::string jobTitle(const model::JobView& job);  // "job 7 (digits)"
[[nodiscard]] std::string stateName(model::JobState state);     // "RUNNING"
[[nodiscard]] Tint tintOf(model::JobState state);
[[nodiscard]] std::string gpuCount(std::int64_t gpus, bool emulated);       // "4 emulated", "-"
[[nodiscard]] std::string indexList(const std::vector<std::uint32_t>& of);  // "0-3", "0,2", "-"
[[nodiscard]] std::string progressText(const model::ProgressView& progress);
[[nodiscard]] std::string timeText(Timestamp time);  // "2026-11-30 12:43:09 UTC", "-"
[[nodiscard]] std::string spanText(Duration span);   // "1m 02s", "-" where it is 0
[[nodiscard]] std::string gpuTimeText(std::uint64_t gpuMilliseconds);  // "49.2 GPU-seconds"
[[nodiscard]] std::string cpusText(MilliCpu cpus);                     // "0.5", "64"
[[nodiscard]] std::string counted(std::uint64_t count, const char* one, const char* many);

// "90s", "30m", "1h30m", "2d", "500ms", "15" (seconds).
[[nodiscard]] Result<Duration> parseSpan(std::string_view text);
// A span before `now`, "2026-11-30", "2026-11-30T12:43:09[.5][Z]" or with a space (all UTC), or
// seconds since 1970 as "@N".
[[nodiscard]] Result<Timestamp> parseMoment(std::string_view text, Timestamp now);

}  // namespace bole::cli
