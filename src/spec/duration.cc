#include <algorithm>
#include <array>
#include <vector>

#include "spec/grammar.h"
#include "spec/number.h"
#include "spec/quote.h"

namespace bole::spec {
namespace {

constexpr auto kExpected = "a time with units (90s, 30m, 2h, 1d, 1h30m) or HH:MM:SS or D-HH:MM:SS";

Unexpected refuse(std::string_view found, std::string hint = {}) {
  return fail(makeError(ErrorCode::kInvalid, "not a length of time")
                  .foundValue(quoted(found))
                  .expectedValue(kExpected)
                  .withHint(std::move(hint)));
}

struct Unit {
  std::vector<std::string_view> names;
  Duration length;
};

const std::vector<Unit>& units() {
  static const std::vector<Unit> kUnits = {
      {{"w", "week", "weeks"}, hours(24 * 7)},
      {{"d", "day", "days"}, hours(24)},
      {{"h", "hr", "hrs", "hour", "hours"}, hours(1)},
      {{"m", "min", "mins", "minute", "minutes"}, minutes(1)},
      {{"s", "sec", "secs", "second", "seconds"}, seconds(1)},
      {{"ms", "millisecond", "milliseconds"}, milliseconds(1)},
  };
  return kUnits;
}

// D-HH[:MM[:SS]] or HH:MM:SS, as sbatch has it. MM:SS is refused: half of its readers take it for
// HH:MM.
Result<Duration> parseClock(std::string_view whole) {
  auto text = whole;
  std::array<std::int64_t, 4> parts{};  // days, hours, minutes, seconds
  std::size_t next = 1;
  const bool hasDays = text.find('-') != std::string_view::npos;
  std::size_t count = 0;
  if (hasDays) {
    const auto days = takeWhole(text);
    if (!days || !text.starts_with('-')) return refuse(whole);
    parts[0] = *days;
    text.remove_prefix(1);
  }
  while (next < parts.size()) {
    const auto before = text.size();
    const auto part = takeWhole(text);
    const auto width = before - text.size();
    const bool first = count == 0;
    if (!part || (!first && width != 2) || (first && hasDays && width > 2)) return refuse(whole);
    parts[next++] = *part;
    ++count;
    if (!text.starts_with(':')) break;
    text.remove_prefix(1);
  }
  if (!text.empty()) return refuse(whole);
  if (!hasDays && count != 3) {
    return refuse(whole,
                  "two numbers can be read in two ways: write 1h30m, or 01:30:00, or 00:01:30");
  }
  if (parts[2] > 59 || parts[3] > 59 || (hasDays && parts[1] > 23)) {
    return refuse(whole, "minutes and seconds go to 59, hours after days to 23");
  }
  constexpr std::int64_t kMostParts = 1'000'000;  // keeps the sum below far from overflow
  if (parts[0] > kMostParts || parts[1] > kMostParts) return refuse(whole, "at most ten years");
  return hours(parts[0] * 24 + parts[1]) + minutes(parts[2]) + seconds(parts[3]);
}

Result<Duration> parseUnits(std::string_view whole) {
  auto text = whole;
  Duration total;
  auto unit = units().begin();  // units come in falling order, each at most once
  while (!text.empty()) {
    const auto number = takeWhole(text);
    if (!number)
      return refuse(whole, text.find('.') != std::string_view::npos
                               ? "for a part of an hour write 1h30m"
                               : "");
    while (text.starts_with(' ')) text.remove_prefix(1);
    const auto end = std::find_if_not(text.begin(), text.end(), isLetter);
    const auto name = text.substr(0, static_cast<std::size_t>(end - text.begin()));
    text.remove_prefix(name.size());
    while (text.starts_with(' ')) text.remove_prefix(1);
    if (name.empty()) {
      if (text.starts_with('.')) return refuse(whole, "for a part of an hour write 1h30m");
      return refuse(whole, "a number needs a unit: " + std::to_string(*number) + "s or " +
                               std::to_string(*number) + "m?");
    }
    unit = std::find_if(unit, units().end(), [&](const Unit& u) {
      return std::find(u.names.begin(), u.names.end(), name) != u.names.end();
    });
    if (unit == units().end())
      return refuse(whole, "units are w d h m s ms, the larger first, each once");
    if (*number > kMaxDuration.value / unit->length.value)
      return refuse(whole, "at most ten years");
    total += unit->length * *number;
    ++unit;
  }
  return total;
}

}  // namespace

Result<Duration> parseDuration(std::string_view text) {
  const auto trimmed = trim(text);
  if (trimmed.empty()) return refuse(text);
  const bool clock = trimmed.find_first_of(":-") != std::string_view::npos;
  BOLE_ASSIGN(const auto duration, clock ? parseClock(trimmed) : parseUnits(trimmed));
  if (duration > kMaxDuration) return refuse(text, "at most ten years");
  return duration;
}

}  // namespace bole::spec
