#include "cli/text.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace bole::cli {
namespace {

struct Range {
  std::uint32_t first;
  std::uint32_t last;
};

// Unicode 15, EastAsianWidth.txt: the blocks that are Wide or Fullwidth, joined where the gaps are
// unassigned.
constexpr std::array<Range, 17> kWide = {{{0x1100, 0x115F},
                                          {0x231A, 0x231B},
                                          {0x2E80, 0x303E},
                                          {0x3041, 0x33FF},
                                          {0x3400, 0x4DBF},
                                          {0x4E00, 0x9FFF},
                                          {0xA000, 0xA4CF},
                                          {0xA960, 0xA97C},
                                          {0xAC00, 0xD7A3},
                                          {0xF900, 0xFAFF},
                                          {0xFE30, 0xFE6F},
                                          {0xFF00, 0xFF60},
                                          {0xFFE0, 0xFFE6},
                                          {0x1F300, 0x1F64F},
                                          {0x1F680, 0x1F6FF},
                                          {0x1F900, 0x1FAFF},
                                          {0x20000, 0x3FFFD}}};
constexpr std::array<Range, 8> kZero = {{{0x0300, 0x036F},
                                         {0x0483, 0x0489},
                                         {0x0591, 0x05BD},
                                         {0x1AB0, 0x1AFF},
                                         {0x1DC0, 0x1DFF},
                                         {0x200B, 0x200D},
                                         {0x20D0, 0x20FF},
                                         {0xFE00, 0xFE0F}}};

template <std::size_t N>
bool within(const std::array<Range, N>& ranges, std::uint32_t code) {
  for (const auto& range : ranges) {
    if (code >= range.first && code <= range.last) return true;
  }
  return false;
}

struct Character {
  std::uint32_t code = 0;
  std::size_t size = 1;
  bool valid = false;
};

// The character at `at`. A byte that begins none stands for itself.
Character characterAt(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(at);
  if (lead < 0x80) return {lead, 1, true};
  const std::size_t size = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || at + size > text.size()) return {lead, 1, false};
  std::uint32_t code = lead & (0xFFU >> (size + 1));
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(at + i) & 0xC0U) != 0x80) return {lead, 1, false};
    code = code << 6U | (byte(at + i) & 0x3FU);
  }
  const bool overlong = (size == 3 && code < 0x800) || (size == 4 && code < 0x10000);
  if (overlong || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) return {lead, 1, false};
  return {code, size, true};
}

std::size_t widthOf(const Character& character) {
  if (!character.valid) return 1;
  if (character.code < 0x300) return 1;
  if (within(kZero, character.code)) return 0;
  return within(kWide, character.code) ? 2 : 1;
}

bool isControl(const Character& character) {
  return character.code < 0x20 || (character.code >= 0x7F && character.code <= 0x9F);
}

// Neither a control character nor anything beyond ASCII: most of what is shown.
bool isPlain(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

// Embeddings, overrides, isolates and marks: they make text read otherwise than it is written.
bool changesDirection(std::uint32_t code) {
  return (code >= 0x202A && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069) ||
         code == 0x200E || code == 0x200F || code == 0x2028 || code == 0x2029;
}

// Behind an escape sequence that begins at `at` (an ESC, or a C1 control of `introducer` size).
// `colour` is set where it is a complete "select graphic rendition", the one kind that may stay.
std::size_t afterControlSequence(std::string_view text, std::size_t at, bool& colour) {
  while (at < text.size() && text[at] >= 0x20 && text[at] <= 0x3F) ++at;
  if (at >= text.size()) return at;
  if (text[at] < 0x40 || text[at] > 0x7E) return at;
  colour = text[at] == 'm';
  return at + 1;
}

// Behind a string (OSC, DCS, APC, PM, SOS) that ends with BEL, ESC \ or U+009C, or with the line.
std::size_t afterControlString(std::string_view text, std::size_t at) {
  while (at < text.size()) {
    if (text[at] == '\a') return at + 1;
    if (text[at] == '\x1b' && at + 1 < text.size() && text[at + 1] == '\\') return at + 2;
    if (text[at] == '\xc2' && at + 1 < text.size() && text[at + 1] == '\x9c') return at + 2;
    ++at;
  }
  return at;
}

std::size_t afterEscape(std::string_view text, std::size_t at, bool& colour) {
  if (at + 1 >= text.size()) return text.size();
  const char kind = text[at + 1];
  if (kind == '[') return afterControlSequence(text, at + 2, colour);
  if (kind == ']' || kind == 'P' || kind == 'X' || kind == '^' || kind == '_') {
    return afterControlString(text, at + 2);
  }
  std::size_t end = at + 1;
  while (end < text.size() && text[end] >= 0x20 && text[end] <= 0x2F) ++end;
  return end < text.size() && text[end] >= 0x30 && text[end] <= 0x7E ? end + 1 : end;
}

std::size_t afterC1(std::string_view text, std::size_t next, std::uint32_t code) {
  bool colour = false;
  if (code == 0x9B) return afterControlSequence(text, next, colour);
  const bool string = code == 0x90 || code == 0x98 || code == 0x9D || code == 0x9E || code == 0x9F;
  return string ? afterControlString(text, next) : next;
}

// What a terminal would still show of a line with carriage returns in it: the last piece that has
// something.
std::string_view lastOverwrite(std::string_view text) {
  while (!text.empty() && text.back() == '\r') text.remove_suffix(1);
  const auto at = text.rfind('\r');
  return at == std::string_view::npos ? text : text.substr(at + 1);
}

}  // namespace

std::size_t displayWidth(std::string_view text) {
  if (isPlain(text)) return text.size();
  std::size_t width = 0;
  for (std::size_t at = 0; at < text.size();) {
    const auto character = characterAt(text, at);
    width += widthOf(character);
    at += character.size;
  }
  return width;
}

std::string truncated(std::string_view text, std::size_t columns) {
  if (displayWidth(text) <= columns) return std::string(text);
  if (columns == 0) return "";
  std::size_t width = 0;
  std::size_t at = 0;
  while (at < text.size()) {
    const auto character = characterAt(text, at);
    if (width + widthOf(character) > columns - 1) break;
    width += widthOf(character);
    at += character.size;
  }
  return std::string(text.substr(0, at)) + "…";
}

std::string neutralised(std::string_view text) {
  if (isPlain(text)) return std::string(text);
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const auto character = characterAt(text, at);
    if (!character.valid || isControl(character) || changesDirection(character.code))
      out += '?';
    else
      out += text.substr(at, character.size);
    at += character.size;
  }
  return out;
}

std::string terminalLine(std::string_view whole) {
  const auto text = lastOverwrite(whole);
  std::string out;
  out.reserve(text.size());
  bool coloured = false;
  for (std::size_t at = 0; at < text.size();) {
    const auto character = characterAt(text, at);
    if (character.code == 0x1B) {
      bool colour = false;
      const auto end = afterEscape(text, at, colour);
      if (colour) out += text.substr(at, end - at);
      coloured = coloured || colour;
      at = end;
      continue;
    }
    if (!character.valid)
      out += "\uFFFD";
    else if (character.code == '\t' || !isControl(character))
      out += text.substr(at, character.size);
    at += character.size;
    if (character.valid && character.code >= 0x80 && isControl(character))
      at = afterC1(text, at, character.code);
  }
  if (coloured) out += "\x1b[0m";
  return out;
}

std::vector<std::string> wrapped(std::string_view text, std::size_t columns) {
  std::vector<std::string> lines(1);
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find(' ', at), text.size());
    const auto word = text.substr(at, end - at);
    at = end + 1;
    if (word.empty()) continue;
    auto& line = lines.back();
    if (line.empty())
      line = word;
    else if (displayWidth(line) + 1 + displayWidth(word) <= columns)
      line.append(" ").append(word);
    else
      lines.emplace_back(word);
  }
  return lines;
}

std::size_t editDistance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0U : 1U);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, changed});
    }
  }
  return row[b.size()];
}

std::string nearestOf(const std::string& found, const std::vector<std::string>& names) {
  std::string best;
  std::size_t least = std::max<std::size_t>(2, found.size() / 3) + 1;
  for (const auto& name : names) {
    const auto distance = editDistance(found, name);
    if (distance < least) {
      least = distance;
      best = name;
    }
  }
  return best;
}

std::string shellQuoted(std::string_view word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./-_";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string_view::npos)
    return std::string(word);
  std::string out = "'";
  for (const char c : word) {
    if (c == '\'')
      out += "'\\''";
    else
      out += c;
  }
  return out + "'";
}

}  // namespace bole::cli
