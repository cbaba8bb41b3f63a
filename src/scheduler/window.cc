#include "scheduler/window.h"

#include <algorithm>

namespace bole::scheduler {
namespace {

constexpr std::int64_t kDayMicros = hours(24).value;
constexpr std::int64_t kFirstMonday = 4;  // 1970-01-05, counted in days from 1970-01-01
constexpr Duration kLookedAhead = hours(24 * 14);

std::int64_t floorDiv(std::int64_t a, std::int64_t b) {
  return a / b - (a % b < 0 ? 1 : 0);
}

// 0: Monday.
unsigned weekdayOf(std::int64_t day) {
  const auto since = day - kFirstMonday;
  return static_cast<unsigned>(since - floorDiv(since, 7) * 7);
}

}  // namespace

std::optional<Timestamp> opensAt(const std::vector<model::Window>& windows, Timestamp now,
                                 Duration utcOffset) {
  if (windows.empty()) return std::nullopt;
  const auto local = now + utcOffset;
  const auto today = floorDiv(local.micros, kDayMicros);
  std::optional<Timestamp> next;
  for (const auto& window : windows) {
    // One that opened yesterday may still be open; each opens again within a week.
    for (auto day = today - 1; day <= today + 7; ++day) {
      if ((window.days >> weekdayOf(day) & 1U) == 0) continue;
      const auto from = Timestamp{day * kDayMicros} + minutes(window.from);
      if (local >= from && local < from + minutes(window.length)) return std::nullopt;
      if (from > local && (!next || from < *next)) next = from;
    }
  }
  return *next - utcOffset;
}

std::optional<Timestamp> opensAt(const model::Policy& policy, QueueId queue, Timestamp now) {
  auto at = now;
  const auto* first = policy.find(queue);
  // Going on to the latest of their openings until none of them has to be waited for.
  for (bool moved = true; moved && at < now + kLookedAhead;) {
    moved = false;
    for (const auto* own = first; own; own = policy.find(own->parent)) {
      const auto opens = opensAt(own->windows, at, policy.utcOffset);
      if (!opens) continue;
      at = *opens;
      moved = true;
    }
  }
  return at == now ? std::nullopt : std::optional(at);
}

}  // namespace bole::scheduler
