#include "scheduler/reserve.h"

#include <gtest/gtest.h>

#include <deque>

#include "scheduler/testing/cloud.h"

namespace bole::scheduler {
namespace {

using model::Obstacle;

model::TaskShape taskOf(std::uint32_t replicas, std::uint32_t gpus, std::int64_t cpus,
                        Bytes memory = {}) {
  auto task = shapeOf(replicas, gpus).tasks[0];
  task.cpus = MilliCpu(cpus * 1000);
  task.memory = memory;
  return task;
}

model::JobShape jobOf(std::vector<model::TaskShape> tasks) {
  model::JobShape shape;
  shape.tasks = std::move(tasks);
  shape.minAvailable = shape.replicas();
  return shape;
}

// Small jobs never cease to come: each minute one ends, and two more wait. After how many minutes
// does the big one start? 0: not within two hours.
int minutesUntilStart(Cloud& cloud, const model::JobShape& big, const model::JobShape& small) {
  std::deque<model::Start> running;
  for (int i = 0; i < 8; ++i) cloud.queued(small);
  for (const auto& start : cloud.plan().starts) {
    cloud.begin(start);
    running.push_back(start);
  }
  const auto job = cloud.queued(big);
  for (int minute = 1; minute <= 120; ++minute) {
    const auto now = kNow + minutes(minute);
    if (!running.empty()) {
      cloud.end(running.front());
      running.pop_front();
    }
    cloud.queued(small, now);
    cloud.queued(small, now);
    for (const auto& start : cloud.plan({}, now).starts) {
      if (start.job == job) return minute;
      cloud.begin(start);
      running.push_back(start);
    }
  }
  return 0;
}

TEST(Reserve, AGpuJobShortOfCpusStartsBehindAStreamOfCpuJobs) {
  Cloud cloud;
  cloud.add(nodeOf(4, "A100-SXM4-80GB", 16));
  const auto minute = minutesUntilStart(cloud, jobOf({taskOf(1, 1, 12)}), jobOf({taskOf(1, 0, 4)}));
  EXPECT_GE(minute, 10) << "small ones pass it while it has patience";
  EXPECT_LE(minute, 13) << "three of four jobs have to end";
  EXPECT_NE(minute, 0);
}

TEST(Reserve, AGpuJobShortOfMemoryStartsBehindAStreamOfCpuJobs) {
  Cloud cloud;
  cloud.add(nodeOf(4));
  const auto minute = minutesUntilStart(cloud, jobOf({taskOf(1, 1, 1, kGiB * 192)}),
                                        jobOf({taskOf(1, 0, 1, kGiB * 64)}));
  EXPECT_GE(minute, 10);
  EXPECT_LE(minute, 13);
}

TEST(Reserve, ACpuJobThatNeedsAWholeNodeStartsBehindAStreamOfGpuJobs) {
  Cloud cloud;
  cloud.add(nodeOf(4, "A100-SXM4-80GB", 16));
  const auto minute = minutesUntilStart(cloud, jobOf({taskOf(1, 0, 16)}), jobOf({taskOf(1, 1, 4)}));
  EXPECT_GE(minute, 10);
  EXPECT_LE(minute, 14);
}

TEST(Reserve, AGangWithALauncherFirstStartsBehindAStreamOfCpuJobs) {
  Cloud cloud;
  cloud.add(nodeOf(4, "A100-SXM4-80GB", 16));
  const auto minute =
      minutesUntilStart(cloud, jobOf({taskOf(1, 0, 1), taskOf(2, 1, 7)}), jobOf({taskOf(1, 0, 4)}));
  EXPECT_GE(minute, 10);
  EXPECT_LE(minute, 14);
}

// A head that has lost patience, and whether this job behind it starts all the same.
bool startsBehind(Cloud& cloud, const model::JobShape& head, const model::JobShape& behind) {
  cloud.queued(head, kNow - minutes(11));
  const auto job = cloud.queued(behind);
  const auto plan = cloud.plan();
  EXPECT_TRUE(plan.keeps);
  return plan.starts.size() == 1 && plan.starts[0].job == job;
}

TEST(Reserve, AnH100HeadDoesNotHoldA100Nodes) {
  Cloud cloud;
  cloud.hold(cloud.add(nodeOf(4, "H100-SXM5-80GB")), 0);
  cloud.add(nodeOf(4, "A100-SXM4-80GB"));
  auto head = jobOf({taskOf(1, 4, 32)});
  head.tasks[0].gpus.models = {"H100"};
  EXPECT_TRUE(startsBehind(cloud, head, jobOf({taskOf(1, 4, 64)})));
}

TEST(Reserve, ALauncherWithoutGpusDoesNotBlockUnrelatedNodes) {
  Cloud cloud;
  cloud.hold(cloud.add(nodeOf(4, "H100-SXM5-80GB")), 0);
  cloud.add(nodeOf(4, "A100-SXM4-80GB"));
  auto head = jobOf({taskOf(1, 0, 4), taskOf(4, 1, 8)});
  head.tasks[1].gpus.models = {"H100"};
  EXPECT_TRUE(startsBehind(cloud, head, jobOf({taskOf(1, 4, 64, kGiB * 256)})));
}

TEST(Reserve, WhatTheHeadCouldNotUseOfItsOwnNodeIsFreeForOthers) {
  Cloud cloud;
  cloud.hold(cloud.add(nodeOf(4, "H100-SXM5-80GB")), 0);
  const auto head = jobOf({taskOf(1, 4, 32, kGiB * 128)});
  Cloud more = cloud;
  EXPECT_TRUE(startsBehind(cloud, head, jobOf({taskOf(1, 0, 32, kGiB * 128)})));
  EXPECT_FALSE(startsBehind(more, head, jobOf({taskOf(1, 0, 33)})));
}

// A node of which only so many CPUs are left.
NodeId addBusy(Cloud& cloud, const model::Node& node, std::int64_t cpusLeft) {
  const auto id = cloud.add(node);
  auto busy = jobOf({taskOf(1, 0, 0)});
  busy.tasks[0].cpus = node.cpus - MilliCpu(cpusLeft * 1000);
  cloud.begin({cloud.queued(busy), {{0, 0, id, {}}}});
  return id;
}

TEST(Reserve, AHeadShortOfCpusIsKeptNoMoreGpusThanItAsksFor) {
  Cloud cloud;
  addBusy(cloud, nodeOf(4), 24);
  const auto head = jobOf({taskOf(1, 1, 48)});
  Cloud more = cloud;
  EXPECT_TRUE(startsBehind(cloud, head, jobOf({taskOf(1, 3, 0)})));
  EXPECT_FALSE(startsBehind(more, head, jobOf({taskOf(1, 4, 0)})));
}

TEST(Reserve, AHeadThatAsksForSeveralKindsIsKeptEachOfThem) {
  auto node = nodeOf(6);
  for (std::uint32_t gpu = 2; gpu < 6; ++gpu) node.gpus[gpu].model = "T4";
  auto head = jobOf({taskOf(1, 1, 24), taskOf(1, 2, 24)});
  head.tasks[0].gpus.models = {"T4"};
  head.tasks[1].gpus.models = {"A100"};
  Cloud cloud;
  addBusy(cloud, node, 24);
  auto behind = jobOf({taskOf(1, 1, 0)});
  behind.tasks[0].gpus.models = {"A100"};
  EXPECT_FALSE(startsBehind(cloud, head, behind));
}

TEST(Reserve, WhatOthersWereGivenSinceIsNotSaidToBeKept) {
  Cloud cloud;
  cloud.hold(cloud.add(nodeOf(4, "H100-SXM5-80GB")), 0);
  cloud.add(nodeOf(4, "A100-SXM4-80GB"));
  auto head = jobOf({taskOf(1, 4, 32)});
  head.tasks[0].gpus.models = {"H100"};
  auto four = jobOf({taskOf(1, 4, 1)});
  four.tasks[0].gpus.models = {"A100"};
  EXPECT_TRUE(startsBehind(cloud, head, four));
  cloud.queued(four);
  const auto plan = cloud.plan();
  ASSERT_EQ(plan.waiting.size(), 2u);
  EXPECT_EQ(plan.waiting[1].reasons.at(0).obstacle, Obstacle::kGpus);
}

TEST(Reserve, WhoeverWouldTakeWhatIsKeptIsToldForWhom) {
  Cloud cloud;
  cloud.hold(cloud.add(nodeOf(4)), 0);
  const auto head = cloud.queued(jobOf({taskOf(1, 4, 60)}), kNow - minutes(11));
  cloud.queued(jobOf({taskOf(1, 0, 8)}));
  cloud.queued(jobOf({taskOf(1, 0, 65)}));
  const auto plan = cloud.plan();
  ASSERT_EQ(plan.waiting.size(), 3u);
  EXPECT_EQ(plan.waiting[1].reasons.at(0).obstacle, Obstacle::kAhead);
  EXPECT_EQ(plan.waiting[1].reasons.at(0).ahead, head);
  EXPECT_EQ(plan.waiting[2].reasons.at(0).obstacle, Obstacle::kCpus)
      << "would not fit if nothing were kept";
}

// ---- when and where

model::JobShape limited(model::JobShape shape, Duration limit) {
  shape.timeLimit = limit;
  return shape;
}

TEST(Reserve, TheEarliestPlaceIsKept) {
  Cloud cloud;
  cloud.add(nodeOf(4));
  cloud.add(nodeOf(4));
  for (const int hours_ : {3, 1}) {
    cloud.queued(limited(shapeOf(1, 4), hours(hours_)));
    cloud.follow(cloud.plan());
  }
  const auto head = cloud.queued(shapeOf(1, 4), kNow - minutes(11));
  const auto plan = cloud.plan();
  ASSERT_EQ(plan.reservations.size(), 1u);
  EXPECT_EQ(plan.reservations[0].job, head);
  EXPECT_EQ(plan.reservations[0].nodes, std::vector<NodeId>{NodeId(2)});
  EXPECT_EQ(plan.reservations[0].start, kNow + hours(1));
}

TEST(Reserve, WhatEndsBeforeMayPass) {
  for (const bool early : {true, false}) {
    Cloud cloud;
    cloud.add(nodeOf(4));
    cloud.queued(limited(shapeOf(1, 2), hours(1)));
    cloud.follow(cloud.plan());
    cloud.queued(shapeOf(1, 4), kNow - minutes(11));
    const auto passing = cloud.queued(limited(shapeOf(1, 1), minutes(early ? 50 : 61)));
    const auto unlimited = cloud.queued(shapeOf(1, 1));
    const auto plan = cloud.plan();
    ASSERT_EQ(plan.starts.size(), early ? 1u : 0u);
    if (early) {
      EXPECT_EQ(plan.starts[0].job, passing);
    }
    EXPECT_EQ(plan.waiting.back().job, unlimited);
    EXPECT_EQ(plan.waiting.back().reasons.at(0).obstacle, Obstacle::kAhead);
    EXPECT_EQ(plan.waiting.back().reasons.at(0).until, kNow + hours(1));
  }
}

// Two nodes whose small jobs, without limits, never cease to come: whichever looks sooner free
// changes all the time, and yet one of them drains.
TEST(Reserve, ANodeOnceChosenStaysChosen) {
  Cloud cloud;
  cloud.add(nodeOf(4));
  cloud.add(nodeOf(4));
  std::deque<model::Start> running;
  const auto follow = [&](Timestamp now) {
    const auto plan = cloud.plan({}, now);
    for (const auto& start : plan.starts) running.push_back(start);
    cloud.follow(plan, now);
    return plan;
  };
  for (int i = 0; i < 8; ++i) {
    cloud.queued(shapeOf(1, 1));
    follow(kNow + minutes(i));
  }
  const auto head = cloud.queued(shapeOf(1, 4), kNow);
  std::vector<NodeId> chosen;
  int started = 0;
  for (int minute = 10; minute < 60 && started == 0; ++minute) {
    if (!running.empty()) {
      cloud.end(running.front().job);
      running.pop_front();
    }
    for (int i = 0; i < 2; ++i) cloud.queued(shapeOf(1, 1), kNow + minutes(minute));
    const auto plan = follow(kNow + minutes(minute));
    for (const auto& start : plan.starts) started = start.job == head ? minute : started;
    if (plan.reservations.empty()) continue;
    if (chosen.empty()) chosen = plan.reservations[0].nodes;
    EXPECT_EQ(plan.reservations[0].nodes, chosen);
  }
  EXPECT_GT(started, 0);
  EXPECT_LE(started, 10 + 9);
}

TEST(Reserve, OnePerPool) {
  Cloud cloud;
  cloud.hold(cloud.add(nodeOf(4, "H100-SXM5-80GB")), 0);
  cloud.hold(cloud.add(nodeOf(4, "A100-SXM4-80GB")), 0);
  for (const auto* kind : {"H100", "A100", "H100"}) {
    auto head = shapeOf(1, 4);
    head.tasks[0].gpus.models = {kind};
    head.tasks[0].memory = kGiB * static_cast<std::int64_t>(cloud.queue.size() + 1);
    cloud.queued(head, kNow - minutes(20 - static_cast<std::int64_t>(cloud.queue.size())));
  }
  const auto plan = cloud.plan();
  ASSERT_EQ(plan.reservations.size(), 2u);
  EXPECT_EQ(plan.reservations[0].nodes, std::vector<NodeId>{NodeId(1)});
  EXPECT_EQ(plan.reservations[1].nodes, std::vector<NodeId>{NodeId(2)});
}

// A large job of a queue at its limit is not passed for ever by small ones of the same queue; other
// queues are not held up.
TEST(Reserve, TheRoomOfAQueueIsKeptToo) {
  Cloud cloud;
  cloud.add(nodeOf(8));
  const auto a = cloud.addQueue(queueOf("a", -1, 4));
  const auto b = cloud.addQueue(queueOf("b", -1));
  std::deque<JobId> running;
  const auto follow = [&](Timestamp now) {
    const auto plan = cloud.plan({}, now);
    for (const auto& start : plan.starts) {
      if (cloud.job(start.job).shape->queue == a) running.push_back(start.job);
    }
    cloud.follow(plan, now);
    return plan;
  };
  for (int i = 0; i < 4; ++i) cloud.queued(in(a, shapeOf(1, 1)));
  follow(kNow);
  const auto head = cloud.queued(in(a, shapeOf(1, 4)), kNow);
  int started = 0;
  for (int minute = 11; minute < 30 && started == 0; ++minute) {
    if (!running.empty()) {
      cloud.end(running.front());
      running.pop_front();
    }
    cloud.queued(in(a, shapeOf(1, 1)), kNow + minutes(minute));
    if (minute == 12) cloud.queued(in(b, shapeOf(1, 2)), kNow + minutes(minute));
    for (const auto& start : follow(kNow + minutes(minute)).starts)
      started = start.job == head ? minute : started;
    if (minute == 12) {
      EXPECT_EQ(cloud.gpusOf(b), 2);
    }
  }
  EXPECT_GT(started, 0);
  EXPECT_LE(started, 15);
}

}  // namespace
}  // namespace bole::scheduler
