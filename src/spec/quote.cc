#include "spec/quote.h"

#include <fmt/format.h>

#include <cstddef>

namespace bole::spec {
namespace {

constexpr std::size_t kLongest = 60;  // bytes of a value repeated in a message

struct Character {
  char32_t code = 0;
  std::size_t length = 0;  // in bytes; 0: not UTF-8
};

Character takeCharacter(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto first = byte(0);
  const std::size_t length = first < 0x80   ? 1
                             : first < 0xC2 ? 0
                             : first < 0xE0 ? 2
                             : first < 0xF0 ? 3
                             : first < 0xF5 ? 4
                                            : 0;
  if (length == 0 || length > text.size()) return {};
  if (length == 1) return {first, 1};
  char32_t code = first & (0xFFU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    code = (code << 6) | (byte(i) & 0x3FU);
  }
  return {code, length};
}

bool isInvisible(char32_t code) {
  return code < 0x20 || (code >= 0x7F && code <= 0xA0) || code == 0xAD ||
         (code >= 0x2000 && code <= 0x200F) || (code >= 0x2028 && code <= 0x202F) ||
         (code >= 0x205F && code <= 0x206F) || code == 0x3000 || code == 0xFEFF ||
         (code >= 0xFFF9 && code <= 0xFFFB) || (code >= 0xE0000 && code <= 0xE007F);
}

std::string escape(char32_t code) {
  switch (code) {
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      break;
  }
  const auto number = static_cast<unsigned>(code);
  if (number < 0x80) return fmt::format("\\x{:02x}", number);
  return number <= 0xFFFF ? fmt::format("\\u{:04x}", number) : fmt::format("\\U{:08x}", number);
}

}  // namespace

std::string shown(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    if (at >= kLongest) return out + "...";
    const auto [code, length] = takeCharacter(text.substr(at));
    if (length == 0) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[at++]));
      continue;
    }
    if (isInvisible(code))
      out += escape(code);
    else
      out += text.substr(at, length);
    at += length;
  }
  return out;
}

std::string quoted(std::string_view text) {
  return "'" + shown(text) + "'";
}

}  // namespace bole::spec
