// What follows from what a machine allows. The facts are those seen on real ones.
#include "engine/local/supervise/podman_host.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace bole::supervise {
namespace {

PodmanFacts ordinary() {
  PodmanFacts facts;
  facts.program = "/usr/bin/podman";
  facts.root = true;
  facts.hasRunc = true;
  facts.cgroups = CgroupTree::kV2;
  facts.files = {1048576, true};
  facts.processes = {126000, true};
  facts.processNumbers = 4194304;
  facts.lockedMemory = {8388608, true};
  return facts;
}

PodmanFacts confined() {  // in a container of a hybrid host, without CAP_SYS_RESOURCE
  auto facts = ordinary();
  facts.cgroups = CgroupTree::kHybrid;
  facts.files = {20000, false};
  facts.processes = {96365, false};
  facts.processNumbers = 32768;
  facts.lockedMemory = {8388608, false};
  return facts;
}

bool has(const std::vector<std::string>& options, const std::string& name,
         const std::string& value) {
  for (std::size_t i = 0; i + 1 < options.size(); ++i) {
    if (options[i] == name && options[i + 1] == value) return true;
  }
  return false;
}
bool has(const std::vector<std::string>& options, const std::string& name) {
  return std::find(options.begin(), options.end(), name) != options.end();
}

TEST(PodmanHost, AnOrdinaryHostGetsPodmansOwnRuntime) {
  EXPECT_FALSE(has(globalOptions(ordinary()), "--runtime"));
  EXPECT_TRUE(has(globalOptions(ordinary()), "--cgroup-manager", "cgroupfs"));
}

TEST(PodmanHost, WithV1HierarchiesItIsRuncWhereItIsThere) {
  for (const auto tree : {CgroupTree::kV1, CgroupTree::kHybrid, CgroupTree::kNone}) {
    auto facts = ordinary();
    facts.cgroups = tree;
    EXPECT_TRUE(has(globalOptions(facts), "--runtime", "runc"));
    facts.hasRunc = false;
    EXPECT_FALSE(has(globalOptions(facts), "--runtime"));
  }
}

TEST(PodmanHost, WithoutRootTheCgroupManagerIsPodmansAffair) {
  auto facts = ordinary();
  facts.root = false;
  EXPECT_FALSE(has(globalOptions(facts), "--cgroup-manager"));
}

TEST(PodmanHost, LimitsAreRaisedWhereTheyMayBe) {
  const auto options = ulimitOptions(ordinary());
  EXPECT_TRUE(has(options, "--ulimit", "nofile=1048576:1048576"));
  EXPECT_TRUE(has(options, "--ulimit", "memlock=-1:-1"));
  EXPECT_EQ(std::count(options.begin(), options.end(), "--ulimit"), 2);  // nproc: Podman's own
}

TEST(PodmanHost, ElseTheyAreWhatTheyAre) {
  const auto options = ulimitOptions(confined());
  EXPECT_TRUE(has(options, "--ulimit", "nofile=20000:20000"));
  EXPECT_TRUE(has(options, "--ulimit", "memlock=8388608:8388608"));
  // Podman cuts its own limit to the machine's process numbers; more is refused then ("error
  // setting rlimit type 6").
  EXPECT_TRUE(has(options, "--ulimit", "nproc=32768:32768"));
}

TEST(PodmanHost, UnlimitedIsSaidAsPodmanSaysIt) {
  auto facts = confined();
  facts.lockedMemory = {RLIM_INFINITY, false};
  facts.files = {RLIM_INFINITY, false};
  EXPECT_TRUE(has(ulimitOptions(facts), "--ulimit", "memlock=-1:-1"));
  EXPECT_TRUE(has(ulimitOptions(facts), "--ulimit", "nofile=1048576:1048576"));
}

TEST(PodmanHost, ItsAbsenceIsToldWithWhatToDo) {
  EXPECT_TRUE(checkPodman(ordinary()));
  auto facts = ordinary();
  facts.program.clear();
  const auto checked = checkPodman(facts);
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(checked.error().message().find("apt-get install podman"), std::string::npos);
}

TEST(PodmanHost, LookingChangesNoLimit) {
  rlimit before{};
  rlimit after{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const auto facts = lookAtPodman();
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &after), 0);
  EXPECT_EQ(before.rlim_cur, after.rlim_cur);
  EXPECT_EQ(before.rlim_max, after.rlim_max);
  EXPECT_EQ(facts.files.value, before.rlim_max);
}

}  // namespace
}  // namespace bole::supervise
