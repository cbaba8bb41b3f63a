#include "engine/local/init/init.h"

#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/keyctl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "engine/local/init/init_protocol.h"
#include "engine/local/init/record.h"
#include "engine/local/init/seccomp.h"
#include "engine/local/init/signals.h"

namespace bole::init {

namespace {

constexpr char kOomScore[] = "500";  // of -1000 to 1000
constexpr int kFailed = 125;         // init's own exit code when it could not do its work
constexpr char kDefaultPath[] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

struct Config {
  char** argv = nullptr;  // ends with a null pointer
  char** env = nullptr;
  const char* cwd = "/";
  long uid = -1;
  long gid = -1;
  long files = 0;
  long processes = 0;
  bool confine = false;
  bool inherit = false;
};

std::int64_t wallMicros() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000 + now.tv_nsec / 1000;
}

void say(const char* text) {
  // Nobody may be listening any more; the end of the life line is noticed elsewhere.
  (void)!::send(kSocketFd, text, std::strlen(text), MSG_NOSIGNAL);
}

// ---- the configuration
// --------------------------------------------------------------------------------------------

char* readAll(int file, std::size_t& size) {
  struct stat facts {};
  if (::fstat(file, &facts) != 0 || facts.st_size <= 0) return nullptr;
  const auto total = static_cast<std::size_t>(facts.st_size);
  char* bytes = static_cast<char*>(std::malloc(total + 1));
  if (bytes == nullptr) return nullptr;
  while (size < total) {
    const auto got = ::pread(file, bytes + size, total - size, static_cast<off_t>(size));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return nullptr;
    size += static_cast<std::size_t>(got);
  }
  bytes[total] = '\0';
  return bytes;
}

bool parse(char* bytes, std::size_t size, Config& config) {
  std::size_t strings = 0;
  for (std::size_t i = 0; i < size; ++i) strings += bytes[i] == '\0' ? 1 : 0;
  config.argv = static_cast<char**>(std::calloc(strings + 2, sizeof(char*)));
  config.env = static_cast<char**>(std::calloc(strings + 2, sizeof(char*)));
  if (config.argv == nullptr || config.env == nullptr) return false;
  std::size_t args = 0;
  std::size_t vars = 0;
  for (char* at = bytes; at < bytes + size;) {
    const char* key = at;
    char* value = at + std::strlen(at) + 1;
    if (value >= bytes + size) return false;
    at = value + std::strlen(value) + 1;
    if (std::strcmp(key, kArg) == 0)
      config.argv[args++] = value;
    else if (std::strcmp(key, kEnv) == 0)
      config.env[vars++] = value;
    else if (std::strcmp(key, kCwd) == 0)
      config.cwd = value;
    else if (std::strcmp(key, kUid) == 0)
      config.uid = std::strtol(value, nullptr, 10);
    else if (std::strcmp(key, kGid) == 0)
      config.gid = std::strtol(value, nullptr, 10);
    else if (std::strcmp(key, kFiles) == 0)
      config.files = std::strtol(value, nullptr, 10);
    else if (std::strcmp(key, kProcesses) == 0)
      config.processes = std::strtol(value, nullptr, 10);
    else if (std::strcmp(key, kInherit) == 0)
      config.inherit = *value == '1';
    else if (std::strcmp(key, kConfine) == 0)
      config.confine = *value == '1';
    else
      return false;  // a supervisor of another version: better nothing than half of it
  }
  return args > 0;
}

bool isSet(char* const* env, const char* variable) {
  const auto length = static_cast<std::size_t>(::strchrnul(variable, '=') - variable);
  for (; *env != nullptr; ++env) {
    if (std::strncmp(*env, variable, length) == 0 && (*env)[length] == '=') return true;
  }
  return false;
}

bool inheritEnvironment(Config& config) {
  std::size_t own = 0;
  std::size_t given = 0;
  while (config.env[own] != nullptr) ++own;
  while (environ[given] != nullptr) ++given;
  char** all = static_cast<char**>(std::calloc(own + given + 1, sizeof(char*)));
  if (all == nullptr) return false;
  std::memcpy(all, config.env, own * sizeof(char*));
  for (std::size_t i = 0; i < given; ++i) {
    if (!isSet(config.env, environ[i])) all[own++] = environ[i];
  }
  config.env = all;
  return true;
}

bool readConfig(Config& config) {
  std::size_t size = 0;
  char* bytes = readAll(kConfigFd, size);
  ::close(kConfigFd);
  if (bytes == nullptr || !parse(bytes, size, config)) return false;
  return !config.inherit || inheritEnvironment(config);
}

// ---- the command: between fork and exec
// ---------------------------------------------------------------------------

struct Failure {
  int error = 0;
  char step[16] = {};
};

[[noreturn]] void giveUp(int reportFd, const char* step) {
  Failure failure;
  failure.error = errno;
  std::strncpy(failure.step, step, sizeof failure.step - 1);
  (void)!::write(reportFd, &failure, sizeof failure);
  ::_exit(127);
}

void raiseLimit(__rlimit_resource resource, rlim_t soft) {
  rlimit limit{};
  if (::getrlimit(resource, &limit) != 0) return;
  if (soft == RLIM_INFINITY) {
    const rlimit all{RLIM_INFINITY, RLIM_INFINITY};
    if (::setrlimit(resource, &all) == 0) return;
  }
  limit.rlim_cur = soft == RLIM_INFINITY || soft > limit.rlim_max ? limit.rlim_max : soft;
  ::setrlimit(resource, &limit);
}

void setLimits(const Config& config) {
  raiseLimit(RLIMIT_MEMLOCK, RLIM_INFINITY);  // pinned host memory, RDMA
  if (config.files > 0) raiseLimit(RLIMIT_NOFILE, static_cast<rlim_t>(config.files));
  rlimit processes{};
  if (config.processes > 0 && ::getrlimit(RLIMIT_NPROC, &processes) == 0) {
    const auto most = static_cast<rlim_t>(config.processes);
    if (processes.rlim_max > most) processes.rlim_max = most;
    processes.rlim_cur = processes.rlim_max;
    ::setrlimit(RLIMIT_NPROC, &processes);
  }
}

bool setCapabilities(std::uint64_t kept) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  for (int half = 0; half < 2; ++half) {
    const auto bits = static_cast<std::uint32_t>(kept >> (32 * half));
    data[half].effective = bits;
    data[half].permitted = bits;
  }
  return ::syscall(SYS_capset, &header, data) == 0;
}

// The bounding set can only be emptied by who has CAP_SETPCAP; without it nothing can be gained
// from it either, since no new privileges are.
void dropBounding() {
  for (unsigned long cap = 0; ::prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; ++cap) {
    ::prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
  }
  ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
}

void becomeUser(const Config& config, int reportFd) {
  if (config.confine) dropBounding();
  if (config.gid >= 0) {
    if (::setgroups(0, nullptr) != 0) giveUp(reportFd, "setgroups");
    const auto gid = static_cast<gid_t>(config.gid);
    if (::setresgid(gid, gid, gid) != 0) giveUp(reportFd, "setgid");
  }
  if (config.uid >= 0) {
    const auto uid = static_cast<uid_t>(config.uid);
    if (::setresuid(uid, uid, uid) != 0) giveUp(reportFd, "setuid");
  }
  if (!config.confine) return;
  if (!setCapabilities(0)) giveUp(reportFd, "capset");
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) giveUp(reportFd, "no-new-privs");
  // Not the server's own: whoever has a session keyring has the keys in it.
  if (::syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, nullptr) < 0 && errno != ENOSYS) {
    giveUp(reportFd, "keyring");
  }
  if (!forbidCalls()) giveUp(reportFd, "seccomp");
}

const char* pathOf(char* const* env) {
  for (; *env != nullptr; ++env) {
    if (std::strncmp(*env, "PATH=", 5) == 0) return *env + 5;
  }
  return kDefaultPath;
}

// Like execvpe(3), but the path is that of the new environment, a script without #! is an error
// (ENOEXEC) as for everyone who is not a shell, and the errno that is kept tells most: EACCES over
// ENOENT.
void execute(const Config& config) {
  const char* name = config.argv[0];
  if (std::strchr(name, '/') != nullptr || *name == '\0') {
    ::execve(name, config.argv, config.env);
    if (*name == '\0') errno = ENOENT;
    return;
  }
  int kept = ENOENT;
  char full[4096];
  for (const char* at = pathOf(config.env); at != nullptr;) {
    const char* end = std::strchr(at, ':');
    const auto length =
        end != nullptr ? static_cast<int>(end - at) : static_cast<int>(std::strlen(at));
    const int size = length == 0 ? std::snprintf(full, sizeof full, "./%s", name)
                                 : std::snprintf(full, sizeof full, "%.*s/%s", length, at, name);
    at = end != nullptr ? end + 1 : nullptr;
    if (size < 0 || static_cast<std::size_t>(size) >= sizeof full) continue;
    ::execve(full, config.argv, config.env);
    if (errno != ENOENT && errno != ENOTDIR && errno != EACCES) return;
    if (errno == EACCES) kept = EACCES;
  }
  errno = kept;
}

[[noreturn]] void becomeCommand(const Config& config, int reportFd) {
  ::setsid();
  defaultSignals();
  setLimits(config);
  becomeUser(config, reportFd);
  // As the user: a directory that he may not enter is an error here too.
  if (::chdir(config.cwd) != 0) giveUp(reportFd, "chdir");
  execute(config);
  giveUp(reportFd, "exec");
}

// ---- the tree
// -----------------------------------------------------------------------------------------------------

long parentOf(const char* pid) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%.16s/stat", pid);
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return -1;
  char text[512];
  const auto size = ::read(file, text, sizeof text - 1);
  ::close(file);
  if (size <= 0) return -1;
  text[size] = '\0';
  const char* end = std::strrchr(text, ')');  // the name may hold anything
  if (end == nullptr || end[1] == '\0' || end[2] == '\0') return -1;
  return std::strtol(end + 3, nullptr, 10);
}

// Kills the children of this process. Their children come to it then, since it is a subreaper:
// whoever calls this until no child is left has killed the whole tree.
void killChildren() {
  DIR* proc = ::opendir("/proc");
  if (proc == nullptr) return;
  const long self = ::getpid();
  while (const dirent* entry = ::readdir(proc)) {
    if (entry->d_name[0] < '1' || entry->d_name[0] > '9') continue;
    if (parentOf(entry->d_name) != self) continue;
    ::kill(static_cast<pid_t>(std::strtol(entry->d_name, nullptr, 10)), SIGKILL);
  }
  ::closedir(proc);
}

// As the first process of its namespace it reaches all others with one call; else only its
// descendants.
void killEverything() {
  if (::getpid() == 1) {
    ::kill(-1, SIGKILL);
  } else {
    killChildren();
  }
}

class Init {
 public:
  int run();

 private:
  bool prepare();
  bool awaitGo() const;
  bool start();
  void watch();
  void onSignal();
  void onSocket();
  void reap();
  void ended(int status, long maxRss);
  void write(const char* record, std::size_t size);
  void drain();

  Config config_;
  int signals_ = -1;
  pid_t command_ = -1;
  bool ended_ = false;
  bool orphaned_ = false;  // the supervisor is gone
};

bool Init::prepare() {
  // Whatever else came along (bubblewrap leaves some open) is closed; what stays is not passed on.
  ::syscall(SYS_close_range, kStatusFd + 1, ~0u, 0);
  for (int file = kConfigFd; file <= kStatusFd; ++file) ::fcntl(file, F_SETFD, FD_CLOEXEC);
  // Before the server and its supervisors go, this tree goes; and with it what it keeps in memory
  // as files.
  if (const int file = ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC); file >= 0) {
    (void)!::write(file, kOomScore, sizeof kOomScore - 1);
    ::close(file);
  }
  // No process of the job may look into this one, even where it is of the same user.
  ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  sigset_t all;
  sigfillset(&all);
  ::sigprocmask(SIG_BLOCK, &all, nullptr);
  signals_ = ::signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
  if (signals_ < 0 || !readConfig(config_)) return false;
  say(kHello);
  return true;
}

// Signals wait meanwhile, as they do while the command is started.
bool Init::awaitGo() const {
  char text[64];
  ssize_t size = -1;
  do {
    size = ::recv(kSocketFd, text, sizeof text - 1, 0);
  } while (size < 0 && errno == EINTR);
  if (size <= 0) return false;
  text[size] = '\0';
  return std::strcmp(text, kGo) == 0;
}

void Init::write(const char* record, std::size_t size) {
  // A full disk must not swallow an exit: the file was given its block when it was made.
  for (int tries = 0; tries < 3; ++tries) {
    if (::pwrite(kStatusFd, record, size, 0) == static_cast<ssize_t>(size)) break;
  }
  ::fsync(kStatusFd);
}

bool Init::start() {
  int report[2];
  if (::pipe2(report, O_CLOEXEC) != 0) return false;
  command_ = ::fork();
  if (command_ == 0) {
    ::close(report[0]);
    becomeCommand(config_, report[1]);
  }
  Failure failure;
  if (command_ < 0) {
    failure.error = errno;
    std::strcpy(failure.step, "fork");
  }
  ::close(report[1]);
  ssize_t got = -1;
  while (command_ > 0 && (got = ::read(report[0], &failure, sizeof failure)) < 0 &&
         errno == EINTR) {
  }
  ::close(report[0]);
  if (command_ > 0 && got != sizeof failure) {
    say(kStarted);
    return true;
  }
  char text[kRecordBytes];
  write(text, execFailedRecord(text, failure.error, failure.step, wallMicros()));
  std::snprintf(text, sizeof text, "%s %d %s", kExecFailed, failure.error, failure.step);
  say(text);
  return false;
}

void Init::ended(int status, long maxRss) {
  ended_ = true;
  char text[kRecordBytes];
  write(text, exitRecord(text, status, wallMicros()));
  std::snprintf(text, sizeof text, "%s %d %ld", kEnded, status, maxRss);
  say(text);
}

void Init::reap() {
  int status = 0;
  rusage use{};
  for (;;) {
    const pid_t pid = ::wait4(-1, &status, WNOHANG, &use);
    if (pid <= 0) return;
    if (pid != command_ || !(WIFEXITED(status) || WIFSIGNALED(status))) continue;
    rusage all{};
    ::getrusage(RUSAGE_CHILDREN, &all);
    ended(status, all.ru_maxrss);
  }
}

void Init::onSignal() {
  signalfd_siginfo info{};
  while (::read(signals_, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    const auto number = static_cast<int>(info.ssi_signo);
    // What a container tool or an administrator sends is for the command.
    const bool forwarded = number == SIGTERM || number == SIGINT || number == SIGHUP ||
                           number == SIGQUIT || number == SIGUSR1 || number == SIGUSR2;
    if (forwarded && !ended_) ::kill(-command_, number);
  }
  reap();
}

void Init::onSocket() {
  char text[64];
  const auto size = ::recv(kSocketFd, text, sizeof text - 1, MSG_DONTWAIT);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (size <= 0) {
    orphaned_ = true;
    return;
  }
  text[size] = '\0';
  const auto prefix = sizeof kSignal - 1;
  if (std::strncmp(text, kSignal, prefix) != 0 || ended_) return;
  const int number = std::atoi(text + prefix);
  if (number == SIGKILL)
    killEverything();
  else if (number > 0 && number < NSIG)
    ::kill(-command_, number);
}

void Init::watch() {
  while (!ended_ && !orphaned_) {
    pollfd files[2] = {{signals_, POLLIN, 0}, {kSocketFd, POLLIN, 0}};
    if (::poll(files, 2, -1) < 0) continue;
    if (files[0].revents != 0) onSignal();
    if (files[1].revents != 0 && !ended_) onSocket();
  }
}

// Until no process is left. The command's status is no longer written: if the supervisor is gone,
// it was killed here, and what it would have ended with is not known.
void Init::drain() {
  killEverything();
  for (;;) {
    const pid_t pid = ::waitpid(-1, nullptr, WNOHANG);
    if (pid < 0 && errno == ECHILD) return;
    if (pid != 0) continue;
    pollfd wait = {signals_, POLLIN, 0};
    ::poll(&wait, 1, 100);
    signalfd_siginfo info{};
    while (::read(signals_, &info, sizeof info) > 0) {
    }
    killEverything();
  }
}

int Init::run() {
  if (!prepare()) return kFailed;
  // What is kept is what it takes to signal another user's processes. Opening files comes before,
  // here: none.
  if (awaitGo() && start()) {
    if (::geteuid() == 0 && config_.confine) setCapabilities(std::uint64_t{1} << CAP_KILL);
    watch();
  }
  drain();
  return 0;
}

}  // namespace

int run() {
  static Init init;  // its words stay to the end of the process
  return init.run();
}

int hold() {
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  ::sigprocmask(SIG_BLOCK, &ends, nullptr);
  int number = 0;
  sigwait(&ends, &number);
  return 0;
}

}  // namespace bole::init
