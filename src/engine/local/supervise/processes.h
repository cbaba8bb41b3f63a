// What /proc tells of other processes. Every answer is of a moment: a process may end while it is
// read.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "engine/local/supervise/attempt_files.h"

namespace bole::supervise {

struct ProcessFacts {
  pid_t pid = 0;
  pid_t parent = 0;
  char state = '?';  // 'Z': dead, not yet reaped
  std::uint64_t startTicks = 0;
};

[[nodiscard]] std::optional<ProcessFacts> processFacts(pid_t pid);
[[nodiscard]] std::vector<ProcessFacts> allProcesses();
[[nodiscard]] Result<std::string> bootId();
// True if that very process lives and is not a zombie.
[[nodiscard]] bool isAlive(const ProcessId& process);
// All below `root`, children before their children, zombies left out.
[[nodiscard]] std::vector<ProcessFacts> descendantsOf(pid_t root);

// The processes whose environment at exec holds the attempt's tag, of this user or of one of its
// ranks': whoever else writes it into his environment cannot have himself taken for a part of it,
// and so keep it from ending. Zombies and this process are left out.
[[nodiscard]] std::vector<ProcessFacts> processesTagged(const std::string& dir,
                                                        const Launch& launch);
inline constexpr char kTagVariable[] = "BOLE_ATTEMPT_TAG";
// Of the attempt in this directory: the same for whoever asks, different for all others on the
// machine.
[[nodiscard]] std::string attemptTag(const std::string& dir, const Launch& launch);

}  // namespace bole::supervise
