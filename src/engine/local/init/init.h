// bole-init: starts one rank's command and stays until nothing of it is left.
//
// Promises: the command's raw wait status is on disk (fsync) before anyone is told; the command
// inherits no descriptor of init's; when the command ends, or the supervisor does, everything that
// the command started is killed. It never waits for anything but the kernel, and keeps no state but
// this.
#pragma once

namespace bole::init {

// For main(): does all of the above with the descriptors of init_protocol.h. Returns the exit code.
int run();
// Keeps the namespaces of a container until SIGTERM or SIGINT.
int hold();

}  // namespace bole::init
