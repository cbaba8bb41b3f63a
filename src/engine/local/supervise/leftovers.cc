// What a supervisor that died left behind.
#include <signal.h>

#include <set>

#include "engine/local/supervise/attempt_files.h"
#include "engine/local/supervise/cgroup.h"
#include "engine/local/supervise/processes.h"

namespace bole::supervise {

Result<std::uint32_t> killLeftovers(const std::string& dir, const Launch& launch) {
  const bool inGroup = killGroup(launch.cgroup);
  std::set<pid_t> found;
  // The inits are found by name: their trees die with them, by their PID namespaces or by their own hand.
  if (auto started = readStarted(dir); started && *started) {
    for (const auto& rank : (*started)->ranks) {
      if (isAlive(rank.init)) found.insert(rank.init.pid);
    }
  }
  for (const auto& process : processesTagged(attemptTag(dir, launch))) found.insert(process.pid);
  for (const auto pid : found) ::kill(pid, SIGKILL);
  return static_cast<std::uint32_t>(found.size()) + (inGroup && found.empty() ? 1 : 0);
}

}  // namespace bole::supervise
