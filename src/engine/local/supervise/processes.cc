#include "engine/local/supervise/processes.h"

#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <memory>
#include <set>

#include "engine/local/supervise/posix.h"

namespace bole::supervise {

std::optional<ProcessFacts> processFacts(pid_t pid) {
  const auto text = readFile("/proc/" + std::to_string(pid) + "/stat", 4096);
  if (!text) return std::nullopt;
  const auto end = text->rfind(')');  // the name before it may hold anything
  if (end == std::string::npos) return std::nullopt;
  ProcessFacts facts;
  facts.pid = pid;
  int parent = 0;
  unsigned long long start = 0;
  const int read = std::sscanf(text->c_str() + end + 1,
                               " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d"
                               " %*d %*d %llu",
                               &facts.state, &parent, &start);
  if (read != 3) return std::nullopt;
  facts.parent = parent;
  facts.startTicks = start;
  return facts;
}

std::vector<ProcessFacts> allProcesses() {
  std::vector<ProcessFacts> all;
  const std::unique_ptr<DIR, int (*)(DIR*)> proc(::opendir("/proc"), ::closedir);
  if (!proc) return all;
  while (const dirent* entry = ::readdir(proc.get())) {
    const auto pid = static_cast<pid_t>(::strtol(entry->d_name, nullptr, 10));
    if (pid <= 0) continue;
    if (const auto facts = processFacts(pid)) all.push_back(*facts);
  }
  return all;
}

Result<std::string> bootId() {
  BOLE_ASSIGN(auto text, readFile("/proc/sys/kernel/random/boot_id", 256));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

bool isAlive(const ProcessId& process) {
  if (process.pid <= 0) return false;
  const auto facts = processFacts(process.pid);
  return facts && facts->startTicks == process.startTicks && facts->state != 'Z' &&
         facts->state != 'X';
}

std::vector<ProcessFacts> descendantsOf(pid_t root) {
  const auto all = allProcesses();
  std::vector<ProcessFacts> found;
  std::vector<pid_t> parents{root};
  while (!parents.empty()) {
    std::vector<pid_t> next;
    for (const auto& process : all) {
      for (const auto parent : parents) {
        if (process.parent != parent) continue;
        next.push_back(process.pid);
        if (process.state != 'Z') found.push_back(process);
      }
    }
    parents = std::move(next);
  }
  return found;
}

namespace {

// Who it really is: its files in /proc are root's where it does not let itself be looked into.
std::optional<uid_t> userOf(pid_t pid) {
  const auto text = readFile("/proc/" + std::to_string(pid) + "/status", 65536);
  const auto at = text ? text->find("\nUid:\t") : std::string::npos;
  if (at == std::string::npos) return std::nullopt;
  return static_cast<uid_t>(::strtoul(text->c_str() + at + 6, nullptr, 10));
}

}  // namespace

std::vector<ProcessFacts> processesTagged(const std::string& dir, const Launch& launch) {
  const std::string wanted =
      std::string(1, '\0') + kTagVariable + "=" + attemptTag(dir, launch) + '\0';
  std::set<uid_t> users = {::geteuid()};
  for (const auto& rank : launch.ranks) users.insert(rank.uid);
  std::vector<ProcessFacts> found;
  for (const auto& process : allProcesses()) {
    if (process.state == 'Z' || process.pid == ::getpid()) continue;
    const auto text = readFile("/proc/" + std::to_string(process.pid) + "/environ", 8u << 20);
    if (!text) continue;
    if ((std::string(1, '\0') + *text + '\0').find(wanted) == std::string::npos) continue;
    const auto user = userOf(process.pid);
    if (user && users.count(*user) > 0) found.push_back(process);
  }
  return found;
}

std::string attemptTag(const std::string& dir, const Launch& launch) {
  std::string path = dir;
  if (char* real = ::realpath(dir.c_str(), nullptr)) {
    path = real;
    ::free(real);
  }
  std::uint64_t hash = 14695981039346656037u;  // FNV-1a: only to tell homes apart
  for (const char c : path) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  char text[64];
  std::snprintf(text, sizeof text, "%016llx-%llu", static_cast<unsigned long long>(hash),
                static_cast<unsigned long long>(launch.attempt));
  return text;
}

}  // namespace bole::supervise
