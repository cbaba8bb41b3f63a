#include "spec/number.h"

#include <limits>

namespace bole::spec {
namespace {

constexpr std::size_t kMostDigits = 18;

struct Fraction {
  __int128 above = 0;
  __int128 below = 1;
};

std::optional<Fraction> multiply(Decimal value, std::int64_t scale) {
  Fraction out;
  out.above = static_cast<__int128>(value.digits) * scale;
  for (int i = 0; i < value.decimals; ++i) out.below *= 10;
  if (out.above / out.below > std::numeric_limits<std::int64_t>::max() - 1) return std::nullopt;
  return out;
}

}  // namespace

std::optional<Decimal> takeDecimal(std::string_view& text) {
  Decimal out;
  std::size_t at = 0;
  std::size_t digits = 0;
  bool point = false;
  for (; at < text.size(); ++at) {
    if (text[at] == '.') {
      // A point belongs to the number only with digits on both sides: "24..48" begins with 24.
      if (point || digits == 0 || at + 1 >= text.size() || !isDigit(text[at + 1])) break;
      point = true;
      continue;
    }
    if (!isDigit(text[at])) break;
    if (++digits > kMostDigits) return std::nullopt;
    out.digits = out.digits * 10 + (text[at] - '0');
    if (point) ++out.decimals;
  }
  if (digits == 0) return std::nullopt;
  text.remove_prefix(at);
  return out;
}

std::optional<std::int64_t> takeWhole(std::string_view& text) {
  std::size_t at = 0;
  std::int64_t out = 0;
  for (; at < text.size() && isDigit(text[at]); ++at) {
    if (at + 1 > kMostDigits) return std::nullopt;
    out = out * 10 + (text[at] - '0');
  }
  if (at == 0) return std::nullopt;
  text.remove_prefix(at);
  return out;
}

bool hasLeadingZero(std::string_view text) {
  return text.size() > 1 && text[0] == '0' && isDigit(text[1]);
}

std::optional<std::int64_t> scaleExactly(Decimal value, std::int64_t scale) {
  const auto fraction = multiply(value, scale);
  if (!fraction || fraction->above % fraction->below != 0) return std::nullopt;
  return static_cast<std::int64_t>(fraction->above / fraction->below);
}

std::optional<std::int64_t> scaleUp(Decimal value, std::int64_t scale) {
  const auto fraction = multiply(value, scale);
  if (!fraction) return std::nullopt;
  return static_cast<std::int64_t>((fraction->above + fraction->below - 1) / fraction->below);
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

}  // namespace bole::spec
