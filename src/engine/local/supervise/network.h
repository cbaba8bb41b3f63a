// A network namespace of the gang's own: only its loopback, shared by all ranks on this machine.
#pragma once

#include <string>

#include "base/result.h"

namespace bole::supervise {

// Moves this process into a new one; what it starts from now on is in it. kPermission: only root may.
[[nodiscard]] Result<void> enterOwnNetwork();

// Afterwards, for root: this process has a mount namespace of its own, with a sysfs at that path that shows no network
// devices but those of its network namespace. The machine's own /sys shows the machine's. Gone with the process.
[[nodiscard]] Result<std::string> mountOwnSysfs(const std::string& at);

}  // namespace bole::supervise
