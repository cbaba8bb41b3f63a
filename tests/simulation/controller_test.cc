// The controller's behaviour, one promise a test.
#include "controller/controller.h"

#include <gtest/gtest.h>

#include "codec/codec.h"
#include "support/memory_ledger.h"
#include "support/scripted_engine.h"
#include "support/virtual_clock.h"
#include "support/worlds.h"

namespace bole::test {
namespace {

using controller::Controller;
using model::AttemptOutcome;
using model::JobState;

class ControllerTest : public ::testing::Test {
 protected:
  void SetUp() override { boot({node("a", 4)}); }

  void boot(std::vector<model::Node> nodes) {
    auto opened = Controller::open(options_, ledger_, engine_, clock_);
    ASSERT_TRUE(opened) << opened.error().message();
    controller_ = std::move(*opened);
    engine_.open([this](ports::EngineReport report) { reports_.push_back(std::move(report)); });
    ASSERT_TRUE(controller_->start(std::move(nodes)));
    deliver();
  }

  void deliver() {
    std::vector<controller::Message> batch{controller::Tick{}};
    for (auto& report : reports_) batch.push_back(std::move(report));
    reports_.clear();
    controller_->process(std::move(batch));
  }

  Result<model::SubmitAnswer> submit(model::JobSpec spec, const std::string& requestId = "") {
    Result<model::SubmitAnswer> out = fail(ErrorCode::kInternal, "no answer");
    controller::SubmitJobs message;
    message.caller = {"ana", "api", requestId};
    message.jobs = {std::move(spec)};
    message.reply = [&](Result<model::SubmitAnswer> answer) { out = std::move(answer); };
    std::vector<controller::Message> batch;
    batch.push_back(std::move(message));
    controller_->process(std::move(batch));
    return out;
  }

  Result<void> share(model::Policy policy) {
    Result<void> out = fail(ErrorCode::kInternal, "no answer");
    controller::SetPolicy message;
    message.caller.user = "ana";
    message.policy = std::move(policy);
    message.reply = [&](Result<void> answer) { out = std::move(answer); };
    std::vector<controller::Message> batch;
    batch.push_back(std::move(message));
    controller_->process(std::move(batch));
    return out;
  }

  Result<void> stop(JobId id) {
    Result<void> out = fail(ErrorCode::kInternal, "no answer");
    controller::StopJob message;
    message.caller.user = "ana";
    message.job = id;
    message.reply = [&](Result<void> answer) { out = std::move(answer); };
    std::vector<controller::Message> batch;
    batch.push_back(std::move(message));
    controller_->process(std::move(batch));
    return out;
  }

  const model::JobRecord& record(std::uint64_t id) const {
    return *controller_->state().tables().jobs.find(JobId(id));
  }

  void finish(std::uint64_t job, AttemptOutcome outcome, std::int32_t code = 0) {
    ports::AttemptFinished end;
    end.outcome = outcome;
    end.stop = engine_.attempts().at(record(job).attempt).stopReason;
    if (outcome == AttemptOutcome::kFailed) {
      end.firstFailed = 0;
      end.ranks = {{0, true, code << 8}};
    }
    engine_.finish(record(job).attempt, end);
    deliver();
  }

  controller::ControllerOptions options_;
  VirtualClock clock_;
  MemoryLedger ledger_;
  ScriptedEngine engine_;
  std::unique_ptr<Controller> controller_;
  std::vector<ports::EngineReport> reports_;
};

TEST_F(ControllerTest, AJobThatFitsStartsAtOnceAndEndsWithItsAttempt) {
  ASSERT_TRUE(submit(job(4, 1)));
  EXPECT_EQ(record(1).state, JobState::kStarting);
  engine_.run(record(1).attempt);
  deliver();
  EXPECT_EQ(record(1).state, JobState::kRunning);
  clock_.advance(seconds(10));
  finish(1, AttemptOutcome::kCompleted);
  EXPECT_EQ(record(1).state, JobState::kSucceeded);
  EXPECT_EQ(record(1).milliGpuMicros, 4 * 1000 * seconds(10).value);
  EXPECT_TRUE(engine_.attempts().empty()) << "the engine may forget it";
}

TEST_F(ControllerTest, AGangWaitsForAllOfItsGpusAndSaysSo) {
  ASSERT_TRUE(submit(job(3, 1)));
  ASSERT_TRUE(submit(job(2, 1)));
  ASSERT_EQ(record(2).state, JobState::kQueued);
  const auto* reasons = controller_->snapshot()->waiting.find(JobId(2));
  ASSERT_TRUE(reasons);
  EXPECT_EQ(scheduler::explain(*reasons), "waits for 2 GPUs: 1 free now");
  finish(1, AttemptOutcome::kCompleted);
  EXPECT_EQ(record(2).state, JobState::kStarting);
}

TEST_F(ControllerTest, WhatCanNeverRunIsRefusedAndLeavesNoTrace) {
  const auto before = ledger_.events().size();
  const auto answer = submit(job(1, 5));
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ErrorCode::kRefused);
  EXPECT_NE(answer.error().message().find("needs 5"), std::string::npos)
      << answer.error().message();
  EXPECT_EQ(ledger_.events().size(), before);
}

TEST_F(ControllerTest, TheSameRequestTwiceIsOneJobAlsoAfterARestart) {
  const auto first = submit(job(1, 1), "abc");
  const auto second = submit(job(1, 1), "abc");
  ASSERT_TRUE(first && second);
  EXPECT_FALSE(first->jobs[0].existed);
  EXPECT_TRUE(second->jobs[0].existed);
  boot({node("a", 4)});
  const auto third = submit(job(1, 1), "abc");
  ASSERT_TRUE(third);
  EXPECT_TRUE(third->jobs[0].existed);
  EXPECT_EQ(third->jobs[0].id, first->jobs[0].id);
}

TEST_F(ControllerTest, CapacityReturnsOnlyWhenTheEngineConfirmsTheExit) {
  ASSERT_TRUE(submit(job(4, 1)));
  ASSERT_TRUE(submit(job(1, 1)));
  ASSERT_TRUE(stop(JobId(1)));
  EXPECT_EQ(record(1).state, JobState::kStopping);
  EXPECT_EQ(record(2).state, JobState::kQueued);
  EXPECT_TRUE(engine_.attempts().at(record(1).attempt).stopAsked);
  finish(1, AttemptOutcome::kStopped);
  EXPECT_EQ(record(1).state, JobState::kCancelled);
  EXPECT_EQ(record(2).state, JobState::kStarting);
}

TEST_F(ControllerTest, StoppingAnEndedJobSaysHowItEnded) {
  ASSERT_TRUE(submit(job(1, 1)));
  finish(1, AttemptOutcome::kCompleted);
  const auto done = stop(JobId(1));
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::kConflict);
  EXPECT_NE(done.error().message().find("SUCCEEDED"), std::string::npos);
  EXPECT_EQ(stop(JobId(77)).error().code, ErrorCode::kNotFound);
}

TEST_F(ControllerTest, RetriesBackOffDoublingAndThenTheJobFailsWithItsCode) {
  auto spec = job(1, 1);
  spec.shape.restart = {model::RestartKind::kOnFailure, 2, seconds(10), minutes(10)};
  ASSERT_TRUE(submit(spec));
  finish(1, AttemptOutcome::kFailed, 3);
  EXPECT_EQ(record(1).state, JobState::kQueued);
  clock_.advance(seconds(9));
  deliver();
  EXPECT_EQ(record(1).state, JobState::kQueued) << "10 s of back-off";
  EXPECT_EQ(controller_->untilNextTick(), seconds(1));
  clock_.advance(seconds(1));
  deliver();
  EXPECT_EQ(record(1).state, JobState::kStarting);
  finish(1, AttemptOutcome::kFailed, 3);
  clock_.advance(seconds(20));
  deliver();
  finish(1, AttemptOutcome::kFailed, 3);
  EXPECT_EQ(record(1).state, JobState::kFailed);
  EXPECT_EQ(record(1).attempts, 3u);
  EXPECT_EQ(record(1).failure->status, 3 << 8);
}

TEST_F(ControllerTest, VolcanoRulesDecideByExitCode) {
  auto spec = job(1, 1);
  spec.shape.restart.maxRetries = 3;
  spec.shape.restart.backoff = seconds(0);
  spec.shape.rules = {{-1, model::PolicyEvent::kPodFailed, 0, model::PolicyAction::kRestartJob, {}},
                      {-1, model::PolicyEvent::kExitCode, 9, model::PolicyAction::kAbortJob, {}}};
  ASSERT_TRUE(submit(spec));
  finish(1, AttemptOutcome::kFailed, 1);
  EXPECT_EQ(record(1).state, JobState::kStarting) << "restarted";
  finish(1, AttemptOutcome::kFailed, 9);
  EXPECT_EQ(record(1).state, JobState::kFailed) << "the rule for code 9 says abort";
}

TEST_F(ControllerTest, AFullDiskRefusesNewJobsAndStopsOldOnes) {
  ASSERT_TRUE(submit(job(1, 1)));
  ledger_.setDisk(MemoryLedger::Disk::kFull);
  const auto refused = submit(job(1, 1));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_FALSE(controller_->snapshot()->writable);
  ASSERT_TRUE(stop(JobId(1)));
  finish(1, AttemptOutcome::kStopped);
  EXPECT_EQ(record(1).state, JobState::kCancelled) << "recorded with the reserve";
  ledger_.setDisk(MemoryLedger::Disk::kFine);
  clock_.advance(seconds(2));
  EXPECT_TRUE(submit(job(1, 1)));
  EXPECT_TRUE(controller_->snapshot()->writable);
}

TEST_F(ControllerTest, AServerStartsOnAFullDiskAndRecordsTheEndsOfWhatRuns) {
  ASSERT_TRUE(submit(job(1, 1)));
  ASSERT_TRUE(submit(job(4, 1)));
  ledger_.setDisk(MemoryLedger::Disk::kFull);
  boot({node("a", 4)});
  EXPECT_FALSE(controller_->snapshot()->writable);
  EXPECT_FALSE(submit(job(1, 1)));
  finish(1, AttemptOutcome::kCompleted);
  EXPECT_EQ(record(1).state, JobState::kSucceeded);
  EXPECT_EQ(record(2).state, JobState::kQueued) << "nothing new begins";
  ledger_.setDisk(MemoryLedger::Disk::kFine);
  clock_.advance(seconds(2));
  deliver();
  EXPECT_TRUE(controller_->snapshot()->writable);
  EXPECT_EQ(record(2).state, JobState::kStarting);
}

TEST_F(ControllerTest, ClientsThatInsistDoNotKeepARecoveredDiskFromBeingTried) {
  ledger_.setDisk(MemoryLedger::Disk::kFull);
  ASSERT_FALSE(submit(job(1, 1)));
  ledger_.setDisk(MemoryLedger::Disk::kFine);
  bool taken = false;
  for (int i = 0; i < 60 && !taken; ++i) {
    clock_.advance(milliseconds(100));
    taken = submit(job(1, 1)).has_value();
  }
  EXPECT_TRUE(taken);
}

TEST_F(ControllerTest, ADeadDiskStillStopsAndRecordsTheEndOnceItLives) {
  ASSERT_TRUE(submit(job(1, 1)));
  const auto attempt = record(1).attempt;
  ledger_.setDisk(MemoryLedger::Disk::kDead);
  ASSERT_TRUE(stop(JobId(1)));
  EXPECT_TRUE(engine_.attempts().at(attempt).stopAsked);
  finish(1, AttemptOutcome::kStopped);
  EXPECT_EQ(record(1).state, JobState::kStarting) << "not recorded, so not shown";
  EXPECT_GE(controller_->untilNextTick(), Duration(0));
  ledger_.setDisk(MemoryLedger::Disk::kFine);
  clock_.advance(seconds(5));
  deliver();
  EXPECT_TRUE(model::isTerminal(record(1).state));
}

TEST_F(ControllerTest, AClockThatLeapsCostsNobodyGpuTime) {
  ASSERT_TRUE(submit(job(1, 1)));
  clock_.advance(seconds(5));
  deliver();
  clock_.jump(hours(10'000));
  clock_.advance(seconds(5));
  deliver();
  clock_.suspend(hours(1));
  clock_.advance(seconds(5));
  finish(1, AttemptOutcome::kCompleted);
  EXPECT_EQ(record(1).milliGpuMicros, 1000 * seconds(15).value);
}

TEST_F(ControllerTest, AClockSetBackNeverTurnsLedgerTimeBack) {
  ASSERT_TRUE(submit(job(1, 1)));
  clock_.jump(hours(-5));
  clock_.advance(seconds(5));
  finish(1, AttemptOutcome::kCompleted);
  EXPECT_EQ(record(1).milliGpuMicros, 1000 * seconds(5).value);
}

TEST_F(ControllerTest, ALostNodeStartsNothingMore) {
  boot({node("b", 2)});
  ASSERT_TRUE(submit(job(2, 1)));
  const auto& attempt = *controller_->state().tables().attempts.find(record(1).attempt);
  EXPECT_EQ(controller_->state().tables().nodes.find(attempt.ranks[0].node)->node->name, "b");
  EXPECT_FALSE(submit(job(4, 1))) << "node a is gone";
}

TEST_F(ControllerTest, OldFinishedJobsAreForgottenButStayInTheLedger) {
  options_.keepFinishedJobs = 2;
  boot({node("a", 4)});
  for (std::uint64_t i = 1; i <= 4; ++i) {
    ASSERT_TRUE(submit(job(1, 1)));
    finish(i, AttemptOutcome::kCompleted);
  }
  EXPECT_EQ(controller_->state().tables().jobs.size(), 2u);
  EXPECT_EQ(controller_->state().tables().jobs.find(JobId(1)), nullptr);
  auto brief = job(1, 1);
  brief.shape.ttlAfterFinished = seconds(30);
  ASSERT_TRUE(submit(brief));
  finish(5, AttemptOutcome::kCompleted);
  EXPECT_EQ(controller_->untilNextTick(), seconds(30));
  clock_.advance(seconds(30));
  deliver();
  EXPECT_EQ(controller_->state().tables().jobs.find(JobId(5)), nullptr);
}

// ---- queues

// The default queue and two more: so many GPUs are guaranteed to each.
model::Policy twoQueues(std::int64_t a, std::int64_t b) {
  model::Policy policy;
  for (const auto& [name, gpus] : {std::pair("a", a), std::pair("b", b)}) {
    model::Queue queue;
    queue.id = QueueId(policy.queues.size() + 1);
    queue.name = name;
    queue.guaranteed.gpus = kWholeGpu * gpus;
    policy.queues.push_back(queue);
  }
  return policy;
}

model::JobSpec in(const std::string& queue, model::JobSpec spec) {
  spec.text.queue = queue;
  return spec;
}

TEST_F(ControllerTest, AJobNamesAQueueThatIsThereAndTakesJobs) {
  const auto none = submit(in("nosuch", job(1, 1)));
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(none.error().expected, "one of default");
  auto policy = twoQueues(2, 2);
  policy.queues.back().parent = policy.queues[1].id;
  policy.queues[1].guaranteed = {};
  ASSERT_TRUE(share(policy));
  const auto parent = submit(in("a", job(1, 1)));
  ASSERT_FALSE(parent);
  EXPECT_EQ(parent.error().expected, "one of b");
  ASSERT_TRUE(submit(in("b", job(1, 1))));
  EXPECT_EQ(record(1).shape->queue, controller_->state().tables().policy->find("b")->id);
}

TEST_F(ControllerTest, QueuesKeepTheirNumbersAndWhoHasJobsIsNotRemoved) {
  ASSERT_TRUE(share(twoQueues(1, 1)));
  const auto number = controller_->state().tables().policy->find("b")->id;
  ASSERT_TRUE(submit(in("b", job(1, 1))));
  auto policy = twoQueues(1, 1);
  policy.queues.pop_back();
  const auto refused = share(policy);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().where, "queue b");
  policy = twoQueues(2, 3);
  std::swap(policy.queues[1], policy.queues[2]);
  policy.queues[1].name = "other";
  policy.queues.push_back(twoQueues(2, 3).queues[2]);
  policy.queues.back().id = QueueId(9);
  ASSERT_TRUE(share(policy));
  EXPECT_EQ(controller_->state().tables().policy->find("b")->id, number);
  finish(1, AttemptOutcome::kCompleted);
  EXPECT_TRUE(share(model::Policy()));
  ASSERT_TRUE(share(twoQueues(1, 1)));
  EXPECT_NE(controller_->state().tables().policy->find("b")->id, number)
      << "a number is given once";
}

TEST_F(ControllerTest, AQueueGetsItsGuaranteeBackAlsoAcrossARestart) {
  ASSERT_TRUE(share(twoQueues(4, 0)));
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(submit(in("b", job(2, 1))));
  for (const auto id : engine_.alive()) engine_.run(id);
  deliver();
  ASSERT_TRUE(submit(in("a", job(4, 1))));
  for (const std::uint64_t victim : {std::uint64_t{1}, std::uint64_t{2}}) {
    EXPECT_EQ(record(victim).state, JobState::kStopping);
    EXPECT_EQ(record(victim).stop, model::StopReason::kPreempted);
    EXPECT_EQ(record(victim).freedFor, JobId(3));
    EXPECT_EQ(engine_.attempts().at(record(victim).attempt).stopReason,
              model::StopReason::kPreempted);
  }
  finish(1, AttemptOutcome::kFailed, 143);
  EXPECT_EQ(record(1).state, JobState::kQueued) << "it is held for job 3";
  boot({node("a", 4)});
  EXPECT_EQ(record(1).state, JobState::kQueued);
  EXPECT_EQ(record(3).state, JobState::kQueued);
  finish(2, AttemptOutcome::kFailed, 143);
  EXPECT_EQ(record(3).state, JobState::kStarting);
  EXPECT_EQ(record(1).retries, 0u) << "what it was stopped for is not its failure";
  finish(3, AttemptOutcome::kCompleted);
  EXPECT_EQ(record(1).state, JobState::kStarting);
  EXPECT_EQ(record(2).state, JobState::kStarting);
}

TEST_F(ControllerTest, APolicyThatCannotBeIsRefusedAndChangesNothing) {
  auto policy = twoQueues(4, 0);
  policy.queues[1].weight = 0;
  const auto refused = share(policy);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().where, "queue a");
  EXPECT_EQ(*controller_->state().tables().policy, model::Policy());
  policy = twoQueues(4, 0);
  policy.queues[1].limit.gpus = kWholeGpu * 3;
  EXPECT_FALSE(share(policy)) << "more guaranteed than allowed";
  policy = twoQueues(4, 0);
  policy.queues[1].parent = policy.queues[2].id;
  EXPECT_FALSE(share(policy)) << "before its parent";
  policy = twoQueues(4, 0);
  policy.queues[1].parent = model::kDefaultQueue;
  EXPECT_FALSE(share(policy)) << "below default";
}

TEST_F(ControllerTest, NumbersThatAnEarlierLifeUsedAreNotGivenAgain) {
  engine_.inUse = {AttemptId(40), JobId(50)};
  boot({node("a", 4)});
  const auto answer = submit(job(1, 1));
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->jobs.at(0).id, JobId(51));
  EXPECT_EQ(record(51).attempt, AttemptId(41));
}

model::JobSpec after(model::EnvList others, model::JobSpec spec) {
  spec.after = std::move(others);
  return spec;
}

TEST_F(ControllerTest, JobsWaitForEachOtherAndWhatCanNeverComeIsCancelled) {
  ASSERT_TRUE(submit(job(4, 1, "prep")));
  ASSERT_TRUE(submit(after({{"ok", "prep"}}, job(1, 0, "train"))));
  ASSERT_TRUE(submit(after({{"ok", "train"}}, job(1, 0, "test"))));
  ASSERT_TRUE(submit(after({{"any", "1"}}, job(1, 0, "clean"))));
  ASSERT_TRUE(submit(after({{"notok", "1"}}, job(1, 0, "alarm"))));
  for (const std::uint64_t id : {2, 3, 4, 5}) EXPECT_EQ(record(id).state, JobState::kQueued);
  const auto* why = controller_->snapshot()->waiting.find(JobId(2));
  ASSERT_TRUE(why);
  EXPECT_EQ(scheduler::explain(*why), "waits for job 1 to end");
  finish(1, AttemptOutcome::kFailed, 3);
  EXPECT_EQ(record(2).state, JobState::kCancelled);
  EXPECT_EQ(record(2).stop, model::StopReason::kDependency);
  EXPECT_EQ(record(3).state, JobState::kCancelled) << "what waits for it in turn";
  EXPECT_EQ(record(4).state, JobState::kStarting);
  EXPECT_EQ(record(5).state, JobState::kStarting);
  boot({node("a", 4)});
  EXPECT_EQ(record(3).state, JobState::kCancelled);
}

TEST_F(ControllerTest, WhatAJobNamesMustBeThereAndAbleToCome) {
  const auto none = submit(after({{"ok", "nosuch"}}, job(1, 1)));
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::kNotFound);
  ASSERT_TRUE(submit(job(1, 1, "prep")));
  finish(1, AttemptOutcome::kFailed, 3);
  const auto never = submit(after({{"ok", "prep"}}, job(1, 1)));
  ASSERT_FALSE(never);
  EXPECT_EQ(never.error().code, ErrorCode::kConflict);
  ASSERT_TRUE(submit(after({{"any", "prep"}}, job(1, 1))));
  EXPECT_EQ(record(2).state, JobState::kStarting) << "it has ended already";
}

TEST_F(ControllerTest, AnArrayIsManyJobsOfOneText) {
  auto spec = job(1, 1, "sweep");
  spec.array = {0, 10, 20, 30, 40};
  spec.arrayMost = 2;
  const auto answer = submit(spec, "once");
  ASSERT_TRUE(answer) << answer.error().message();
  ASSERT_EQ(answer->jobs.size(), 1U);
  EXPECT_EQ(answer->jobs[0].count, 5U);
  EXPECT_EQ(record(5).shape->array->index, 40U);
  EXPECT_EQ(record(5).text, record(1).text);
  EXPECT_EQ(engine_.alive().size(), 2U);
  ASSERT_TRUE(submit(after({{"ok", "sweep"}}, job(1, 0, "sum"))));
  EXPECT_EQ(record(6).waitsFor.size(), 5U);
  finish(1, AttemptOutcome::kCompleted);
  EXPECT_EQ(record(3).state, JobState::kStarting);
  boot({node("a", 4)});
  const auto again = submit(spec, "once");
  ASSERT_TRUE(again);
  ASSERT_EQ(again->jobs.size(), 1U) << "the same request submits nothing";
  EXPECT_EQ(again->jobs[0].count, 5U);
  controller::StopJob all;
  all.caller.user = "ana";
  all.job = JobId(2);
  all.wholeArray = true;
  std::vector<controller::Message> batch;
  batch.push_back(std::move(all));
  controller_->process(std::move(batch));
  EXPECT_EQ(record(1).state, JobState::kSucceeded);
  EXPECT_EQ(record(2).state, JobState::kStopping);
  EXPECT_EQ(record(4).state, JobState::kCancelled);
  EXPECT_EQ(record(6).state, JobState::kCancelled) << "it waited for all of them";
}

TEST_F(ControllerTest, AnArraysTextGoesWithItsLastElement) {
  options_.keepFinishedJobs = 1;
  boot({node("a", 4)});
  auto spec = job(1, 1, "sweep");
  spec.array = {0, 1, 2};
  ASSERT_TRUE(submit(spec));
  finish(1, AttemptOutcome::kCompleted);
  finish(2, AttemptOutcome::kCompleted);
  ASSERT_FALSE(controller_->state().tables().jobs.find(JobId(1))) << "forgotten";
  EXPECT_TRUE(controller_->snapshot()->texts.find(record(3).text));
  finish(3, AttemptOutcome::kCompleted);
  const auto text = record(3).text;
  ASSERT_TRUE(submit(job(1, 1)));
  finish(4, AttemptOutcome::kCompleted);
  ASSERT_FALSE(controller_->state().tables().jobs.find(JobId(3)));
  EXPECT_FALSE(controller_->snapshot()->texts.find(text));
}

TEST_F(ControllerTest, ANodeThatIsDownGivesItsJobsBackAndComesAgainByItself) {
  boot({node("a", 4), node("b", 4)});
  ASSERT_TRUE(submit(job(1, 4)));
  engine_.run(record(1).attempt);
  deliver();
  const auto on = controller_->state().tables().attempts.find(record(1).attempt)->ranks[0].node;
  const auto name = controller_->state().tables().nodes.find(on)->node->name;
  const auto set = [&](model::GpuHealth health, std::int32_t gpu, Duration lasts) {
    Result<void> out = fail(ErrorCode::kInternal, "no answer");
    controller::SetHealth message;
    message.caller.user = "ana";
    message.node = name;
    message.gpu = gpu;
    message.health = health;
    message.lasts = lasts;
    message.reply = [&](Result<void> answer) { out = std::move(answer); };
    std::vector<controller::Message> batch;
    batch.push_back(std::move(message));
    controller_->process(std::move(batch));
    return out;
  };
  EXPECT_FALSE(set(model::GpuHealth::kDown, 4, {})) << "no such GPU";
  ASSERT_TRUE(set(model::GpuHealth::kDraining, -1, {}));
  EXPECT_EQ(record(1).state, JobState::kRunning) << "what runs goes on";
  ASSERT_TRUE(set(model::GpuHealth::kDown, 2, minutes(10)));
  EXPECT_EQ(record(1).state, JobState::kStopping);
  ASSERT_TRUE(submit(job(2, 4)));
  EXPECT_EQ(record(2).state, JobState::kQueued) << "it could run once the node is back";
  finish(1, AttemptOutcome::kStopped);
  EXPECT_EQ(record(1).state, JobState::kStarting) << "on the other node";
  EXPECT_EQ(record(1).retries, 0U);
  finish(1, AttemptOutcome::kCompleted);
  ASSERT_TRUE(set(model::GpuHealth::kHealthy, -1, {}));
  EXPECT_EQ(record(2).state, JobState::kQueued) << "one GPU is still down";
  boot({node("a", 4), node("b", 4)});
  EXPECT_LE(controller_->untilNextTick(), minutes(10));
  EXPECT_GT(controller_->untilNextTick(), Duration(0));
  clock_.advance(minutes(10));
  deliver();
  EXPECT_EQ(record(2).state, JobState::kStarting);
}

TEST_F(ControllerTest, LabelsOfANodeAreGivenAndAskedFor) {
  auto spec = job(1, 1);
  spec.shape.tasks[0].nodeLabels = {{"disk", "ssd"}};
  ASSERT_FALSE(submit(spec));
  const auto label = [&](std::vector<std::pair<std::string, std::string>> set,
                         std::vector<std::string> remove) {
    Result<void> out = fail(ErrorCode::kInternal, "no answer");
    controller::SetLabels message;
    message.caller.user = "ana";
    message.node = "a";
    message.set = std::move(set);
    message.remove = std::move(remove);
    message.reply = [&](Result<void> answer) { out = std::move(answer); };
    std::vector<controller::Message> batch;
    batch.push_back(std::move(message));
    controller_->process(std::move(batch));
    return out;
  };
  EXPECT_FALSE(label({{"a b", "x"}}, {}));
  EXPECT_FALSE(label({}, {"disk"})) << "it has none";
  ASSERT_TRUE(label({{"disk", "ssd"}}, {}));
  ASSERT_TRUE(submit(spec));
  EXPECT_EQ(record(1).state, JobState::kStarting);
  ASSERT_TRUE(label({}, {"disk"}));
  EXPECT_FALSE(submit(spec));
}

}  // namespace
}  // namespace bole::test
