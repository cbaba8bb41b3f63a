#include "spec/reader.h"

#include <fmt/format.h>

#include <algorithm>

#include "spec/suggest.h"

namespace bole::spec {
namespace {

std::string_view wanted(NodeKind kind) {
  return kind == NodeKind::kMap        ? "fields (`name: value`)"
         : kind == NodeKind::kSequence ? "a list"
                                       : "a single value";
}

// Why a number that some readers of YAML would take is not taken here.
std::string hintForNumber(const std::string& text) {
  const bool digits = !text.empty() && std::all_of(text.begin(), text.end(),
                                                   [](char c) { return c >= '0' && c <= '9'; });
  if (digits && text.size() > 1 && text[0] == '0') {
    const auto stripped = text.substr(std::min(text.find_first_not_of('0'), text.size() - 1));
    return fmt::format("a leading 0 means octal to some readers: write {}", stripped);
  }
  if (text.empty() || text[0] < '0' || text[0] > '9') return {};
  if (text.find_first_of("_,'") != std::string::npos) return "write the digits without separators";
  if (text.find_first_of("eE.") != std::string::npos) return "write it with digits alone";
  return {};
}

}  // namespace

std::string shownName(const std::string& fileName) {
  constexpr std::size_t kLongest = 4096;
  std::string name = fileName.empty() || fileName.size() > kLongest ? "-" : fileName;
  std::replace_if(name.begin(), name.end(), isControl, '?');
  return findInvalidUtf8(name) == std::string::npos ? name : "-";
}

std::string describeFound(const Node& node) {
  switch (node.kind) {
    case NodeKind::kNull:
      return "nothing";
    case NodeKind::kScalar:
      return quoted(node.text);
    case NodeKind::kSequence:
      return "a list";
    case NodeKind::kMap:
      return "fields";
  }
  return {};
}

Error Reader::error(Position at, std::string what, ErrorCode code) const {
  return makeError(code, std::move(what)).at(formatPlace(file_, at));
}

Error Reader::error(const Value& value, const std::string& problem) const {
  return error(value.at, value.path.empty() ? problem : value.path + ": " + problem)
      .foundValue(describeFound(*value.node));
}

Error Reader::error(const Value& value, Error problem) const {
  if (!value.path.empty()) problem.what = value.path + ": " + problem.what;
  if (problem.found.empty()) problem.found = describeFound(*value.node);
  return std::move(problem).at(formatPlace(file_, value.at));
}

void Reader::warn(Position at, std::string text) {
  if (warnings_.size() < kMaxWarnings)
    warnings_.emplace_back(at, std::move(text));
  else if (unsaid_++ == 0)
    firstUnsaid_ = at;
}

std::vector<std::string> Reader::takeWarnings() {
  std::stable_sort(warnings_.begin(), warnings_.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first.line, a.first.column) < std::pair(b.first.line, b.first.column);
  });
  std::vector<std::string> out;
  for (const auto& [at, text] : warnings_) out.push_back(formatPlace(file_, at) + ": " + text);
  if (unsaid_ > 0) {
    out.push_back(formatPlace(file_, firstUnsaid_) +
                  fmt::format(": {} more warnings like these", unsaid_));
  }
  warnings_.clear();
  unsaid_ = 0;
  return out;
}

Value Reader::fieldOf(const Value& map, const Field& field) const {
  const auto key = shown(field.key);
  Value value{field.value.get(), map.path.empty() ? key : map.path + "." + key, field.value->at};
  if (field.value->kind == NodeKind::kNull) value.at = field.at;
  return value;
}

Result<void> Reader::readFields(const Value& map, const std::vector<FieldReader>& readers) const {
  if (!map.is(NodeKind::kMap))
    return fail(error(map, "not fields").expectedValue(std::string(wanted(NodeKind::kMap))));
  for (const auto& field : map.node->fields) {
    const auto reader = std::find_if(readers.begin(), readers.end(),
                                     [&](const auto& r) { return r.name == field.key; });
    if (reader != readers.end()) {
      BOLE_TRY(reader->read(fieldOf(map, field)));
      continue;
    }
    std::vector<std::string_view> names;
    names.reserve(readers.size());
    for (const auto& known : readers) names.push_back(known.name);
    const auto near = nearest(field.key, names);
    return fail(
        error(field.at, map.path.empty() ? "unknown field" : "unknown field in " + map.path)
            .foundValue(quoted(field.key))
            .expectedValue(near.empty() ? joinAlternatives(names) : std::string())
            .withHint(near.empty() ? std::string() : fmt::format("did you mean '{}'?", near)));
  }
  return {};
}

Result<void> Reader::readAnyFields(
    const Value& map,
    const std::function<Result<void>(const std::string&, const Value&)>& read) const {
  if (!map.is(NodeKind::kMap))
    return fail(error(map, "not fields").expectedValue(std::string(wanted(NodeKind::kMap))));
  for (const auto& field : map.node->fields) BOLE_TRY(read(field.key, fieldOf(map, field)));
  return {};
}

Result<void> Reader::readItems(const Value& list,
                               const std::function<Result<void>(const Value&)>& read) const {
  if (!list.is(NodeKind::kSequence)) {
    return fail(error(list, "not a list").expectedValue(std::string(wanted(NodeKind::kSequence))));
  }
  std::size_t index = 0;
  for (const auto& item : list.node->items) {
    BOLE_TRY(read({item.get(), fmt::format("{}[{}]", list.path, index++), item->at}));
  }
  return {};
}

Result<std::string> Reader::readText(const Value& value, std::string_view expected) const {
  if (value.is(NodeKind::kScalar)) return value.text();
  return fail(error(value, value.is(NodeKind::kNull) ? "empty" : "not a single value")
                  .expectedValue(std::string(expected)));
}

Result<std::string> Reader::readLine(const Value& value, std::string_view expected) const {
  BOLE_ASSIGN(auto text, readText(value, expected));
  if (text.empty()) return fail(error(value, "empty").expectedValue(std::string(expected)));
  if (std::any_of(text.begin(), text.end(), isControl)) {
    return fail(error(value, "holds a line break or a control character")
                    .expectedValue(std::string(expected)));
  }
  return text;
}

Result<std::int64_t> Reader::readWhole(const Value& value, std::int64_t least,
                                       std::int64_t most) const {
  const auto expected = fmt::format("a whole number from {} to {}", least, most);
  BOLE_ASSIGN(const auto text, readText(value, expected));
  const auto digits =
      text.starts_with('-') ? std::string_view(text).substr(1) : std::string_view(text);
  const bool isNumber = !digits.empty() && std::all_of(digits.begin(), digits.end(),
                                                       [](char c) { return c >= '0' && c <= '9'; });
  const bool leadingZero = digits.size() > 1 && digits[0] == '0';
  if (!isNumber || leadingZero || text == "-0") {
    return fail(
        error(value, "not a whole number").expectedValue(expected).withHint(hintForNumber(text)));
  }
  constexpr std::size_t kMostDigits = 18;
  const std::int64_t number = digits.size() > kMostDigits ? 0 : std::stoll(text);
  if (digits.size() > kMostDigits || number < least || number > most) {
    return fail(error(value, "out of range").expectedValue(expected));
  }
  return number;
}

Result<bool> Reader::readFlag(const Value& value) const {
  BOLE_ASSIGN(const auto text, readText(value, "true or false"));
  for (const auto* yes : {"true", "True", "TRUE"}) {
    if (text == yes) return true;
  }
  for (const auto* no : {"false", "False", "FALSE"}) {
    if (text == no) return false;
  }
  return fail(error(value, "not a yes-or-no value").expectedValue("true or false"));
}

Result<std::size_t> Reader::readWord(const Value& value,
                                     const std::vector<std::string_view>& words) const {
  BOLE_ASSIGN(const auto text, readText(value, joinAlternatives(words)));
  const auto found = std::find(words.begin(), words.end(), text);
  if (found != words.end()) return static_cast<std::size_t>(found - words.begin());
  const auto near = nearest(text, words);
  return fail(
      error(value, "not a known word")
          .expectedValue(joinAlternatives(words))
          .withHint(near.empty() ? std::string() : fmt::format("did you mean '{}'?", near)));
}

}  // namespace bole::spec
