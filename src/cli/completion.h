// Completions for bash, zsh and fish, made from the description of the commands. Pure.
#pragma once

#include <string>
#include <vector>

#include "cli/parser.h"

namespace bole::cli {

// `shell` is bash, zsh or fish.
[[nodiscard]] std::string completionScript(const std::string& shell,
                                           const std::vector<CommandInfo>& commands);

}  // namespace bole::cli
