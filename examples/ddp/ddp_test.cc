// The PyTorch example as it is run: real processes, Debian's python3-torch. Skipped where that is
// not installed.
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <filesystem>

#include "testing/gang_run.h"

namespace {

using examples::GangRun;
using examples::lastValue;
using examples::linesWith;
using examples::TempDir;
using std::chrono::seconds;

constexpr const char* kPython = "/usr/bin/python3";

std::vector<std::string> train(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {kPython, DDP_PROGRAM});
  return arguments;
}

std::vector<std::string> quick(const std::vector<std::string>& more = {}) {
  std::vector<std::string> all = {"--epochs",         "4",          "--samples",          "1024",
                                  "--checkpoint-dir", "ck",         "--checkpoint-every", "2",
                                  "--result",         "result.json"};
  all.insert(all.end(), more.begin(), more.end());
  return train(all);
}

class Ddp : public testing::Test {
 protected:
  void SetUp() override {
    static const bool hasTorch = [] {
      GangRun run("/");
      run.start(0, 0,
                {kPython, "-c",
                 "import torch.distributed as d; raise SystemExit(not d.is_gloo_available())"});
      return run.waitForAll().at(0) == 0;
    }();
    if (!hasTorch)
      GTEST_SKIP() << "PyTorch with Gloo is not installed: apt-get install python3-torch";
  }

  TempDir directory_;
};

TEST_F(Ddp, FourRanksLearnToRead) {
  GangRun run(directory_.path());
  run.startAll(4, train({"--epochs", "10", "--checkpoint-dir", "checkpoints"}));
  ASSERT_EQ(run.waitForAll(), (std::vector<int>{0, 0, 0, 0})) << run.output(0);
  const auto progress = linesWith(run.output(0), "BOLE progress epoch=");
  ASSERT_EQ(progress.size(), 10U);
  EXPECT_LT(std::atof(lastValue(progress[9], "loss").c_str()),
            std::atof(lastValue(progress[0], "loss").c_str()) / 4);
  EXPECT_GT(std::atof(lastValue(progress[9], "accuracy").c_str()), 0.95);
  EXPECT_EQ(linesWith(run.output(0), "BOLE checkpoint").back(),
            "BOLE checkpoint path=checkpoints/epoch-0010.pt epoch=10");
  EXPECT_TRUE(std::filesystem::exists(directory_.path("checkpoints/epoch-0010.pt")));
  EXPECT_TRUE(linesWith(run.output(3), "BOLE").empty());
  EXPECT_EQ(linesWith(run.output(3), "done after epoch 10").size(), 1U) << run.output(3);
}

TEST_F(Ddp, ResumesAfterAllWereKilledAndSkipsADamagedCheckpoint) {
  std::string uninterrupted;
  {
    const TempDir other;
    GangRun run(other.path());
    run.startAll(2, quick());
    ASSERT_EQ(run.waitForAll(), (std::vector<int>{0, 0})) << run.output(0);
    uninterrupted = other.read("result.json");
    ASSERT_FALSE(uninterrupted.empty());
  }
  {
    GangRun run(directory_.path());
    run.startAll(2, quick({"--sleep-ms", "500"}));
    ASSERT_TRUE(run.waitForLine(0, "BOLE progress epoch=3 ")) << run.output(0);
    run.signalAll(SIGKILL);
    ASSERT_EQ(run.waitForAll(), (std::vector<int>{-SIGKILL, -SIGKILL}));
  }
  directory_.write("ck/epoch-0003.pt", directory_.read("ck/epoch-0002.pt").substr(0, 5000));
  GangRun run(directory_.path());
  run.startAll(2, quick());
  ASSERT_EQ(run.waitForAll(), (std::vector<int>{0, 0})) << run.output(0);
  EXPECT_EQ(linesWith(run.output(0), "skipping checkpoint").at(0),
            "skipping checkpoint ck/epoch-0003.pt: it is torn or damaged");
  EXPECT_EQ(linesWith(run.output(0), "resumed").at(0), "resumed after epoch 2 of 4");
  EXPECT_EQ(directory_.read("result.json"), uninterrupted);
}

TEST_F(Ddp, WhenOneRankIsKilledTheOthersFailAtOnce) {
  GangRun run(directory_.path());
  run.startAll(3, train({"--epochs", "1000", "--samples", "768", "--batch", "96"}));
  ASSERT_TRUE(run.waitForLine(0, "BOLE progress epoch=1 ")) << run.output(0);
  run.signal(1, SIGKILL);
  EXPECT_EQ(run.waitForAll(seconds(5)), (std::vector<int>{1, -SIGKILL, 1})) << run.output(0);
}

TEST_F(Ddp, WhenStoppedItSavesTheLastEpochAndExits143) {
  GangRun run(directory_.path());
  run.startAll(2, quick({"--epochs", "1000", "--checkpoint-every", "1000"}));
  ASSERT_TRUE(run.waitForLine(0, "BOLE progress epoch=3 ")) << run.output(0);
  run.signalAll(SIGTERM);
  EXPECT_EQ(run.waitForAll(seconds(5)), (std::vector<int>{143, 143})) << run.output(0);
  EXPECT_EQ(linesWith(run.output(0), "BOLE checkpoint").size(), 1U) << run.output(0);
}

TEST_F(Ddp, RunsAlone) {
  GangRun run(directory_.path());
  run.start(0, 0, quick({"--epochs", "1"}));
  EXPECT_EQ(run.waitForAll(), (std::vector<int>{0})) << run.output(0);
  EXPECT_NE(directory_.read("result.json").find("\"weights\""), std::string::npos);
}

}  // namespace
