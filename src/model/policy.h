// How the cloud is shared: the tree of queues, what each of them is guaranteed and may have at
// most, and how long who waits. Plain data, set as a whole (event policy.set), read by the
// scheduler.
//
// Names of queues stand in events: they name parts of an organisation, not persons.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"

namespace bole::model {

// The queue that is always there, and takes what names no other.
inline constexpr QueueId kDefaultQueue{1};

// GPUs of one kind.
struct KindAmount {
  std::string kind;  // words of the product name: "A100"
  MilliGpu gpus;
  bool operator==(const KindAmount&) const = default;
};

// So much of the cloud. What is not named is not counted: no guarantee of it, or no limit on it.
struct Amounts {
  std::optional<MilliGpu> gpus;   // of all kinds together
  std::vector<KindAmount> kinds;  // each kind once
  std::optional<MilliCpu> cpus;
  std::optional<Bytes> memory;
  bool operator==(const Amounts&) const = default;
};

// Whose jobs may be stopped for a job of this queue, beside those that borrow what is guaranteed to
// it: those can always be.
enum class Preemption : std::uint8_t {
  kNever,
  kLowerPriority,  // jobs of the same queue with a lower priority
};

// A part of every week in the policy's local time, from a minute of its first day on.
struct Window {
  static constexpr std::uint16_t kDay = 24 * 60;
  std::uint8_t days = 0x7F;     // on which it opens; bit 0: Monday
  std::uint16_t from = 0;       // minute of the day, below kDay
  std::uint16_t length = kDay;  // minutes, 1 to kDay; may go past midnight
  bool operator==(const Window&) const = default;
};

struct Queue {
  QueueId id;
  std::string name;         // [a-z0-9-], 1 to 63, unique in the tree
  QueueId parent;           // unset: at the top
  Amounts guaranteed;       // its own whenever it wants it; others may borrow what it does not use
  Amounts limit;            // never more, its children included
  std::int32_t weight = 1;  // 1 to 1,000,000: its part of what is left over the guarantees
  Preemption preemption = Preemption::kNever;
  Amounts perUser;                              // what one user may hold of it at a time
  std::optional<std::uint32_t> perUserRunning;  // how many jobs of one user may run in it
  std::vector<Window> windows;  // jobs start only in one of these; none: at any time
  bool operator==(const Queue&) const = default;
};

// So much of the cloud is a queue's own for a while: for a course, or before a deadline. It comes
// on top of what the queue is guaranteed.
struct Booking {
  std::string name;  // [a-z0-9-], 1 to 63, unique
  QueueId queue;
  Amounts amounts;
  Timestamp from;
  Timestamp to;  // after `from`
  bool operator==(const Booking&) const = default;
};

struct Policy {
  static constexpr std::size_t kMostBookings = 100;
  static constexpr std::size_t kMostWindows = 32;  // of one queue
  static constexpr std::size_t kMostQueues = 1000;
  static constexpr std::size_t kMostKinds = 13;  // of GPUs that are named anywhere in it
  static constexpr std::size_t kMostLevels = 8;
  std::vector<Queue> queues = {
      {kDefaultQueue, "default", {}, {}, {}, 1, {}, {}, {}, {}}};  // parents first
  Duration patience = minutes(10);    // how long smaller ones may pass a job that does not fit
  Duration halfLife = hours(24 * 7);  // after which use of the past counts half; 0: only now counts
  std::vector<Booking> bookings;
  Duration utcOffset;  // of local time, for windows; -14 h to 14 h, whole minutes
  bool operator==(const Policy&) const = default;

  [[nodiscard]] const Queue* find(QueueId id) const {
    for (const auto& queue : queues)
      if (queue.id == id) return &queue;
    return nullptr;
  }
  [[nodiscard]] const Queue* find(const std::string& name) const {
    for (const auto& queue : queues)
      if (queue.name == name) return &queue;
    return nullptr;
  }
  // Jobs wait in queues without others below them only.
  [[nodiscard]] bool isParent(QueueId id) const {
    for (const auto& queue : queues)
      if (queue.parent == id) return true;
    return false;
  }
};

}  // namespace bole::model
