// From arguments to an Invocation, or to the text that says what is wrong or how it is used.
//
// The one place that knows CLI11. What it knows of the commands is also told as plain data, from
// which completions are made.
#pragma once

#include <string>
#include <vector>

#include "cli/options.h"

namespace bole::cli {

struct Parse {
  bool complete = false;  // `invocation` is what was asked for
  Invocation invocation;
  // Otherwise: what to print, to standard output where the code is 0 and to standard error where
  // not.
  std::string text;
  int code = 0;
};

// Without the name of the program.
[[nodiscard]] Parse parseArguments(std::vector<std::string> arguments);

enum class ValueKind {
  kNone,
  kText,
  kFile,
  kDirectory,
  kJob,
  kLiveJob,
  kQueue,
  kPolicy,  // `apply`, and a file
  kState,
  kShell,
  kCommand
};

struct OptionInfo {
  std::vector<std::string> names;  // "-f", "--follow"
  std::string help;
  ValueKind value = ValueKind::kNone;
};

struct CommandInfo {
  std::string name;
  std::string summary;
  std::string example;
  std::vector<OptionInfo> options;
  ValueKind argument = ValueKind::kNone;  // what stands without an option's name
};

// In the order of the help.
[[nodiscard]] std::vector<CommandInfo> describeCommands();

}  // namespace bole::cli
