// A network namespace of the gang's own: only its loopback, shared by all ranks on this machine.
#pragma once

#include <string>

#include "base/result.h"

namespace bole::supervise {

// Moves this process into a new one; what it starts from now on is in it. Who is not root gets a
// user namespace around it. An Error where the machine allows neither; with `entered`, it came too
// late: this process is of no more use.
[[nodiscard]] Result<void> enterOwnNetwork(bool& entered);

// Afterwards: this process has a mount namespace of its own, with a sysfs at that path that shows
// no network devices but those of its network namespace. The machine's own /sys shows the
// machine's. Gone with the process.
[[nodiscard]] Result<std::string> mountOwnSysfs(const std::string& at);

}  // namespace bole::supervise
