#include "engine/local/supervise/podman_child.h"

#include <fcntl.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <sstream>

#include "engine/local/init/signals.h"
#include "engine/local/supervise/processes.h"

namespace bole::supervise {
namespace {

constexpr int kNotRun = 127;

// Between fork and exec: only what is safe there.
[[noreturn]] void become(char* const* argv, int null, int output, int network) {
  ::dup2(null, 0);
  ::dup2(output, 1);
  ::dup2(output, 2);
  if (network >= 0 && ::setns(network, CLONE_NEWNET) != 0) ::_exit(kNotRun);
  ::syscall(SYS_close_range, 3u, ~0u, 0);
  ::setsid();
  defaultSignals();
  ::umask(022);
  ::execv(argv[0], argv);
  ::_exit(kNotRun);
}

}  // namespace

Result<pid_t> startPodman(const PodmanChild& child) {
  BOLE_ASSIGN(const auto null, openFile("/dev/null", O_RDONLY, 0, "cannot open"));
  BOLE_ASSIGN(const auto output, openFile(child.output, O_WRONLY | O_CREAT | O_TRUNC, 0600,
                                          "cannot keep what Podman says"));
  std::vector<char*> argv;
  for (const auto& word : child.argv) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  std::vector<Fd> doors;
  for (const auto& path : child.entrances) {
    if (auto door = openFile(path, O_WRONLY, 0, "cannot join")) doors.push_back(std::move(*door));
  }
  const pid_t pid = ::fork();
  if (pid < 0) return fail(systemError(errno, "cannot start a process", child.argv[0]));
  if (pid == 0) {
    for (const auto& door : doors) static_cast<void>(!::write(door.get(), "0", 1));
    become(argv.data(), null.get(), output.get(), child.network);
  }
  return pid;
}

std::string lastError(const std::string& text) {
  std::istringstream lines(text);
  std::string last;
  for (std::string line; std::getline(lines, line);) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (!line.empty()) last = line;
  }
  constexpr std::string_view kPrefix = "Error: ";
  if (last.compare(0, kPrefix.size(), kPrefix) == 0) last.erase(0, kPrefix.size());
  return last;
}

void preparePodmanEnvironment(const std::string& tag) {
  ::setenv(kTagVariable, tag.c_str(), 1);
  if (std::getenv("HOME") == nullptr) {
    const auto* user = ::getpwuid(::geteuid());
    ::setenv("HOME", user ? user->pw_dir : "/", 1);
  }
  const auto own = "/run/user/" + std::to_string(::geteuid());
  if (::geteuid() != 0 && pathExists(own)) ::setenv("XDG_RUNTIME_DIR", own.c_str(), 0);
}

}  // namespace bole::supervise
