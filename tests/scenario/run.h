// Runs a scenario file and says what came out otherwise.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace bole::test {

struct Outcome {
  std::vector<std::string> differences;  // for people, each several lines; empty: all as expected
  std::string accepted;                  // the file with the tables as they came out
};

// Errors: what is wrong with the file itself, with its place.
[[nodiscard]] Result<Outcome> runScenario(const std::string& text, const std::string& file);

}  // namespace bole::test
