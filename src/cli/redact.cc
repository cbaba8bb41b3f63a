#include "cli/redact.h"

#include <algorithm>
#include <array>

namespace bole::cli {
namespace {

constexpr std::string_view kMark = "[left out]";
constexpr std::array<std::string_view, 9> kSecretNames = {
    "token", "secret", "passw", "apikey", "api_key", "access_key", "private", "credential", "auth"};

bool isNameChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-';
}

bool isWordChar(char c) {
  return isNameChar(c) || c == '+' || c == '/' || c == '.' || c == '~';
}

bool soundsSecret(std::string_view name) {
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return std::any_of(kSecretNames.begin(), kSecretNames.end(),
                     [&](std::string_view part) { return lower.find(part) != std::string::npos; });
}

// Behind a value that begins at `at`: a quoted one, or up to a space, ',' or ';'.
std::size_t endOfValue(std::string_view text, std::size_t at) {
  if (at < text.size() && (text[at] == '"' || text[at] == '\'')) {
    const char quote = text[at];
    for (++at; at < text.size() && text[at] != '\n'; ++at) {
      if (text[at] == '\\')
        ++at;
      else if (text[at] == quote)
        return at + 1;
    }
    return std::min(at, text.size());
  }
  return std::min(text.find_first_of(" \t\r\n,;", at), text.size());
}

// Behind "=" or ":" (with a quote and spaces around it), or npos where neither stands.
std::size_t behindSeparator(std::string_view text, std::size_t at) {
  if (at < text.size() && text[at] == '"') ++at;
  while (at < text.size() && text[at] == ' ') ++at;
  if (at >= text.size() || (text[at] != '=' && text[at] != ':')) return std::string_view::npos;
  ++at;
  while (at < text.size() && text[at] == ' ') ++at;
  return at;
}

// "Bearer abc", "Basic abc".
bool isScheme(std::string_view word) {
  return word == "Bearer" || word == "bearer" || word == "Basic";
}

// ":password@" of an address whose "://" was just passed; npos where there is none.
std::size_t endOfPassword(std::string_view text, std::size_t at) {
  const auto end = std::min(text.find_first_of(" \t\r\n/\"'", at), text.size());
  const auto mark = text.substr(at, end - at).rfind('@');
  return mark == std::string_view::npos ? mark : at + mark;
}

}  // namespace

std::string redacted(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  std::size_t at = 0;
  while (at < text.size()) {
    if (text.substr(at).starts_with("://")) {
      out += "://";
      at += 3;
      const auto end = endOfPassword(text, at);
      if (end == std::string_view::npos) continue;
      out += kMark;
      at = end;
      continue;
    }
    if (!isNameChar(text[at])) {
      out += text[at++];
      continue;
    }
    std::size_t end = at;
    while (end < text.size() && isNameChar(text[end])) ++end;
    const auto word = text.substr(at, end - at);
    out += word;
    at = end;
    if (isScheme(word) && end < text.size() && text[end] == ' ') {
      at = end + 1;
      while (at < text.size() && (isWordChar(text[at]) || text[at] == '=')) ++at;
      out.append(" ").append(kMark);
      continue;
    }
    if (!soundsSecret(word)) continue;
    const auto value = behindSeparator(text, end);
    if (value == std::string_view::npos) continue;
    out += text.substr(end, value - end);
    const bool quoted = value < text.size() && text[value] == '"';
    at = endOfValue(text, value);
    // A scheme before it: "Authorization: Bearer abc".
    if (!quoted && isScheme(text.substr(value, at - value)) && at < text.size())
      at = endOfValue(text, at + 1);
    if (quoted) out += '"';
    out += kMark;
    if (quoted) out += '"';
  }
  return out;
}

}  // namespace bole::cli
