// When jobs are expected to start, against when they do.
#include "controller/forecast.h"

#include <gtest/gtest.h>

#include "model/run_time.h"
#include "state/state.h"
#include "support/worlds.h"

namespace bole::test {
namespace {

constexpr Timestamp kNow{1'000'000'000};

class Forecast : public ::testing::Test {
 protected:
  Forecast() {
    apply(model::ProjectCreated{ProjectId(1), SideId(1)});
    apply(model::NodeRegistered{NodeId(1), node("a", 4)});
  }
  void apply(const model::Event& event, Timestamp at = kNow) {
    const auto done = state_.apply(event, state_.tables().sequence + 1, at);
    ASSERT_TRUE(done) << done.error().message();
  }
  JobId submit(std::uint32_t gpus, Duration limit = {}, Timestamp at = kNow) {
    auto shape = job(1, gpus).shape;
    shape.timeLimit = limit;
    const JobId id(state_.tables().lastJob + 1);
    apply(model::JobSubmitted{id, ProjectId(1), UserId(1), shape, SideId(1)}, at);
    return id;
  }
  void start(JobId job, std::vector<std::uint32_t> gpus, Timestamp at = kNow) {
    const AttemptId id(state_.tables().lastAttempt + 1);
    apply(model::AttemptPlanned{id, job, 1, {{0, 0, NodeId(1), std::move(gpus)}}}, at);
    apply(model::AttemptStarted{id}, at);
  }
  void end(JobId job, Timestamp at, model::AttemptOutcome outcome) {
    const auto id = state_.tables().jobs.find(job)->attempt;
    apply(model::AttemptEnded{id, outcome, -1, {}, {}}, at);
    apply(model::JobEnded{job, model::JobState::kSucceeded, {}}, at);
  }
  Timestamp expected(JobId job, Timestamp now = kNow) {
    const auto found = controller::forecast(state_.tables(), now, {job});
    return found.contains(job) ? found.at(job).at : Timestamp();
  }

  state::State state_;
};

TEST_F(Forecast, WhatFitsStartsAtOnce) {
  EXPECT_EQ(expected(submit(4)), kNow);
}

TEST_F(Forecast, WhoWaitsStartsWhenTimeLimitsEnd) {
  start(submit(4, hours(2)), {0, 1, 2, 3});
  const auto second = submit(4, hours(1));
  const auto third = submit(2, hours(1));
  EXPECT_EQ(expected(second), kNow + hours(2));
  EXPECT_EQ(expected(third), kNow + hours(3));
}

TEST_F(Forecast, RunTimesAreLearntFromJobsOfTheUsersSize) {
  for (const int took : {10, 12, 50}) {
    const auto at = state_.tables().time;
    const auto id = submit(4, {}, at);
    start(id, {0, 1, 2, 3}, at);
    end(id, at + minutes(took), model::AttemptOutcome::kCompleted);
  }
  const auto at = state_.tables().time;
  start(submit(4, {}, at), {0, 1, 2, 3}, at);
  EXPECT_EQ(expected(submit(4, {}, at), at), at + minutes(12));
}

TEST_F(Forecast, OfAttemptsThatWereStoppedNothingIsLearnt) {
  const auto id = submit(4);
  start(id, {0, 1, 2, 3});
  end(id, kNow + minutes(1), model::AttemptOutcome::kStopped);
  EXPECT_EQ(state_.tables().runTimes.size(), 0U);
}

TEST_F(Forecast, WhatWaitsForAJobThatWillNotEndWellIsNotExpected) {
  const auto first = submit(4, hours(1));
  auto shape = job(1, 1).shape;
  shape.after = {{first, model::DependencyKind::kNotOk}};
  const JobId never(state_.tables().lastJob + 1);
  apply(model::JobSubmitted{never, ProjectId(1), UserId(1), shape, SideId(1)});
  EXPECT_EQ(expected(never), Timestamp());
}

TEST_F(Forecast, OfJobsThatAreNotSubmittedYet) {
  start(submit(3, hours(2)), {0, 1, 2});
  const auto found =
      controller::forecastNew(state_.tables(), kNow, {job(1, 1).shape, job(1, 4).shape}, UserId(1));
  ASSERT_EQ(found.size(), 2U);
  ASSERT_TRUE(found[0] && found[1]);
  EXPECT_EQ(found[0]->at, kNow);
  EXPECT_EQ(found[0]->ranks.at(0).gpus, std::vector<std::uint32_t>{3});
  EXPECT_EQ(found[1]->at, kNow + hours(2));
  EXPECT_EQ(state_.tables().lastJob, 1U) << "nothing was submitted";
}

TEST_F(Forecast, ItsBoundsAreKept) {
  start(submit(4, hours(2)), {0, 1, 2, 3});
  for (int i = 0; i < 20; ++i) submit(4, hours(1));
  controller::ForecastOptions options;
  options.mostSteps = 4;  // now, when patience is lost, and two ends
  EXPECT_EQ(controller::forecast(state_.tables(), kNow, {}, options).size(), 2U);
  options.mostSteps = 200;
  options.horizon = hours(5);
  EXPECT_EQ(controller::forecast(state_.tables(), kNow, {}, options).size(), 4U);
}

TEST(RunTimes, SizesAreByPowersOfTwo) {
  EXPECT_EQ(model::sizeOf(job(1, 0).shape), 0U);
  EXPECT_EQ(model::sizeOf(job(1, 1).shape), 1U);
  EXPECT_EQ(model::sizeOf(job(3, 1).shape), 2U);
  EXPECT_EQ(model::sizeOf(job(4, 8).shape), 6U);
  auto part = job(1, 1).shape;
  part.tasks[0].gpus.share = MilliGpu(250);
  EXPECT_EQ(model::sizeOf(part), 1U);
}

}  // namespace
}  // namespace bole::test
