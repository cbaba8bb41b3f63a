// A network namespace of the gang's own: only its loopback, shared by all ranks on this machine.
#pragma once

#include "base/result.h"

namespace bole::supervise {

// Moves this process into a new one; what it starts from now on is in it. kPermission: only root may.
[[nodiscard]] Result<void> enterOwnNetwork();

}  // namespace bole::supervise
