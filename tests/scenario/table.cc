#include "scenario/table.h"

#include <fmt/format.h>

#include <algorithm>

namespace bole::test {
namespace {

using Row = std::vector<std::string>;

Row cellsOf(std::string_view line) {
  Row cells;
  while (true) {
    const auto begin = line.find_first_not_of(' ');
    if (begin == std::string_view::npos) return cells;
    line.remove_prefix(begin);
    const auto end = std::min(line.find("  "), line.size());
    auto cell = line.substr(0, end);
    while (cell.ends_with(' ')) cell.remove_suffix(1);
    cells.emplace_back(cell);
    line.remove_prefix(end);
  }
}

std::vector<std::string> linesFor(const TextTable& table) {
  std::vector<std::size_t> widths;
  for (const auto& column : table.columns) widths.push_back(column.size());
  for (const auto& row : table.rows) {
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  std::vector<std::string> lines;
  const auto add = [&](const Row& row) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c) {
      line += row[c];
      if (c + 1 < row.size()) line += std::string(widths[c] - row[c].size() + 2, ' ');
    }
    lines.push_back(std::move(line));
  };
  add(table.columns);
  for (const auto& row : table.rows) add(row);
  return lines;
}

}  // namespace

Result<TextTable> parseTable(const std::string& text) {
  TextTable table;
  std::size_t number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find('\n', at), text.size());
    auto cells = cellsOf(std::string_view(text).substr(at, end - at));
    at = end + 1;
    ++number;
    if (cells.empty()) continue;
    if (table.columns.empty()) {
      table.columns = std::move(cells);
      continue;
    }
    if (cells.size() != table.columns.size()) {
      return fail(
          makeError(ErrorCode::kInvalid, "a row with another number of cells than the header")
              .at(std::to_string(number))
              .foundValue(fmt::format("{} cells", cells.size()))
              .expectedValue(fmt::format(
                  "{}, with two spaces or more between them and - where there is nothing",
                  table.columns.size())));
    }
    table.rows.push_back(std::move(cells));
  }
  return table;
}

std::string formatTable(const TextTable& table) {
  std::string out;
  for (const auto& line : linesFor(table)) out += line + "\n";
  return out;
}

std::string markTable(const TextTable& table, const TextTable& other) {
  const auto lines = linesFor(table);
  std::string out = "    " + lines[0] + "\n";
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    const bool found =
        std::find(other.rows.begin(), other.rows.end(), table.rows[r]) != other.rows.end();
    out += (found ? "    " : "  ! ") + lines[r + 1] + "\n";
  }
  return out;
}

}  // namespace bole::test
