// Reads values of a YAML tree into plain types, and makes the errors that name place, field, found
// and expected.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "spec/quote.h"
#include "spec/yaml_tree.h"

namespace bole::spec {

// A value and where it hangs: `path` is what people would call it, "tasks[0].gpus".
struct Value {
  const Node* node = nullptr;
  std::string path;
  Position at;  // of the value, or of its key where nothing was written

  [[nodiscard]] bool is(NodeKind kind) const { return node->kind == kind; }
  [[nodiscard]] const std::string& text() const { return node->text; }
};

struct FieldReader {
  std::string_view name;
  std::function<Result<void>(const Value&)> read;
};

// The file in work: knows its name, collects warnings.
class Reader {
 public:
  explicit Reader(std::string_view fileName) : file_(fileName) {}

  [[nodiscard]] Error error(Position at, std::string what,
                            ErrorCode code = ErrorCode::kInvalid) const;
  // "PATH: PROBLEM: found ..., expected ..."
  [[nodiscard]] Error error(const Value& value, const std::string& problem) const;
  // An error of a grammar (no `where` yet) becomes one of this value.
  [[nodiscard]] Error error(const Value& value, Error problem) const;

  void warn(Position at, std::string text);
  // In the order of the text; of more than 100 the rest as one that says how many.
  [[nodiscard]] std::vector<std::string> takeWarnings();

  // Hands each field to its reader, in the order written; a field that none is for is an error with
  // a suggestion.
  [[nodiscard]] Result<void> readFields(const Value& map,
                                        const std::vector<FieldReader>& readers) const;
  // Every field, whatever its name.
  [[nodiscard]] Result<void> readAnyFields(
      const Value& map,
      const std::function<Result<void>(const std::string&, const Value&)>& read) const;
  [[nodiscard]] Result<void> readItems(const Value& list,
                                       const std::function<Result<void>(const Value&)>& read) const;

  // A scalar's text as it was written; `expected` describes what should stand there.
  [[nodiscard]] Result<std::string> readText(const Value& value, std::string_view expected) const;
  // Text that is not empty and has no control characters: names, paths.
  [[nodiscard]] Result<std::string> readLine(const Value& value, std::string_view expected) const;
  [[nodiscard]] Result<std::int64_t> readWhole(const Value& value, std::int64_t least,
                                               std::int64_t most) const;
  [[nodiscard]] Result<bool> readFlag(const Value& value) const;
  // The index of the word found among `words`.
  [[nodiscard]] Result<std::size_t> readWord(const Value& value,
                                             const std::vector<std::string_view>& words) const;

  [[nodiscard]] Value fieldOf(const Value& map, const Field& field) const;

 private:
  std::string_view file_;
  static constexpr std::size_t kMaxWarnings = 100;
  std::vector<std::pair<Position, std::string>> warnings_;
  std::size_t unsaid_ = 0;
  Position firstUnsaid_;
};

// Reads a scalar by a grammar of grammar.h or spec.h.
template <class T, class Parse>
[[nodiscard]] Result<void> readBy(const Reader& reader, const Value& value,
                                  std::string_view expected, Parse&& parse, T& out) {
  BOLE_ASSIGN(const auto text, reader.readText(value, expected));
  auto parsed = parse(text);
  if (!parsed) return fail(reader.error(value, std::move(parsed).error()));
  out = std::move(*parsed);
  return {};
}

// A file's name as it may stand in every message and in listings; "-" where it may not.
[[nodiscard]] std::string shownName(const std::string& fileName);

// "'text'" cut to a readable length, "a list", "fields", "nothing".
[[nodiscard]] std::string describeFound(const Node& node);

}  // namespace bole::spec
