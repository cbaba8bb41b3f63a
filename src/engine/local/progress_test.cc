#include "engine/local/progress.h"

#include <gtest/gtest.h>

namespace bole::engine {
namespace {

supervise::Progress progress(std::vector<supervise::RankProgress> ranks,
                             std::vector<supervise::CheckpointReport> checkpoints = {}) {
  return {std::move(ranks), std::move(checkpoints)};
}

TEST(Progress, TheJobsIsThatOfTheLowestRank) {
  const auto view = progressOf(progress(
      {{2, Timestamp{9}, {{"epoch", "9"}}},
       {0, Timestamp{7}, {{"epoch", "3"}, {"loss", "0.31"}, {"epochs", "20"}, {"step", "4"}}}}));
  ASSERT_TRUE(view);
  EXPECT_EQ(view->done, 3U);
  EXPECT_EQ(view->total, 20U);
  EXPECT_EQ(view->unit, "epoch");
  EXPECT_EQ(view->at, Timestamp{7});
  const std::vector<std::pair<std::string, std::string>> rest = {{"loss", "0.31"}, {"step", "4"}};
  EXPECT_EQ(view->values, rest);
  EXPECT_FALSE(progressOf(progress({})));
}

TEST(Progress, StepsAndNumbersThatAreNone) {
  auto view = progressOf(progress({{0, {}, {{"step", "12.5"}, {"steps", "many"}}}}));
  EXPECT_EQ(view->unit, "step");
  EXPECT_EQ(view->done, 12U);
  EXPECT_EQ(view->total, 0U);
  view = progressOf(progress({{0, {}, {{"epoch", "-1"}, {"loss", "nan"}}}}));
  EXPECT_EQ(view->unit, "");
  EXPECT_EQ(view->values.size(), 2U);
  view = progressOf(progress({{0, {}, {{"epoch", "99999999999999999999999"}}}}));
  EXPECT_EQ(view->unit, "");
}

TEST(Progress, Checkpoints) {
  supervise::Launch launch;
  launch.ranks.resize(2);
  launch.ranks[0].cwd = launch.ranks[1].cwd = "/w/3";
  const auto told = progress({{1, {}, {{"epoch", "8"}}}},
                             {{0, Timestamp{1}, "ckpt/epoch-5/", {{"epoch", "5"}}},
                              {1, Timestamp{2}, "/w/3/ckpt/./epoch-5", {{"epoch", "5"}}},
                              {1, Timestamp{3}, "latest", {}},
                              {1, Timestamp{4}, "latest", {}},
                              {0, Timestamp{5}, "s", {{"step", "700"}}}});
  const auto found = checkpointsOf(told, &launch);
  ASSERT_EQ(found.size(), 5U);
  EXPECT_EQ(found[0].path, "/w/3/ckpt/epoch-5");
  EXPECT_EQ(found[0].epoch, 5U);
  EXPECT_EQ(found[1].key, found[0].key);
  EXPECT_EQ(found[2].epoch, 8U);
  EXPECT_NE(found[2].key, found[3].key);
  EXPECT_EQ(found[4].epoch, 700U);
  EXPECT_EQ(checkpointsOf(told, nullptr)[0].path, "ckpt/epoch-5");
}

}  // namespace
}  // namespace bole::engine
