// The commands that work without a server, or start one.
#pragma once

#include "cli/cli.h"

namespace bole::app {

// All of them outlive what is returned.
[[nodiscard]] cli::LocalCommands localCommands(cli::Sink out, cli::Sink err, Clock& clock,
                                               Rng& rng);

}  // namespace bole::app
