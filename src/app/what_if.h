// A snapshot's next decision, made again without a server: as it stands, with more jobs, or under
// another policy.
#pragma once

#include <string>

#include "base/result.h"
#include "cli/cli.h"

namespace bole::app {

// Errors: kInvalid and the like for a file that is wrong, with its place; kCorrupt for a snapshot
// that cannot be a state. The snapshot's own time is the time of the decision.
[[nodiscard]] Result<cli::PlanOutcome> whatIf(const cli::PlanInput& input);

}  // namespace bole::app
