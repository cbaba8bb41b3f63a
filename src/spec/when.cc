#include "spec/when.h"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <optional>
#include <vector>

#include "spec/number.h"
#include "spec/quote.h"
#include "spec/spec.h"

namespace bole::spec {
namespace {

constexpr std::array<std::string_view, 7> kDays = {"mon", "tue", "wed", "thu", "fri", "sat", "sun"};
constexpr auto kTimeExpected = "a time with its offset from UTC (2026-12-24T20:00+08:00)";
constexpr auto kWindowExpected = "days and hours (mon-fri 20:00-08:00; sat,sun; 22:00-06:00)";

Error refuse(std::string what, std::string_view text, std::string_view expected) {
  return makeError(ErrorCode::kInvalid, std::move(what))
      .foundValue(quoted(text))
      .expectedValue(std::string(expected));
}

bool take(std::string_view& text, char c) {
  if (text.empty() || text.front() != c) return false;
  text.remove_prefix(1);
  return true;
}

// Exactly so many digits.
std::optional<int> takeDigits(std::string_view& text, std::size_t count) {
  if (text.size() < count) return std::nullopt;
  int number = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (!isDigit(text[i])) return std::nullopt;
    number = number * 10 + (text[i] - '0');
  }
  text.remove_prefix(count);
  return number;
}

// "HH:MM" as minutes, up to `most`.
std::optional<int> takeClock(std::string_view& text, int most) {
  const auto hour = takeDigits(text, 2);
  if (!hour || !take(text, ':')) return std::nullopt;
  const auto minute = takeDigits(text, 2);
  if (!minute || *minute > 59 || *hour * 60 + *minute > most) return std::nullopt;
  return *hour * 60 + *minute;
}

std::optional<Duration> takeOffset(std::string_view& text) {
  if (take(text, 'Z') || take(text, 'z')) return Duration();
  if (text.empty() || (text.front() != '+' && text.front() != '-')) return std::nullopt;
  const int sign = text.front() == '-' ? -1 : 1;
  text.remove_prefix(1);
  const auto clock = takeClock(text, 14 * 60);
  return clock ? std::optional(minutes(*clock * sign)) : std::nullopt;
}

std::optional<Timestamp> takeDate(std::string_view& text) {
  const auto year = takeDigits(text, 4);
  if (!year || !take(text, '-')) return std::nullopt;
  const auto month = takeDigits(text, 2);
  if (!month || !take(text, '-')) return std::nullopt;
  const auto day = takeDigits(text, 2);
  if (!day) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(*year),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok() || *year < 1970) return std::nullopt;
  return Timestamp() + hours(24 * std::chrono::sys_days(date).time_since_epoch().count());
}

// "mon", "mon-fri": adds the days.
bool takeDays(std::string_view& text, std::uint8_t& days) {
  const auto one = [&]() -> std::optional<std::size_t> {
    std::string word;
    for (const char c : text.substr(0, 3)) word += toLower(c);
    for (std::size_t d = 0; d < kDays.size(); ++d) {
      if (word != kDays[d]) continue;
      text.remove_prefix(3);
      return d;
    }
    return std::nullopt;
  };
  const auto first = one();
  if (!first) return false;
  auto last = first;
  if (take(text, '-')) last = one();
  if (!last) return false;
  for (auto d = *first;; d = (d + 1) % kDays.size()) {
    days = static_cast<std::uint8_t>(days | 1U << d);
    if (d == *last) return true;
  }
}

std::string clockText(int minute) {
  return fmt::format("{:02}:{:02}", minute / 60, minute % 60);
}

// "mon-fri,sun"; the days are taken in the order of the week.
std::string daysText(std::uint8_t days) {
  std::string text;
  for (std::size_t d = 0; d < kDays.size(); ++d) {
    if ((days >> d & 1U) == 0) continue;
    auto last = d;
    while (last + 1 < kDays.size() && (days >> (last + 1) & 1U) != 0) ++last;
    text += (text.empty() ? "" : ",") + std::string(kDays[d]);
    if (last > d) text += (last == d + 1 ? "," : "-") + std::string(kDays[last]);
    d = last;
  }
  return text;
}

}  // namespace

Result<Timestamp> parseTime(std::string_view text) {
  auto rest = trim(text);
  const auto bad = [&] { return fail(refuse("not a time", text, kTimeExpected)); };
  const auto date = takeDate(rest);
  if (!date || !(take(rest, 'T') || take(rest, 't') || take(rest, ' '))) return bad();
  const auto clock = takeClock(rest, 24 * 60 - 1);
  if (!clock) return bad();
  int second = 0;
  if (take(rest, ':')) {
    const auto digits = takeDigits(rest, 2);
    if (!digits || *digits > 59) return bad();
    second = *digits;
  }
  if (rest.empty()) {
    return fail(refuse("a time without its offset from UTC", text, kTimeExpected)
                    .withHint("add Z for UTC, or +08:00 for Beijing"));
  }
  const auto offset = takeOffset(rest);
  if (!offset || !rest.empty()) return bad();
  return *date + minutes(*clock) + seconds(second) - *offset;
}

std::string writeTime(Timestamp time) {
  auto text = formatTimestamp(time) + "Z";
  text[text.find(' ')] = 'T';
  return text;
}

Result<Begin> parseBegin(std::string_view text) {
  const auto rest = trim(text);
  const bool isDate = rest.size() > 4 && rest[4] == '-' && isDigit(rest[0]);
  Begin begin;
  if (isDate) {
    BOLE_ASSIGN(begin.at, parseTime(rest));
    return begin;
  }
  auto delay = parseDuration(rest.starts_with('+') ? rest.substr(1) : rest);
  if (!delay) {
    return fail(refuse("neither a time nor how long to wait", text,
                       std::string(kTimeExpected) + ", or 2h"));
  }
  begin.delay = *delay;
  return begin;
}

Result<Duration> parseOffset(std::string_view text) {
  auto rest = trim(text);
  const auto offset = takeOffset(rest);
  if (offset && rest.empty()) return *offset;
  return fail(refuse("not an offset from UTC", text, "+08:00, -03:30 or Z"));
}

std::string writeOffset(Duration offset) {
  const auto all = static_cast<int>(offset.value / minutes(1).value);
  return (all < 0 ? "-" : "+") + clockText(all < 0 ? -all : all);
}

Result<model::Window> parseWindow(std::string_view text) {
  const auto bad = [&] { return fail(refuse("not a part of a week", text, kWindowExpected)); };
  auto rest = trim(text);
  model::Window window;
  if (rest.empty()) return bad();
  if (!isDigit(rest.front())) {
    window.days = 0;
    do {
      if (!takeDays(rest, window.days)) return bad();
    } while (take(rest, ','));
    if (rest.empty()) return window;
    if (!take(rest, ' ')) return bad();
    rest = trim(rest);
  }
  const auto from = takeClock(rest, model::Window::kDay - 1);
  if (!from || !take(rest, '-')) return bad();
  const auto to = takeClock(rest, model::Window::kDay);
  if (!to || !rest.empty()) return bad();
  window.from = static_cast<std::uint16_t>(*from);
  window.length =
      static_cast<std::uint16_t>(*to > *from ? *to - *from : *to - *from + model::Window::kDay);
  return window;
}

std::string writeWindow(const model::Window& window) {
  constexpr std::uint8_t kAll = 0x7F;
  const bool whole = window.from == 0 && window.length == model::Window::kDay;
  auto text = window.days == kAll && !whole ? std::string() : daysText(window.days);
  if (whole) return text;
  const int end = (window.from + window.length) % model::Window::kDay;
  const bool midnight = end == 0;
  text += (text.empty() ? "" : " ") + clockText(window.from) + "-" +
          (midnight ? "24:00" : clockText(end));
  return text;
}

}  // namespace bole::spec
