// The plain and the process runtime from an attempt's start to its end: exits, stops, limits,
// rules, deaths.
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>

#include "engine/local/supervise/testing/attempt_world.h"

namespace bole::supervise {
namespace {

constexpr int kExit(int code) {
  return code << 8;
}

// Only SIGKILL ends it, and what it has beside itself: a session of its own, and one whose parent
// is gone.
constexpr auto kStubborn =
    "trap '' TERM INT HUP; (setsid sh -c 'trap \"\" TERM; echo ready; while :; do sleep 1000; "
    "done' &);"
    "sh -c 'trap \"\" TERM; (while :; do sleep 1000; done) & echo ready'; while :; do sleep 1000; "
    "done";

// Has these signals ignored, by the kernel's own call, and as they were before when it goes.
class IgnoredSignals {
 public:
  explicit IgnoredSignals(const std::vector<int>& numbers) {
    for (const int number : numbers) set(number, {reinterpret_cast<unsigned long>(SIG_IGN)});
  }
  IgnoredSignals(const IgnoredSignals&) = delete;
  IgnoredSignals& operator=(const IgnoredSignals&) = delete;
  ~IgnoredSignals() {
    for (const auto& [number, before] : before_)
      ::syscall(SYS_rt_sigaction, number, before.data(), nullptr, kMaskBytes);
  }

 private:
  using KernelAction = std::array<unsigned long, 4>;  // handler, flags, restorer, mask
  static constexpr unsigned long kMaskBytes = 8;
  void set(int number, const KernelAction& action) {
    KernelAction before = {};
    EXPECT_EQ(::syscall(SYS_rt_sigaction, number, action.data(), before.data(), kMaskBytes), 0);
    before_.emplace_back(number, before);
  }
  std::vector<std::pair<int, KernelAction>> before_;
};

class BothRuntimes : public testing::AttemptWorld,
                     public ::testing::WithParamInterface<RuntimeKind> {
 protected:
  BothRuntimes() : AttemptWorld(GetParam()) {}
  void SetUp() override {
    if (GetParam() == RuntimeKind::kProcess && !testing::hasBubblewrap())
      GTEST_SKIP() << "no bubblewrap";
  }
  // The host's number of the init of that rank.
  [[nodiscard]] pid_t initOf(std::uint32_t rank) { return waitForStart().ranks.at(rank).init.pid; }
};

std::string runtimeName(const ::testing::TestParamInfo<RuntimeKind>& info) {
  return info.param == RuntimeKind::kPlain ? "Plain" : "Process";
}
INSTANTIATE_TEST_SUITE_P(Runtimes, BothRuntimes,
                         ::testing::Values(RuntimeKind::kPlain, RuntimeKind::kProcess),
                         runtimeName);

// ---- exits
// --------------------------------------------------------------------------------------------------------

TEST_P(BothRuntimes, ASingleRank) {
  addShell("echo hello; echo there >&2");
  const auto done = run();
  EXPECT_EQ(done.outcome, EndOutcome::kExited);
  EXPECT_EQ(done.cause, EndCause::kCompleted);
  EXPECT_EQ(done.ranks.at(0).waitStatus, 0);
  EXPECT_GT(done.ranks.at(0).maxRss.value, 0);
  EXPECT_FALSE(done.firstFailed);
  EXPECT_EQ(output(), "hello\n");
  EXPECT_EQ(output(0, LogStream::kErr), "there\n");
}

TEST_P(BothRuntimes, StatusesAreKeptAsTheyAre) {
  launch.stopOnFailure = false;
  addShell("exit 0");
  addShell("exit 3");
  addShell("exit 137");
  addShell("kill -KILL $$");
  addShell("ulimit -c 0; kill -SEGV $$");
  addShell("exit 255");
  const auto done = run();
  EXPECT_EQ(done.cause, EndCause::kRankFailed);
  const std::vector<int> expected = {0, kExit(3), kExit(137), SIGKILL, SIGSEGV, kExit(255)};
  for (std::uint32_t rank = 0; rank < expected.size(); ++rank) {
    EXPECT_EQ(done.ranks.at(rank).waitStatus, expected[rank]) << rank;
    const auto record = readRankStatus(dir, rank);
    ASSERT_TRUE(record && *record);
    EXPECT_EQ((*record)->waitStatus, expected[rank]) << rank;
  }
}

TEST_P(BothRuntimes, ACommandThatCannotBeStarted) {
  addShell("touch ran; sleep 1000");
  addRank({"no-such-program"});
  const auto done = run();
  EXPECT_EQ(done.outcome, EndOutcome::kLaunchFailed);
  EXPECT_EQ(done.ranks.at(1).execErrno, ENOENT);
  EXPECT_EQ(done.ranks.at(1).execStep, "exec");
  EXPECT_FALSE(done.ranks.at(1).waitStatus);
  EXPECT_NE(done.note.find("rank 1: cannot start no-such-program: No such file"), std::string::npos)
      << done.note;
}

TEST_P(BothRuntimes, AFileThatIsNoProgramAndADirectoryThatIsNotThere) {
  testing::writeText(work() + "/text", "no program\n");
  ::chmod((work() + "/text").c_str(), 0755);
  addRank({"./text"});
  EXPECT_EQ(run().ranks.at(0).execErrno, ENOEXEC);
}

// No command runs before the place of every rank is made: none can turn the paths of another's.
TEST_P(BothRuntimes, NothingRunsWhereNotAllCanBeMade) {
  launch.grace = seconds(1);
  addShell("touch " + work() + "/ran; sleep 1000");
  addShell("true").argv.push_back(std::string("a\0uid\0000", 6));
  const auto done = run();
  EXPECT_EQ(done.outcome, EndOutcome::kLaunchFailed);
  EXPECT_NE(done.note.find("zero byte"), std::string::npos) << done.note;
  EXPECT_FALSE(pathExists(work() + "/ran"));
  EXPECT_FALSE(done.ranks.at(0).waitStatus);
}

TEST_P(BothRuntimes, TheWholeTreeEndsWithTheCommand) {
  addShell("(setsid sleep 1000 &); sleep 1000 & sleep 1000 & exit 4");
  EXPECT_EQ(run().ranks.at(0).waitStatus, kExit(4));
}

TEST_P(BothRuntimes, WhatWasLeftInThePipesIsKept) {
  addShell(
      "(sleep 0.05; echo late) & i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done; "
      "printf end");
  run();
  std::string expected;
  for (int i = 0; i < 2000; ++i) expected += "line " + std::to_string(i) + "\n";
  EXPECT_EQ(output().substr(0, expected.size()), expected);
  EXPECT_NE(output().find("end"), std::string::npos);
}

// ---- stops
// --------------------------------------------------------------------------------------------------------

TEST_P(BothRuntimes, AskedToStopItMaySayGoodbye) {
  addShell("trap 'echo bye; exit 7' TERM; echo ready; while :; do sleep 0.01; done");
  spawn();
  waitForLine("ready");
  stop(seconds(20));
  const auto done = end();
  EXPECT_EQ(done.cause, EndCause::kStopped);
  EXPECT_EQ(done.stopReason, "cancelled");
  EXPECT_EQ(done.ranks.at(0).waitStatus, kExit(7));
  EXPECT_EQ(output(), "ready\nbye\n");
}

TEST_P(BothRuntimes, AskedOnceItHearsItOnce) {
  addShell(
      "n=0; trap 'n=$((n+1)); echo asked $n' TERM; echo ready; while [ ! -e go ]; do sleep 0.01; "
      "done");
  spawn();
  waitForLine("ready");
  stop(seconds(20));
  waitForLine("asked 1");
  testing::writeText(work() + "/go", "");
  EXPECT_EQ(end().ranks.at(0).waitStatus, 0);
  EXPECT_EQ(output(), "ready\nasked 1\n");
}

TEST_P(BothRuntimes, WhatDoesNotListenIsKilledWithItsWholeTree) {
  addShell(kStubborn);
  addShell(kStubborn);
  spawn();
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    EXPECT_TRUE(testing::eventually([&] { return output(rank) == "ready\nready\n"; }))
        << describe();
  }
  stop(milliseconds(50));
  const auto done = end();
  EXPECT_EQ(done.cause, EndCause::kStopped);
  for (const auto& rank : done.ranks) EXPECT_EQ(rank.waitStatus, SIGKILL);
}

TEST_P(BothRuntimes, TheGraceIsWaitedForAndALaterStopShortensIt) {
  addShell("trap 'echo asked' TERM; echo ready; while :; do sleep 0.01; done");
  spawn();
  waitForLine("ready");
  stop(seconds(1000));
  waitForLine("asked");
  stop(seconds(2000), "preempted");
  EXPECT_FALSE(testing::eventually([&] { return pathExists(dir + "/end.json"); },
                                   std::chrono::milliseconds(300)));
  stop(milliseconds(10));
  const auto done = end();
  EXPECT_EQ(done.stopReason, "cancelled");
  EXPECT_EQ(done.ranks.at(0).waitStatus, SIGKILL);
}

TEST_P(BothRuntimes, StoppedBeforeItBeganNothingRuns) {
  addShell("touch " + work() + "/ran");
  stop(seconds(1));
  const auto done = run();
  EXPECT_EQ(done.cause, EndCause::kStopped);
  EXPECT_FALSE(done.ranks.at(0).waitStatus);
  EXPECT_FALSE(pathExists(work() + "/ran"));
}

// At whatever moment it comes, the stop ends it, and either nothing ran or the command got the
// signal.
TEST_P(BothRuntimes, StoppedAtAnyMomentOfItsStart) {
  for (int micros = 0; micros < 24'000; micros += 2'000) {
    std::error_code ignored;
    std::filesystem::remove_all(dir, ignored);
    std::filesystem::create_directories(dir);
    launch.ranks.clear();
    addShell("exec sleep 1000");
    addShell("exec sleep 1000");
    spawn();
    ::usleep(static_cast<useconds_t>(micros));
    stop(seconds(20));
    const auto done = end();
    EXPECT_EQ(done.cause, EndCause::kStopped) << describe();
    for (const auto& rank : done.ranks)
      EXPECT_TRUE(!rank.waitStatus || rank.waitStatus == SIGTERM) << *rank.waitStatus;
  }
}

TEST_P(BothRuntimes, ASignalToTheSupervisorStopsTheAttempt) {
  addShell("exec sleep 1000");
  spawn();
  waitForStart();
  ::kill(supervisor, SIGTERM);
  const auto done = end();
  EXPECT_EQ(done.cause, EndCause::kStopped);
  EXPECT_EQ(done.stopReason, "supervisor terminated");
  EXPECT_EQ(done.ranks.at(0).waitStatus, SIGTERM);
}

TEST_P(BothRuntimes, TheDeadlineIsTheSupervisors) {
  launch.timeLimit = milliseconds(200);
  launch.grace = milliseconds(50);
  addShell(kStubborn);
  addShell("exec sleep 1000");
  const auto done = run();
  EXPECT_EQ(done.cause, EndCause::kTimeLimit);
  EXPECT_EQ(done.ranks.at(0).waitStatus, SIGKILL);
  EXPECT_EQ(done.ranks.at(1).waitStatus, SIGTERM);
  EXPECT_GE((done.at - done.startedAt).value, 200'000);
}

// ---- gangs
// --------------------------------------------------------------------------------------------------------

TEST_P(BothRuntimes, TheFirstRankThatFailsEndsTheGang) {
  launch.grace = milliseconds(100);
  addShell("trap 'exit 9' TERM; while :; do sleep 0.01; done");
  addShell("while [ ! -e go ]; do sleep 0.01; done; echo last words; echo and why >&2; exit 5");
  addShell(kStubborn);
  spawn();
  waitForStart();
  waitForLine("ready", 2);
  testing::writeText(work() + "/go", "");
  const auto done = end();
  EXPECT_EQ(done.cause, EndCause::kRankFailed);
  EXPECT_EQ(done.firstFailed, 1U);
  EXPECT_EQ(done.ranks.at(1).waitStatus, kExit(5));
  EXPECT_EQ(done.ranks.at(0).waitStatus, kExit(9));
  EXPECT_EQ(done.ranks.at(2).waitStatus, SIGKILL);
  EXPECT_EQ(output(1), "last words\n");
  EXPECT_EQ(output(1, LogStream::kErr), "and why\n");
}

TEST_P(BothRuntimes, WhereNothingStopsOnFailureTheOthersGoOn) {
  launch.stopOnFailure = false;
  addShell("while [ ! -e go ]; do sleep 0.01; done; exit 0");
  addShell("exit 5");
  spawn();
  EXPECT_TRUE(testing::eventually(
      [&] { return readRankStatus(dir, 1).value_or(std::nullopt).has_value(); }));
  testing::writeText(work() + "/go", "");
  const auto done = end();
  EXPECT_EQ(done.cause, EndCause::kRankFailed);
  EXPECT_EQ(done.firstFailed, 1U);
  EXPECT_EQ(done.ranks.at(0).waitStatus, 0);
}

TEST_P(BothRuntimes, RulesEndItEarly) {
  launch.completeOn = {{"leader", RuleEvent::kExited, std::nullopt}};
  addShell("exec sleep 1000", "worker");
  addShell("exit 0", "leader");
  const auto done = run();
  EXPECT_EQ(done.cause, EndCause::kCompleted);
  EXPECT_EQ(done.ranks.at(0).waitStatus, SIGTERM);
}

TEST_P(BothRuntimes, ARuleOfAnExitCode) {
  launch.stopOnFailure = false;
  launch.abortOn = {{"", RuleEvent::kFailed, 42}};
  addShell("exec sleep 1000");
  addShell("exit 41");
  addShell("while [ ! -e go ]; do sleep 0.01; done; exit 42");
  spawn();
  EXPECT_TRUE(testing::eventually(
      [&] { return readRankStatus(dir, 1).value_or(std::nullopt).has_value(); }));
  testing::writeText(work() + "/go", "");
  const auto done = end();
  EXPECT_EQ(done.cause, EndCause::kAborted);
  EXPECT_EQ(done.firstFailed, 2U);
}

TEST_P(BothRuntimes, ATaskIsCompleteWhenAllItsRanksAre) {
  launch.completeOn = {{"done", RuleEvent::kTaskCompleted, std::nullopt}};
  addShell("exec sleep 1000", "rest");
  addShell("exit 0", "done");
  addShell("while [ ! -e go ]; do sleep 0.01; done; exit 0", "done");
  spawn();
  EXPECT_TRUE(testing::eventually(
      [&] { return readRankStatus(dir, 1).value_or(std::nullopt).has_value(); }));
  EXPECT_FALSE(pathExists(dir + "/end.json"));
  testing::writeText(work() + "/go", "");
  EXPECT_EQ(end().cause, EndCause::kCompleted);
}

// ---- claims and deaths
// --------------------------------------------------------------------------------------------

TEST_P(BothRuntimes, OfManySupervisorsOneRunsIt) {
  addShell("echo ran >> " + work() + "/runs; exec sleep 1000");
  spawn();
  std::vector<pid_t> others;
  for (int i = 0; i < 7; ++i) others.push_back(startSupervisor());
  others.push_back(supervisor);
  waitForStart();
  const auto claim = readClaim(dir);
  ASSERT_TRUE(claim && *claim);
  EXPECT_TRUE(claimIsAlive(**claim));
  for (const auto other : others) {
    if (other == (*claim)->process.pid) continue;
    int status = -1;
    EXPECT_TRUE(testing::eventually([&] { return ::waitpid(other, &status, WNOHANG) == other; }));
    EXPECT_EQ(status, 0);
  }
  supervisor = (*claim)->process.pid;
  EXPECT_TRUE(testing::eventually([&] { return pathExists(work() + "/runs"); }));
  stop(seconds(20));
  EXPECT_EQ(end().cause, EndCause::kStopped);
  EXPECT_EQ(testing::readText(work() + "/runs"), "ran\n");
}

TEST_P(BothRuntimes, AKilledSupervisorTakesItsRanksAlong) {
  launch.stopOnFailure = false;
  addShell("exit 3");
  addShell(kStubborn);
  spawn();
  waitForStart();
  EXPECT_TRUE(testing::eventually([&] { return output(1) == "ready\nready\n"; })) << describe();
  EXPECT_TRUE(testing::eventually(
      [&] { return readRankStatus(dir, 0).value_or(std::nullopt).has_value(); }));
  ::kill(supervisor, SIGKILL);
  reap();
  // By themselves: nobody clears up here.
  EXPECT_TRUE(testing::eventually([] { return descendantsOf(::getpid()).empty(); })) << describe();
  EXPECT_FALSE(pathExists(dir + "/end.json"));
  EXPECT_EQ(readRankStatus(dir, 0).value_or(std::nullopt)->waitStatus, kExit(3));
  EXPECT_FALSE(readRankStatus(dir, 1).value_or(std::nullopt));  // of it nobody knows
  EXPECT_EQ(leftovers(), 0U);
  while (::waitpid(-1, nullptr, 0) > 0) {
  }
  expectNothingLeft();
}

TEST_P(BothRuntimes, AKilledInitIsALostRankWithoutACode) {
  launch.grace = milliseconds(100);
  addShell("trap '' TERM; echo ready; while :; do sleep 1000; done");
  addShell("exec sleep 1000");
  spawn();
  const auto init = initOf(0);
  waitForLine("ready");
  ::kill(init, SIGKILL);
  const auto done = end();
  EXPECT_EQ(done.cause, EndCause::kRankLost);
  EXPECT_EQ(done.firstFailed, 0U);
  EXPECT_FALSE(done.ranks.at(0).waitStatus);
  EXPECT_EQ(done.ranks.at(1).waitStatus, SIGTERM);
}

// A process of another job, say, to which a rank sent its descriptor.
TEST_P(BothRuntimes, WhoeverHoldsItsOutputDoesNotHoldTheAttempt) {
  addShell("echo ready; exec sleep 1000");
  spawn();
  const auto init = initOf(0);
  waitForLine("ready");
  const auto below = descendantsOf(init);
  ASSERT_FALSE(below.empty());
  const Fd held(::open(("/proc/" + std::to_string(below.front().pid) + "/fd/1").c_str(),
                       O_WRONLY | O_CLOEXEC));
  ASSERT_TRUE(held.isOpen());
  stop(seconds(20));
  EXPECT_EQ(end().cause, EndCause::kStopped);
}

TEST_P(BothRuntimes, WithoutALaunchFileItSaysSo) {
  supervisor = startSupervisor();
  const auto done = end();
  EXPECT_EQ(done.outcome, EndOutcome::kLaunchFailed);
  EXPECT_NE(done.note.find("launch.json"), std::string::npos);
}

TEST_P(BothRuntimes, ADamagedLaunchFileIsSaidToBe) {
  testing::writeText(dir + "/launch.json", R"({"version":1,"ranks":[{"rank":"zero"}]})");
  supervisor = startSupervisor();
  const auto done = end();
  EXPECT_EQ(done.outcome, EndOutcome::kLaunchFailed);
  EXPECT_NE(done.note.find("'ranks[0].rank'"), std::string::npos) << done.note;
}

// ---- progress
// -----------------------------------------------------------------------------------------------------

TEST_P(BothRuntimes, ProgressOfLinesAndOfAFile) {
  addShell(
      "echo BOLE progress epoch=1 epochs=4 loss=0.5; echo BOLE checkpoint path=ckpt/e1 epoch=1;"
      "echo BOLE progress this is none; echo 'BOLE progress epoch=2 epochs=4 loss=0.25'");
  addShell(
      "echo 'epoch=3 epochs=4' > $BOLE_PROGRESS_FILE.new; mv $BOLE_PROGRESS_FILE.new "
      "$BOLE_PROGRESS_FILE");
  run();
  const auto read = readProgress(dir);
  ASSERT_TRUE(read && *read);
  const auto& progress = **read;
  ASSERT_EQ(progress.ranks.size(), 2U);
  const ProgressValues newest = {{"epoch", "2"}, {"epochs", "4"}, {"loss", "0.25"}};
  EXPECT_EQ(progress.ranks[0].values, newest);
  const ProgressValues ofFile = {{"epoch", "3"}, {"epochs", "4"}};
  EXPECT_EQ(progress.ranks[1].values, ofFile);
  ASSERT_EQ(progress.checkpoints.size(), 1U);
  EXPECT_EQ(progress.checkpoints[0].path, "ckpt/e1");
}

TEST_P(BothRuntimes, ProgressIsSeenWhileItRuns) {
  addShell(
      "echo BOLE progress epoch=1 epochs=4; echo 'step=5' > $BOLE_PROGRESS_FILE; exec sleep 1000");
  spawn();
  EXPECT_TRUE(testing::eventually([&] {
    const auto read = readProgress(dir);
    return read && *read && !(*read)->ranks.empty() &&
           (*read)->ranks[0].values.front().first == "step";
  })) << testing::readText(dir + "/progress.json");
  stop(seconds(20));
  end();
}

// The file is the job's own, and may be anything: a link, a pipe that nobody writes into, a device,
// without an end.
TEST_P(BothRuntimes, AProgressFileThatIsATrap) {
  testing::writeText(home() + "/secret", "secret=1\n");
  for (const std::string& trap :
       {"ln -s " + home() + "/secret $f", std::string("mkfifo $f"), std::string("mkdir $f"),
        std::string("ln -s /dev/zero $f"), std::string("yes a=1 | head -c 9000000 > $f")}) {
    SCOPED_TRACE(trap);
    std::error_code ignored;
    std::filesystem::remove_all(dir, ignored);
    std::filesystem::create_directories(dir);
    launch.ranks.clear();
    addShell("f=$BOLE_PROGRESS_FILE; " + trap + "; touch $f.x; mv $f.x $f.y; exit 0");
    EXPECT_EQ(run().cause, EndCause::kCompleted);
    EXPECT_EQ(testing::readText(dir + "/progress.json").find("secret"), std::string::npos);
  }
}

// ---- limits and surroundings
// --------------------------------------------------------------------------------------

TEST_P(BothRuntimes, WhatACommandStartsWith) {
  addShell(
      "ls -l /proc/self/fd | wc -l; umask; ps -o sid= -p $$ | tr -d ' '; cat "
      "/proc/self/oom_score_adj");
  launch.ranks[0].argv[2] =
      "for f in /proc/self/fd/*; do case ${f##*/} in 0|1|2) ;; *) readlink $f;; esac; done; umask;"
      "cat /proc/self/oom_score_adj; grep SigIgn /proc/self/status; grep SigBlk /proc/self/status; "
      "read x || echo no input";
  {
    // Whoever started the server may have had signals ignored, among them those that the C library
    // keeps for itself.
    const IgnoredSignals ignored({SIGHUP, SIGUSR1, SIGPIPE, 32, 33, 64});
    EXPECT_EQ(run().cause, EndCause::kCompleted);
  }
  std::istringstream lines(output());
  std::vector<std::string> seen;
  for (std::string line; std::getline(lines, line);) seen.push_back(line);
  const std::vector<std::string> expected = {"0022", "500", "SigIgn:\t0000000000000000",
                                             "SigBlk:\t0000000000000000", "no input"};
  EXPECT_EQ(seen, expected);
}

TEST_P(BothRuntimes, TheEnvironmentIsWhatWasGiven) {
  ::setenv("BOLE_TEST_LEAK", "of the server", 1);
  addShell("env | sort | cut -d= -f1 | tr '\\n' ' '").env = {"PATH=/usr/bin:/bin", "RANK=0",
                                                             "EMPTY="};
  run();
  ::unsetenv("BOLE_TEST_LEAK");
  EXPECT_EQ(output(),
            "BOLE_ATTEMPT_TAG BOLE_PROGRESS_FILE EMPTY HOME LOGNAME PATH PWD RANK USER \n");
}

TEST_P(BothRuntimes, MoreMemoryThanItsLimitIsNamed) {
  if (!testing::hasCgroups()) GTEST_SKIP() << "no cgroups";
  addRank({"/usr/bin/tail", "/dev/zero"}).memory = kMiB * 48;
  const auto done = run();
  EXPECT_EQ(done.cause, EndCause::kRankFailed) << describe();
  EXPECT_EQ(done.ranks.at(0).waitStatus, SIGKILL);
  EXPECT_TRUE(done.ranks.at(0).oomKilled);
  EXPECT_NE(done.note.find("rank 0 needed more memory than its limit of 48 MiB"), std::string::npos)
      << done.note;
}

TEST_P(BothRuntimes, WhatIsNotEnforcedIsSaid) {
  launch.cgroup = "";
  addShell("exec sleep 1000").memory = kMiB * 64;
  spawn();
  const auto started = waitForStart();
  if (GetParam() == RuntimeKind::kPlain)
    EXPECT_EQ(started.containment, Containment::kSubreaper);
  else
    EXPECT_EQ(started.containment, Containment::kPidns);
  EXPECT_NE(started.note.find("the memory limit is not enforced"), std::string::npos)
      << started.note;
  stop(seconds(20));
  end();
}

// Without a group to kill, it is the PID namespace or the family tree that takes all along.
TEST_P(BothRuntimes, TheWholeTreeEndsWithoutACgroupToo) {
  launch.cgroup = "";
  addShell(kStubborn);
  spawn();
  EXPECT_TRUE(testing::eventually([&] { return output() == "ready\nready\n"; })) << describe();
  stop(milliseconds(20));
  EXPECT_EQ(end().ranks.at(0).waitStatus, SIGKILL);
}

TEST_P(BothRuntimes, AKilledInitWithoutACgroup) {
  launch.cgroup = "";
  launch.grace = milliseconds(100);
  addShell(kStubborn);
  spawn();
  const auto init = initOf(0);
  EXPECT_TRUE(testing::eventually([&] { return output() == "ready\nready\n"; })) << describe();
  ::kill(init, SIGKILL);
  EXPECT_EQ(end().cause, EndCause::kRankLost);
}

}  // namespace
}  // namespace bole::supervise
