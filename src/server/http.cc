#include "server/http.h"

#include <fmt/format.h>

#include "codec/codec.h"

namespace bole::server {
namespace {

constexpr std::size_t kMaxFields = 64;

Error badTarget(std::string what) {
  return makeError(ErrorCode::kInvalid, std::move(what)).at("request target");
}

int hexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

Result<std::string> decode(std::string_view text, bool plusIsSpace) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      const int high = i + 2 < text.size() ? hexValue(text[i + 1]) : -1;
      const int low = i + 2 < text.size() ? hexValue(text[i + 2]) : -1;
      if (high < 0 || low < 0) {
        return fail(badTarget("% is not followed by two hex digits")
                        .foundValue(std::string(text.substr(i, 3))));
      }
      c = static_cast<char>(high * 16 + low);
      i += 2;
    } else if (c == '+' && plusIsSpace) {
      c = ' ';
    }
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      return fail(badTarget("a control character"));
    }
    out += c;
  }
  return out;
}

Result<void> parseQuery(std::string_view text, Fields& out) {
  while (!text.empty()) {
    const auto end = std::min(text.find('&'), text.size());
    const auto field = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (field.empty()) continue;
    if (out.size() == kMaxFields) return fail(badTarget("more than 64 fields in the query"));
    const auto equals = std::min(field.find('='), field.size());
    BOLE_ASSIGN(auto name, decode(field.substr(0, equals), true));
    BOLE_ASSIGN(auto value, decode(field.substr(std::min(equals + 1, field.size())), true));
    out.emplace_back(std::move(name), std::move(value));
  }
  return {};
}

}  // namespace

const std::string* Target::find(std::string_view name) const {
  for (const auto& [key, value] : query) {
    if (key == name) return &value;
  }
  return nullptr;
}

Result<Target> parseTarget(std::string_view text) {
  if (text.empty() || text.front() != '/') {
    return fail(badTarget("not a path")
                    .foundValue(std::string(text.substr(0, 100)))
                    .expectedValue("for example /v1/jobs"));
  }
  Target target;
  const auto mark = std::min(text.find('?'), text.size());
  auto path = text.substr(1, mark - 1);
  while (!path.empty()) {
    const auto end = std::min(path.find('/'), path.size());
    BOLE_ASSIGN(auto segment, decode(path.substr(0, end), false));
    target.path.push_back(std::move(segment));
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  if (mark < text.size()) BOLE_TRY(parseQuery(text.substr(mark + 1), target.query));
  return target;
}

unsigned httpStatus(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalid:
      return 400;
    case ErrorCode::kNotFound:
      return 404;
    case ErrorCode::kConflict:
      return 409;
    case ErrorCode::kRefused:
      return 422;
    case ErrorCode::kPermission:
      return 403;
    case ErrorCode::kUnavailable:
      return 503;
    case ErrorCode::kUnsupported:
      return 501;
    case ErrorCode::kCorrupt:
    case ErrorCode::kInternal:
      return 500;
  }
  return 500;
}

std::string commandFor(std::string_view command, const std::string& home) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./-_";
  const bool plain = !home.empty() && home.find_first_not_of(kPlain) == std::string::npos;
  std::string word;
  for (const char c : home) c == '\'' ? word += "'\\''" : word += c;
  return fmt::format("`bole {} --home {}`", command, plain ? home : "'" + word + "'");
}

Answer errorAnswer(const Error& error) {
  return errorAnswer(error, httpStatus(error.code));
}

Answer errorAnswer(const Error& error, unsigned status) {
  model::ErrorView view;
  view.code = errorCodeName(error.code);
  view.message = error.message();
  view.what = error.what;
  view.where = error.where;
  view.found = error.found;
  view.expected = error.expected;
  view.hint = error.hint;
  Answer answer{status, codec::toJson(view), {}};
  if (status == 503 || status == 429) answer.headers.emplace_back("Retry-After", "1");
  return answer;
}

void appendEvent(std::string& out, std::string_view name, std::string_view data,
                 std::string_view id) {
  if (!id.empty()) {
    out += "id: ";
    out += id;
    out += '\n';
  }
  out += "event: ";
  out += name;
  out += "\ndata: ";
  out += data;
  out += "\n\n";
}

}  // namespace bole::server
