// The local engine against a stub that plays the supervisor's part, so that every stage can be
// held.
#include "engine/local/local_engine.h"

#include <dirent.h>

#include <map>
#include <random>

#include "engine/local/testing/engine_world.h"

namespace bole::engine {
namespace {

namespace fs = std::filesystem;
using model::AttemptOutcome;
using model::StopReason;
using ports::AttemptFinished;
using ports::AttemptRunning;
using testing::Gate;
using testing::kPatience;
using testing::readText;
using testing::writeText;

constexpr Duration kGrace = seconds(5);
constexpr int kKilled = SIGKILL;  // as a raw wait status
constexpr int kExit3 = 3 << 8;

class LocalEngineTest : public testing::EngineWorld {
 protected:
  LocalEngineTest() { options.programs = STUB_PROGRAMS; }

  [[nodiscard]] ports::AttemptOrder order(AttemptId id, std::vector<std::string> words,
                                          std::uint32_t ranks = 1) const {
    words.insert(words.begin(), "stub");
    auto made = testing::gangOrder(id.value, ranks, std::move(words));
    made.job = JobId(100 + id.value);
    testing::textOf(made).workingDir = options.home;
    return made;
  }

  // How many supervisors took the attempt up.
  [[nodiscard]] std::size_t runs(AttemptId id) const {
    std::istringstream lines(readText(options.home + "/runs"));
    std::size_t count = 0;
    for (std::string line; std::getline(lines, line);) count += line == std::to_string(id.value);
    return count;
  }

  void expectOnlyLogsLeft(AttemptId id) {
    engineDown();  // which waits for the worker
    for (const auto& entry : fs::directory_iterator(directory(id))) {
      const auto name = entry.path().filename();
      EXPECT_TRUE(name == "claim" || name == "log") << name;
    }
  }
};

constexpr AttemptId kFirst{7};

// ---- whole lives
// ------------------------------------------------------------------------------------------------

TEST_F(LocalEngineTest, AWholeLife) {
  engineUp();
  engine->start(order(kFirst, {"exit"}, 3));
  EXPECT_TRUE(running(kFirst));
  const auto end = finished(kFirst);
  EXPECT_EQ(end.outcome, AttemptOutcome::kCompleted);
  EXPECT_EQ(end.stop, StopReason::kNone);
  EXPECT_EQ(end.firstFailed, -1);
  const std::vector<model::RankExit> exits = {{0, true, 0}, {1, true, 0}, {2, true, 0}};
  EXPECT_EQ(end.ranks, exits);
  EXPECT_EQ(end.note, "");
  EXPECT_EQ(runs(kFirst), 1U);
  engine->forget(kFirst);
  expectOnlyLogsLeft(kFirst);
  EXPECT_EQ(reports.count<AttemptRunning>(kFirst), 1U);
  EXPECT_EQ(reports.count<AttemptFinished>(kFirst), 1U);
  expectNoProcess();
}

TEST_F(LocalEngineTest, StatusesAreToldAsTheyAre) {
  engineUp();
  const auto raw = std::vector<std::string>{"exit", "0", std::to_string(kExit3),
                                            std::to_string(kKilled), std::to_string(137 << 8)};
  engine->start(order(kFirst, raw, 4));
  const auto end = finished(kFirst);
  EXPECT_EQ(end.outcome, AttemptOutcome::kFailed);
  EXPECT_EQ(end.firstFailed, 1);
  const std::vector<model::RankExit> exits = {
      {0, true, 0}, {1, true, kExit3}, {2, true, kKilled}, {3, true, 137 << 8}};
  EXPECT_EQ(end.ranks, exits);
  expectNoProcess();
}

TEST_F(LocalEngineTest, StartedTwiceItRunsOnce) {
  engineUp();
  Gate gate(options.home, kFirst, "claim");
  for (int i = 0; i < 3; ++i) engine->start(order(kFirst, {"wait"}));
  gate.wait();
  engine->start(order(kFirst, {"wait"}));
  gate.open();
  ASSERT_TRUE(running(kFirst));
  engine->start(order(kFirst, {"wait"}));
  engine->stop(kFirst, StopReason::kCancelled, kGrace);
  EXPECT_EQ(finished(kFirst).outcome, AttemptOutcome::kStopped);
  engine->start(order(kFirst, {"wait"}));  // told again, and not run again
  EXPECT_EQ(finished(kFirst, 1).outcome, AttemptOutcome::kStopped);
  EXPECT_EQ(runs(kFirst), 1U);
  EXPECT_EQ(reports.count<AttemptRunning>(kFirst), 1U);
  expectNoProcess();
}

TEST_F(LocalEngineTest, TheSupervisorOutlivesTheEngineAndHasNothingOfIt) {
  engineUp();
  engine->start(order(kFirst, {"wait"}));
  ASSERT_TRUE(running(kFirst));
  engineDown();
  const auto found = findClaim(directory(kFirst));
  ASSERT_EQ(found.state, ClaimState::kAlive);
  const auto proc = "/proc/" + std::to_string(found.claim.process.pid);
  std::set<std::string> open;
  for (const auto& entry : fs::directory_iterator(proc + "/fd")) {
    const auto target = fs::read_symlink(entry.path()).string();
    if (target.rfind("anon_inode:", 0) != 0) open.insert(target);  // its own inotify
  }
  const std::set<std::string> expected = {"/dev/null", directory(kFirst) + "/supervise.log"};
  EXPECT_EQ(open, expected);
  EXPECT_EQ(fs::read_symlink(proc + "/cwd"), "/");
  EXPECT_EQ(::getsid(found.claim.process.pid), found.claim.process.pid);
  const auto environment = readText(proc + "/environ");
  EXPECT_EQ(environment.find("HOME="), std::string::npos);
  engineUp();
  engine->adopt(order(kFirst, {"wait"}));
  engine->stop(kFirst, StopReason::kPreempted, kGrace);
  EXPECT_EQ(finished(kFirst).stop, StopReason::kPreempted);
  expectNoProcess();
}

TEST_F(LocalEngineTest, ManyAtOnce) {
  engineUp();
  constexpr std::uint64_t kMany = 60;
  for (std::uint64_t i = 1; i <= kMany; ++i) engine->start(order(AttemptId(i), {"exit"}));
  for (std::uint64_t i = 1; i <= kMany; ++i) {
    EXPECT_EQ(finished(AttemptId(i)).outcome, AttemptOutcome::kCompleted);
    engine->forget(AttemptId(i));
  }
  for (std::uint64_t i = 1; i <= kMany; ++i) EXPECT_EQ(runs(AttemptId(i)), 1U);
  expectNoProcess();
}

// ---- the engine goes and comes, at every stage
// -----------------------------------------------------------------

TEST_F(LocalEngineTest, AdoptedBeforeItWasStartedItIsStarted) {
  engineUp();
  engine->adopt(order(kFirst, {"exit"}));
  EXPECT_EQ(finished(kFirst).outcome, AttemptOutcome::kCompleted);
  EXPECT_EQ(runs(kFirst), 1U);
  expectNoProcess();
}

TEST_F(LocalEngineTest, AdoptedAfterItsFilesWereWrittenItIsStarted) {
  supervise::Launch stale;  // by an order that looked otherwise
  fs::create_directories(directory(kFirst));
  ASSERT_TRUE(supervise::writeLaunch(directory(kFirst), stale));
  engineUp();
  engine->adopt(order(kFirst, {"exit"}));
  EXPECT_EQ(finished(kFirst).outcome, AttemptOutcome::kCompleted);
  expectNoProcess();
}

TEST_F(LocalEngineTest, WhatRanIsNotStartedAgainThoughItsFilesAreGone) {
  for (const bool directoryThere : {false, true}) {
    const AttemptId id(directoryThere ? 2 : 1);
    engineUp();
    if (directoryThere) fs::create_directories(directory(id));
    auto mine = order(id, {"exit"});
    mine.began = true;
    engine->adopt(mine);
    const auto end = finished(id);
    EXPECT_EQ(end.outcome, AttemptOutcome::kSupervisorLost);
    EXPECT_FALSE(end.ranks.at(0).known);
    engineAnew();
    engine->adopt(mine);
    EXPECT_EQ(finished(id, 1).outcome, AttemptOutcome::kSupervisorLost) << "also when asked again";
    EXPECT_EQ(runs(id), 0U);
    engineDown();
  }
  expectNoProcess();
}

TEST_F(LocalEngineTest, TheNumbersInUseAreThoseOfTheDirectories) {
  engineUp();
  EXPECT_EQ(engine->numbersInUse().attempt, AttemptId());
  fs::create_directories(directory(AttemptId(7)));
  fs::create_directories(options.home + "/work/12");
  fs::create_directories(options.home + "/work/notanumber");
  EXPECT_EQ(engine->numbersInUse().attempt, AttemptId(7));
  EXPECT_EQ(engine->numbersInUse().job, JobId(12));
}

TEST_F(LocalEngineTest, AdoptedBeforeTheClaimOneOfTwoSupervisorsRunsIt) {
  engineUp();
  Gate gate(options.home, kFirst, "claim");
  engine->start(order(kFirst, {"wait"}));
  gate.wait();
  engineAnew();
  engine->adopt(order(kFirst, {"wait"}));
  EXPECT_TRUE(testing::eventually([] { return supervise::descendantsOf(::getpid()).size() >= 2; }));
  gate.open();
  ASSERT_TRUE(running(kFirst));
  EXPECT_EQ(runs(kFirst), 1U);
  engine->stop(kFirst, StopReason::kCancelled, kGrace);
  EXPECT_EQ(finished(kFirst).outcome, AttemptOutcome::kStopped);
  EXPECT_EQ(runs(kFirst), 1U);
  expectNoProcess();
}

TEST_F(LocalEngineTest, AdoptedBetweenClaimAndStart) {
  engineUp();
  Gate gate(options.home, kFirst, "start");
  engine->start(order(kFirst, {"exit"}));
  gate.wait();
  engineAnew();
  engine->adopt(order(kFirst, {"exit"}));
  gate.open();
  EXPECT_TRUE(running(kFirst));
  EXPECT_EQ(finished(kFirst).outcome, AttemptOutcome::kCompleted);
  EXPECT_EQ(runs(kFirst), 1U);
  expectNoProcess();
}

TEST_F(LocalEngineTest, AdoptedWhileItRunsAndWhileItStops) {
  engineUp();
  Gate gate(options.home, kFirst, "end");
  engine->start(order(kFirst, {"wait"}));
  ASSERT_TRUE(running(kFirst));
  engineAnew();
  engine->adopt(order(kFirst, {"wait"}));
  ASSERT_TRUE(running(kFirst, 1));
  engine->stop(kFirst, StopReason::kCancelled, kGrace);
  gate.wait();
  engineAnew();
  engine->adopt(order(kFirst, {"wait"}));
  ASSERT_TRUE(running(kFirst, 2));
  EXPECT_EQ(reports.count<AttemptFinished>(kFirst), 0U);
  gate.open();
  const auto end = finished(kFirst);
  EXPECT_EQ(end.outcome, AttemptOutcome::kStopped);
  EXPECT_EQ(end.stop, StopReason::kCancelled);
  EXPECT_EQ(runs(kFirst), 1U);
  expectNoProcess();
}

TEST_F(LocalEngineTest, AdoptedAfterItEndedWhileNoOneLooked) {
  engineUp();
  Gate gate(options.home, kFirst, "start");
  engine->start(order(kFirst, {"exit", std::to_string(kExit3)}));
  gate.wait();
  engineDown();
  gate.open();
  expectNoProcess();
  engineUp();
  engine->adopt(order(kFirst, {"exit", std::to_string(kExit3)}));
  EXPECT_TRUE(running(kFirst));  // it did run
  const auto end = finished(kFirst);
  EXPECT_EQ(end.outcome, AttemptOutcome::kFailed);
  EXPECT_EQ(end.ranks.at(0).status, kExit3);
  EXPECT_EQ(runs(kFirst), 1U);
  expectNoProcess();
}

TEST_F(LocalEngineTest, AnEndThatWasToldButNotForgottenIsToldAgain) {
  engineUp();
  engine->start(order(kFirst, {"exit"}));
  EXPECT_EQ(finished(kFirst).outcome, AttemptOutcome::kCompleted);
  engineAnew();
  engine->adopt(order(kFirst, {"exit"}));
  EXPECT_EQ(finished(kFirst, 1).outcome, AttemptOutcome::kCompleted);
  EXPECT_EQ(runs(kFirst), 1U);
  expectNoProcess();
}

// ---- stop, at every stage
// --------------------------------------------------------------------------------------

TEST_F(LocalEngineTest, StoppedBeforeItsSupervisorClaimedItNothingEverRuns) {
  engineUp();
  Gate gate(options.home, kFirst, "claim");
  engine->start(order(kFirst, {"exit"}, 2));
  gate.wait();
  engine->stop(kFirst, StopReason::kCancelled, kGrace);
  const auto end = finished(kFirst);
  EXPECT_EQ(end.outcome, AttemptOutcome::kStopped);
  EXPECT_EQ(end.stop, StopReason::kCancelled);
  const std::vector<model::RankExit> unknown = {{0, false, 0}, {1, false, 0}};
  EXPECT_EQ(end.ranks, unknown);
  engine->forget(kFirst);
  engineDown();
  gate.open();  // the supervisor wakes at last, and may not start what was given up
  expectNoProcess();
  EXPECT_EQ(runs(kFirst), 0U);
  engineUp();
  engine->adopt(order(kFirst, {"exit"}, 2));
  EXPECT_NE(finished(kFirst, 1).outcome, AttemptOutcome::kCompleted);
  EXPECT_EQ(runs(kFirst), 0U);
  expectNoProcess();
}

TEST_F(LocalEngineTest, StoppedBetweenClaimAndStartAndTwiceInAHurry) {
  engineUp();
  Gate gate(options.home, kFirst, "start");
  engine->start(order(kFirst, {"exit"}));
  gate.wait();
  engine->stop(kFirst, StopReason::kPreempted, seconds(60));
  engine->stop(kFirst, StopReason::kCancelled, seconds(1));
  engineAnew();  // both were written down
  const auto stop = supervise::readStop(directory(kFirst));
  ASSERT_TRUE(stop && *stop);
  EXPECT_EQ((*stop)->grace, seconds(1));
  EXPECT_EQ((*stop)->reason, "preempted");  // the first reason stays
  engine->adopt(order(kFirst, {"exit"}));
  gate.open();
  const auto end = finished(kFirst);
  EXPECT_EQ(end.outcome, AttemptOutcome::kStopped);
  EXPECT_EQ(end.stop, StopReason::kPreempted);
  expectNoProcess();
}

TEST_F(LocalEngineTest, StoppedWhenItEndsByItselfItsEndStands) {
  engineUp();
  Gate gate(options.home, kFirst, "end");
  engine->start(order(kFirst, {"exit"}));
  gate.wait();
  engine->stop(kFirst, StopReason::kCancelled, kGrace);
  gate.open();
  const auto end = finished(kFirst);
  EXPECT_EQ(end.outcome, AttemptOutcome::kCompleted);
  EXPECT_EQ(end.stop, StopReason::kNone);
  expectNoProcess();
}

TEST_F(LocalEngineTest, AStopOfWhatIsGoneIsAnsweredAgain) {
  engineUp();
  engine->start(order(kFirst, {"exit"}));
  finished(kFirst);
  engine->stop(kFirst, StopReason::kCancelled, kGrace);
  EXPECT_EQ(finished(kFirst, 1).outcome, AttemptOutcome::kCompleted);
  engine->forget(kFirst);
  engine->stop(kFirst, StopReason::kCancelled, kGrace);
  finished(kFirst, 2);
  engine->forget(kFirst);
  engine->stop(AttemptId(99), StopReason::kCancelled, kGrace);  // never heard of
  EXPECT_EQ(finished(AttemptId(99)).outcome, AttemptOutcome::kStopped);
  engine->forget(AttemptId(99));
  expectOnlyLogsLeft(kFirst);
  expectNoProcess();
}

TEST_F(LocalEngineTest, AStopThatWasWrittenByTheLastLifeHolds) {
  fs::create_directories(directory(kFirst));
  ASSERT_TRUE(supervise::writeStop(directory(kFirst), {"preempted", kGrace}));
  engineUp();
  engine->adopt(order(kFirst, {"exit"}));
  const auto end = finished(kFirst);
  EXPECT_EQ(end.outcome, AttemptOutcome::kStopped);
  EXPECT_EQ(end.stop, StopReason::kPreempted);
  EXPECT_EQ(runs(kFirst), 0U);
  expectNoProcess();
}

// As on a full disk, where stop.json cannot be written.
TEST_F(LocalEngineTest, AStopThatCannotBeWrittenIsASignal) {
  engineUp();
  engine->start(order(kFirst, {"wait"}));
  ASSERT_TRUE(running(kFirst));
  fs::create_directories(directory(kFirst) + "/stop.json/in-the-way");
  engine->stop(kFirst, StopReason::kCancelled, kGrace);
  const auto end = finished(kFirst);
  EXPECT_EQ(end.outcome, AttemptOutcome::kStopped);
  EXPECT_EQ(end.stop, StopReason::kCancelled);
  expectNoProcess();
}

TEST_F(LocalEngineTest, StoppedWhileItsDirectoryIsBeingMade) {
  options.plain = false;
  auto mine = order(kFirst, {"exit"});
  const std::string sha(64, 'a');
  testing::textOf(mine).upload = sha;
  fs::create_directories(options.home + "/uploads");
  const auto archive = options.home + "/uploads/" + sha + ".tar";
  ASSERT_EQ(::mkfifo(archive.c_str(), 0600), 0);  // so that the worker stands still
  engineUp();
  engine->start(mine);
  auto held = testing::openToReader(archive);
  ASSERT_TRUE(held.isOpen()) << "the worker does not read what the job brought along";
  engine->stop(kFirst, StopReason::kCancelled, kGrace);
  EXPECT_EQ(finished(kFirst).outcome, AttemptOutcome::kStopped);
  held.close();
  engineDown();
  EXPECT_EQ(runs(kFirst), 0U);
  EXPECT_EQ(reports.count<AttemptFinished>(kFirst), 1U);
  expectNoProcess();
}

// ---- the supervisor dies
// --------------------------------------------------------------------------------------

TEST_F(LocalEngineTest, ASupervisorThatDiesBeforeItsClaimIsAFailedLaunch) {
  engineUp();
  engine->start(order(kFirst, {"die"}));
  const auto end = finished(kFirst);
  EXPECT_EQ(end.outcome, AttemptOutcome::kLaunchFailed);
  EXPECT_NE(end.note.find("the stub was told to die"), std::string::npos) << end.note;
  engineAnew();
  engine->adopt(order(kFirst, {"exit"}));  // what was given up stays given up
  EXPECT_EQ(finished(kFirst, 1).outcome, AttemptOutcome::kLaunchFailed);
  EXPECT_EQ(runs(kFirst), 0U);
  expectNoProcess();
}

TEST_F(LocalEngineTest, KilledBetweenClaimAndStart) {
  engineUp();
  Gate gate(options.home, kFirst, "start");
  engine->start(order(kFirst, {"exit"}, 2));
  gate.wait();
  killSupervisor(kFirst);
  const auto end = finished(kFirst);
  EXPECT_EQ(end.outcome, AttemptOutcome::kSupervisorLost);
  const std::vector<model::RankExit> unknown = {{0, false, 0}, {1, false, 0}};
  EXPECT_EQ(end.ranks, unknown);
  EXPECT_NE(end.note.find("died"), std::string::npos) << end.note;
  expectNoProcess();
}

TEST_F(LocalEngineTest, KilledWhileItRunsWhatItLeftIsKilledAndWhatIsKnownStands) {
  engineUp();
  engine->start(order(kFirst, {"leave", std::to_string(kExit3)}, 3));
  ASSERT_TRUE(running(kFirst));
  ASSERT_EQ(supervise::descendantsOf(::getpid()).size(), 3U);
  killSupervisor(kFirst);
  const auto end = finished(kFirst);
  EXPECT_EQ(supervise::descendantsOf(::getpid()).size(), 0U);
  EXPECT_EQ(end.outcome, AttemptOutcome::kSupervisorLost);
  const std::vector<model::RankExit> exits = {{0, false, 0}, {1, false, 0}, {2, true, kExit3}};
  EXPECT_EQ(end.ranks, exits);
  EXPECT_EQ(runs(kFirst), 1U);
  expectNoProcess();
}

TEST_F(LocalEngineTest, KilledWhileNoOneLooked) {
  engineUp();
  engine->start(order(kFirst, {"leave", std::to_string(kExit3)}, 2));
  ASSERT_TRUE(running(kFirst));
  engineDown();
  killSupervisor(kFirst);
  engineUp();
  engine->adopt(order(kFirst, {"leave", std::to_string(kExit3)}, 2));
  const auto end = finished(kFirst);
  EXPECT_EQ(supervise::descendantsOf(::getpid()).size(), 0U);
  EXPECT_EQ(end.outcome, AttemptOutcome::kSupervisorLost);
  EXPECT_TRUE(end.ranks.at(1).known);
  EXPECT_EQ(runs(kFirst), 1U);
  expectNoProcess();
}

TEST_F(LocalEngineTest, KilledWhileItWasBeingStopped) {
  engineUp();
  Gate gate(options.home, kFirst, "end");
  engine->start(order(kFirst, {"wait"}));
  ASSERT_TRUE(running(kFirst));  // or the stop may come before the claim, and nothing ever runs
  engine->stop(kFirst, StopReason::kCancelled, kGrace);
  gate.wait();
  killSupervisor(kFirst);
  const auto end = finished(kFirst);
  EXPECT_EQ(end.outcome, AttemptOutcome::kSupervisorLost);
  EXPECT_EQ(end.stop, StopReason::kCancelled);
  expectNoProcess();
}

// ---- files that are not as they should be
// ----------------------------------------------------------------------

TEST_F(LocalEngineTest, AClaimThatStaysTornIsADeadSupervisor) {
  fs::create_directories(directory(kFirst));
  writeText(directory(kFirst) + "/claim", R"({"pid":12)");
  engineUp();
  engine->adopt(order(kFirst, {"exit"}, 2));
  EXPECT_FALSE(reports.wait<AttemptFinished>(kFirst, 0, std::chrono::milliseconds(300)));
  clock.leap(seconds(10));
  const auto end = finished(kFirst);
  EXPECT_EQ(end.outcome, AttemptOutcome::kSupervisorLost);
  EXPECT_EQ(end.ranks.size(), 2U);
  EXPECT_EQ(runs(kFirst), 0U);
  expectNoProcess();
}

TEST_F(LocalEngineTest, AClaimOfAnotherBootIsADeadSupervisor) {
  fs::create_directories(directory(kFirst));
  // This very process, but for the boot.
  auto self = supervise::claimOfSelf();
  ASSERT_TRUE(self);
  writeText(directory(kFirst) + "/claim",
            "{\"pid\":" + std::to_string(self->process.pid) + ",\"startTicks\":" +
                std::to_string(self->process.startTicks) + ",\"bootId\":\"another\"}");
  options.bootId = self->bootId;
  engineUp();
  engine->adopt(order(kFirst, {"exit"}));
  const auto end = finished(kFirst);
  EXPECT_EQ(end.outcome, AttemptOutcome::kSupervisorLost);
  EXPECT_NE(end.note.find("the machine went down"), std::string::npos) << end.note;
  expectNoProcess();
}

TEST_F(LocalEngineTest, AnEndThatCannotBeReadIsNone) {
  engineUp();
  engine->start(order(kFirst, {"leave", std::to_string(kExit3)}));
  ASSERT_TRUE(running(kFirst));
  writeText(directory(kFirst) + "/end.json", "{\"version\":1,");
  engineAnew();
  engine->adopt(order(kFirst, {"leave", std::to_string(kExit3)}));
  ASSERT_TRUE(running(kFirst, 1));
  EXPECT_EQ(reports.count<AttemptFinished>(kFirst), 0U);
  killSupervisor(kFirst);
  const auto end = finished(kFirst);
  EXPECT_EQ(end.outcome, AttemptOutcome::kSupervisorLost);
  const std::vector<model::RankExit> exits = {{0, true, kExit3}};
  EXPECT_EQ(end.ranks, exits);
  expectNoProcess();
}

TEST_F(LocalEngineTest, WhatCannotBeWrittenIsAFailedLaunch) {
  writeText(options.home + "/attempts", "no directory");
  engineUp();
  engine->start(order(kFirst, {"exit"}));
  const auto end = finished(kFirst);
  EXPECT_EQ(end.outcome, AttemptOutcome::kLaunchFailed);
  EXPECT_NE(end.note.find("attempts"), std::string::npos) << end.note;
  expectNoProcess();
}

// ---- what cannot be run here
// -----------------------------------------------------------------------------------

TEST_F(LocalEngineTest, WithoutTheSupervisorsProgramItSaysSo) {
  options.programs = options.home;
  engine = std::make_unique<LocalEngine>(options, clock, rng_);
  const auto fine = engine->check();
  ASSERT_FALSE(fine);
  EXPECT_EQ(fine.error().where, options.home + "/bole-supervise");
  engine->open([this](ports::EngineReport report) { reports.add(std::move(report)); });
  engine->start(order(kFirst, {"exit"}));
  const auto end = finished(kFirst);
  EXPECT_EQ(end.outcome, AttemptOutcome::kLaunchFailed);
  EXPECT_NE(end.note.find("bole-supervise"), std::string::npos) << end.note;
}

TEST_F(LocalEngineTest, PlainJobsAreRefusedWhereTheServerIsNot) {
  options.plain = false;
  auto mine = order(kFirst, {"exit"});
  testing::shapeOf(mine).runtime = model::Runtime::kPlain;
  engineUp();
  engine->start(mine);
  const auto end = finished(kFirst);
  EXPECT_EQ(end.outcome, AttemptOutcome::kLaunchFailed);
  EXPECT_NE(end.note.find("sandbox"), std::string::npos) << end.note;
  EXPECT_EQ(runs(kFirst), 0U);
}

TEST_F(LocalEngineTest, AnOrderThatContradictsItselfIsRefused) {
  auto mine = order(kFirst, {"exit"}, 2);
  mine.nodes.pop_back();
  engineUp();
  engine->start(mine);
  const auto end = finished(kFirst);
  EXPECT_EQ(end.outcome, AttemptOutcome::kLaunchFailed);
  EXPECT_NE(end.note.find("not complete"), std::string::npos) << end.note;
}

// ---- where it runs
// ---------------------------------------------------------------------------------------------

TEST_F(LocalEngineTest, SandboxedJobsHaveADirectoryOfTheirOwn) {
  options.plain = false;
  auto mine = order(kFirst, {"exit"});
  testing::textOf(mine).checkpointPath = "ckpt";
  engineUp();
  engine->start(mine);
  EXPECT_EQ(finished(kFirst).outcome, AttemptOutcome::kCompleted);
  const model::JobSpec spec{*mine.shape, *mine.text};
  const auto work = engine->workDirectory(mine.job, spec);
  EXPECT_EQ(work, options.home + "/work/" + std::to_string(mine.job.value));
  EXPECT_EQ(engine->checkpointDirectory(mine.job, spec), work + "/ckpt");
  struct stat info {};
  ASSERT_EQ(::stat((work + "/ckpt").c_str(), &info), 0);
  const bool root = ::geteuid() == 0;
  EXPECT_EQ(info.st_uid, root ? options.baseUid + mine.project.value : ::geteuid());
  const auto launch = supervise::readLaunch(directory(kFirst));
  ASSERT_TRUE(launch && *launch);
  EXPECT_EQ((*launch)->ranks.at(0).cwd, work);
  EXPECT_EQ((*launch)->ranks.at(0).uid, info.st_uid);
  EXPECT_EQ((*launch)->maskPaths.at(0), options.home);
  expectNoProcess();
}

TEST_F(LocalEngineTest, PlainJobsStartWhereTheyWereSubmitted) {
  auto mine = order(kFirst, {"exit"});
  testing::textOf(mine).checkpointPath = "ckpt";
  engineUp();
  engine->start(mine);
  finished(kFirst);
  const model::JobSpec spec{*mine.shape, *mine.text};
  EXPECT_EQ(engine->workDirectory(mine.job, spec), options.home);
  EXPECT_EQ(engine->checkpointDirectory(mine.job, spec), options.home + "/ckpt");
  EXPECT_FALSE(fs::exists(options.home + "/work"));
  expectNoProcess();
}

TEST_F(LocalEngineTest, AJobMayNotStartThroughALinkThatItMade) {
  options.plain = false;
  auto mine = order(kFirst, {"exit"});
  testing::textOf(mine).tasks[0].workingDir = options.home + "/data";
  const auto work = options.home + "/work/" + std::to_string(mine.job.value);
  fs::create_directories(work);
  fs::create_symlink("/etc", work + "/data");
  engineUp();
  engine->start(mine);
  const auto end = finished(kFirst);
  EXPECT_EQ(end.outcome, AttemptOutcome::kLaunchFailed);
  EXPECT_NE(end.note.find("link"), std::string::npos) << end.note;
  EXPECT_EQ(runs(kFirst), 0U);
}

TEST_F(LocalEngineTest, GangsThatShareTheMachinesLoopbackMeetAtPortsOfTheirOwn) {
  engineUp();
  std::set<std::string> ports;
  for (std::uint64_t i = 1; i <= 5; ++i) {
    engine->start(order(AttemptId(i), {"wait"}));
    ASSERT_TRUE(running(AttemptId(i)));
    const auto launch = supervise::readLaunch(directory(AttemptId(i)));
    ASSERT_TRUE(launch && *launch);
    for (const auto& variable : (*launch)->ranks.at(0).env) {
      if (variable.rfind("MASTER_PORT=", 0) == 0) ports.insert(variable);
    }
  }
  EXPECT_EQ(ports.size(), 5U);
  for (std::uint64_t i = 1; i <= 5; ++i) {
    engine->stop(AttemptId(i), StopReason::kCancelled, kGrace);
    finished(AttemptId(i));
  }
  expectNoProcess();
}

// ---- progress
// --------------------------------------------------------------------------------------------------

TEST_F(LocalEngineTest, ProgressAndCheckpoints) {
  writeText(options.home + "/ckpt/epoch-1", std::string(1000, 'x'));
  writeText(options.home + "/ckpt/epoch-2/a", std::string(20, 'x'));
  engineUp();
  EXPECT_FALSE(engine->progress(kFirst));
  engine->start(order(kFirst, {"progress", "1", "2"}));
  const auto second = reports.wait<ports::CheckpointSeen>(kFirst, 1);
  ASSERT_TRUE(second);
  const auto first = reports.wait<ports::CheckpointSeen>(kFirst, 0);
  EXPECT_EQ(first->epoch, 1U);
  EXPECT_EQ(first->size, Bytes(1000));
  EXPECT_EQ(first->path, options.home + "/ckpt/epoch-1");
  EXPECT_EQ(second->epoch, 2U);
  EXPECT_EQ(second->size, Bytes(20));
  engine->stop(kFirst, StopReason::kCancelled, kGrace);
  finished(kFirst);
  const auto view = engine->progress(kFirst);
  ASSERT_TRUE(view);
  EXPECT_EQ(view->done, 2U);
  EXPECT_EQ(view->total, 20U);
  EXPECT_EQ(reports.count<ports::CheckpointSeen>(kFirst), 2U);
  engineAnew();  // knows of it from the disk
  engine->adopt(order(kFirst, {"progress", "1", "2"}));
  finished(kFirst, 1);
  ASSERT_TRUE(engine->progress(kFirst));
  EXPECT_EQ(engine->progress(kFirst)->done, 2U);
  expectNoProcess();
}

// ---- forget and sweep
// ------------------------------------------------------------------------------------------

TEST_F(LocalEngineTest, WhatLivesIsNotForgotten) {
  engineUp();
  engine->start(order(kFirst, {"wait"}));
  ASSERT_TRUE(running(kFirst));
  engine->forget(kFirst);
  engineAnew();
  engine->forget(kFirst);  // not even by an engine that was not told of it
  engine->adopt(order(kFirst, {"wait"}));
  ASSERT_TRUE(running(kFirst, 1));
  engine->stop(kFirst, StopReason::kCancelled, kGrace);
  EXPECT_EQ(finished(kFirst).outcome, AttemptOutcome::kStopped);
  expectNoProcess();
}

TEST_F(LocalEngineTest, OldLogsGoWhenThereAreTooMany) {
  options.keepLogs.attempts = 2;
  engineUp();
  for (std::uint64_t i = 1; i <= 4; ++i) {
    engine->start(order(AttemptId(i), {"exit"}));
    finished(AttemptId(i));
    engine->forget(AttemptId(i));
  }
  engineDown();
  EXPECT_FALSE(fs::exists(directory(AttemptId(1))));
  EXPECT_FALSE(fs::exists(directory(AttemptId(2))));
  EXPECT_TRUE(fs::exists(directory(AttemptId(3))));
  EXPECT_TRUE(fs::exists(directory(AttemptId(4))));
  expectNoProcess();
}

TEST_F(LocalEngineTest, SweepStopsWhatNobodyAskedForAndLeavesTheRest) {
  const AttemptId known{1};
  const AttemptId stray{2};
  const AttemptId ended{3};
  const AttemptId forgotten{4};
  engineUp();
  for (const auto id : {known, stray}) engine->start(order(id, {"wait"}));
  for (const auto id : {ended, forgotten}) engine->start(order(id, {"exit"}));
  for (const auto id : {known, stray}) ASSERT_TRUE(running(id));
  for (const auto id : {ended, forgotten}) finished(id);
  engine->forget(forgotten);
  engineAnew();
  fs::create_directories(options.home + "/attempts/none-of-ours");
  engine->adopt(order(known, {"wait"}));
  engine->sweep();
  EXPECT_EQ(finished(stray).outcome, AttemptOutcome::kStopped);
  EXPECT_EQ(finished(ended, 1).outcome, AttemptOutcome::kCompleted);
  for (const auto id : {stray, ended}) engine->forget(id);
  engine->stop(known, StopReason::kCancelled, kGrace);
  finished(known);
  EXPECT_EQ(reports.count<AttemptFinished>(known), 1U);
  EXPECT_EQ(reports.count<AttemptFinished>(forgotten), 1U);  // by the first engine
  for (const auto id : {stray, ended, forgotten}) expectOnlyLogsLeft(id);
  expectNoProcess();
}

// ---- at rest
// ---------------------------------------------------------------------------------------------------

// How often the threads of this process but the calling one were given a CPU.
std::uint64_t turnsOfOtherThreads() {
  std::uint64_t sum = 0;
  for (const auto& task : fs::directory_iterator("/proc/self/task")) {
    if (task.path().filename() == std::to_string(::gettid())) continue;
    std::istringstream lines(readText(task.path().string() + "/status"));
    for (std::string line; std::getline(lines, line);) {
      const auto at = line.find("voluntary_ctxt_switches:");
      if (at != std::string::npos) sum += std::stoull(line.substr(line.find(':') + 1));
    }
  }
  return sum;
}

TEST_F(LocalEngineTest, WithNothingToDoItDoesNotWake) {
#ifdef BOLE_SANITIZED
  GTEST_SKIP() << "a sanitizer's own thread wakes";
#endif
  engineUp();
  for (std::uint64_t i = 1; i <= 3; ++i) {
    engine->start(order(AttemptId(i), {"wait"}));
    ASSERT_TRUE(running(AttemptId(i)));
  }
  // What led here may still be on its way: the last of it must come to an end, though.
  std::uint64_t before = 0;
  const auto until = std::chrono::steady_clock::now() + kPatience;
  bool atRest = false;
  while (!atRest && std::chrono::steady_clock::now() < until) {
    before = turnsOfOtherThreads();
    reports.wait<AttemptFinished>(kFirst, 0, std::chrono::milliseconds(1000));
    atRest = turnsOfOtherThreads() == before;
  }
  EXPECT_TRUE(atRest);
  for (std::uint64_t i = 1; i <= 3; ++i) {
    engine->stop(AttemptId(i), StopReason::kCancelled, kGrace);
    finished(AttemptId(i));
  }
  expectNoProcess();
}

// ---- anything in any order
// -------------------------------------------------------------------------------------

// Random starts, stops, deaths of supervisors and of engines. Whatever happens: nothing runs twice,
// every attempt's end is told, one that was killed has not completed, and nothing is left.
class RandomLives : public LocalEngineTest, public ::testing::WithParamInterface<unsigned> {
 protected:
  struct Life {
    ports::AttemptOrder order;
    bool mayComplete = false;
  };

  void step(std::mt19937& random) {
    const auto pick = [&](unsigned most) { return random() % most; };
    switch (pick(6)) {
      case 0:
      case 1: {
        const AttemptId id(lives_.size() + 1);
        const bool ends = pick(2) == 0;
        auto words = ends ? std::vector<std::string>{"exit"}
                          : std::vector<std::string>{"leave", std::to_string(kExit3)};
        lives_[id] = {order(id, words, 2), ends};
        engine->start(lives_[id].order);
        break;
      }
      case 2:
        if (auto* life = any(random))
          engine->stop(life->order.attempt, StopReason::kCancelled, kGrace);
        break;
      case 3:
        if (auto* life = any(random)) {
          const auto found = findClaim(directory(life->order.attempt));
          if (found.state == ClaimState::kAlive) ::kill(found.claim.process.pid, SIGKILL);
        }
        break;
      case 4:
        if (pick(2) == 0) engineDownAtOnce();
        engineAnew();
        for (const auto& [id, life] : lives_) engine->adopt(life.order);
        if (pick(2) == 0) engine->sweep();
        break;
      default:
        if (auto* life = any(random))
          running(life->order.attempt, 0, std::chrono::milliseconds(pick(20)));
        break;
    }
  }

  void running(AttemptId id, std::size_t which, std::chrono::milliseconds patience) {
    static_cast<void>(reports.wait<AttemptRunning>(id, which, patience));
  }

  Life* any(std::mt19937& random) {
    if (lives_.empty()) return nullptr;
    return &lives_[AttemptId(random() % lives_.size() + 1)];
  }

  std::map<AttemptId, Life> lives_;
};

TEST_P(RandomLives, EndWell) {
  std::mt19937 random(GetParam());
  engineUp();
  for (int i = 0; i < 40; ++i) step(random);
  for (const auto& [id, life] : lives_) engine->stop(id, StopReason::kCancelled, kGrace);
  for (const auto& [id, life] : lives_) {
    const auto end = finished(id);
    EXPECT_LE(runs(id), 1U) << "attempt " << id.value;
    const bool completed = end.outcome == AttemptOutcome::kCompleted;
    EXPECT_TRUE(life.mayComplete || !completed);
    EXPECT_TRUE(runs(id) == 1 || !completed);
    engine->forget(id);
  }
  expectNoProcess();
  for (const auto& [id, life] : lives_) expectOnlyLogsLeft(id);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomLives, ::testing::Range(1U, 13U));

}  // namespace
}  // namespace bole::engine
