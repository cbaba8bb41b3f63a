// The record of an attempt's containers, and the groups that are left in v1 hierarchies. Removal
// itself is tested end to end, with a real Podman (tests/e2e/podman_test.py).
#include "engine/local/supervise/podman_containers.h"

#include <gtest/gtest.h>

#include "engine/local/supervise/podman_child.h"
#include "engine/local/supervise/testing/attempt_world.h"

namespace bole::supervise {
namespace {

using Names = std::vector<std::string>;

TEST(PodmanContainers, TheRecordIsCompleteOrAbsent) {
  const testing::TempDir dir;
  EXPECT_EQ(recordedContainers(dir.path()), Names{});
  ASSERT_TRUE(recordContainers(dir.path(), {"bole-a-0", "bole-a-1"}));
  EXPECT_EQ(recordedContainers(dir.path()), (Names{"bole-a-0", "bole-a-1"}));
}

TEST(PodmanContainers, WithoutARecordThereIsNothingToDo) {
  const testing::TempDir dir;
  EXPECT_TRUE(removeContainers(dir.path(), {"/nowhere/podman"}));
  EXPECT_EQ(killContainers(dir.path(), {}), 0u);
}

// A program that stands for Podman: it fails until the third time.
TEST(PodmanContainers, RemovalIsTriedAgainAndThenForgotten) {
  const testing::TempDir dir;
  const auto program = dir.path() + "/podman";
  testing::writeText(program, "#!/bin/sh\necho \"$@\" >> " + dir.path() + "/calls\n[ $(wc -l < " +
                                  dir.path() + "/calls) -ge 3 ]\n");
  ::chmod(program.c_str(), 0755);
  ASSERT_TRUE(recordContainers(dir.path(), {"bole-a-0"}));
  EXPECT_TRUE(removeContainers(dir.path(), {program, "--global"}));
  const std::string call = "--global rm --force --ignore --time 0 -- bole-a-0\n";
  EXPECT_EQ(testing::readText(dir.path() + "/calls"), call + call + call);
  EXPECT_EQ(recordedContainers(dir.path()), Names{});
}

TEST(PodmanContainers, WhatCannotBeRemovedStaysOnRecord) {
  const testing::TempDir dir;
  const auto program = dir.path() + "/podman";
  testing::writeText(program, "#!/bin/sh\necho Error: it is stuck >&2\nexit 125\n");
  ::chmod(program.c_str(), 0755);
  ASSERT_TRUE(recordContainers(dir.path(), {"bole-a-0"}));
  const auto removed = removeContainers(dir.path(), {program});
  ASSERT_FALSE(removed);
  EXPECT_NE(removed.error().message().find("it is stuck"), std::string::npos)
      << removed.error().message();
  EXPECT_EQ(recordedContainers(dir.path()), Names{"bole-a-0"});
}

TEST(PodmanContainers, ItsGroupsAreRemovedAndNoOthers) {
  const testing::TempDir root;
  const auto make = [&](const std::string& path) {
    std::filesystem::create_directories(root.path() + "/" + path);
  };
  // As directories only: rmdir(2) removes a group with its control files, but not a directory with
  // files in it.
  make("memory/bole-x/attempt-7/libpod-1");
  make("memory/bole-x/attempt-7/libpod-2");
  make("memory/bole-x/attempt-8/libpod-3");
  make("cpu/bole-x/attempt-7");
  make("cpu/other");
  removeContainerGroups("bole-x/attempt-7", root.path());
  removeContainerGroups("", root.path());
  EXPECT_FALSE(pathExists(root.path() + "/memory/bole-x/attempt-7/libpod-1"));
  EXPECT_FALSE(pathExists(root.path() + "/memory/bole-x/attempt-7"));
  EXPECT_TRUE(pathExists(root.path() + "/memory/bole-x/attempt-8/libpod-3"));
  EXPECT_FALSE(pathExists(root.path() + "/cpu/bole-x"));
  EXPECT_TRUE(pathExists(root.path() + "/cpu/other"));
}

TEST(PodmanChild, TheLastLineThatSaysSomething) {
  EXPECT_EQ(lastError(""), "");
  EXPECT_EQ(lastError("Trying to pull x...\nError: it failed\n\n"), "it failed");
  EXPECT_EQ(lastError("one\r\ntwo  \r\n"), "two");
}

}  // namespace
}  // namespace bole::supervise
