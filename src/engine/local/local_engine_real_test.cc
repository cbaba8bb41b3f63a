// The local engine with the real bole-supervise and bole-init: real processes, and what is left of
// them.
#include <random>

#include "engine/local/log_reader.h"
#include "engine/local/testing/engine_world.h"

namespace bole::engine {
namespace {

namespace fs = std::filesystem;
using model::AttemptOutcome;
using model::StopReason;
using ports::AttemptFinished;
using ports::AttemptRunning;
using testing::kPatience;
using testing::readText;
using testing::writeText;

constexpr AttemptId kFirst{7};

class RealLives : public testing::EngineWorld {
 protected:
  RealLives() { options.programs = REAL_PROGRAMS; }

  // Every rank runs this line of shell, in the home.
  [[nodiscard]] ports::AttemptOrder order(AttemptId id, std::string line,
                                          std::uint32_t ranks = 1) const {
    auto made = testing::gangOrder(id.value, ranks, {"/bin/sh", "-c", std::move(line)});
    made.job = JobId(100 + id.value);
    testing::textOf(made).workingDir = options.home;
    return made;
  }

  [[nodiscard]] std::vector<std::string> log(AttemptId id) const {
    std::vector<std::string> lines;
    const auto page = LogReader(Layout{options.home, ""}).page({id, {}, {}, {}}, 1000);
    if (!page) return {page.error().message()};
    for (const auto& line : page->lines) lines.push_back(line.text);
    std::sort(lines.begin(), lines.end());
    return lines;
  }

  // Until the ranks have written that line so often.
  void waitForLine(AttemptId id, const std::string& wanted, std::ptrdiff_t times = 1) const {
    const auto until = std::chrono::steady_clock::now() + kPatience;
    while (std::chrono::steady_clock::now() < until) {
      const auto lines = log(id);
      if (std::count(lines.begin(), lines.end(), wanted) >= times) return;
      ::usleep(2000);
    }
    ADD_FAILURE() << "no line '" << wanted << "' in the log of attempt " << id.value;
  }
};

// Lines that only SIGKILL ends, and one that ends when it is asked to. `read` blocks for ever.
constexpr auto kStubborn = "trap '' TERM; echo ready; while :; do sleep 1000 & wait; done";
constexpr auto kPolite = "trap 'echo bye; exit 0' TERM; echo ready; sleep 1000 & wait";

TEST_F(RealLives, AGangFromItsStartToItsEnd) {
  engineUp();
  engine->start(order(kFirst, "echo \"rank $RANK of $WORLD_SIZE\"; exit $((RANK * 0))", 3));
  EXPECT_TRUE(running(kFirst));
  const auto end = finished(kFirst);
  EXPECT_EQ(end.outcome, AttemptOutcome::kCompleted);
  const std::vector<model::RankExit> exits = {{0, true, 0}, {1, true, 0}, {2, true, 0}};
  EXPECT_EQ(end.ranks, exits);
  const std::vector<std::string> lines = {"rank 0 of 3", "rank 1 of 3", "rank 2 of 3"};
  EXPECT_EQ(log(kFirst), lines);
  engine->forget(kFirst);
  engineDown();
  EXPECT_FALSE(fs::exists(directory(kFirst) + "/launch.json"));
  EXPECT_EQ(log(kFirst), lines);
  expectNoProcess();
}

TEST_F(RealLives, OneRankFailsAndTheRestIsStopped) {
  engineUp();
  engine->start(order(kFirst, "[ $RANK = 1 ] && exit 3; exec sleep 1000", 3));
  const auto end = finished(kFirst);
  EXPECT_EQ(end.outcome, AttemptOutcome::kFailed);
  EXPECT_EQ(end.firstFailed, 1);
  ASSERT_EQ(end.ranks.size(), 3U);
  EXPECT_EQ(end.ranks[1].status, 3 << 8);
  EXPECT_EQ(end.ranks[0].status, SIGTERM);
  EXPECT_EQ(end.ranks[2].status, SIGTERM);
  expectNoProcess();
}

TEST_F(RealLives, ACodeOf137AndAKillStayApart) {
  engineUp();
  engine->start(order(AttemptId(1), "exit 137"));
  engine->start(order(AttemptId(2), "kill -9 $$"));
  EXPECT_EQ(finished(AttemptId(1)).ranks.at(0).status, 137 << 8);
  EXPECT_EQ(finished(AttemptId(2)).ranks.at(0).status, SIGKILL);
  expectNoProcess();
}

TEST_F(RealLives, ACommandThatIsNotThereSaysSo) {
  engineUp();
  auto mine = order(kFirst, "");
  testing::textOf(mine).tasks[0].command = {"no-such-program"};
  engine->start(mine);
  const auto end = finished(kFirst);
  EXPECT_EQ(end.outcome, AttemptOutcome::kLaunchFailed);
  EXPECT_FALSE(end.ranks.at(0).known);
  EXPECT_NE(end.note.find("no-such-program"), std::string::npos) << end.note;
  expectNoProcess();
}

TEST_F(RealLives, AskedToStopItMaySayGoodbye) {
  engineUp();
  engine->start(order(kFirst, kPolite));
  waitForLine(kFirst, "ready");
  engine->stop(kFirst, StopReason::kPreempted, seconds(20));
  const auto end = finished(kFirst);
  EXPECT_EQ(end.outcome, AttemptOutcome::kStopped);
  EXPECT_EQ(end.stop, StopReason::kPreempted);
  EXPECT_EQ(end.ranks.at(0).status, 0);
  waitForLine(kFirst, "bye");
  expectNoProcess();
}

TEST_F(RealLives, WhatDoesNotListenIsKilledWithItsWholeTree) {
  engineUp();
  engine->start(
      order(kFirst, std::string("(setsid sh -c \"") + kStubborn + "\") & " + kStubborn, 2));
  waitForLine(kFirst, "ready", 4);
  engine->stop(kFirst, StopReason::kCancelled, seconds(1000));
  engine->stop(kFirst, StopReason::kCancelled, milliseconds(100));  // in a hurry after all
  const auto end = finished(kFirst);
  EXPECT_EQ(end.outcome, AttemptOutcome::kStopped);
  EXPECT_EQ(end.ranks.at(0).status, SIGKILL);
  expectNoProcess();
}

TEST_F(RealLives, TheTimeLimitHoldsWithoutAnEngine) {
  engineUp();
  auto mine = order(kFirst, kPolite);
  testing::shapeOf(mine).timeLimit = milliseconds(300);
  engine->start(mine);
  ASSERT_TRUE(running(kFirst));
  engineDown();
  expectNoProcess();
  engineUp();
  engine->adopt(mine);
  const auto end = finished(kFirst);
  EXPECT_EQ(end.outcome, AttemptOutcome::kTimeLimit);
  EXPECT_EQ(end.stop, StopReason::kTimeLimit);
  expectNoProcess();
}

TEST_F(RealLives, AdoptedWhileItRuns) {
  ASSERT_EQ(::mkfifo((options.home + "/fifo").c_str(), 0600), 0);
  engineUp();
  engine->start(order(kFirst, "echo ready; read line < fifo; exit 5"));
  ASSERT_TRUE(running(kFirst));
  waitForLine(kFirst, "ready");
  engineDownAtOnce();
  engineUp();
  engine->adopt(order(kFirst, "exit 0"));
  ASSERT_TRUE(running(kFirst, 1));
  writeText(options.home + "/fifo", "go\n");
  const auto end = finished(kFirst);
  EXPECT_EQ(end.outcome, AttemptOutcome::kFailed);
  EXPECT_EQ(end.ranks.at(0).status, 5 << 8);
  expectNoProcess();
}

TEST_F(RealLives, KilledSupervisorsTakeTheirRanksWithThem) {
  engineUp();
  engine->start(order(
      kFirst,
      std::string("[ $RANK = 2 ] && exit 0; (setsid sh -c \"") + kStubborn + "\") & " + kStubborn,
      3));
  waitForLine(kFirst, "ready", 4);  // two ranks, and what each left beside itself
  EXPECT_TRUE(testing::eventually([&] {
    return supervise::readRankStatus(directory(kFirst), 2).value_or(std::nullopt).has_value();
  }));
  killSupervisor(kFirst);
  const auto end = finished(kFirst);
  EXPECT_EQ(rankProcesses(), std::vector<std::string>());  // none is left when it is told
  EXPECT_EQ(end.outcome, AttemptOutcome::kSupervisorLost);
  const std::vector<model::RankExit> exits = {{0, false, 0}, {1, false, 0}, {2, true, 0}};
  EXPECT_EQ(end.ranks, exits);
  expectNoProcess();
}

TEST_F(RealLives, KilledSupervisorWhileNoOneLooked) {
  engineUp();
  engine->start(order(kFirst, kStubborn, 2));
  waitForLine(kFirst, "ready");
  engineDown();
  killSupervisor(kFirst);
  engineUp();
  engine->adopt(order(kFirst, kStubborn, 2));
  EXPECT_EQ(finished(kFirst).outcome, AttemptOutcome::kSupervisorLost);
  EXPECT_EQ(rankProcesses(), std::vector<std::string>());
  expectNoProcess();
}

TEST_F(RealLives, ProgressAndCheckpointsOfALine) {
  engineUp();
  engine->start(
      order(kFirst,
            "mkdir ckpt; echo 12345 > ckpt/e1; echo BOLE progress epoch=1 epochs=4 loss=0.5;"
            "echo BOLE checkpoint path=ckpt/never epoch=0;"
            "echo BOLE checkpoint path=ckpt/e1 epoch=1; exit 0"));
  finished(kFirst);
  EXPECT_EQ(reports.count<ports::CheckpointSeen>(kFirst), 1U) << "one of the two is not there";
  const auto checkpoint = reports.wait<ports::CheckpointSeen>(kFirst);
  ASSERT_TRUE(checkpoint);
  EXPECT_EQ(checkpoint->path, options.home + "/ckpt/e1");
  EXPECT_EQ(checkpoint->size, Bytes(6));
  const auto view = engine->progress(kFirst);
  ASSERT_TRUE(view);
  EXPECT_EQ(view->done, 1U);
  EXPECT_EQ(view->total, 4U);
  expectNoProcess();
}

TEST_F(RealLives, InASandboxOfItsOwn) {
  options.plain = false;
  if (!inPath(options.environment, "bwrap")) GTEST_SKIP() << "bubblewrap is not installed";
  // Ranks run as another user, who must find the way to the job's directory.
  fs::permissions(temp_.path(), fs::perms(0711));
  fs::permissions(options.home, fs::perms(0711));
  engineUp();
  engine->start(
      order(kFirst, "id -u; pwd; echo \"pid $$\"; cat " + options.home +
                        "/secret 2>/dev/null || echo masked; touch here && echo mine; kill -9 -1; "
                        "exit 0"));
  writeText(options.home + "/secret", "not for jobs");
  const auto end = finished(kFirst);
  EXPECT_EQ(end.outcome, AttemptOutcome::kCompleted) << end.note;
  const auto lines = log(kFirst);
  const auto has = [&](const std::string& line) {
    return std::count(lines.begin(), lines.end(), line) == 1;
  };
  EXPECT_TRUE(has("masked"));
  EXPECT_TRUE(has("mine"));
  EXPECT_TRUE(has(options.home + "/work/" + std::to_string(100 + kFirst.value)));
  EXPECT_TRUE(has(std::to_string(::geteuid() == 0 ? options.baseUid + 2 : ::geteuid())));
  EXPECT_EQ(rankProcesses(), std::vector<std::string>());
  expectNoProcess();
}

// Stops and kills at random instants after the start, by engines that come and go.
class RandomRealLives : public RealLives, public ::testing::WithParamInterface<unsigned> {};

TEST_P(RandomRealLives, EndWell) {
  std::mt19937 random(GetParam());
  constexpr std::uint64_t kLives = 6;
  std::vector<ports::AttemptOrder> orders;
  for (std::uint64_t i = 1; i <= kLives; ++i) {
    // Leaves a trace for each time that it is run.
    orders.push_back(order(AttemptId(i), "echo >> ran-" + std::to_string(i) + "; " + kStubborn));
  }
  engineUp();
  for (const auto& one : orders) engine->start(one);
  for (const auto& one : orders) {
    static_cast<void>(
        reports.wait<AttemptRunning>(one.attempt, 0, std::chrono::milliseconds(random() % 30)));
    const auto what = random() % 3;
    if (what == 0) {
      const auto found = findClaim(directory(one.attempt));
      if (found.state == ClaimState::kAlive) ::kill(found.claim.process.pid, SIGKILL);
    } else if (what == 1) {
      engineDownAtOnce();
      engineUp();
      for (const auto& again : orders) engine->adopt(again);
    }
    engine->stop(one.attempt, StopReason::kCancelled, milliseconds(20));
  }
  for (const auto& one : orders)
    engine->stop(one.attempt, StopReason::kCancelled, milliseconds(20));
  for (const auto& one : orders) {
    const auto end = finished(one.attempt);
    EXPECT_NE(end.outcome, AttemptOutcome::kCompleted);
    const auto runs = readText(options.home + "/ran-" + std::to_string(one.attempt.value)).size();
    EXPECT_LE(runs, 1U);
  }
  EXPECT_EQ(rankProcesses(), std::vector<std::string>());
  expectNoProcess();
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomRealLives, ::testing::Range(1U, 7U));

}  // namespace
}  // namespace bole::engine
