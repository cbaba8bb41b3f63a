#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "state/state.h"

namespace bole::state {
namespace {

constexpr std::int32_t kMostWeight = 1'000'000;
constexpr std::size_t kMostName = 63;

Error wrong(const model::Queue& queue, std::string what) {
  return makeError(ErrorCode::kInvalid, std::move(what)).at("queue " + queue.name);
}

bool isName(const std::string& name) {
  return !name.empty() && name.size() <= kMostName && name.front() != '-' &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
         });
}

// Each of two amounts that both are named.
template <class Visit>
void eachNamed(const model::Amounts& a, const model::Amounts& b, Visit&& visit) {
  if (a.gpus && b.gpus) visit("GPUs", a.gpus->value, b.gpus->value);
  if (a.cpus && b.cpus) visit("CPUs", a.cpus->value, b.cpus->value);
  if (a.memory && b.memory) visit("memory", a.memory->value, b.memory->value);
  for (const auto& kind : a.kinds) {
    for (const auto& other : b.kinds)
      if (kind.kind == other.kind) visit(kind.kind + " GPUs", kind.gpus.value, other.gpus.value);
  }
}

bool anyNegative(const model::Amounts& amounts) {
  return (amounts.gpus && amounts.gpus->value < 0) || (amounts.cpus && amounts.cpus->value < 0) ||
         (amounts.memory && amounts.memory->value < 0) ||
         std::any_of(amounts.kinds.begin(), amounts.kinds.end(),
                     [](const model::KindAmount& kind) { return kind.gpus.value < 0; });
}

Result<void> checkAmounts(const model::Amounts& amounts, const std::string& whose,
                          std::set<std::string>& kinds) {
  const auto bad = [&](const char* what) { return makeError(ErrorCode::kInvalid, what).at(whose); };
  if (anyNegative(amounts)) return fail(bad("an amount is negative"));
  std::set<std::string> own;
  for (const auto& kind : amounts.kinds) {
    if (kind.kind.empty()) return fail(bad("a kind of GPU without a name"));
    if (!own.insert(kind.kind).second)
      return fail(bad("a kind of GPU named twice").foundValue(kind.kind));
    kinds.insert(kind.kind);
  }
  return {};
}

Result<void> checkWindows(const model::Queue& queue) {
  if (queue.windows.size() > model::Policy::kMostWindows) {
    return fail(wrong(queue, "too many windows")
                    .foundValue(std::to_string(queue.windows.size()))
                    .expectedValue(fmt::format("at most {}", model::Policy::kMostWindows)));
  }
  for (const auto& window : queue.windows) {
    if (window.days == 0 || window.days > 0x7F || window.from >= model::Window::kDay ||
        window.length < 1 || window.length > model::Window::kDay)
      return fail(wrong(queue, "a window that is no part of a week"));
  }
  return {};
}

Result<void> checkBookings(const model::Policy& policy, std::set<std::string>& kinds) {
  if (policy.bookings.size() > model::Policy::kMostBookings) {
    return fail(makeError(ErrorCode::kInvalid, "too many bookings")
                    .foundValue(std::to_string(policy.bookings.size()))
                    .expectedValue(fmt::format("at most {}", model::Policy::kMostBookings)));
  }
  std::set<std::string> names;
  for (const auto& booking : policy.bookings) {
    const auto bad = [&](const char* what) {
      return makeError(ErrorCode::kInvalid, what).at("booking " + booking.name);
    };
    if (!isName(booking.name)) {
      return fail(makeError(ErrorCode::kInvalid, "a booking's name cannot be this")
                      .foundValue("'" + booking.name + "'")
                      .expectedValue("1 to 63 of a-z, 0-9 and -, not beginning with -"));
    }
    if (!names.insert(booking.name).second) return fail(bad("it is named twice"));
    if (!policy.find(booking.queue)) return fail(bad("its queue is not there"));
    if (booking.to <= booking.from) return fail(bad("it ends before it begins"));
    if (booking.amounts == model::Amounts()) return fail(bad("it books nothing"));
    BOLE_TRY(checkAmounts(booking.amounts, "booking " + booking.name, kinds));
  }
  return {};
}

Result<void> checkAmounts(const model::Queue& queue, std::set<std::string>& kinds) {
  for (const auto* amounts : {&queue.guaranteed, &queue.limit, &queue.perUser})
    BOLE_TRY(checkAmounts(*amounts, "queue " + queue.name, kinds));
  Result<void> result;
  eachNamed(queue.guaranteed, queue.limit,
            [&](const std::string& what, std::int64_t guaranteed, std::int64_t limit) {
              if (guaranteed <= limit || !result) return;
              result = fail(wrong(queue, "more " + what + " are guaranteed than its limit allows"));
            });
  return result;
}

// The queue's level; it and what is above it must be in order.
Result<std::size_t> checkPlace(const model::Queue& queue,
                               const std::map<QueueId, std::size_t>& levels) {
  if (!isName(queue.name)) {
    return fail(makeError(ErrorCode::kInvalid, "a queue's name cannot be this")
                    .foundValue("'" + queue.name + "'")
                    .expectedValue("1 to 63 of a-z, 0-9 and -, not beginning with -"));
  }
  if (!queue.id.isSet() || levels.contains(queue.id))
    return fail(wrong(queue, "it has no number of its own"));
  if (queue.weight < 1 || queue.weight > kMostWeight) {
    return fail(wrong(queue, "its weight cannot be this")
                    .foundValue(std::to_string(queue.weight))
                    .expectedValue(fmt::format("1 to {}", kMostWeight)));
  }
  if (!queue.parent.isSet()) return std::size_t{1};
  const auto above = levels.find(queue.parent);
  if (above == levels.end())
    return fail(wrong(queue, "the queue above it does not come before it"));
  if (above->second >= model::Policy::kMostLevels) {
    return fail(wrong(queue, "it lies too deep")
                    .expectedValue(fmt::format("at most {} levels", model::Policy::kMostLevels)));
  }
  return above->second + 1;
}

}  // namespace

Result<void> checkPolicy(const model::Policy& policy) {
  if (policy.queues.size() > model::Policy::kMostQueues) {
    return fail(makeError(ErrorCode::kInvalid, "too many queues")
                    .foundValue(std::to_string(policy.queues.size()))
                    .expectedValue(fmt::format("at most {}", model::Policy::kMostQueues)));
  }
  std::map<QueueId, std::size_t> levels;
  std::set<std::string> names;
  std::set<std::string> kinds;
  for (const auto& queue : policy.queues) {
    BOLE_ASSIGN(const auto level, checkPlace(queue, levels));
    if (!names.insert(queue.name).second) return fail(wrong(queue, "it is named twice"));
    BOLE_TRY(checkAmounts(queue, kinds));
    BOLE_TRY(checkWindows(queue));
    levels[queue.id] = level;
  }
  BOLE_TRY(checkBookings(policy, kinds));
  if (kinds.size() > model::Policy::kMostKinds) {
    return fail(makeError(ErrorCode::kInvalid, "too many kinds of GPUs are named")
                    .foundValue(std::to_string(kinds.size()))
                    .expectedValue(fmt::format("at most {}", model::Policy::kMostKinds)));
  }
  const auto* fallback = policy.find(model::kDefaultQueue);
  if (!fallback || fallback->name != "default" || policy.isParent(model::kDefaultQueue)) {
    return fail(makeError(ErrorCode::kInvalid, "the queue 'default' takes what names no other")
                    .expectedValue("a queue of that name, with none below it"));
  }
  if (policy.patience.value < 0 || policy.halfLife.value < 0)
    return fail(ErrorCode::kInvalid, "a time is negative");
  constexpr auto kFarthest = hours(14);
  if (policy.utcOffset > kFarthest || policy.utcOffset < kFarthest * -1 ||
      policy.utcOffset.value % minutes(1).value != 0) {
    return fail(makeError(ErrorCode::kInvalid, "no place on earth has such a time")
                    .at("utc_offset")
                    .foundValue(formatDuration(policy.utcOffset))
                    .expectedValue("-14:00 to +14:00"));
  }
  return {};
}

}  // namespace bole::state
