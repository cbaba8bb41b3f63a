// Aligned tables of text that fit a width.
//
// Columns are as wide as their widest cell; where the whole is too wide, the columns that may
// shrink are cut with '…', always the widest of them first. Cells are made harmless (neutralised)
// on the way in.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace bole::cli {

enum class Align { kLeft, kRight };

// How a cell is coloured where colour is wanted at all.
enum class Tint { kNone, kBold, kDim, kGreen, kYellow, kRed, kCyan };

[[nodiscard]] std::string tinted(std::string_view text, Tint tint, bool colour);

struct Column {
  std::string title;
  Align align = Align::kLeft;
  std::size_t least = 0;  // never cut below this; 0: never cut at all
};

struct Cell {
  Cell(std::string content)
      : text(std::move(content)) {}  // NOLINT(google-explicit-constructor): rows read as lists
  Cell(const char* content) : text(content) {}  // NOLINT(google-explicit-constructor)
  Cell(std::string content, Tint colour) : text(std::move(content)), tint(colour) {}
  std::string text;
  Tint tint = Tint::kNone;
};

struct TableStyle {
  std::size_t width = 100;  // in columns
  bool colour = false;
};

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  void add(std::vector<Cell> cells);  // as many as there are columns
  [[nodiscard]] bool empty() const { return rows_.empty(); }
  [[nodiscard]] std::string render(
      const TableStyle& style) const;  // with the title row; each line ends with '\n'

 private:
  [[nodiscard]] std::vector<std::size_t> widths(std::size_t limit) const;

  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

// "name:  value" lines with the values in one column; long values are wrapped under themselves.
class Facts {
 public:
  void add(std::string name, std::string_view value, Tint tint = Tint::kNone);
  [[nodiscard]] std::string render(const TableStyle& style, std::size_t indent = 0) const;

 private:
  struct Row {
    std::string name;
    Cell value;
  };
  std::vector<Row> rows_;
};

}  // namespace bole::cli
