// Strong types for what is counted: bytes, thousandths of a GPU or a CPU, microseconds, money, ids.
//
// No floating point: every quantity is an exact integer. A type never converts into another by
// itself.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <string>

namespace bole {

// An integer of one meaning. Tag makes the type; arithmetic stays inside it.
template <class Tag>
struct Quantity {
  std::int64_t value = 0;

  constexpr Quantity() = default;
  constexpr explicit Quantity(std::int64_t v) : value(v) {}
  constexpr auto operator<=>(const Quantity&) const = default;
  constexpr Quantity& operator+=(Quantity other) {
    value += other.value;
    return *this;
  }
  constexpr Quantity& operator-=(Quantity other) {
    value -= other.value;
    return *this;
  }
  friend constexpr Quantity operator+(Quantity a, Quantity b) {
    return Quantity(a.value + b.value);
  }
  friend constexpr Quantity operator-(Quantity a, Quantity b) {
    return Quantity(a.value - b.value);
  }
  friend constexpr Quantity operator*(Quantity a, std::int64_t n) { return Quantity(a.value * n); }
};

using Bytes = Quantity<struct BytesTag>;        // 0 or more
using MilliGpu = Quantity<struct MilliGpuTag>;  // thousandths of one GPU; 1000 is a whole one
using MilliCpu = Quantity<struct MilliCpuTag>;  // thousandths of one CPU
using Duration = Quantity<struct DurationTag>;  // microseconds; may be negative

// A point of ledger time: microseconds since 1970-01-01 UTC.
struct Timestamp {
  std::int64_t micros = 0;

  constexpr auto operator<=>(const Timestamp&) const = default;
  friend constexpr Timestamp operator+(Timestamp t, Duration d) {
    return Timestamp{t.micros + d.value};
  }
  friend constexpr Timestamp operator-(Timestamp t, Duration d) {
    return Timestamp{t.micros - d.value};
  }
  friend constexpr Duration operator-(Timestamp a, Timestamp b) {
    return Duration(a.micros - b.micros);
  }
};

inline constexpr MilliGpu kWholeGpu{1000};
inline constexpr Bytes kKiB{1024};
inline constexpr Bytes kMiB{1024 * 1024};
inline constexpr Bytes kGiB{1024LL * 1024 * 1024};
constexpr Duration microseconds(std::int64_t n) {
  return Duration(n);
}
constexpr Duration milliseconds(std::int64_t n) {
  return Duration(n * 1000);
}
constexpr Duration seconds(std::int64_t n) {
  return Duration(n * 1'000'000);
}
constexpr Duration minutes(std::int64_t n) {
  return seconds(n * 60);
}
constexpr Duration hours(std::int64_t n) {
  return minutes(n * 60);
}

// An opaque id: a positive number given once and never again; 0 means none.
template <class Tag>
struct Id {
  std::uint64_t value = 0;

  constexpr Id() = default;
  constexpr explicit Id(std::uint64_t v) : value(v) {}
  constexpr auto operator<=>(const Id&) const = default;
  [[nodiscard]] constexpr bool isSet() const { return value != 0; }
};

using JobId = Id<struct JobIdTag>;
using AttemptId = Id<struct AttemptIdTag>;
using NodeId = Id<struct NodeIdTag>;
using ProjectId = Id<struct ProjectIdTag>;
using UserId = Id<struct UserIdTag>;
using QueueId = Id<struct QueueIdTag>;
using SideId = Id<struct SideIdTag>;  // a row of the ledger's side table

// For people: "80 GiB", "1.5 GiB", "512 MiB"; "1h 02m", "3.2s"; "2026-11-30 12:43:09" (UTC).
[[nodiscard]] std::string formatBytes(Bytes bytes);
[[nodiscard]] std::string formatDuration(Duration duration);
[[nodiscard]] std::string formatTimestamp(Timestamp timestamp);

}  // namespace bole

template <class Tag>
struct std::hash<bole::Id<Tag>> {
  std::size_t operator()(const bole::Id<Tag>& id) const noexcept {
    return std::hash<std::uint64_t>{}(id.value);
  }
};
