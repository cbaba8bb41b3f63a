// How a struct is described once and then encoded, decoded and documented.
//
//   template <class V, Described<model::Link> T>
//   void describe(V& v, T& x) {
//     v.field("kind", x.kind, "how the two GPUs reach each other");
//   }
//
// A visitor V has: field(name, value, documentation), required(name, value, documentation), and,
// for a struct that carries one of several bodies, nothing more: variants are described by their
// kind names. Names on the wire are snake_case. Integers stand as JSON integers; times are
// microseconds since 1970 UTC and durations are microseconds.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/units.h"

namespace bole::codec {

// T is `Struct` or `const Struct`.
template <class T, class Struct>
concept Described = std::same_as<std::remove_const_t<T>, Struct>;

// The names of an enumeration's values, in order from 0.
template <class Enum>
struct EnumNames;  // specialised beside the descriptions: static constexpr
                   // std::array<std::string_view, N> kNames

template <class Enum>
[[nodiscard]] constexpr std::string_view enumName(Enum value) {
  const auto at = static_cast<std::size_t>(value);
  return at < EnumNames<Enum>::kNames.size() ? EnumNames<Enum>::kNames[at] : std::string_view("?");
}

template <class Enum>
[[nodiscard]] constexpr std::optional<Enum> enumFromName(std::string_view name) {
  for (std::size_t i = 0; i < EnumNames<Enum>::kNames.size(); ++i) {
    if (EnumNames<Enum>::kNames[i] == name) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};
template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};
template <class T>
struct IsShared : std::false_type {};
template <class T>
struct IsShared<std::shared_ptr<T>> : std::true_type {};
template <class T>
struct IsStringPair : std::false_type {};
template <>
struct IsStringPair<std::pair<std::string, std::string>> : std::true_type {};
template <class T>
struct IsQuantity : std::false_type {};
template <class Tag>
struct IsQuantity<Quantity<Tag>> : std::true_type {};
template <class T>
struct IsId : std::false_type {};
template <class Tag>
struct IsId<Id<Tag>> : std::true_type {};

}  // namespace bole::codec
