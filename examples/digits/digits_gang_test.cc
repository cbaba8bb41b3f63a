// The example as it is run: real processes that meet over TCP.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>

#include "testing/gang_run.h"

namespace {

using examples::GangRun;
using examples::lastValue;
using examples::linesWith;
using examples::TempDir;
using std::chrono::seconds;

using Arguments = std::vector<std::string>;

Arguments digits(Arguments arguments) {
  arguments.insert(arguments.begin(), DIGITS_PROGRAM);
  return arguments;
}

// A quick training, the same in every test that compares results.
Arguments quick(const Arguments& more = {}) {
  Arguments all = {
      "--epochs",         "6",  "--samples",          "2048", "--batch",  "256",
      "--checkpoint-dir", "ck", "--checkpoint-every", "2",    "--result", "result.json"};
  all.insert(all.end(), more.begin(), more.end());
  return digits(all);
}

// Where it would have ended had nothing happened.
std::string uninterruptedResult() {
  static const std::string result = [] {
    const TempDir directory;
    GangRun run(directory.path());
    run.startAll(4, quick());
    EXPECT_EQ(run.waitForAll(), (std::vector<int>{0, 0, 0, 0})) << run.output(0);
    return directory.read("result.json");
  }();
  EXPECT_FALSE(result.empty());
  return result;
}

TEST(DigitsGang, FourRanksLearnToRead) {
  const TempDir directory;
  GangRun run(directory.path());
  run.startAll(4, digits({"--epochs", "20", "--checkpoint-dir", "checkpoints"}));
  ASSERT_EQ(run.waitForAll(), (std::vector<int>{0, 0, 0, 0})) << run.output(0);
  const auto progress = linesWith(run.output(0), "BOLE progress epoch=");
  ASSERT_EQ(progress.size(), 20U);
  EXPECT_EQ(lastValue(progress[2], "epoch"), "3");
  EXPECT_EQ(lastValue(progress[2], "epochs"), "20");
  const auto loss = [&](std::size_t i) {
    return std::atof(lastValue(progress[i], "loss").c_str());
  };
  EXPECT_LT(loss(4), loss(0) / 2);
  EXPECT_LT(loss(19), loss(4) / 2);
  EXPECT_GT(std::atof(lastValue(progress[19], "accuracy").c_str()), 0.95);
  EXPECT_EQ(linesWith(run.output(0), "BOLE checkpoint").size(), 4U);
  EXPECT_EQ(linesWith(run.output(0), "BOLE checkpoint").back(),
            "BOLE checkpoint path=checkpoints/epoch-0020.ckpt epoch=20");
  EXPECT_TRUE(std::filesystem::exists(directory.path("checkpoints/epoch-0020.ckpt")));
  for (int rank = 1; rank < 4; ++rank) {  // they report nothing and agree on every weight
    EXPECT_TRUE(linesWith(run.output(rank), "BOLE").empty());
    const auto ends = linesWith(run.output(rank), "done after epoch 20");
    ASSERT_EQ(ends.size(), 1U) << run.output(rank);
    const auto own = linesWith(run.output(0), "done after epoch 20").at(0);
    EXPECT_EQ(ends[0].substr(ends[0].find(": done")), own.substr(own.find(": done")));
  }
}

TEST(DigitsGang, TheSameRunGivesTheSameWeights) {
  const TempDir directory;
  GangRun run(directory.path());
  run.startAll(4, quick());
  ASSERT_EQ(run.waitForAll(), (std::vector<int>{0, 0, 0, 0}));
  EXPECT_EQ(directory.read("result.json"), uninterruptedResult());
}

TEST(DigitsGang, ResumesAfterAllWereKilled) {
  const TempDir directory;
  {
    GangRun run(directory.path());
    run.startAll(4, quick({"--sleep-ms", "500"}));
    ASSERT_TRUE(run.waitForLine(0, "BOLE progress epoch=3 ")) << run.output(0);
    run.signalAll(SIGKILL);
    ASSERT_EQ(run.waitForAll(), (std::vector<int>{-SIGKILL, -SIGKILL, -SIGKILL, -SIGKILL}));
  }
  EXPECT_TRUE(directory.read("result.json").empty());
  GangRun run(directory.path());
  run.startAll(4, quick());
  ASSERT_EQ(run.waitForAll(), (std::vector<int>{0, 0, 0, 0})) << run.output(0);
  EXPECT_EQ(linesWith(run.output(0), "resumed").at(0), "resumed from ck after epoch 2 of 6");
  EXPECT_EQ(directory.read("result.json"), uninterruptedResult());
}

TEST(DigitsGang, AFinishedRunHasNothingLeftToDoAndSaysTheSame) {
  const TempDir directory;
  for (int i = 0; i < 2; ++i) {
    std::filesystem::remove(directory.path("result.json"));
    GangRun run(directory.path());
    run.startAll(4, quick());
    ASSERT_EQ(run.waitForAll(), (std::vector<int>{0, 0, 0, 0})) << run.output(0);
    EXPECT_EQ(linesWith(run.output(0), "BOLE progress").empty(), i == 1);
    EXPECT_EQ(directory.read("result.json"), uninterruptedResult());
  }
}

TEST(DigitsGang, WhenOneRankFailsTheOthersFailAtOnce) {
  const TempDir directory;
  GangRun run(directory.path());
  run.startAll(4, quick({"--fail-rank", "2", "--fail-epoch", "3", "--fail-code", "7"}));
  ASSERT_EQ(run.waitForEnd(2), 7) << run.output(2);
  const auto endings = run.waitForAll(seconds(5));
  EXPECT_EQ(endings, (std::vector<int>{1, 1, 7, 1})) << run.output(0);
  EXPECT_NE(run.output(0).find("another rank has probably ended"), std::string::npos)
      << run.output(0);
  EXPECT_TRUE(directory.read("result.json").empty());
}

TEST(DigitsGang, FailsOnceWhereAMarkerSaysSo) {
  const TempDir directory;
  const auto command = quick(
      {"--fail-rank", "1", "--fail-epoch", "5", "--fail-code", "9", "--fail-marker", "failed"});
  {
    GangRun run(directory.path());
    run.startAll(4, command);
    EXPECT_EQ(run.waitForAll().at(1), 9);
  }
  GangRun run(directory.path());
  run.startAll(4, command);
  ASSERT_EQ(run.waitForAll(), (std::vector<int>{0, 0, 0, 0})) << run.output(1);
  EXPECT_EQ(linesWith(run.output(0), "resumed").at(0), "resumed from ck after epoch 4 of 6");
  EXPECT_EQ(directory.read("result.json"), uninterruptedResult());
}

TEST(DigitsGang, WhenOneRankIsKilledTheOthersFailAtOnce) {
  for (const int victim : {0, 3}) {
    const TempDir directory;
    GangRun run(directory.path());
    run.startAll(4, quick({"--sleep-ms", "2000"}));
    ASSERT_TRUE(run.waitForLine(0, "BOLE progress epoch=1 ")) << run.output(0);
    run.signal(victim, SIGKILL);
    auto endings = run.waitForAll(seconds(5));
    EXPECT_EQ(endings.at(static_cast<std::size_t>(victim)), -SIGKILL);
    endings.erase(endings.begin() + victim);
    EXPECT_EQ(endings, (std::vector<int>{1, 1, 1})) << "victim " << victim;
  }
}

TEST(DigitsGang, ARankThatHangsIsGivenUpAfterTheTimeout) {
  const TempDir directory;
  GangRun run(directory.path());
  run.startAll(3, quick({"--sleep-ms", "1000", "--timeout", "2"}));
  ASSERT_TRUE(run.waitForLine(0, "BOLE progress epoch=1 ")) << run.output(0);
  run.signal(1, SIGSTOP);
  EXPECT_EQ(run.waitForEnd(0, seconds(15)), 1) << run.output(0);
  EXPECT_EQ(run.waitForEnd(2, seconds(15)), 1) << run.output(2);
}

TEST(DigitsGang, WhenStoppedItSavesTheLastEpochAndExits143) {
  const TempDir directory;
  {
    GangRun run(directory.path());
    run.startAll(4, quick({"--sleep-ms", "1000"}));
    ASSERT_TRUE(run.waitForLine(0, "BOLE progress epoch=3 ")) << run.output(0);
    run.signalAll(SIGTERM);
    ASSERT_EQ(run.waitForAll(), (std::vector<int>{143, 143, 143, 143})) << run.output(0);
    const auto saved = linesWith(run.output(0), "BOLE checkpoint");
    EXPECT_EQ(saved.back(), "BOLE checkpoint path=ck/epoch-0003.ckpt epoch=3") << run.output(0);
  }
  GangRun run(directory.path());
  run.startAll(4, quick());
  ASSERT_EQ(run.waitForAll(), (std::vector<int>{0, 0, 0, 0}));
  EXPECT_EQ(linesWith(run.output(0), "resumed").at(0), "resumed from ck after epoch 3 of 6");
  EXPECT_EQ(directory.read("result.json"), uninterruptedResult());
}

TEST(DigitsGang, IsStoppedWhileTheRanksAreStillFindingEachOther) {
  const TempDir directory;
  GangRun run(directory.path());
  for (int rank = 0; rank < 3; ++rank) run.start(rank, 4, quick());  // the fourth never comes
  for (int rank = 0; rank < 3; ++rank) {
    ASSERT_TRUE(run.waitForLine(rank, "meets the others at 127.0.0.1:")) << run.output(rank);
  }
  run.signalAll(SIGTERM);
  EXPECT_EQ(run.waitForAll(seconds(5)), (std::vector<int>{143, 143, 143})) << run.output(0);
}

TEST(DigitsGang, ARankThatNeverComesIsNamed) {
  const TempDir directory;
  GangRun run(directory.path());
  for (const int rank : {0, 2}) run.start(rank, 3, quick({"--timeout", "2"}));
  EXPECT_EQ(run.waitForAll(seconds(20)), (std::vector<int>{1, 1}));
  EXPECT_NE((run.output(0) + run.output(2)).find("missing: rank 1"), std::string::npos)
      << run.output(0) << run.output(2);
}

TEST(DigitsGang, SkipsDamagedCheckpoints) {
  const TempDir directory;
  {
    GangRun run(directory.path());
    run.startAll(4, quick());
    ASSERT_EQ(run.waitForAll(), (std::vector<int>{0, 0, 0, 0}));
  }
  const std::string whole = directory.read("ck/epoch-0006.ckpt");
  std::string flipped = whole;
  flipped[flipped.size() / 2] = static_cast<char>(flipped[flipped.size() / 2] ^ 1);
  directory.write("ck/epoch-0006.ckpt", flipped);
  directory.write("ck/epoch-0004.ckpt", whole.substr(0, whole.size() - 1));
  directory.write("ck/epoch-0009.ckpt", "");
  directory.write("ck/epoch-0010.ckpt.tmp", whole);
  std::filesystem::remove(directory.path("result.json"));
  GangRun run(directory.path());
  run.startAll(4, quick());
  ASSERT_EQ(run.waitForAll(), (std::vector<int>{0, 0, 0, 0})) << run.output(0);
  const auto skipped = linesWith(run.output(0), "skipping checkpoint");
  ASSERT_EQ(skipped.size(), 3U) << run.output(0);
  EXPECT_NE(skipped[0].find("epoch-0009.ckpt: it is cut short"), std::string::npos) << skipped[0];
  EXPECT_NE(skipped[1].find("epoch-0006.ckpt: it is torn or damaged"), std::string::npos)
      << skipped[1];
  EXPECT_EQ(linesWith(run.output(0), "resumed").at(0), "resumed from ck after epoch 2 of 6");
  EXPECT_EQ(directory.read("result.json"), uninterruptedResult());
  EXPECT_FALSE(std::filesystem::exists(directory.path("ck/epoch-0010.ckpt.tmp")));
}

TEST(DigitsGang, AGangOfOneNeedsNoVariables) {
  const TempDir directory;
  GangRun run(directory.path());
  run.start(0, 0, quick());
  ASSERT_EQ(run.waitForAll(), (std::vector<int>{0})) << run.output(0);
  EXPECT_EQ(linesWith(run.output(0), "BOLE progress").size(), 6U);
  GangRun again(directory.path());
  again.start(0, 1, quick());  // and WORLD_SIZE=1 is the same
  ASSERT_EQ(again.waitForAll(), (std::vector<int>{0})) << again.output(0);
  EXPECT_EQ(linesWith(again.output(0), "resumed").size(), 1U);
}

TEST(DigitsGang, TakesTheCheckpointDirectoryFromBole) {
  const TempDir directory;
  GangRun run(directory.path());
  run.start(0, 0, digits({"--epochs", "1", "--samples", "256"}),
            {{"BOLE_CHECKPOINT_DIR", directory.path("kept")}});
  ASSERT_EQ(run.waitForAll(), (std::vector<int>{0})) << run.output(0);
  EXPECT_TRUE(std::filesystem::exists(directory.path("kept/epoch-0001.ckpt")));
}

TEST(DigitsGang, RanksThatDoNotBelongTogetherAreRefused) {
  const TempDir directory;
  GangRun run(directory.path());
  run.start(0, 2, quick({"--timeout", "3"}));
  run.start(1, 2, quick({"--timeout", "3", "--seed", "2"}));
  EXPECT_EQ(run.waitForEnd(1, seconds(20)), 1);
  EXPECT_NE(run.output(1).find("--seed, --samples, --batch or --lr differ"), std::string::npos)
      << run.output(1);
  EXPECT_EQ(run.waitForEnd(0, seconds(20)), 1);
}

TEST(DigitsGang, ACheckpointOfAnotherSeedIsNotTaken) {
  const TempDir directory;
  {
    GangRun run(directory.path());
    run.start(0, 0, quick());
    ASSERT_EQ(run.waitForAll(), (std::vector<int>{0}));
  }
  GangRun run(directory.path());
  run.start(0, 0, quick({"--seed", "2"}));
  EXPECT_EQ(run.waitForAll(), (std::vector<int>{2}));
  EXPECT_NE(run.output(0).find("is of seed 1; use that seed or another --checkpoint-dir"),
            std::string::npos)
      << run.output(0);
}

TEST(DigitsGang, AnUnwritableCheckpointDirectoryIsSaidAtOnce) {
  const TempDir directory;
  directory.write("ck", "a file where the directory should be");
  GangRun run(directory.path());
  run.start(0, 0, quick());
  EXPECT_EQ(run.waitForAll(), (std::vector<int>{1}));
  EXPECT_NE(run.output(0).find("ck"), std::string::npos);
}

}  // namespace
