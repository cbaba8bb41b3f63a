// `bole run` as a bole.yaml. Pure.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/options.h"

namespace bole::cli {

inline constexpr const char* kRunSpecName = "run";  // stands where a file's name would

struct RunSpec {
  std::string text;
  std::vector<std::string> flags;  // of each line, the flag that made it: for errors
};

// `directory`: absolute, where the command was given.
[[nodiscard]] RunSpec makeRunSpec(const RunArgs& args, const std::string& directory);

// An error at "run:4:7" becomes one of the flag that made line 4; any other stays as it is.
[[nodiscard]] Error errorOfFlag(const RunSpec& spec, Error error);
// The same of a warning, "run:4:7: TEXT"; one of the whole job (line 1, column 1) loses its place.
[[nodiscard]] std::string warningOfFlag(const RunSpec& spec, const std::string& warning);

// A job's name after its command: "train" of `python3 src/train.py`.
[[nodiscard]] std::string nameAfter(const std::vector<std::string>& command);

}  // namespace bole::cli
