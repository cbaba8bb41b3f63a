// Exact decimal numbers in text, the ground of every grammar here.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace bole::spec {

// digits[.digits]: value = digits / 10^decimals. At most 18 digits in all.
struct Decimal {
  std::int64_t digits = 0;
  int decimals = 0;
};

// Takes a decimal off the front of `text`; nothing where none stands there (or it is too long).
[[nodiscard]] std::optional<Decimal> takeDecimal(std::string_view& text);

// The same without a decimal point.
[[nodiscard]] std::optional<std::int64_t> takeWhole(std::string_view& text);

// "0755": octal to some readers, decimal to others.
[[nodiscard]] bool hasLeadingZero(std::string_view text);

// value x scale as a whole number; nothing where it is not whole or does not fit.
[[nodiscard]] std::optional<std::int64_t> scaleExactly(Decimal value, std::int64_t scale);
// The same rounded up; nothing where it does not fit.
[[nodiscard]] std::optional<std::int64_t> scaleUp(Decimal value, std::int64_t scale);

[[nodiscard]] constexpr bool isDigit(char c) {
  return c >= '0' && c <= '9';
}
[[nodiscard]] constexpr bool isLower(char c) {
  return c >= 'a' && c <= 'z';
}
[[nodiscard]] constexpr bool isLetter(char c) {
  return isLower(c) || (c >= 'A' && c <= 'Z');
}
[[nodiscard]] constexpr char toLower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}
[[nodiscard]] constexpr char toUpper(char c) {
  return isLower(c) ? static_cast<char>(c - 'a' + 'A') : c;
}

// Without spaces at both ends.
[[nodiscard]] std::string_view trim(std::string_view text);

}  // namespace bole::spec
