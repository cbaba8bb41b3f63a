#include "engine/local/supervise/podman_containers.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <sstream>

#include "engine/local/supervise/podman_child.h"
#include "engine/local/supervise/podman_host.h"
#include "engine/local/supervise/posix.h"
#include "engine/local/supervise/processes.h"

namespace bole::supervise {
namespace {

namespace fs = std::filesystem;

constexpr int kTries = 5;
constexpr Duration kPatience = seconds(60);  // for one Podman
constexpr int kLookEveryMillis = 5;
constexpr std::size_t kMostOutput = 1u << 20;

std::string recordOf(const std::string& dir) {
  return dir + "/containers";
}
std::string outputOf(const std::string& dir) {
  return dir + "/podman.log";
}

std::vector<std::string> removal(std::vector<std::string> podman,
                                 const std::vector<std::string>& names) {
  podman.insert(podman.end(), {"rm", "--force", "--ignore", "--time", "0", "--"});
  podman.insert(podman.end(), names.begin(), names.end());
  return podman;
}

void forgetRecord(const std::string& dir) {
  ::unlink(recordOf(dir).c_str());
  ::unlink(outputOf(dir).c_str());
}

// Its exit status, or empty if it had to be killed.
std::optional<int> waitFor(pid_t pid) {
  const auto until = boottimeNow() + kPatience;
  for (int status = 0;;) {
    const auto ended = ::waitpid(pid, &status, WNOHANG);
    if (ended == pid) return status;
    if (ended < 0 && errno != EINTR) return std::nullopt;
    if (boottimeNow() > until) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, &status, 0);
      return std::nullopt;
    }
    ::poll(nullptr, 0, kLookEveryMillis);
  }
}

// ---- without a supervisor: one Podman that removes, found again by its file
// ---------------------------------------------

struct Remover {
  ProcessId process;
  int tries = 0;
  Duration since;  // boottime
};

std::string removerOf(const std::string& dir) {
  return dir + "/remover";
}

Remover readRemover(const std::string& dir) {
  Remover remover;
  const auto text = readFile(removerOf(dir), 256);
  unsigned long long start = 0;
  long long since = 0;
  if (text && std::sscanf(text->c_str(), "%d %llu %d %lld", &remover.process.pid, &start,
                          &remover.tries, &since) == 4) {
    remover.process.startTicks = start;
    remover.since = Duration(since);
  }
  return remover;
}

void startRemover(const std::string& dir, const std::vector<std::string>& names, int tries) {
  const auto facts = lookAtPodman();
  if (!checkPodman(facts)) return;
  std::vector<std::string> podman = {facts.program};
  for (const auto& option : globalOptions(facts)) podman.push_back(option);
  PodmanChild child;
  // The record goes only if all of them have: a shell sees to it, so that it holds when this
  // process dies meanwhile.
  child.argv = {"/bin/sh", "-c", "record=$1; shift; \"$@\" && rm -f -- \"$record\"", "sh",
                recordOf(dir)};
  for (const auto& word : removal(podman, names)) child.argv.push_back(word);
  child.output = outputOf(dir);
  const auto pid = startPodman(child);
  if (!pid) return;
  const auto found = processFacts(*pid);
  char text[128];
  std::snprintf(text, sizeof text, "%d %llu %d %lld\n", *pid,
                static_cast<unsigned long long>(found ? found->startTicks : 0), tries + 1,
                static_cast<long long>(boottimeNow().value));
  static_cast<void>(replaceFile(removerOf(dir), text, Flush::kNo));
}

// Podman and conmon say a container's name in their arguments, bole-init its attempt's directory;
// runc, below them, says neither. Others may mention a name too, so that only these are taken.
std::vector<pid_t> processesNaming(const std::vector<std::string>& names) {
  std::vector<pid_t> found;
  for (const auto& process : allProcesses()) {
    if (process.state == 'Z') continue;
    const auto text = readFile("/proc/" + std::to_string(process.pid) + "/cmdline", 1u << 20);
    if (!text) continue;
    std::istringstream words(*text);
    std::string word;
    if (!std::getline(words, word, '\0')) continue;
    const auto program = word.substr(word.rfind('/') + 1);
    if (program != "podman" && program != "conmon") continue;
    while (std::getline(words, word, '\0')) {
      if (std::find(names.begin(), names.end(), word) == names.end()) continue;
      found.push_back(process.pid);
      break;
    }
  }
  return found;
}

std::uint32_t killMakers(const std::vector<std::string>& names) {
  std::uint32_t killed = 0;
  for (const auto pid : processesNaming(names)) {
    for (const auto& below : descendantsOf(pid)) ::kill(below.pid, SIGKILL);
    ::kill(pid, SIGKILL);
    ++killed;
  }
  return killed;
}

}  // namespace

std::string containerName(const std::string& tag, std::uint32_t rank) {
  return "bole-" + tag + "-" + std::to_string(rank);
}

Result<void> recordContainers(const std::string& dir, const std::vector<std::string>& names) {
  std::string text;
  for (const auto& name : names) text += name + "\n";
  return replaceFile(recordOf(dir), text, Flush::kYes);
}

std::vector<std::string> recordedContainers(const std::string& dir) {
  std::vector<std::string> names;
  const auto text = readFile(recordOf(dir), 1u << 20);
  if (!text) return names;
  std::istringstream lines(*text);
  for (std::string name; std::getline(lines, name);) {
    if (!name.empty()) names.push_back(name);
  }
  return names;
}

Result<void> removeContainers(const std::string& dir, const std::vector<std::string>& podman) {
  const auto names = recordedContainers(dir);
  if (names.empty()) return {};
  PodmanChild child;
  child.argv = removal(podman, names);
  child.output = outputOf(dir);
  // The first try on a container whose conmon was killed fails and lets Podman see that it is dead.
  for (int tries = 0; tries < kTries; ++tries) {
    BOLE_ASSIGN(const auto pid, startPodman(child));
    const auto status = waitFor(pid);
    if (status && WIFEXITED(*status) && WEXITSTATUS(*status) == 0) {
      forgetRecord(dir);
      return {};
    }
  }
  const auto said = readFile(child.output, kMostOutput);
  return fail(makeError(ErrorCode::kUnavailable,
                        "Podman cannot remove the containers: " + lastError(said ? *said : ""))
                  .at(names.front())
                  .withHint("nothing of them runs; remove them by hand: podman rm --force " +
                            names.front()));
}

void removeContainerGroups(const std::string& relative, const std::string& root) {
  if (relative.empty()) return;
  std::error_code lost;
  for (fs::directory_iterator at(root, lost), end; !lost && at != end; at.increment(lost)) {
    if (at->is_symlink(lost)) continue;
    const auto top = at->path().string() + "/" + relative;
    if (!pathExists(top)) continue;
    std::error_code ignored;
    for (fs::directory_iterator leaf(top, ignored), last; !ignored && leaf != last;
         leaf.increment(ignored)) {
      if (leaf->path().filename().string().compare(0, 7, "libpod-") == 0)
        ::rmdir(leaf->path().c_str());
    }
    if (::rmdir(top.c_str()) == 0) ::rmdir(top.substr(0, top.rfind('/')).c_str());
  }
}

std::uint32_t killContainers(const std::string& dir, const Launch& launch) {
  const auto remover = readRemover(dir);
  if (remover.process.pid > 0)
    ::waitpid(remover.process.pid, nullptr, WNOHANG);  // where it was this process's child
  if (isAlive(remover.process)) {
    if (boottimeNow() - remover.since > kPatience) {
      for (const auto& below : descendantsOf(remover.process.pid)) ::kill(below.pid, SIGKILL);
      ::kill(remover.process.pid, SIGKILL);
    }
    return 1;
  }
  const auto names = recordedContainers(dir);
  if (!names.empty()) {
    if (const auto killed = killMakers(names); killed > 0) return killed;
    if (checkPodman(lookAtPodman()) && remover.tries < kTries) {
      startRemover(dir, names, remover.tries);
      return 1;
    }
    ::rename(recordOf(dir).c_str(), (recordOf(dir) + ".kept").c_str());
  }
  ::unlink(removerOf(dir).c_str());
  removeContainerGroups(launch.cgroup);
  return 0;
}

}  // namespace bole::supervise
