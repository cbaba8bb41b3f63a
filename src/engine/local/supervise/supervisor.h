// Keeps one attempt from its claim to its end: what `bole-supervise DIRECTORY` does.
//
// One thread, one epoll; it wakes only for output, signals, stop.json and deadlines. It ends when
// no process of the attempt is left, and not before: a GPU that is still in use is not given out
// again.
#pragma once

#include <string>

#include "base/result.h"

namespace bole::supervise {

struct SupervisorOptions {
  std::string directory;  // the attempt's, absolute
  std::string programs;   // where bole-init lies
};

// True when this process kept the attempt to its end; false when another one had claimed it:
// nothing was done then. An Error: not even its end could be written down; whoever reads the
// directory finds the claim's process gone.
[[nodiscard]] Result<bool> supervise(const SupervisorOptions& options);

}  // namespace bole::supervise
