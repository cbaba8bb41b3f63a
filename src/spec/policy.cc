#include "spec/policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "spec/grammar.h"
#include "spec/number.h"
#include "spec/reader.h"
#include "spec/suggest.h"
#include "spec/when.h"

namespace bole::spec {
namespace {

constexpr std::int64_t kMaxWeight = 1'000'000;
constexpr auto kAmountsExpected = "{gpus: 8, A100: 4, cpus: 64, memory: 512GiB}";
constexpr std::string_view kDefaultName = "default";

// Of `gpus`, `cpus`, `memory` and each kind of GPU: how much, in thousandths or bytes.
using Counts = std::map<std::string, std::int64_t>;

Counts countsOf(const model::Amounts& amounts) {
  Counts counts;
  if (amounts.gpus) counts["gpus"] = amounts.gpus->value;
  if (amounts.cpus) counts["cpus"] = amounts.cpus->value;
  if (amounts.memory) counts["memory"] = amounts.memory->value;
  for (const auto& kind : amounts.kinds) counts[kind.kind] = kind.gpus.value;
  return counts;
}

std::string countText(const std::string& what, std::int64_t count) {
  return what == "memory" ? writeSize(Bytes(count)) : writeThousandths(count);
}

Result<MilliGpu> parseGpuCount(std::string_view text) {
  auto rest = trim(text);
  const bool octal = hasLeadingZero(rest);
  const auto number = takeDecimal(rest);
  const auto milli = number && rest.empty() ? scaleExactly(*number, 1000) : std::nullopt;
  if (milli && !octal && *milli <= kMaxQueueGpus.value) return MilliGpu(*milli);
  return fail(makeError(ErrorCode::kInvalid, milli && !octal ? "too many" : "not a number of GPUs")
                  .foundValue(quoted(text))
                  .expectedValue(milli && !octal
                                     ? fmt::format("at most {}", kMaxQueueGpus.value / 1000)
                                     : "a number (8, 0.5), to a thousandth"));
}

// Products are told by their numbers: A100, L40S, RTX-4090. Those that have none are the TITANs.
bool looksLikeKind(std::string_view key) {
  if (key.find_first_of(":,") != std::string_view::npos) return false;
  if (std::any_of(key.begin(), key.end(), isDigit)) return true;
  std::string upper;
  for (const char c : key.substr(0, 5)) upper += toUpper(c);
  return upper == "TITAN";
}

// Amounts that were read, and where each of them stands.
struct Amounts {
  std::string path;
  model::Amounts amounts;
  std::map<std::string, Position> at;
  std::optional<std::uint32_t> running;
};

class PolicyReader {
 public:
  explicit PolicyReader(std::string_view fileName) : reader_(fileName) {}

  Result<ParsedPolicy> read(const Node& root) {
    policy_.queues.clear();
    Node top = root;
    std::erase_if(top.fields, [](const Field& field) { return field.key.starts_with("x-"); });
    const Value all{&top, "", root.at};
    if (!all.is(NodeKind::kMap)) {
      return fail(
          reader_.error(all, "a policy is described by fields").expectedValue("`queues: ...`"));
    }
    std::optional<Value> bookings;
    BOLE_TRY(reader_.readFields(
        all, {{"queues", [&](const Value& v) { return readQueues(v, model::Queue(), 1); }},
              {"patience", [&](const Value& v) { return readDuration(v, policy_.patience); }},
              {"half_life", [&](const Value& v) { return readDuration(v, policy_.halfLife); }},
              {"utc_offset",
               [&](const Value& v) {
                 return readBy(reader_, v, "an offset from UTC (\"+08:00\")", parseOffset,
                               policy_.utcOffset);
               }},
              {"bookings", [&](const Value& v) -> Result<void> {
                 bookings = v;
                 return {};
               }}}));
    if (!lines_.contains(kDefaultName)) {
      model::Queue fallback;
      fallback.id = model::kDefaultQueue;
      fallback.name = kDefaultName;
      policy_.queues.insert(policy_.queues.begin(), std::move(fallback));
    }
    if (bookings) BOLE_TRY(readBookings(*bookings));
    return ParsedPolicy{std::move(policy_), reader_.takeWarnings()};
  }

 private:
  Result<void> readBookings(const Value& value) {
    if (!value.is(NodeKind::kMap)) {
      return fail(reader_.error(value, "not bookings")
                      .expectedValue("each by its name (`course: {queue: teaching, ...}`)"));
    }
    std::map<std::string, Position, std::less<>> names;
    for (const auto& field : value.node->fields) {
      auto booking = reader_.fieldOf(value, field);
      booking.at = field.at;
      if (auto good = parseName(field.key); !good) {
        auto problem = std::move(good).error();
        problem.what = "not the name of a booking";
        return fail(std::move(problem).foundValue(quoted(field.key)).at(place(field.at)));
      }
      if (!names.emplace(field.key, field.at).second) {
        return fail(reader_.error(field.at, "two bookings of one name")
                        .foundValue(quoted(field.key))
                        .expectedValue("names that differ"));
      }
      if (names.size() > model::Policy::kMostBookings) {
        return fail(reader_.error(field.at, "too many bookings")
                        .expectedValue(fmt::format("at most {}", model::Policy::kMostBookings)));
      }
      BOLE_TRY(readBooking(field.key, booking));
    }
    return {};
  }

  Result<void> readBooking(const std::string& name, const Value& value) {
    constexpr auto kFields = "{queue: teaching, from: 2026-12-10T09:00+08:00, to: ..., gpus: 8}";
    if (!value.is(NodeKind::kMap))
      return fail(reader_.error(value, "not a booking").expectedValue(kFields));
    model::Booking booking;
    booking.name = name;
    Amounts amounts;
    amounts.path = value.path;
    std::optional<Value> from;
    std::optional<Value> to;
    for (const auto& field : value.node->fields) {
      const auto v = reader_.fieldOf(value, field);
      if (field.key == "queue") {
        BOLE_TRY(readQueueOf(v, booking));
      } else if (field.key == "from" || field.key == "to") {
        const bool first = field.key == "from";
        BOLE_TRY(readBy(reader_, v, "a time (2026-12-10T09:00+08:00)", parseTime,
                        first ? booking.from : booking.to));
        (first ? from : to) = v;
      } else {
        BOLE_TRY(readAmount(field, v, amounts, false));
      }
    }
    if (!booking.queue.isSet() || !from || !to || amounts.amounts == model::Amounts()) {
      const auto missing = !booking.queue.isSet() ? "no queue"
                           : !from                ? "no beginning (from)"
                           : !to                  ? "no end (to)"
                                                  : "nothing that is booked";
      return fail(reader_.error(value.at, fmt::format("{}: {}", value.path, missing))
                      .expectedValue(kFields));
    }
    if (booking.to <= booking.from) {
      return fail(reader_.error(*to, "the booking ends before it begins")
                      .expectedValue("a time after " + writeTime(booking.from)));
    }
    auto& kinds = amounts.amounts.kinds;
    std::sort(kinds.begin(), kinds.end(),
              [](const auto& a, const auto& b) { return a.kind < b.kind; });
    booking.amounts = std::move(amounts.amounts);
    policy_.bookings.push_back(std::move(booking));
    return {};
  }

  Result<void> readQueueOf(const Value& value, model::Booking& booking) const {
    std::string name;
    BOLE_TRY(readBy(reader_, value, "a queue's name", parseName, name));
    const auto* queue = policy_.find(name);
    if (!queue) {
      return fail(reader_.error(value, "no such queue in this policy")
                      .expectedValue("one that stands below `queues`"));
    }
    booking.queue = queue->id;
    return {};
  }

  Result<void> readWindows(const Value& value, std::vector<model::Window>& windows) const {
    const auto one = [&](const Value& v) -> Result<void> {
      model::Window window;
      BOLE_TRY(readBy(reader_, v, "days and hours (mon-fri 20:00-08:00)", parseWindow, window));
      windows.push_back(window);
      return {};
    };
    if (!value.is(NodeKind::kSequence)) return one(value);
    if (value.node->items.size() > model::Policy::kMostWindows) {
      return fail(reader_.error(value.at, value.path + ": too many windows")
                      .expectedValue(fmt::format("at most {}", model::Policy::kMostWindows)));
    }
    return reader_.readItems(value, one);
  }

  Result<void> readDuration(const Value& value, Duration& out) const {
    return readBy(reader_, value, "a time (10m, 7d)", parseDuration, out);
  }

  // The queues below `parent`, which has no number where they stand at the top. Returns what they
  // are guaranteed together through promised_.
  Result<void> readQueues(const Value& value, const model::Queue& parent, std::size_t level) {
    if (!value.is(NodeKind::kMap)) {
      return fail(reader_.error(value, "not queues")
                      .expectedValue("each by its name (`research: {weight: 3}`)"));
    }
    Counts together;
    for (const auto& field : value.node->fields) {
      auto queue = reader_.fieldOf(value, field);
      queue.at = field.at;
      BOLE_TRY(readQueue(field.key, queue, parent, level));
      for (const auto& [what, count] : promised_) together[what] += count;
    }
    promised_ = std::move(together);
    return {};
  }

  Result<void> readQueue(const std::string& name, const Value& value, const model::Queue& parent,
                         std::size_t level) {
    BOLE_TRY(checkName(name, value));
    BOLE_TRY(checkPlace(value, level));
    model::Queue queue;
    queue.name = name;
    queue.id = name == kDefaultName ? model::kDefaultQueue : QueueId(++last_);
    queue.parent = parent.id;
    std::optional<Value> below;
    Amounts guaranteed;
    Amounts limit;
    if (!value.is(NodeKind::kNull)) BOLE_TRY(readFields(value, queue, guaranteed, limit, below));
    BOLE_TRY(checkGuarantee(value, guaranteed, limit));
    policy_.queues.push_back(queue);
    promised_.clear();
    if (below) {
      if (queue.id == model::kDefaultQueue && !below->node->fields.empty()) {
        return fail(
            reader_.error(below->at, below->path + ": what names no queue waits in this one")
                .expectedValue("no queues below it"));
      }
      BOLE_TRY(readQueues(*below, queue, level + 1));
    }
    return checkPromise(value, guaranteed, limit);
  }

  Result<void> checkName(const std::string& name, const Value& value) {
    if (auto good = parseName(name); !good) {
      auto problem = std::move(good).error();
      problem.what = "not the name of a queue";
      return fail(std::move(problem).foundValue(quoted(name)).at(place(value.at)));
    }
    const auto [first, isNew] = lines_.emplace(name, value.at);
    if (isNew) return {};
    return fail(reader_.error(value.at, "two queues of one name")
                    .foundValue(quoted(name))
                    .expectedValue("names that differ, wherever they stand")
                    .withHint(fmt::format("the first one stands in line {}", first->second.line)));
  }

  Result<void> checkPlace(const Value& value, std::size_t level) const {
    if (level > model::Policy::kMostLevels) {
      return fail(reader_.error(value.at, value.path + ": the queue lies too deep")
                      .expectedValue(fmt::format("at most {} levels", model::Policy::kMostLevels)));
    }
    // One is kept for `default`, which may come yet.
    const bool full =
        lines_.size() + (lines_.contains(kDefaultName) ? 0 : 1) > model::Policy::kMostQueues;
    if (!full) return {};
    return fail(
        reader_.error(value.at, "too many queues")
            .expectedValue(fmt::format("at most {}, with `default`", model::Policy::kMostQueues)));
  }

  Result<void> readFields(const Value& value, model::Queue& queue, Amounts& guaranteed,
                          Amounts& limit, std::optional<Value>& below) {
    return reader_.readFields(
        value,
        {{"guaranteed",
          [&](const Value& v) { return readAmounts(v, queue.guaranteed, guaranteed, false); }},
         {"limit", [&](const Value& v) { return readAmounts(v, queue.limit, limit, false); }},
         {"weight",
          [&](const Value& v) -> Result<void> {
            BOLE_ASSIGN(const auto weight, reader_.readWhole(v, 1, kMaxWeight));
            queue.weight = static_cast<std::int32_t>(weight);
            return {};
          }},
         {"preemption",
          [&](const Value& v) -> Result<void> {
            BOLE_ASSIGN(const auto word, reader_.readWord(v, {"never", "lower-priority"}));
            queue.preemption =
                word == 0 ? model::Preemption::kNever : model::Preemption::kLowerPriority;
            return {};
          }},
         {"per_user",
          [&](const Value& v) -> Result<void> {
            Amounts read;
            BOLE_TRY(readAmounts(v, queue.perUser, read, true));
            queue.perUserRunning = read.running;
            return {};
          }},
         {"windows", [&](const Value& v) { return readWindows(v, queue.windows); }},
         {"queues", [&](const Value& v) -> Result<void> {
            below = v;
            return {};
          }}});
  }

  Result<void> readAmounts(const Value& value, model::Amounts& out, Amounts& read, bool ofUser) {
    if (!value.is(NodeKind::kMap)) {
      auto problem = reader_.error(value, "not amounts").expectedValue(kAmountsExpected);
      return fail(ofUser ? std::move(problem).expectedValue("{gpus: 4, running: 10}")
                         : std::move(problem));
    }
    read.path = value.path;
    for (const auto& field : value.node->fields) {
      BOLE_TRY(readAmount(field, reader_.fieldOf(value, field), read, ofUser));
    }
    auto& kinds = read.amounts.kinds;
    std::sort(kinds.begin(), kinds.end(),
              [](const auto& a, const auto& b) { return a.kind < b.kind; });
    warnOfKinds(value, read);
    out = read.amounts;
    return {};
  }

  Result<void> readAmount(const Field& field, const Value& value, Amounts& read, bool ofUser) {
    auto& amounts = read.amounts;
    const auto& key = field.key;
    read.at[key] = value.at;
    if (key == "gpus")
      return readBy(reader_, value, "a number of GPUs", parseGpuCount, amounts.gpus);
    if (key == "cpus") {
      const auto parse = [](std::string_view text) { return parseCpusUpTo(text, kMaxQueueCpus); };
      return readBy(reader_, value, "a number of CPUs", parse, amounts.cpus);
    }
    if (key == "memory") {
      const auto parse = [](std::string_view text) { return parseSizeUpTo(text, kMaxQueueMemory); };
      return readBy(reader_, value, "a size (512GiB)", parse, amounts.memory);
    }
    if (key == "running" && ofUser) {
      BOLE_ASSIGN(const auto count, reader_.readWhole(value, 0, kMaxQueueRunning));
      read.running = static_cast<std::uint32_t>(count);
      return {};
    }
    return readKind(field, value, read, ofUser);
  }

  Result<void> readKind(const Field& field, const Value& value, Amounts& read, bool ofUser) {
    const auto& key = field.key;
    BOLE_ASSIGN(auto kind, kindNamed(field, read.path, ofUser));
    auto& kinds = read.amounts.kinds;
    for (const auto& known : kinds) {
      if (known.kind != kind) continue;
      return fail(reader_.error(field.at, value.path + ": a kind of GPU named twice")
                      .foundValue(quoted(key)));
    }
    MilliGpu gpus;
    BOLE_TRY(readBy(reader_, value, "a number of GPUs", parseGpuCount, gpus));
    if (kinds_.insert(kind).second && kinds_.size() > model::Policy::kMostKinds) {
      return fail(reader_.error(field.at, "too many kinds of GPU are named in one policy")
                      .foundValue(quoted(key))
                      .expectedValue(fmt::format("at most {}", model::Policy::kMostKinds)));
    }
    read.at[kind] = value.at;
    kinds.push_back({std::move(kind), gpus});
    return {};
  }

  // As jobs write it: "a100" is "A100".
  Result<std::string> kindNamed(const Field& field, const std::string& path, bool ofUser) const {
    std::vector<std::string_view> names = {"gpus", "cpus", "memory"};
    if (ofUser) names.emplace_back("running");
    const auto near = nearest(field.key, names);
    names.emplace_back("a kind of GPU (A100, H100)");
    const auto unknown = [&](std::string hint) {
      return fail(reader_.error(field.at, "unknown field in " + path)
                      .foundValue(quoted(field.key))
                      .expectedValue(hint.empty() ? joinAlternatives(names) : std::string())
                      .withHint(std::move(hint)));
    };
    if (!near.empty()) return unknown(fmt::format("did you mean '{}'?", near));
    if (field.key == "running") return unknown("jobs are counted in per_user alone");
    if (!looksLikeKind(field.key)) return unknown({});
    auto request = parseGpuRequest(field.key + ":1");
    if (!request || request->models.size() != 1) return unknown({});
    if (!request->memoryMin) return request->models.front();
    return fail(reader_.error(field.at, path + ": a kind of GPU with its memory")
                    .foundValue(quoted(field.key))
                    .expectedValue("the product's name alone")
                    .withHint(fmt::format("write {}", shown(request->models.front()))));
  }

  // More of one kind than of all: the smaller number is what counts.
  void warnOfKinds(const Value& value, const Amounts& read) {
    if (!read.amounts.gpus) return;
    for (const auto& kind : read.amounts.kinds) {
      if (kind.gpus <= *read.amounts.gpus) continue;
      reader_.warn(read.at.at(kind.kind),
                   fmt::format("{}: {} {}, but {} GPUs of all kinds together: no more than these "
                               "count",
                               value.path, writeThousandths(kind.gpus.value), kind.kind,
                               writeThousandths(read.amounts.gpus->value)));
    }
  }

  Result<void> checkGuarantee(const Value& value, const Amounts& guaranteed,
                              const Amounts& limit) const {
    const auto most = countsOf(limit.amounts);
    for (const auto& [what, count] : countsOf(guaranteed.amounts)) {
      const auto found = most.find(what);
      if (found == most.end() || count <= found->second) continue;
      return fail(reader_
                      .error(guaranteed.at.at(what),
                             fmt::format("{}.guaranteed.{}: more than the queue's limit allows",
                                         value.path, what))
                      .foundValue(countText(what, count))
                      .expectedValue("at most " + countText(what, found->second)));
    }
    return {};
  }

  // A queue is guaranteed no less than those below it together. Leaves in promised_ what it is.
  Result<void> checkPromise(const Value& value, const Amounts& guaranteed, const Amounts& limit) {
    const auto most = countsOf(limit.amounts);
    for (const auto& [what, count] : promised_) {
      const auto found = most.find(what);
      if (found == most.end() || count <= found->second) continue;
      return fail(reader_
                      .error(value.at,
                             fmt::format("{}: the queues below it are guaranteed more {} together "
                                         "than its limit allows",
                                         value.path, what))
                      .foundValue(countText(what, count))
                      .expectedValue("at most " + countText(what, found->second)));
    }
    for (const auto& [what, count] : countsOf(guaranteed.amounts)) {
      auto& promised = promised_[what];
      if (count < promised) {
        reader_.warn(
            guaranteed.at.at(what),
            fmt::format("{}.guaranteed.{}: {}, but the queues below it are guaranteed {} "
                        "together: that counts",
                        value.path, what, countText(what, count), countText(what, promised)));
      }
      promised = std::max(promised, count);
    }
    return {};
  }

  [[nodiscard]] std::string place(Position at) const { return reader_.error(at, "").where; }

  Reader reader_;
  model::Policy policy_;
  std::uint64_t last_ = model::kDefaultQueue.value;
  std::map<std::string, Position, std::less<>> lines_;  // of queues, by name
  std::set<std::string> kinds_;
  Counts promised_;  // to the queues just read
};

}  // namespace

Result<ParsedPolicy> parsePolicy(const SpecFile& file) {
  const auto name = shownName(file.name);
  BOLE_ASSIGN(const auto documents, readYaml(file.text, name));
  const Reader reader(name);
  if (documents.empty()) {
    return fail(
        reader.error(Position{}, "the file describes no policy").expectedValue("`queues: ...`"));
  }
  if (documents.size() > 1) {
    return fail(reader.error(documents[1]->at, "a policy is one document")
                    .withHint("write all queues below one `queues:`"));
  }
  return PolicyReader(name).read(*documents.front());
}

}  // namespace bole::spec
