// Lines for people and for Bole (docs/progress.md), each written at once and whole, whoever reads
// them.
#pragma once

#include <string>

namespace digits {

void printLine(const std::string& line);       // to standard output
void printErrorLine(const std::string& line);  // to standard error

// printf's formats, as a string.
[[nodiscard]] std::string format(const char* pattern, ...) __attribute__((format(printf, 1, 2)));

}  // namespace digits
