// Text for terminals: how wide it is, how to cut it, and how to make foreign text harmless.
//
// All of it is pure, takes any bytes, and never splits a character. A byte that is not UTF-8 counts
// as one column.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace bole::cli {

// Columns that the text takes; wide (CJK, emoji) characters take two, combining ones none. Escapes
// are not expected.
[[nodiscard]] std::size_t displayWidth(std::string_view text);

// The text itself, or its beginning and '…', at most `columns` wide. columns 0 gives "".
[[nodiscard]] std::string truncated(std::string_view text, std::size_t columns);

// A name or a sentence that came from elsewhere: control characters (also C1, and those that change
// the direction of writing) become '?', so that it stays one harmless line.
[[nodiscard]] std::string neutralised(std::string_view text);

// A line of a job's output for a terminal: colours stay; every other escape sequence and control
// character goes. What stands before a carriage return is dropped, as the terminal would have shown
// it overwritten. Colours are closed.
[[nodiscard]] std::string terminalLine(std::string_view text);

// Breaks at spaces so that no line is wider than `columns`; a longer word stands alone.
[[nodiscard]] std::vector<std::string> wrapped(std::string_view text, std::size_t columns);

// How many single-character changes turn a into b, for "did you mean".
[[nodiscard]] std::size_t editDistance(std::string_view a, std::string_view b);

// The one of `names` that was most likely meant; "" where none is near.
[[nodiscard]] std::string nearestOf(const std::string& found,
                                    const std::vector<std::string>& names);

// As it would be typed in a shell: quoted only where needed.
[[nodiscard]] std::string shellQuoted(std::string_view word);

}  // namespace bole::cli
