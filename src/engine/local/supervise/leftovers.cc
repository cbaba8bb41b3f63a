// What a supervisor that died left behind.
#include "engine/local/supervise/leftovers.h"

#include <signal.h>
#include <unistd.h>

#include <set>
#include <sstream>

#include "engine/local/supervise/attempt_files.h"
#include "engine/local/supervise/cgroup.h"
#include "engine/local/supervise/podman_containers.h"
#include "engine/local/supervise/posix.h"
#include "engine/local/supervise/processes.h"

namespace bole::supervise {

namespace {

std::string groupsFile(const std::string& dir) {
  return dir + "/groups";
}

void removeRecordedGroups(const std::string& dir) {
  const auto text = readFile(groupsFile(dir), 1u << 20);
  if (!text) return;
  std::istringstream lines(*text);
  for (std::string path; std::getline(lines, path);) ::rmdir(path.c_str());
}

}  // namespace

Result<void> recordGroups(const std::string& dir, const std::vector<std::string>& groups) {
  if (groups.empty()) return {};
  std::string text;
  for (const auto& path : groups) text += path + "\n";
  return replaceFile(groupsFile(dir), text, Flush::kNo);
}

Result<std::uint32_t> killLeftovers(const std::string& dir, const Launch& launch) {
  const bool inGroup = killGroup(launch.cgroup);
  std::set<pid_t> found;
  // The inits are found by name: their trees die with them, by their PID namespaces or by their own
  // hand.
  if (auto started = readStarted(dir); started && *started) {
    for (const auto& rank : (*started)->ranks) {
      if (isAlive(rank.init)) found.insert(rank.init.pid);
    }
  }
  for (const auto& process : processesTagged(dir, launch)) found.insert(process.pid);
  for (const auto pid : found) ::kill(pid, SIGKILL);
  if (found.empty() && !inGroup) {
    // Only now: while something still makes containers, none is removed for good.
    if (const auto left = killContainers(dir, launch); left > 0) return left;
    removeRecordedGroups(dir);
  }
  return static_cast<std::uint32_t>(found.size()) + (inGroup && found.empty() ? 1 : 0);
}

}  // namespace bole::supervise
