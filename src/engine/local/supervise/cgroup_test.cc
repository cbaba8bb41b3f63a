// Control groups: what is made, what is joined, what is bounded, and that nothing stays.
#include "engine/local/supervise/cgroup.h"

#include "engine/local/supervise/testing/attempt_world.h"

namespace bole::supervise {
namespace {

class Cgroups : public testing::AttemptWorld {
 protected:
  Cgroups() {
    if (!testing::hasCgroups()) launch.cgroup.clear();
  }
  void SetUp() override {
    if (!testing::hasCgroups()) GTEST_SKIP() << "no cgroup v2 tree that this user may write";
  }
  // Of v1 hierarchies too.
  [[nodiscard]] std::vector<std::string> groupsLeft() const {
    std::vector<std::string> found;
    std::error_code lost;
    namespace fs = std::filesystem;
    for (fs::recursive_directory_iterator at("/sys/fs/cgroup", lost), none; at != none;
         at.increment(lost)) {
      if (at->path().filename().string().starts_with(groupOfTest())) found.push_back(at->path());
    }
    return found;
  }
};

TEST_F(Cgroups, NoneIsLeft) {
  addShell("exit 0").memory = kMiB * 64;
  launch.ranks[0].cpu = MilliCpu(500);
  addShell("exit 0");
  EXPECT_EQ(run().cause, EndCause::kCompleted);
  EXPECT_EQ(groupsLeft(), std::vector<std::string>());
}

TEST_F(Cgroups, NoneIsLeftByADeadSupervisor) {
  addShell("exec sleep 1000").memory = kMiB * 64;
  launch.ranks[0].cpu = MilliCpu(500);
  spawn();
  EXPECT_EQ(waitForStart().containment, Containment::kCgroup);
  EXPECT_FALSE(groupsLeft().empty());
  ::kill(supervisor, SIGKILL);
  reap();
  EXPECT_TRUE(testing::eventually([&] { return leftovers() == 0; }));
  EXPECT_EQ(groupsLeft(), std::vector<std::string>());
  while (::waitpid(-1, nullptr, 0) > 0) {
  }
  expectNothingLeft();
}

// Attempts of one home share a directory that whoever is last removes.
TEST_F(Cgroups, ComingAndGoingOfNeighbours) {
  const auto top = groupOfTest();
  const pid_t other = ::fork();
  ASSERT_GE(other, 0);
  for (int i = 0; i < 300; ++i) {
    AttemptCgroup group(top + "/attempt-" + (other == 0 ? "1" : "2"));
    group.addRank(0, {});
    const bool fine = group.contains() && group.entrances(0).size() == 1 && group.notes().empty();
    group.remove();
    if (other == 0 && !fine) ::_exit(1);
    ASSERT_TRUE(fine) << i;
  }
  if (other == 0) ::_exit(0);
  int status = -1;
  ASSERT_EQ(::waitpid(other, &status, 0), other);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(groupsLeft(), std::vector<std::string>());
}

// About 60 processes and no more, and the rank lives to tell.
TEST_F(Cgroups, AForkBombIsBounded) {
  launch.maxProcesses = 64;
  // Whoever could start two more waits for a word that never comes. Where nothing more can be
  // started, what the shell itself knows must do.
  addShell(
      "mkfifo word; bomb() { (bomb) & (bomb) & read x <word; }; (bomb) 2>/dev/null & "
      "while [ ! -e go ]; do :; done; exit 3");
  launch.runtime = RuntimeKind::kPlain;
  spawn();
  waitForStart();
  std::uint64_t most = 0;
  const auto group = groupPath() + "/rank-0/cgroup.procs";
  const bool ended = testing::eventually([&] {
    std::istringstream pids(testing::readText(group));
    std::uint64_t count = 0;
    for (std::string pid; std::getline(pids, pid);) ++count;
    most = std::max(most, count);
    if (most >= 30) testing::writeText(work() + "/go", "");
    return readEnd(dir).value_or(std::nullopt).has_value();
  });
  EXPECT_TRUE(ended);
  EXPECT_GE(most, 30U) << "the bomb did not go off";
  EXPECT_LE(most, 64U);
  end();
}

}  // namespace
}  // namespace bole::supervise
