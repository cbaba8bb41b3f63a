// One attempt for one test: its directory, a real bole-supervise and bole-init, and nothing of it
// left afterwards.
//
// The test program is the supervisor's parent and a subreaper: whatever escapes its supervisor
// comes to it and is found.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "engine/local/supervise/attempt_files.h"
#include "engine/local/supervise/posix.h"
#include "engine/local/supervise/processes.h"

namespace bole::supervise::testing {

constexpr std::chrono::seconds kPatience{30};
constexpr uid_t kJobUid = 234'567;

// Polls: what is waited for are other processes, and they tell nobody else.
template <class Condition>
bool eventually(Condition condition, std::chrono::milliseconds patience = kPatience) {
  const auto until = std::chrono::steady_clock::now() + patience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > until) return false;
    ::usleep(1000);
  }
  return true;
}

inline std::string readText(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

inline void writeText(const std::string& path, std::string_view text) {
  std::ofstream(path, std::ios::binary) << text;
}

class TempDir {
 public:
  TempDir() {
    std::string name = "/tmp/bole-supervise-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
    ::chmod(name.c_str(), 0755);
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline std::string cgroupRoot() {
  for (const auto* root : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}) {
    if (pathExists(std::string(root) + "/cgroup.controllers")) return root;
  }
  return {};
}
// Whether this process may make groups there.
inline bool hasCgroups() {
  return ::geteuid() == 0 && !cgroupRoot().empty();
}

inline bool hasBubblewrap() {
  return ::access("/usr/bin/bwrap", X_OK) == 0 || ::access("/usr/local/bin/bwrap", X_OK) == 0;
}

// One line of every rank's log.
struct Line {
  std::uint32_t rank = 0;
  LogStream stream = LogStream::kOut;
  bool continues = false;
  std::string text;
};

class AttemptWorld : public ::testing::Test {
 protected:
  explicit AttemptWorld(RuntimeKind runtime = RuntimeKind::kPlain)
      : dir(temp_.path() + "/attempt") {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    std::filesystem::create_directories(dir);
    std::filesystem::create_directories(work());
    ::chmod(dir.c_str(), 0700);
    boxed_ = runtime == RuntimeKind::kProcess && ::geteuid() == 0;
    if (boxed_ && ::chown(work().c_str(), kJobUid, kJobUid) != 0) std::abort();
    launch.attempt = 7;
    launch.runtime = runtime;
    launch.grace = seconds(20);
    launch.cgroup = groupOfTest() + "/attempt-7";
    launch.maskPaths = {dir};
  }
  ~AttemptWorld() override {
    if (supervisor > 0) ::kill(supervisor, SIGKILL);
    // Whatever a failed test left; a test that did not fail has shown that there is nothing.
    eventually([this] { return leftovers() == 0; });
    for (const auto& process : descendantsOf(::getpid())) ::kill(process.pid, SIGKILL);
    while (::waitpid(-1, nullptr, 0) > 0) {
    }
  }

  [[nodiscard]] const std::string& home() const { return temp_.path(); }
  [[nodiscard]] std::string work() const { return temp_.path() + "/work"; }
  [[nodiscard]] static std::string groupOfTest() {
    return "bole-test-" + std::to_string(::getpid());
  }
  [[nodiscard]] std::string groupPath() const { return cgroupRoot() + "/" + launch.cgroup; }

  // A rank more, which runs this command.
  RankLaunch& addRank(std::vector<std::string> argv, const std::string& task = "worker") {
    RankLaunch rank;
    rank.rank = static_cast<std::uint32_t>(launch.ranks.size());
    rank.task = task;
    rank.argv = std::move(argv);
    rank.env = {"PATH=/usr/local/bin:/usr/bin:/bin", "RANK=" + std::to_string(rank.rank)};
    rank.cwd = work();
    rank.uid = boxed_ ? kJobUid : ::getuid();
    rank.gid = boxed_ ? kJobUid : ::getgid();
    launch.ranks.push_back(std::move(rank));
    return launch.ranks.back();
  }
  RankLaunch& addShell(const std::string& line, const std::string& task = "worker") {
    return addRank({"/bin/sh", "-c", line}, task);
  }

  // On a machine that lacks something: the line of shell takes it away first, in a mount namespace
  // of its own.
  void onAMachineAfter(const std::string& line) {
    wrapper_ = {"/usr/bin/unshare", "--mount", "--propagation",        "private",
                "/bin/sh",          "-ec",     line + "; exec \"$@\"", "sh"};
  }
  // By another user than root.
  void asUser(uid_t uid) {
    const auto number = std::to_string(uid);
    wrapper_ = {"/usr/bin/setpriv", "--reuid", number, "--regid", number, "--clear-groups"};
    for (const auto& path : {dir, work()}) {
      if (::chown(path.c_str(), uid, uid) != 0) std::abort();
    }
  }

  [[nodiscard]] pid_t startSupervisor() const {
    auto words = wrapper_;
    words.insert(words.end(), {std::string(PROGRAMS) + "/bole-supervise", dir});
    std::vector<char*> argv;
    for (auto& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    const pid_t pid = ::fork();
    if (pid != 0) return pid;
    ::setsid();
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  void spawn() {
    const auto written = writeLaunch(dir, launch);
    ASSERT_TRUE(written) << written.error().message();
    // Whoever runs it reads it; it holds nothing that is not the test's.
    ::chmod((dir + "/launch.json").c_str(), 0644);
    supervisor = startSupervisor();
  }

  // Waits for the supervisor; its wait status.
  int reap() {
    int status = -1;
    const bool ended =
        eventually([&] { return ::waitpid(supervisor, &status, WNOHANG) == supervisor; });
    EXPECT_TRUE(ended) << "the supervisor goes on:\n" << describe();
    if (ended) supervisor = -1;
    return status;
  }
  // The end as the supervisor wrote it down, and nothing else left.
  End end() {
    EXPECT_EQ(reap(), 0);
    const auto read = readEnd(dir);
    if (!read || !*read) {
      ADD_FAILURE() << (read ? "there is no end.json" : read.error().message()) << "\n"
                    << describe();
      return {};
    }
    expectNothingLeft();
    return **read;
  }
  End run() {
    spawn();
    return end();
  }

  Started waitForStart() {
    Started started;
    const bool there = eventually([&] {
      auto read = readStarted(dir);
      if (!read || !*read) return false;
      started = **read;
      return true;
    });
    EXPECT_TRUE(there) << "it does not start:\n" << describe();
    return started;
  }

  void stop(Duration grace, const std::string& reason = "cancelled") {
    const auto written = writeStop(dir, {reason, grace});
    ASSERT_TRUE(written) << written.error().message();
    // For a supervisor that is another user too, from the moment that it is there.
    const auto readable = dir + "/stop.readable";
    writeText(readable, readText(dir + "/stop.json"));
    ::chmod(readable.c_str(), 0644);
    ASSERT_EQ(::rename(readable.c_str(), (dir + "/stop.json").c_str()), 0);
  }

  // All records of a rank, oldest first, rotated files included.
  [[nodiscard]] std::vector<Line> records(std::uint32_t rank = 0) const {
    std::vector<Line> lines;
    for (auto number = launch.logFiles; number-- > 0;) {
      const auto path = logPath(dir, rank) + (number == 0 ? "" : "." + std::to_string(number));
      std::istringstream text(readText(path));
      for (std::string line; std::getline(text, line);) {
        const auto parsed = parseLogLine(line);
        if (parsed)
          lines.push_back({rank, parsed->stream, parsed->continues, std::string(parsed->text)});
      }
    }
    return lines;
  }
  [[nodiscard]] std::string output(std::uint32_t rank = 0,
                                   LogStream stream = LogStream::kOut) const {
    std::string text;
    for (const auto& line : records(rank)) {
      if (line.stream == stream) text += line.text + (line.continues ? "" : "\n");
    }
    return text;
  }
  void waitForLine(const std::string& wanted, std::uint32_t rank = 0) const {
    const bool seen = eventually(
        [&] { return ("\n" + output(rank)).find("\n" + wanted + "\n") != std::string::npos; });
    EXPECT_TRUE(seen) << "no line '" << wanted << "':\n" << describe();
  }

  [[nodiscard]] std::uint32_t leftovers() const {
    return killLeftovers(dir, launch).value_or(1000);
  }

  void expectNothingLeft() const {
    const auto left = descendantsOf(::getpid());
    EXPECT_TRUE(left.empty()) << left.size() << " processes are left, for example "
                              << left.front().pid << " "
                              << readText("/proc/" + std::to_string(left.front().pid) + "/cmdline");
    EXPECT_TRUE(processesTagged(dir, launch).empty());
    EXPECT_FALSE(!cgroupRoot().empty() && !launch.cgroup.empty() && pathExists(groupPath()))
        << groupPath() << " is left";
    EXPECT_FALSE(!cgroupRoot().empty() && pathExists(cgroupRoot() + "/" + groupOfTest()))
        << "an empty group is left";
    EXPECT_EQ(readText("/proc/self/mountinfo").find(dir), std::string::npos) << "a mount is left";
  }

  [[nodiscard]] std::string describe() const {
    std::string text = readText(dir + "/end.json") + readText(dir + "/started.json");
    for (const auto& rank : launch.ranks) text += readText(logPath(dir, rank.rank));
    return text;
  }

 private:
  TempDir temp_;
  std::vector<std::string> wrapper_;
  bool boxed_ = false;  // ranks run as a user of their own

 protected:
  std::string dir;
  Launch launch;
  pid_t supervisor = -1;
};

}  // namespace bole::supervise::testing
