#include "state/state.h"

#include <gtest/gtest.h>

#include "model/use.h"

namespace bole::state {
namespace {

using model::JobState;

model::Node nodeOf(std::uint32_t gpus) {
  model::Node node;
  node.name = std::string("a");
  node.cpus = MilliCpu(8000);
  node.memory = kGiB * 64;
  node.gpus.resize(gpus);
  node.links.resize(std::size_t{gpus} * gpus);
  return node;
}

model::JobShape gangOf(std::uint32_t replicas) {
  model::JobShape shape;
  model::TaskShape task;
  task.replicas = task.minAvailable = replicas;
  task.gpus.count = 1;
  shape.tasks = {task};
  shape.minAvailable = replicas;
  return shape;
}

class StateTest : public ::testing::Test {
 protected:
  Result<void> apply(const model::Event& event) {
    auto done = state_.apply(event, state_.tables().sequence + 1,
                             Timestamp{state_.tables().time.micros + 1});
    if (done) {
      const auto sound = checkInvariants(state_.tables());
      EXPECT_TRUE(sound) << sound.error().message();
    }
    return done;
  }
  void must(const model::Event& event) {
    const auto done = apply(event);
    ASSERT_TRUE(done) << done.error().message();
  }
  // As apply(), for events of one moment.
  void mustAtOnce(const model::Event& event) {
    ASSERT_TRUE(state_.apply(event, state_.tables().sequence + 1, state_.tables().time));
    EXPECT_TRUE(checkInvariants(state_.tables()));
  }
  // Refused, and nothing changed by it.
  void mustNot(const model::Event& event) {
    const auto sequence = state_.tables().sequence;
    const auto queued = state_.queued();
    const auto live = state_.liveAttempts();
    EXPECT_FALSE(apply(event)) << model::kindOf(event);
    EXPECT_EQ(state_.tables().sequence, sequence);
    EXPECT_EQ(state_.queued(), queued);
    EXPECT_EQ(state_.liveAttempts(), live);
  }

  void SetUp() override {
    must(model::ProjectCreated{ProjectId(1), SideId(1)});
    must(model::NodeRegistered{NodeId(1), nodeOf(4)});
    must(model::JobSubmitted{JobId(1), ProjectId(1), UserId(), gangOf(2), SideId(2)});
  }

  [[nodiscard]] model::AttemptPlanned plan(std::uint64_t attempt, std::uint64_t job,
                                           std::vector<std::uint32_t> gpus) const {
    model::AttemptPlanned event{AttemptId(attempt), JobId(job), 1, {}};
    for (std::uint32_t i = 0; i < gpus.size(); ++i)
      event.ranks.push_back({0, i, NodeId(1), {gpus[i]}});
    return event;
  }
  const model::JobRecord& job(std::uint64_t id) { return *state_.tables().jobs.find(JobId(id)); }

  State state_;
};

TEST_F(StateTest, AJobsLife) {
  must(plan(1, 1, {0, 1}));
  EXPECT_EQ(job(1).state, JobState::kStarting);
  EXPECT_EQ(state_.tables().nodes.find(NodeId(1))->gpuHolder[1], AttemptId(1));
  must(model::AttemptStarted{AttemptId(1)});
  EXPECT_EQ(job(1).state, JobState::kRunning);
  mustNot(model::JobEnded{JobId(1), JobState::kSucceeded, {}});  // its attempt lives
  must(model::AttemptEnded{AttemptId(1), model::AttemptOutcome::kCompleted, -1, {}, {}});
  EXPECT_EQ(state_.tables().nodes.find(NodeId(1))->gpuUsed[1], MilliGpu(0));
  mustAtOnce(model::JobEnded{JobId(1), JobState::kSucceeded, {}});
  mustNot(model::JobEnded{JobId(1), JobState::kFailed, {}});  // final
  mustNot(model::StopRequested{JobId(1), model::StopReason::kCancelled, {}, {}});
  must(model::JobForgotten{JobId(1)});
  EXPECT_EQ(state_.tables().attempts.size(), 0u);
}

TEST_F(StateTest, NoPlacementThatCannotBe) {
  mustNot(plan(1, 1, {0}));     // less than the gang
  mustNot(plan(1, 1, {0, 0}));  // a GPU twice
  mustNot(plan(1, 1, {0, 4}));  // a GPU that is not there
  mustNot(plan(1, 9, {0, 1}));  // no such job
  must(plan(1, 1, {0, 1}));
  mustNot(plan(2, 1, {2, 3}));  // it has one already
  must(model::JobSubmitted{JobId(2), ProjectId(1), UserId(), gangOf(2), SideId(3)});
  mustNot(plan(2, 2, {1, 2}));  // GPU 1 is held
  mustNot(plan(1, 2, {2, 3}));  // an attempt's id twice
  must(plan(2, 2, {2, 3}));
}

TEST_F(StateTest, SequenceAndTimeOnlyGoOn) {
  const auto sequence = state_.tables().sequence;
  EXPECT_FALSE(state_.apply(model::ServerStarted{}, sequence, state_.tables().time));
  EXPECT_FALSE(state_.apply(model::ServerStarted{}, sequence + 2, state_.tables().time));
  EXPECT_FALSE(state_.apply(model::ServerStarted{}, sequence + 1,
                            Timestamp{state_.tables().time.micros - 1}));
}

TEST_F(StateTest, ARetriedJobKeepsItsPlace) {
  must(model::JobSubmitted{JobId(2), ProjectId(1), UserId(), gangOf(1), SideId(3)});
  must(plan(1, 1, {0, 1}));
  must(model::AttemptEnded{AttemptId(1), model::AttemptOutcome::kFailed, 0, {{0, true, 256}}, {}});
  mustAtOnce(model::JobRequeued{JobId(1), Timestamp{}, 1});
  EXPECT_EQ(state_.queued().begin()->job, JobId(1)) << "it came first and is first again";
  EXPECT_EQ(job(1).retries, 1u);
  EXPECT_EQ(job(1).failure->status, 256);
  EXPECT_EQ(state_.tables().attempts.find(AttemptId(1))->firstFailed, 0)
      << "each attempt keeps its own";
}

TEST_F(StateTest, AHigherPriorityComesFirst) {
  auto urgent = gangOf(1);
  urgent.priority = 5;
  must(model::JobSubmitted{JobId(2), ProjectId(1), UserId(), urgent, SideId(3)});
  EXPECT_EQ(state_.queued().begin()->job, JobId(2));
}

TEST_F(StateTest, ASmallerInventoryDoesNotForgetWhatIsHeld) {
  must(plan(1, 1, {2, 3}));
  must(model::NodeRegistered{NodeId(1), nodeOf(1)});
  must(model::AttemptEnded{AttemptId(1), model::AttemptOutcome::kCompleted, -1, {}, {}});
  EXPECT_EQ(state_.tables().nodes.find(NodeId(1))->gpuUsed[3], MilliGpu(0));
}

// ---- parts of GPUs

class Parts : public StateTest {
 protected:
  void SetUp() override {
    auto node = nodeOf(1);
    node.gpus[0].memory = kGiB * 24;
    must(model::ProjectCreated{ProjectId(1), SideId(1)});
    must(model::NodeRegistered{NodeId(1), node});
    for (std::uint64_t job = 1; job <= 5; ++job) {
      auto shape = gangOf(1);
      shape.tasks[0].gpus.share = MilliGpu(250);
      must(model::JobSubmitted{JobId(job), ProjectId(1), UserId(), shape, SideId(job + 1)});
    }
  }
  [[nodiscard]] model::AttemptPlanned part(std::uint64_t id, std::int64_t share, Bytes memory) {
    auto event = plan(id, id, {0});
    event.ranks[0].grants = {{MilliGpu(share), memory}};
    return event;
  }
};

TEST_F(Parts, NeverBeyondTheWholeNorLessThanAskedFor) {
  mustNot(part(1, 249, kGiB));       // less than asked for
  mustNot(part(1, 1001, kGiB));      // no part of a GPU
  mustNot(part(1, 250, kGiB * 25));  // more memory than it has
  must(part(1, 400, kGiB * 12));
  must(part(2, 400, kGiB * 6));
  mustNot(part(3, 250, kGiB));  // 1050 thousandths
  mustNot(part(3, 250, Bytes(0)));
  EXPECT_EQ(state_.tables().nodes.find(NodeId(1))->gpuUsed[0], MilliGpu(800));
  EXPECT_EQ(state_.tables().nodes.find(NodeId(1))->gpuHolder[0], AttemptId());
  must(model::AttemptEnded{AttemptId(2), model::AttemptOutcome::kCompleted, -1, {}, {}});
  mustAtOnce(model::JobEnded{JobId(2), JobState::kSucceeded, {}});
  mustNot(part(3, 250, kGiB * 13));  // 25 GiB
  must(part(3, 250, kGiB * 12));
}

// Scheduling 33: four quarters for an hour are one GPU-hour.
TEST_F(Parts, FourQuartersForAnHourAreOneGpuHour) {
  for (std::uint64_t id = 1; id <= 4; ++id) must(part(id, 250, kGiB * 6));
  const auto begin = state_.tables().time;
  std::int64_t used = 0;
  for (std::uint64_t id = 1; id <= 4; ++id) {
    const auto planned = state_.tables().attempts.find(AttemptId(id))->plannedAt;
    const auto end = planned + hours(1);
    ASSERT_TRUE(state_.apply(
        model::AttemptEnded{AttemptId(id), model::AttemptOutcome::kCompleted, -1, {}, {}},
        state_.tables().sequence + 1, end));
    mustAtOnce(model::JobEnded{JobId(id), JobState::kSucceeded, {}});
    used += job(id).milliGpuMicros;
  }
  EXPECT_GT(state_.tables().time, begin);
  EXPECT_EQ(used, kWholeGpu.value * hours(1).value);
}

// ---- what queues have used

class QueueUses : public StateTest {
 protected:
  void at(Duration later, const model::Event& event) {
    const auto done = state_.apply(event, state_.tables().sequence + 1, start_ + later);
    ASSERT_TRUE(done) << done.error().message();
    EXPECT_TRUE(checkInvariants(state_.tables()));
  }
  [[nodiscard]] model::QueueUse use(Duration later) const {
    return model::useAt(*state_.tables().queueUse.find(QueueId(1)), start_ + later,
                        state_.tables().policy->halfLife);
  }
  void SetUp() override {
    StateTest::SetUp();
    start_ = state_.tables().time;
    at(Duration(0), plan(1, 1, {0, 1}));
  }
  Timestamp start_;
  const Duration half_ = model::Policy().halfLife;
};

TEST_F(QueueUses, RiseByHalfEachHalfLifeAndFallLikewise) {
  EXPECT_EQ(use(Duration(0)).gpus, 0);
  EXPECT_DOUBLE_EQ(use(half_).gpus, 1000);
  EXPECT_DOUBLE_EQ(use(half_ * 2).gpus, 1500);
  EXPECT_DOUBLE_EQ(use(half_).cpus, 1000) << "one CPU for each of the two ranks";
  at(half_, model::AttemptEnded{AttemptId(1), model::AttemptOutcome::kCompleted, -1, {}, {}});
  EXPECT_EQ(use(half_).gpusHeld, MilliGpu(0));
  EXPECT_DOUBLE_EQ(use(half_ * 2).gpus, 500);
}

TEST_F(QueueUses, AnotherHalfLifeCountsFromWhenItIsSet) {
  auto policy = model::Policy();
  policy.halfLife = half_ * 2;
  at(half_, model::PolicySet{policy});
  EXPECT_DOUBLE_EQ(use(half_).gpus, 1000);
  EXPECT_DOUBLE_EQ(use(half_ * 3).gpus, 1500);
}

// A snapshot that is older than the counting.
TEST_F(QueueUses, WhatIsHeldIsCountedWhereNothingWas) {
  auto old = state_.tables();
  old.queueUse = {};
  const State again(old);
  const auto sound = checkInvariants(again.tables());
  EXPECT_TRUE(sound) << sound.error().message();
  EXPECT_EQ(again.tables().queueUse.find(QueueId(1))->gpusHeld, kWholeGpu * 2);
}

TEST_F(QueueUses, WhatLedgerTimeSkippedIsNobodysUse) {
  at(half_, model::ClockAdjusted{half_, half_, half_});
  EXPECT_EQ(use(half_).gpus, 0);
  EXPECT_DOUBLE_EQ(use(half_ * 2).gpus, 1000);
}

TEST_F(StateTest, InvariantsSeeAWrongTable) {
  must(plan(1, 1, {0, 1}));
  auto tables = state_.tables();
  tables.nodes.edit(NodeId(1))->gpuUsed[0] = MilliGpu(0);
  EXPECT_FALSE(checkInvariants(tables));
  tables = state_.tables();
  tables.jobs.edit(JobId(1))->state = JobState::kSucceeded;
  EXPECT_FALSE(checkInvariants(tables));
  tables = state_.tables();
  tables.attempts.edit(AttemptId(1))->live = false;
  EXPECT_FALSE(checkInvariants(tables));
  tables = state_.tables();
  tables.attempts.edit(AttemptId(1))->ranks.pop_back();
  EXPECT_FALSE(checkInvariants(tables));
  tables = state_.tables();
  tables.queueUse.edit(QueueId(1))->gpusHeld = MilliGpu(0);
  EXPECT_FALSE(checkInvariants(tables));
  tables = state_.tables();
  tables.nodes.edit(NodeId(1))->gpuMemoryUsed[0] = kGiB;
  EXPECT_FALSE(checkInvariants(tables));
}

TEST_F(StateTest, AJobWaitsUntilWhatItNamesHasEndedAsItAsks) {
  using model::DependencyKind;
  const auto after = [](std::vector<model::Dependency> jobs) {
    auto shape = gangOf(2);
    shape.after = std::move(jobs);
    return shape;
  };
  mustNot(model::JobSubmitted{JobId(2), ProjectId(1), UserId(),
                              after({{JobId(9), DependencyKind::kOk}}), SideId(3)});
  must(model::JobSubmitted{JobId(2), ProjectId(1), UserId(),
                           after({{JobId(1), DependencyKind::kOk}}), SideId(3)});
  must(model::JobSubmitted{JobId(3), ProjectId(1), UserId(),
                           after({{JobId(1), DependencyKind::kNotOk}, {JobId(2), {}}}), SideId(4)});
  must(model::JobSubmitted{JobId(4), ProjectId(1), UserId(),
                           after({{JobId(1), DependencyKind::kAny}}), SideId(5)});
  mustNot(plan(1, 2, {0, 1}));
  EXPECT_EQ(job(1).dependents.size(), 3U);
  must(model::JobEnded{JobId(1), JobState::kCancelled, model::StopReason::kCancelled});
  EXPECT_EQ(job(2).brokenBy, JobId(1));
  EXPECT_FALSE(job(3).brokenBy.isSet());
  EXPECT_EQ(job(3).waitsFor.size(), 1U);
  EXPECT_TRUE(job(4).waitsFor.empty());
  EXPECT_EQ(job(4).queuedAt, state_.tables().time) << "waiting counts from here";
  mustNot(plan(1, 2, {0, 1}));
  must(model::JobEnded{JobId(2), JobState::kCancelled, model::StopReason::kDependency});
  EXPECT_EQ(job(3).brokenBy, JobId(2));
  must(plan(1, 4, {0, 1}));
}

TEST_F(StateTest, ATimeBeforeWhichItDoesNotStartIsKept) {
  auto shape = gangOf(2);
  shape.delay = seconds(5);
  must(model::JobSubmitted{JobId(2), ProjectId(1), UserId(), shape, SideId(3)});
  EXPECT_EQ(job(2).notBefore, state_.tables().time + seconds(5));
  EXPECT_EQ(job(2).queuedAt, job(2).notBefore);
  shape.begin = Timestamp{1};
  must(model::JobSubmitted{JobId(3), ProjectId(1), UserId(), shape, SideId(4)});
  EXPECT_EQ(job(3).notBefore, state_.tables().time + seconds(5)) << "the later of both";
}

TEST_F(StateTest, WhatIsSaidOfANodeOutlivesItsInventory) {
  const auto node = [&]() -> const model::NodeRecord& {
    return *state_.tables().nodes.find(NodeId(1));
  };
  using model::GpuHealth;
  mustNot(model::HealthSet{NodeId(7), -1, GpuHealth::kDown, {}, {}});
  mustNot(model::HealthSet{NodeId(1), 4, GpuHealth::kDown, {}, {}});
  must(model::HealthSet{NodeId(1), 2, GpuHealth::kDraining, Timestamp{50}, SideId(9)});
  must(model::HealthSet{NodeId(1), -1, GpuHealth::kSuspect, {}, {}});
  must(model::NodeLabelled{NodeId(1), {{"disk", "ssd"}}});
  EXPECT_EQ(node().node->gpus[2].health, GpuHealth::kDraining);
  EXPECT_EQ(node().node->health, GpuHealth::kSuspect);
  must(model::NodeRegistered{NodeId(1), nodeOf(4)});
  EXPECT_EQ(node().node->gpus[2].health, GpuHealth::kDraining);
  EXPECT_EQ(node().node->labels.size(), 1U);
  EXPECT_EQ(*node().probed, nodeOf(4));
  must(model::HealthSet{NodeId(1), 2, GpuHealth::kHealthy, {}, {}});
  must(model::HealthSet{NodeId(1), -1, GpuHealth::kHealthy, {}, {}});
  must(model::NodeLabelled{NodeId(1), {}});
  EXPECT_EQ(*node().node, nodeOf(4));
  EXPECT_FALSE(node().probed);
}

}  // namespace
}  // namespace bole::state
