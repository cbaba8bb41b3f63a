#include "engine/local/spawn.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

namespace bole::engine {
namespace {

class Actions {
 public:
  Actions() { ::posix_spawn_file_actions_init(&actions_); }
  ~Actions() { ::posix_spawn_file_actions_destroy(&actions_); }
  Actions(const Actions&) = delete;
  Actions& operator=(const Actions&) = delete;

  void add(const SpawnRequest& request) {
    ::posix_spawn_file_actions_addopen(&actions_, 0, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_addopen(&actions_, 1, "/dev/null", O_WRONLY, 0);
    ::posix_spawn_file_actions_addopen(&actions_, 2, request.errorFile.c_str(),
                                       O_WRONLY | O_CREAT | O_APPEND, 0600);
    ::posix_spawn_file_actions_addclosefrom_np(&actions_, 3);
    ::posix_spawn_file_actions_addchdir_np(&actions_, "/");
  }
  [[nodiscard]] const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_{};
};

class Attributes {
 public:
  Attributes() {
    ::posix_spawnattr_init(&attributes_);
    sigset_t none;
    sigset_t all;
    ::sigemptyset(&none);
    ::sigfillset(&all);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    ::posix_spawnattr_setsigdefault(&attributes_, &all);
    ::posix_spawnattr_setflags(&attributes_,
                               POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~Attributes() { ::posix_spawnattr_destroy(&attributes_); }
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;
  [[nodiscard]] const posix_spawnattr_t* get() const { return &attributes_; }

 private:
  posix_spawnattr_t attributes_{};
};

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> list;
  list.reserve(texts.size() + 1);
  for (const auto& text : texts) list.push_back(const_cast<char*>(text.c_str()));
  list.push_back(nullptr);
  return list;
}

}  // namespace

Result<Fd> spawnDetached(const SpawnRequest& request) {
  Actions actions;
  actions.add(request);
  const Attributes attributes;
  pid_t pid = 0;
  const int error =
      ::posix_spawn(&pid, request.argv.at(0).c_str(), actions.get(), attributes.get(),
                    pointers(request.argv).data(), pointers(request.environment).data());
  if (error != 0) return fail(systemError(error, "cannot start the program", request.argv.at(0)));
  return openProcess(pid);
}

void reap(const Fd& pidfd) {
  siginfo_t info{};
  ::waitid(static_cast<idtype_t>(P_PIDFD), static_cast<id_t>(pidfd.get()), &info,
           WEXITED | WNOHANG);
}

Result<Fd> openProcess(std::int32_t pid) {
  Fd opened(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));  // close-on-exec by itself
  if (!opened.isOpen()) {
    return fail(systemError(errno, "cannot watch the process", std::to_string(pid)));
  }
  return opened;
}

void terminate(const Fd& pidfd) {
  ::syscall(SYS_pidfd_send_signal, pidfd.get(), SIGTERM, nullptr, 0);
}

}  // namespace bole::engine
