// Starts a program that outlives the one who started it: in a session of its own, with nothing
// inherited but an empty standard input and output.
#pragma once

#include <string>
#include <vector>

#include "engine/local/files.h"

namespace bole::engine {

struct SpawnRequest {
  std::vector<std::string> argv;         // argv[0]: the program's path
  std::vector<std::string> environment;  // all of it
  std::string errorFile;                 // where its standard error is appended to
};

// The pidfd of the child. Whoever watches it must also reap() it.
[[nodiscard]] Result<Fd> spawnDetached(const SpawnRequest& request);

// Takes the dead child off the process table, if it was this process's. Never waits.
void reap(const Fd& pidfd);

// The pidfd of any process; an error if there is none of this number.
[[nodiscard]] Result<Fd> openProcess(std::int32_t pid);

// SIGTERM to that very process.
void terminate(const Fd& pidfd);

}  // namespace bole::engine
