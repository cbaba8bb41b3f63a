// Submitting a spec: checked first, then what it brings along is sent, then it is submitted, once.
#pragma once

#include <functional>
#include <string>

#include "cli/context.h"
#include "cli/spec_file.h"

namespace bole::cli {

struct SubmitRules {
  // Where a spec is of the program's own making: a warning's place in the user's terms.
  std::function<std::string(const std::string&)> wordWarning;
  std::string project;  // empty: the spec's
  bool dryRun = false;
  bool upload = true;  // false: nothing comes along
};

struct SubmitOutcome {
  std::string body;  // the server's, as it is
  model::SubmitAnswer answer;
};

// Variables that the spec names without a value get it from the environment. Warnings go to
// standard error.
[[nodiscard]] Result<SubmitOutcome> submitSpec(Context& context, const SpecFile& spec,
                                               const SubmitRules& rules);

}  // namespace bole::cli
