// Points in time, and parts of a week, as people write them. Errors have no `where`.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "model/policy.h"

namespace bole::spec {

// "2026-12-24T20:00:00+08:00", "2026-12-24 20:00Z": RFC 3339 to the second, which may be left out;
// the offset from UTC is needed, since nobody's own time zone is known here. Years 1970 to 9999.
[[nodiscard]] Result<Timestamp> parseTime(std::string_view text);
// The same in UTC: "2026-12-24T12:00:00Z".
[[nodiscard]] std::string writeTime(Timestamp time);

// When a job may start at the earliest: a time, or how long after it was submitted ("2h"); the
// other of the two is 0.
struct Begin {
  Timestamp at;
  Duration delay;
};
[[nodiscard]] Result<Begin> parseBegin(std::string_view text);

// "+08:00", "-03:30", "Z".
[[nodiscard]] Result<Duration> parseOffset(std::string_view text);
[[nodiscard]] std::string writeOffset(Duration offset);

// "mon-fri 20:00-08:00", "sat,sun", "22:00-06:00": the days on which it opens (every day where none
// are named) and the hours (the whole day likewise); an end that is not after the start is on the
// next day.
[[nodiscard]] Result<model::Window> parseWindow(std::string_view text);
[[nodiscard]] std::string writeWindow(const model::Window& window);

}  // namespace bole::spec
