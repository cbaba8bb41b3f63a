#include "cli/table.h"

#include <algorithm>

#include "base/result.h"
#include "cli/text.h"

namespace bole::cli {
namespace {

constexpr std::string_view kGap = "  ";

const char* codeOf(Tint tint) {
  switch (tint) {
    case Tint::kNone:
      return "";
    case Tint::kBold:
      return "\x1b[1m";
    case Tint::kDim:
      return "\x1b[2m";
    case Tint::kGreen:
      return "\x1b[32m";
    case Tint::kYellow:
      return "\x1b[33m";
    case Tint::kRed:
      return "\x1b[31m";
    case Tint::kCyan:
      return "\x1b[36m";
  }
  return "";
}

void appendCell(std::string& line, const Cell& cell, const Column& column, std::size_t width,
                bool colour, bool last) {
  const auto text = truncated(cell.text, width);
  const std::string padding(width - std::min(width, displayWidth(text)), ' ');
  if (column.align == Align::kRight) line += padding;
  line += tinted(text, cell.tint, colour);
  if (column.align == Align::kLeft && !last) line += padding;
}

void trimEnd(std::string& line) {
  while (!line.empty() && line.back() == ' ') line.pop_back();
}

}  // namespace

std::string tinted(std::string_view text, Tint tint, bool colour) {
  if (!colour || tint == Tint::kNone || text.empty()) return std::string(text);
  return codeOf(tint) + std::string(text) + "\x1b[0m";
}

void Table::add(std::vector<Cell> cells) {
  BOLE_ASSERT(cells.size() == columns_.size());
  for (auto& cell : cells) cell.text = neutralised(cell.text);
  rows_.push_back(std::move(cells));
}

std::vector<std::size_t> Table::widths(std::size_t limit) const {
  std::vector<std::size_t> out;
  std::size_t total = kGap.size() * (columns_.size() - 1);
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    std::size_t width = displayWidth(columns_[i].title);
    for (const auto& row : rows_) width = std::max(width, displayWidth(row[i].text));
    out.push_back(width);
    total += width;
  }
  while (total > limit) {
    std::size_t widest = columns_.size();
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (columns_[i].least == 0 || out[i] <= columns_[i].least) continue;
      if (widest == columns_.size() || out[i] > out[widest]) widest = i;
    }
    if (widest == columns_.size()) break;  // nothing may shrink any more
    --out[widest];
    --total;
  }
  return out;
}

std::string Table::render(const TableStyle& style) const {
  const auto width = widths(style.width);
  std::string out;
  const auto appendRow = [&](const auto& cellOf) {
    std::string line;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (i > 0) line += kGap;
      appendCell(line, cellOf(i), columns_[i], width[i], style.colour, i + 1 == columns_.size());
    }
    trimEnd(line);
    out += line + "\n";
  };
  appendRow([&](std::size_t i) { return Cell(columns_[i].title, Tint::kBold); });
  for (const auto& row : rows_) {
    appendRow([&](std::size_t i) -> const Cell& { return row[i]; });
  }
  return out;
}

void Facts::add(std::string name, std::string_view value, Tint tint) {
  rows_.push_back({std::move(name), Cell(neutralised(value), tint)});
}

std::string Facts::render(const TableStyle& style, std::size_t indent) const {
  std::size_t names = 0;
  for (const auto& row : rows_) names = std::max(names, displayWidth(row.name));
  const std::size_t before = indent + names + kGap.size() + 1;
  const std::size_t room = style.width > before + 20 ? style.width - before : 20;
  std::string out;
  for (const auto& row : rows_) {
    std::string head = std::string(indent, ' ') + row.name + ":";
    head += std::string(before - displayWidth(head), ' ');
    for (const auto& line : wrapped(row.value.text, room)) {
      std::string text = head + tinted(line, row.value.tint, style.colour);
      trimEnd(text);
      out += text + "\n";
      head = std::string(before, ' ');
    }
  }
  return out;
}

}  // namespace bole::cli
