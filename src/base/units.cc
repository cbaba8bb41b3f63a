#include "base/units.h"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <ctime>

namespace bole {

std::string formatBytes(Bytes bytes) {
  static constexpr std::array<const char*, 5> kNames = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  std::int64_t scale = 1;
  while (unit + 1 < kNames.size() && bytes.value / scale >= 1024) {
    scale *= 1024;
    ++unit;
  }
  if (bytes.value % scale == 0) return fmt::format("{} {}", bytes.value / scale, kNames[unit]);
  const std::int64_t tenths = bytes.value / scale * 10 + bytes.value % scale * 10 / scale;
  if (tenths % 10 == 0) return fmt::format("{} {}", tenths / 10, kNames[unit]);
  return fmt::format("{}.{} {}", tenths / 10, tenths % 10, kNames[unit]);
}

std::string formatDuration(Duration duration) {
  if (duration.value < 0) return "-" + formatDuration(Duration(-duration.value));
  const std::int64_t tenths = duration.value / 100'000;
  const std::int64_t whole = tenths / 10;
  if (whole < 60) return fmt::format("{}.{}s", whole, tenths % 10);
  if (whole < 3600) return fmt::format("{}m {:02}s", whole / 60, whole % 60);
  if (whole < 86'400) return fmt::format("{}h {:02}m", whole / 3600, whole % 3600 / 60);
  return fmt::format("{}d {:02}h", whole / 86'400, whole % 86'400 / 3600);
}

std::string formatTimestamp(Timestamp timestamp) {
  std::time_t whole = timestamp.micros / 1'000'000;
  std::tm parts{};
  gmtime_r(&whole, &parts);
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02}", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
}

}  // namespace bole
