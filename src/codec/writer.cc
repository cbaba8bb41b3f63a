#include "codec/writer.h"

#include <cmath>

namespace bole::codec {
namespace {

// The length of the valid UTF-8 sequence that starts `text`, or 0.
std::size_t utf8Length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  std::size_t length = 0;
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF)
    length = 2;
  else if (lead >= 0xE0 && lead <= 0xEF)
    length = 3;
  else if (lead >= 0xF0 && lead <= 0xF4)
    length = 4;
  if (length == 0 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  if (lead == 0xE0 && byte(1) < 0xA0) return 0;   // overlong
  if (lead == 0xED && byte(1) >= 0xA0) return 0;  // surrogates
  if (lead == 0xF0 && byte(1) < 0x90) return 0;   // overlong
  if (lead == 0xF4 && byte(1) >= 0x90) return 0;  // past U+10FFFF
  return length;
}

void appendEscaped(std::string& out, char c) {
  static constexpr char kHex[] = "0123456789abcdef";
  switch (c) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      break;
  }
  out += "\\u00";
  out += kHex[static_cast<unsigned char>(c) >> 4];
  out += kHex[static_cast<unsigned char>(c) & 15];
}

}  // namespace

void appendJsonString(std::string& out, std::string_view text) {
  out += '"';
  std::size_t plain = 0;  // start of the run not yet copied
  std::size_t at = 0;
  while (at < text.size()) {
    const auto c = static_cast<unsigned char>(text[at]);
    if (c >= 0x20 && c < 0x7F && c != '"' && c != '\\') {
      ++at;
      continue;
    }
    const std::size_t length = c < 0x80 ? 0 : utf8Length(text.substr(at));
    if (length > 0) {
      at += length;
      continue;
    }
    out.append(text, plain, at - plain);
    if (c >= 0x80)
      out += "\xEF\xBF\xBD";
    else
      appendEscaped(out, text[at]);
    plain = ++at;
  }
  out.append(text, plain, at - plain);
  out += '"';
}

void Writer::number(double value) {
  if (!std::isfinite(value)) {
    out_ += "null";
    return;
  }
  std::array<char, 32> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  out_.append(digits.data(), end);
}

void Writer::pairs(const std::vector<std::pair<std::string, std::string>>& values) {
  out_ += '[';
  bool first = true;
  for (const auto& [name, value] : values) {
    if (!first) out_ += ',';
    first = false;
    out_ += '[';
    appendJsonString(out_, name);
    out_ += ',';
    appendJsonString(out_, value);
    out_ += ']';
  }
  out_ += ']';
}

}  // namespace bole::codec
