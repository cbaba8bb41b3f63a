// The system calls that a job's command has no use for, and that reach further than its sandbox
// without any capability.
//
// Namespaces of its own (in one, it would have capabilities again, against a kernel that has often
// been found wanting there), keys (keyrings know no PID namespace), BPF and io_uring are refused;
// all else is left to the kernel's own rules, which a user without capabilities meets. Calls of
// other ABIs (32-bit, x32) are unknown: the rules could be gone around with them.
#pragma once

namespace bole::init {

// For this thread and whatever comes of it; for ever. Needs no_new_privs. False: errno says why.
bool forbidCalls();

}  // namespace bole::init
