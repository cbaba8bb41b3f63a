// Where a job's output goes: lines, and on a terminal one line below them that is always redrawn.
//
// Text is gathered and written by flush(), so that a burst of lines costs one write. On a terminal
// a job's lines are made harmless; elsewhere they pass as they are.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "cli/context.h"
#include "model/views.h"

namespace bole::cli {

struct LineStyle {
  bool prefix = false;  // "[RANK] " before each line
  bool timestamps = false;
  bool bar = false;      // where there is a terminal
  bool raw = false;      // with the bar: also the lines that it is made of (docs/progress.md)
  bool toError = false;  // standard output is kept for something else
};

class Screen {
 public:
  Screen(Context& context, LineStyle style);

  void line(const model::LogLineView& line);
  // A sentence of the program's own, to standard error, above the bar.
  void tell(const std::string& text);
  void bar(const std::string& text);  // "" takes it away
  // False once nobody reads any more.
  bool flush();

  [[nodiscard]] bool hasBar() const { return style_.bar; }
  [[nodiscard]] std::size_t columns() const { return columns_; }
  [[nodiscard]] bool colour() const { return colour_; }

 private:
  Context& context_;
  LineStyle style_;
  bool terminal_;
  bool colour_;
  std::size_t columns_;
  std::string lines_;  // not written yet
  std::string bar_;
  std::string shownBar_;
};

// "2026-11-30T12:43:09.123Z"
[[nodiscard]] std::string preciseTime(Timestamp time);

// One line for a job that is being watched, at most `columns` wide. `saved`: its newest checkpoint.
[[nodiscard]] std::string barText(const model::JobView& job, std::size_t columns,
                                  std::string_view saved = {});

// A line of the progress protocol: the bar says what it says.
[[nodiscard]] bool isProgressLine(std::string_view line);
// Of a line that announces a checkpoint: "epoch 5", else its path; "" of any other line.
[[nodiscard]] std::string checkpointIn(std::string_view line);

}  // namespace bole::cli
