// Tables as text: a header, rows, cells with two or more spaces between them, "-" where there is
// nothing.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace bole::test {

struct TextTable {
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;  // each with a cell a column
  bool operator==(const TextTable&) const = default;
};

// Errors name the line, counted from 1.
[[nodiscard]] Result<TextTable> parseTable(const std::string& text);

// Aligned, each line ended.
[[nodiscard]] std::string formatTable(const TextTable& table);

// The rows of `table` that `other` has no equal of, in order, behind "! "; all others behind "  ".
[[nodiscard]] std::string markTable(const TextTable& table, const TextTable& other);

}  // namespace bole::test
