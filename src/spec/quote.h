// How a value that was found is shown in a message: cut to a readable length, and with nothing in
// it that a terminal would obey or an eye would miss.
#pragma once

#include <string>
#include <string_view>

namespace bole::spec {

// "'text'": control characters and invisible ones (no-break spaces, zero-width marks, direction
// marks) are written as \n, \t, \x1b, \u00a0; what follows the first 60 bytes becomes "...". Bytes
// that are not UTF-8 become \xff.
[[nodiscard]] std::string quoted(std::string_view text);

// The same without the quotes, for names of fields inside of a sentence.
[[nodiscard]] std::string shown(std::string_view text);

// Below the space, or DEL.
[[nodiscard]] constexpr bool isControl(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
}

}  // namespace bole::spec
