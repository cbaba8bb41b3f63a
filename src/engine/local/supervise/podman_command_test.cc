// The arguments of `podman run`: what must be in them, and what must never be.
#include "engine/local/supervise/podman_command.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "engine/local/supervise/sandbox.h"
#include "engine/local/supervise/testing/attempt_world.h"

namespace bole::supervise {
namespace {

class PodmanCommand : public ::testing::Test {
 protected:
  PodmanCommand() {
    for (const auto* sub : {"/home", "/home/attempts", "/work", "/data", "/data/deep"}) {
      std::filesystem::create_directories(top.path() + sub);
    }
    launch.job = 3;
    launch.attempt = 7;
    launch.maskPaths = {top.path() + "/home"};
    rank.rank = 2;
    rank.image = "localhost/x:1";
    rank.argv = {"train", "--secret-argument"};
    rank.env = {"TOKEN=secret-variable"};
    rank.cwd = top.path() + "/work";
    rank.uid = 200001;
    rank.gid = 200002;
    place.name = "bole-tag-2";
    place.tag = "tag";
    place.attemptDirectory = top.path() + "/home/attempts/7";
    place.init = "/opt/bole/bole-init";
    place.reportsDirectory = "/reports";
    place.passages = "/passages";
    place.cgroupParent = "bole-x/attempt-7";
    place.root = true;
    place.machineMemory = kGiB * 8;
    place.processes = 1000;
  }

  [[nodiscard]] std::vector<std::string> arguments() const {
    const auto built = buildContainer(launch, rank, place);
    EXPECT_TRUE(built) << built.error().message();
    return built ? built->arguments : std::vector<std::string>();
  }
  [[nodiscard]] std::string refusal() const {
    const auto built = buildContainer(launch, rank, place);
    return built ? "" : built.error().message();
  }
  // All values of an option.
  [[nodiscard]] std::vector<std::string> valuesOf(const std::string& option) const {
    std::vector<std::string> values;
    const auto words = arguments();
    for (std::size_t i = 0; i + 1 < words.size(); ++i) {
      if (words[i] == option) values.push_back(words[i + 1]);
    }
    return values;
  }
  [[nodiscard]] bool has(const std::string& word) const {
    const auto words = arguments();
    return std::find(words.begin(), words.end(), word) != words.end();
  }
  [[nodiscard]] bool mounts(const std::string& text) const {
    const auto all = valuesOf("--mount");
    return std::find(all.begin(), all.end(), text) != all.end();
  }
  static bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }

  using Values = std::vector<std::string>;
  testing::TempDir top;
  Launch launch;
  RankLaunch rank;
  ContainerPlace place;
};

TEST_F(PodmanCommand, TheCommandAndItsEnvironmentAreNotInIt) {
  for (const auto& word : arguments()) {
    EXPECT_FALSE(contains(word, "secret")) << word;
    EXPECT_FALSE(contains(word, "TOKEN")) << word;
  }
  EXPECT_EQ(valuesOf("--env"), Values{"BOLE_ATTEMPT_TAG=tag"});
}

TEST_F(PodmanCommand, TheImageComesLastWithBoleInitInFrontOfAll) {
  const auto words = arguments();
  const Values tail(words.end() - 6, words.end());
  EXPECT_EQ(tail, (Values{"--entrypoint", kInitInside, "--", "localhost/x:1",
                          place.attemptDirectory, "rank 2"}));
}

TEST_F(PodmanCommand, WhoeverItIsHasNoPower) {
  EXPECT_EQ(valuesOf("--user"), Values{"200001:200002"});
  EXPECT_EQ(valuesOf("--cap-drop"), Values{"all"});
  EXPECT_EQ(valuesOf("--security-opt"), Values{"no-new-privileges"});
  EXPECT_TRUE(has("--read-only"));
  for (const auto* never : {"--privileged", "--cap-add", "--pid", "--ipc", "--uts"})
    EXPECT_FALSE(has(never)) << never;
  EXPECT_EQ(valuesOf("--pull"), Values{"never"});
}

TEST_F(PodmanCommand, WithoutRootItIsTheServersOwnUser) {
  place.root = false;
  EXPECT_EQ(valuesOf("--userns"), Values{"keep-id"});
  EXPECT_FALSE(has("--user"));
}

TEST_F(PodmanCommand, Limits) {
  EXPECT_FALSE(has("--memory"));
  EXPECT_FALSE(has("--cpu-quota"));
  EXPECT_EQ(valuesOf("--shm-size"), Values{std::to_string(kGiB.value * 4) + "b"});
  rank.memory = kMiB * 512;
  rank.cpu = MilliCpu(2500);
  rank.shm = kMiB * 100;
  EXPECT_EQ(valuesOf("--memory"), Values{"536870912b"});
  EXPECT_EQ(valuesOf("--memory-swap"), Values{"536870912b"});  // memory and swap together: no swap
  EXPECT_EQ(valuesOf("--cpu-quota"), Values{"250000"});
  EXPECT_EQ(valuesOf("--shm-size"), Values{"104857600b"});
  EXPECT_EQ(valuesOf("--pids-limit"), Values{"1000"});
  rank.cpu = MilliCpu(1);
  EXPECT_EQ(valuesOf("--cpu-quota"), Values{"1000"});
}

TEST_F(PodmanCommand, ItsGroupIsBelowTheAttempts) {
  EXPECT_EQ(valuesOf("--cgroup-parent"), Values{"/bole-x/attempt-7"});
  place.cgroupParent.clear();
  EXPECT_FALSE(has("--cgroup-parent"));
}

TEST_F(PodmanCommand, Mounts) {
  rank.mounts = {{top.path() + "/data", "/data", true, false}, {"/etc", "/out", false, false}};
  EXPECT_TRUE(mounts("type=bind,src=" + top.path() + "/data,dst=/data,nosuid,nodev,ro=true"));
  EXPECT_TRUE(mounts("type=bind,src=/etc,dst=/out,nosuid,nodev"));
  EXPECT_TRUE(mounts("type=bind,src=" + rank.cwd + ",dst=" + rank.cwd + ",nosuid,nodev"));
}

TEST_F(PodmanCommand, NoPathIsTakenForAnOption) {
  const auto evil = top.path() + "/a,dst=/etc,\"x\"";
  std::filesystem::create_directories(evil);
  rank.mounts = {{evil, "/data", true, false}};
  EXPECT_TRUE(mounts("type=bind,src=\"" + top.path() +
                     "/a,dst=/etc,\"\"x\"\"\",dst=/data,nosuid,nodev,ro=true"));
}

TEST_F(PodmanCommand, TheServersFilesAreNotMounted) {
  rank.mounts = {{top.path() + "/home", "/data", true, false}};
  EXPECT_TRUE(contains(refusal(), "not mounted into jobs")) << refusal();
  rank.mounts = {{top.path() + "/home/attempts", "/data", true, false}};
  EXPECT_TRUE(contains(refusal(), "not mounted into jobs")) << refusal();
  std::filesystem::create_symlink(top.path() + "/home", top.path() + "/link");
  rank.mounts = {{top.path() + "/link", "/data", true, false}};
  EXPECT_TRUE(contains(refusal(), "not mounted into jobs")) << refusal();
  rank.mounts = {{top.path() + "/home/attempts", "/data", true, true}};  // Bole's own doing
  EXPECT_EQ(refusal(), "");
}

TEST_F(PodmanCommand, BelowAMountTheyAreHidden) {
  rank.cwd = "/";  // stands for what is not below the mount
  rank.mounts = {{top.path(), "/data", true, false}};
  rank.cwd = top.path() + "/work";
  bool hidden = false;
  for (const auto& mount : valuesOf("--mount"))
    hidden |= contains(mount, "type=tmpfs,dst=/data/home,") && contains(mount, "ro=true");
  EXPECT_TRUE(hidden);
}

TEST_F(PodmanCommand, MountsDoNotLieInEachOtherNorOnWhatIsTheContainersOwn) {
  const auto with = [&](const std::string& target) {
    rank.mounts = {{top.path() + "/data", "/data", true, false},
                   {top.path() + "/data/deep", target, true, false}};
    return refusal();
  };
  EXPECT_EQ(with("/other"), "");
  for (const auto* target : {"/data", "/data/deep", "/", "/proc", "/proc/1", "/sys", "/dev",
                             "/dev/shm", "/run", "/run/bole", "/run/bole/x", "/run/bole-init",
                             "/etc/passwd", "/etc", "relative", "/a/../etc", "/a/", ""}) {
    EXPECT_NE(with(target), "") << target;
  }
  EXPECT_NE(with(rank.cwd + "/x"), "");
  EXPECT_NE(with(top.path()), "");
  rank.mounts = {{"/nowhere/at/all", "/data", true, false}};
  EXPECT_TRUE(contains(refusal(), "not there")) << refusal();
}

TEST_F(PodmanCommand, AnImagesHomesDoNotBarTheWay) {
  const auto into = [&](const std::string& target) {
    rank.mounts = {{top.path() + "/data", target, true, false}};
    const auto built = buildContainer(launch, rank, place);
    return built ? built->directories : Values{built.error().message()};
  };
  EXPECT_EQ(into("/data"), Values{});
  EXPECT_EQ(into("/root/data"), Values{"/passages/0"});
  EXPECT_TRUE(mounts("type=bind,src=/passages/0,dst=/root,nosuid,nodev"));
  EXPECT_EQ(into("/home/ubuntu/data/x"), Values{"/passages/0"});
  EXPECT_TRUE(mounts("type=bind,src=/passages/0,dst=/home/ubuntu,nosuid,nodev"));
  EXPECT_EQ(into("/root"), Values{});
  EXPECT_EQ(into("/home/job/data"), Values{});  // the rank's own home
}

TEST_F(PodmanCommand, WhatTheJobMountsStandsForOurOwn) {
  rank.mounts = {{top.path() + "/data", "/tmp", false, false}};
  // The job's directory is not below /tmp here, unlike the test's.
  rank.cwd = "/usr";
  std::size_t onTmp = 0;
  for (const auto& mount : valuesOf("--mount")) onTmp += contains(mount, "dst=/tmp,") ? 1 : 0;
  EXPECT_EQ(onTmp, 1u);
}

TEST_F(PodmanCommand, ARankWithoutAnImageIsRefused) {
  rank.image.clear();
  EXPECT_NE(refusal(), "");
}

}  // namespace
}  // namespace bole::supervise
