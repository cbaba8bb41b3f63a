// YAML text to a tree of places: every value keeps its line and column, and scalars stay the text
// that was written.
//
// The only file that knows yaml-cpp. What YAML 1.1 would make of `no`, `0755`, `1:30` or `1e3` is
// not its business: whoever reads a scalar decides by the field's own grammar. Refused here, with a
// position: text that is too large, not UTF-8, or nested too deep; keys written twice; aliases to
// themselves or that grow beyond the bound; tags other than the standard ones.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace bole::spec {

inline constexpr std::size_t kMaxSpecBytes = 1024 * 1024;
inline constexpr std::size_t kMaxDepth = 64;
inline constexpr std::size_t kMaxExpandedNodes = 200'000;
inline constexpr std::size_t kMaxExpandedBytes = 4 * 1024 * 1024;

// As editors count: from 1, columns in characters.
struct Position {
  std::size_t line = 1;
  std::size_t column = 1;
};

enum class NodeKind { kNull, kScalar, kSequence, kMap };

struct Node;
using NodePtr = std::shared_ptr<const Node>;

struct Field {
  std::string key;
  Position at;  // of the key
  NodePtr value;
};

struct Node {
  NodeKind kind = NodeKind::kNull;
  Position at;
  bool plain = false;  // a scalar without quotes
  std::string text;    // of a scalar
  std::vector<NodePtr> items;
  std::vector<Field> fields;  // in the order written, keys unique, merge keys (<<) resolved

  std::size_t nodesBelow = 1;  // with aliases expanded, this one included
  std::size_t bytesBelow = 0;
};

// The documents of a file, empty ones left out.
[[nodiscard]] Result<std::vector<NodePtr>> readYaml(std::string_view text,
                                                    std::string_view fileName);

[[nodiscard]] std::string formatPlace(std::string_view fileName, Position at);

// Where the text stops being UTF-8, or npos.
[[nodiscard]] std::size_t findInvalidUtf8(std::string_view text);

}  // namespace bole::spec
