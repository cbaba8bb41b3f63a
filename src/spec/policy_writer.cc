// From a policy to its canonical text.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "spec/number.h"
#include "spec/policy.h"
#include "spec/when.h"

namespace bole::spec {
namespace {

// A name that some readers of YAML would take for something else stands in quotes.
std::string key(const std::string& name) {
  static constexpr std::array<std::string_view, 9> kWords = {"true", "false", "yes", "no", "on",
                                                             "off",  "null",  "y",   "n"};
  const bool plain = !name.empty() && isLetter(name.front()) &&
                     std::find(kWords.begin(), kWords.end(), name) == kWords.end();
  return plain ? name : "\"" + name + "\"";
}

class Fields {
 public:
  void add(const std::string& name, const std::string& value) {
    text_ += (text_.empty() ? "" : ", ") + name + ": " + value;
  }
  void add(const model::Amounts& amounts) {
    if (amounts.gpus) add("gpus", writeThousandths(amounts.gpus->value));
    for (const auto& kind : amounts.kinds) add(key(kind.kind), writeThousandths(kind.gpus.value));
    if (amounts.cpus) add("cpus", writeThousandths(amounts.cpus->value));
    if (amounts.memory) add("memory", writeSize(*amounts.memory));
  }
  [[nodiscard]] bool empty() const { return text_.empty(); }
  [[nodiscard]] std::string text() const { return "{" + text_ + "}"; }

 private:
  std::string text_;
};

void appendAmounts(std::string& out, const std::string& indent, const char* name,
                   const Fields& fields) {
  if (!fields.empty()) out += fmt::format("{}{}: {}\n", indent, name, fields.text());
}

void appendQueue(std::string& out, const model::Queue& queue, const std::string& indent) {
  Fields guaranteed;
  guaranteed.add(queue.guaranteed);
  appendAmounts(out, indent, "guaranteed", guaranteed);
  Fields limit;
  limit.add(queue.limit);
  appendAmounts(out, indent, "limit", limit);
  out += fmt::format("{}weight: {}\n", indent, queue.weight);
  if (queue.preemption == model::Preemption::kLowerPriority)
    out += indent + "preemption: lower-priority\n";
  Fields user;
  user.add(queue.perUser);
  if (queue.perUserRunning) user.add("running", std::to_string(*queue.perUserRunning));
  appendAmounts(out, indent, "per_user", user);
  if (!queue.windows.empty()) out += indent + "windows:\n";
  for (const auto& window : queue.windows)
    out += fmt::format("{}  - \"{}\"\n", indent, writeWindow(window));
}

void appendBookings(std::string& out, const model::Policy& policy) {
  if (!policy.bookings.empty()) out += "bookings:\n";
  for (const auto& booking : policy.bookings) {
    Fields fields;
    fields.add("queue", key(policy.find(booking.queue)->name));
    fields.add("from", writeTime(booking.from));
    fields.add("to", writeTime(booking.to));
    fields.add(booking.amounts);
    out += fmt::format("  {}: {}\n", key(booking.name), fields.text());
  }
}

void appendBelow(std::string& out, const model::Policy& policy, QueueId parent,
                 const std::string& indent) {
  out += indent + "queues:\n";
  for (const auto& queue : policy.queues) {
    if (queue.parent != parent) continue;
    out += indent + "  " + key(queue.name) + ":\n";
    appendQueue(out, queue, indent + "    ");
    if (policy.isParent(queue.id)) appendBelow(out, policy, queue.id, indent + "    ");
  }
}

}  // namespace

std::string writePolicy(const model::Policy& policy) {
  std::string out;
  appendBelow(out, policy, QueueId(), "");
  out += "patience: " + writeDuration(policy.patience) + "\n";
  out += "half_life: " + writeDuration(policy.halfLife) + "\n";
  if (policy.utcOffset.value != 0) out += "utc_offset: \"" + writeOffset(policy.utcOffset) + "\"\n";
  appendBookings(out, policy);
  return out;
}

std::string writeSize(Bytes size) {
  static constexpr std::array<const char*, 6> kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  if (size.value == 0) return "0";
  std::size_t unit = 0;
  auto value = size.value;
  while (unit + 1 < kUnits.size() && value % 1024 == 0) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{}{}", value, kUnits.at(unit));
}

std::string writeDuration(Duration duration) {
  static constexpr std::array<std::pair<const char*, Duration>, 5> kUnits = {
      {{"d", hours(24)},
       {"h", hours(1)},
       {"m", minutes(1)},
       {"s", seconds(1)},
       {"ms", milliseconds(1)}}};
  std::string out;
  auto left = duration.value;
  for (const auto& [name, length] : kUnits) {
    if (left >= length.value) out += fmt::format("{}{}", left / length.value, name);
    left %= length.value;
  }
  return out.empty() ? "0s" : out;
}

std::string writeThousandths(std::int64_t thousandths) {
  if (thousandths % 1000 == 0) return std::to_string(thousandths / 1000);
  auto text = fmt::format("{}.{:03}", thousandths / 1000, thousandths % 1000);
  while (text.back() == '0') text.pop_back();
  return text;
}

}  // namespace bole::spec
