#include "cli/wording.h"

#include <fmt/format.h>

#include <charconv>
#include <chrono>

#include "codec/describe_model.h"

namespace bole::cli {
namespace {

bool takeNumber(std::string_view& text, std::int64_t& out) {
  if (text.empty() || text.front() < '0' || text.front() > '9') return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

bool takeChar(std::string_view& text, char c) {
  if (text.empty() || text.front() != c) return false;
  text.remove_prefix(1);
  return true;
}

struct Unit {
  std::string_view name;
  Duration length;
};
constexpr Unit kUnits[] = {{"ms", milliseconds(1)}, {"s", seconds(1)}, {"m", minutes(1)},
                           {"h", hours(1)},         {"d", hours(24)},  {"w", hours(24 * 7)}};
constexpr Duration kLongest = hours(24 * 3660);

const Unit* takeUnit(std::string_view& text) {
  const auto size = std::min(text.find_first_of("0123456789"), text.size());
  for (const auto& unit : kUnits) {
    if (text.substr(0, size) != unit.name) continue;
    text.remove_prefix(size);
    return &unit;
  }
  return nullptr;
}

Error notAMoment(std::string_view text) {
  return makeError(ErrorCode::kInvalid, "this is no time")
      .foundValue(fmt::format("'{}'", text))
      .expectedValue("10m (so long ago), 2026-11-30T12:43:09Z, or @SECONDS since 1970");
}

// Digits behind the decimal point, as microseconds.
bool takeFraction(std::string_view& text, std::int64_t& micros) {
  std::int64_t scale = 100'000;
  if (text.empty() || text.front() < '0' || text.front() > '9') return false;
  while (!text.empty() && text.front() >= '0' && text.front() <= '9') {
    micros += (text.front() - '0') * scale;
    scale /= 10;
    text.remove_prefix(1);
  }
  return true;
}

struct Moment {
  std::int64_t year = 0;
  std::int64_t month = 0;
  std::int64_t day = 0;
  std::int64_t hour = 0;
  std::int64_t minute = 0;
  std::int64_t second = 0;
  std::int64_t micros = 0;
};

bool takeMoment(std::string_view text, Moment& m) {
  if (!takeNumber(text, m.year) || !takeChar(text, '-') || !takeNumber(text, m.month) ||
      !takeChar(text, '-') || !takeNumber(text, m.day)) {
    return false;
  }
  if (text.empty()) return true;
  if (!takeChar(text, 'T') && !takeChar(text, ' ')) return false;
  if (!takeNumber(text, m.hour) || !takeChar(text, ':') || !takeNumber(text, m.minute))
    return false;
  if (takeChar(text, ':') && !takeNumber(text, m.second)) return false;
  if (takeChar(text, '.') && !takeFraction(text, m.micros)) return false;
  takeChar(text, 'Z');
  return text.empty();
}

}  // namespace

std::string jobTitle(const model::JobView& job) {
  return job.name.empty() ? fmt::format("job {}", job.id.value)
                          : fmt::format("job {} ({})", job.id.value, job.name);
}

std::string stateName(model::JobState state) {
  return std::string(codec::enumName(state));
}

Tint tintOf(model::JobState state) {
  switch (state) {
    case model::JobState::kQueued:
      return Tint::kYellow;
    case model::JobState::kStarting:
    case model::JobState::kStopping:
      return Tint::kCyan;
    case model::JobState::kRunning:
    case model::JobState::kSucceeded:
      return Tint::kGreen;
    case model::JobState::kFailed:
      return Tint::kRed;
    case model::JobState::kCancelled:
      return Tint::kDim;
  }
  return Tint::kNone;
}

std::string gpuCount(std::int64_t gpus, bool emulated) {
  if (gpus == 0) return "-";
  return fmt::format("{}{}", gpus, emulated ? " emulated" : "");
}

std::string indexList(const std::vector<std::uint32_t>& of) {
  std::string text;
  for (std::size_t i = 0; i < of.size();) {
    std::size_t last = i;
    while (last + 1 < of.size() && of[last + 1] == of[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += std::to_string(of[i]);
    if (last >= i + 2) text += fmt::format("-{}", of[last]);
    i = last >= i + 2 ? last + 1 : i + 1;
  }
  return text.empty() ? "-" : text;
}

std::string progressText(const model::ProgressView& progress) {
  std::string text = progress.unit.empty() ? std::string("step") : progress.unit;
  text += fmt::format(" {}", progress.done);
  if (progress.total > 0) text += fmt::format("/{}", progress.total);
  for (const auto& [name, value] : progress.values) text += fmt::format(", {} {}", name, value);
  return text;
}

std::string timeText(Timestamp time) {
  return time.micros == 0 ? "-" : formatTimestamp(time) + " UTC";
}

std::string spanText(Duration span) {
  return span.value == 0 ? "-" : formatDuration(span);
}

std::string gpuTimeText(std::uint64_t gpuMilliseconds) {
  return fmt::format("{}.{} GPU-seconds", gpuMilliseconds / 1000, gpuMilliseconds % 1000 / 100);
}

std::string cpusText(MilliCpu cpus) {
  auto text = fmt::format("{}.{:03}", cpus.value / 1000, cpus.value % 1000);
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text;
}

std::string counted(std::uint64_t count, const char* one, const char* many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

// Seconds to one command, minutes to another: it must say.
static Error withoutUnit(std::int64_t number) {
  return makeError(ErrorCode::kInvalid, "a length of time without a unit")
      .foundValue(fmt::format("'{}'", number))
      .expectedValue("for example 90s, 30m, 1h30m or 2d")
      .withHint(fmt::format("{0}s or {0}m?", number));
}

Result<Duration> parseSpan(std::string_view text) {
  const auto wrong = [whole = text] {
    return fail(makeError(ErrorCode::kInvalid, "this is no length of time")
                    .foundValue(fmt::format("'{}'", whole))
                    .expectedValue("for example 90s, 30m, 1h30m or 2d"));
  };
  if (text.empty()) return wrong();
  Duration total;
  while (!text.empty()) {
    std::int64_t number = 0;
    if (!takeNumber(text, number)) return wrong();
    if (text.empty() && total.value == 0) return fail(withoutUnit(number));
    const auto* unit = takeUnit(text);
    if (!unit || number > kLongest.value / unit->length.value) return wrong();
    total += unit->length * number;
    if (total > kLongest) return wrong();
  }
  return total;
}

Result<Timestamp> parseMoment(std::string_view text, Timestamp now) {
  auto span = parseSpan(text);
  if (span) return now - *span;
  if (!span.error().hint.empty()) return fail(std::move(span).error());
  std::int64_t number = 0;
  auto rest = text;
  if (takeChar(rest, '@') && takeNumber(rest, number) && rest.empty() && number < 100'000'000'000) {
    return Timestamp{number * 1'000'000};
  }
  Moment m;
  if (!takeMoment(text, m) || m.year < 1970 || m.year > 9999 || m.hour > 23 || m.minute > 59 ||
      m.second > 60) {
    return fail(notAMoment(text));
  }
  const std::chrono::year_month_day date{std::chrono::year(static_cast<int>(m.year)),
                                         std::chrono::month(static_cast<unsigned>(m.month)),
                                         std::chrono::day(static_cast<unsigned>(m.day))};
  if (m.month > 12 || m.day > 31 || !date.ok()) return fail(notAMoment(text));
  const std::int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
  return Timestamp{((days * 24 + m.hour) * 60 + m.minute) * 60'000'000 + m.second * 1'000'000 +
                   m.micros};
}

}  // namespace bole::cli
