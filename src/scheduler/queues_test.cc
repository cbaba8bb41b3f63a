// Queues, quotas, reclaim and preemption, as the scheduler's plans show them.
#include "scheduler/queues.h"

#include <gtest/gtest.h>

#include <set>

#include "scheduler/testing/cloud.h"

namespace bole::scheduler {
namespace {

using model::Obstacle;

std::set<JobId> victimsOf(const model::Plan& plan) {
  std::set<JobId> victims;
  for (const auto& eviction : plan.evictions) victims.insert(eviction.job);
  return victims;
}

std::set<JobId> startedBy(const model::Plan& plan) {
  std::set<JobId> started;
  for (const auto& start : plan.starts) started.insert(start.job);
  return started;
}

const model::Reason& reasonOf(const model::Plan& plan, JobId job) {
  for (const auto& waiting : plan.waiting)
    if (waiting.job == job) return waiting.reasons.at(0);
  static const model::Reason none;
  ADD_FAILURE() << "job " << job.value << " does not wait";
  return none;
}

// 3. A gang larger than its queue may have: no part of it starts.
TEST(Scenario3, AGangAboveItsQueuesLimitStartsNoPartOfItself) {
  Cloud cloud;
  cloud.add(nodeOf(8));
  const auto small = cloud.addQueue(queueOf("small", -1, 4));
  const auto job = cloud.queued(in(small, shapeOf(5, 1)));
  const auto plan = cloud.plan();
  EXPECT_TRUE(plan.starts.empty());
  const auto& reason = reasonOf(plan, job);
  EXPECT_EQ(reason.obstacle, Obstacle::kQueueLimit);
  EXPECT_EQ(reason.needed, 5000);
  EXPECT_EQ(reason.available, 4000);
  EXPECT_EQ(reason.queue, "small");
  const auto never =
      canEverRun(cloud.tables, cloud.job(job).shape ? *cloud.job(job).shape : model::JobShape());
  ASSERT_FALSE(never);
  EXPECT_EQ(never.error().what,
            "this can never start here: needs 5 GPUs, queue small may have 4 GPUs");
}

TEST(Queues, ALimitOfAKindIsHeldWhereverTheJobIsPlaced) {
  Cloud cloud;
  cloud.add(nodeOf(4, "H100-SXM5-80GB"));
  cloud.add(nodeOf(4, "A100-SXM4-80GB"));
  model::Queue queue = queueOf("lab", -1);
  queue.limit.kinds = {{"H100", kWholeGpu * 1}};
  const auto lab = cloud.addQueue(queue);
  for (int i = 0; i < 6; ++i) cloud.queued(in(lab, shapeOf(1, 1)));
  const auto plan = cloud.plan();
  int h100 = 0;
  for (const auto& start : plan.starts) h100 += start.ranks[0].node == NodeId(1) ? 1 : 0;
  EXPECT_EQ(h100, 1);
  EXPECT_EQ(plan.starts.size(), 5u);
  ASSERT_EQ(plan.waiting.size(), 1u);
  const auto& reason = plan.waiting[0].reasons.at(0);
  EXPECT_EQ(reason.obstacle, Obstacle::kQueueLimit);
  EXPECT_EQ(reason.detail, "H100 GPUs");
}

TEST(Queues, TheLimitOfAParentIsSharedByItsChildren) {
  Cloud cloud;
  cloud.add(nodeOf(8));
  const auto parent = cloud.addQueue(queueOf("parent", -1, 3));
  auto child = queueOf("a", -1);
  child.parent = parent;
  const auto a = cloud.addQueue(child);
  child.name = "b";
  const auto b = cloud.addQueue(child);
  for (int i = 0; i < 4; ++i) {
    cloud.queued(in(a, shapeOf(1, 1)));
    cloud.queued(in(b, shapeOf(1, 1)));
  }
  cloud.settle();
  EXPECT_EQ(cloud.gpusOf(a) + cloud.gpusOf(b), 3);
  EXPECT_GE(cloud.gpusOf(a), 1);
  EXPECT_GE(cloud.gpusOf(b), 1);
}

TEST(Queues, BacklogsShareByTheirWeights) {
  Cloud cloud;
  for (int i = 0; i < 5; ++i) cloud.add(nodeOf(8));
  auto heavy = queueOf("heavy", -1);
  heavy.weight = 3;
  const auto a = cloud.addQueue(heavy);
  const auto b = cloud.addQueue(queueOf("light", -1));
  for (int i = 0; i < 100; ++i) cloud.queued(in(b, shapeOf(1, 1)));
  for (int i = 0; i < 100; ++i) cloud.queued(in(a, shapeOf(1, 1)));
  cloud.settle();
  EXPECT_EQ(cloud.gpusOf(a), 30);
  EXPECT_EQ(cloud.gpusOf(b), 10);
}

// 8. A preemptor that would not fit even then evicts nobody.
TEST(Scenario8, WhoWouldNotFitEvenThenStopsNobody) {
  Cloud cloud;
  cloud.add(nodeOf(8));
  const auto a = cloud.addQueue(queueOf("a", 8, 3));
  const auto b = cloud.addQueue(queueOf("b", 0));
  cloud.queued(in(b, shapeOf(1, 8)));
  cloud.settle();
  const auto job = cloud.queued(in(a, shapeOf(1, 4)));
  const auto plan = cloud.plan();
  EXPECT_TRUE(plan.evictions.empty());
  EXPECT_EQ(reasonOf(plan, job).obstacle, Obstacle::kQueueLimit);
}

// 9. What is freed for a job is held for it, also while only one of two has gone.
TEST(Scenario9, WhatIsFreedIsHeldUntilItsBeneficiaryStarts) {
  Cloud cloud;
  cloud.add(nodeOf(2));
  const auto a = cloud.addQueue(queueOf("a", 2));
  const auto b = cloud.addQueue(queueOf("b", 0));
  const auto first = cloud.queued(in(b, shapeOf(1, 1)));
  const auto second = cloud.queued(in(b, shapeOf(1, 1)));
  cloud.settle();
  const auto p = cloud.queued(in(a, shapeOf(1, 2)));
  auto plan = cloud.plan();
  EXPECT_EQ(victimsOf(plan), (std::set<JobId>{first, second}));
  cloud.follow(plan);
  cloud.requeue(first);
  for (int i = 0; i < 3; ++i) {
    plan = cloud.plan();
    EXPECT_TRUE(plan.starts.empty()) << "the first is not let in again while the second stops";
    EXPECT_TRUE(plan.evictions.empty());
    EXPECT_EQ(reasonOf(plan, p).obstacle, Obstacle::kStopping);
  }
  cloud.requeue(second);
  plan = cloud.plan();
  ASSERT_EQ(plan.starts.size(), 1u);
  EXPECT_EQ(plan.starts[0].job, p);
  cloud.follow(plan);
  EXPECT_TRUE(cloud.plan().evictions.empty());
}

// 10. Never below the victim queue's own guarantee.
TEST(Scenario10, AQueueIsNotBroughtBelowItsGuarantee) {
  Cloud cloud;
  cloud.add(nodeOf(13));
  const auto a = cloud.addQueue(queueOf("a", 4));
  const auto b = cloud.addQueue(queueOf("b", 10));
  const auto c = cloud.addQueue(queueOf("c", 0));
  static_cast<void>(c);
  std::vector<JobId> ofB;
  for (const auto gpus : {2u, 5u, 6u}) ofB.push_back(cloud.queued(in(b, shapeOf(1, gpus))));
  cloud.settle();
  ASSERT_EQ(cloud.gpusOf(b), 13);
  const auto job = cloud.queued(in(a, shapeOf(1, 4)));
  auto plan = cloud.plan();
  EXPECT_TRUE(plan.evictions.empty()) << "only the job of 2 may go, and that is not enough";
  EXPECT_EQ(reasonOf(plan, job).obstacle, Obstacle::kGpus);
  const auto smaller = cloud.queued(in(a, shapeOf(1, 2)));
  plan = cloud.plan();
  EXPECT_EQ(victimsOf(plan), std::set<JobId>{ofB[0]});
  EXPECT_EQ(plan.evictions.at(0).beneficiary, smaller);
}

// 11. A queue gets exactly what it is guaranteed.
TEST(Scenario11, AQueueReachesItsGuaranteeExactly) {
  Cloud cloud;
  for (int i = 0; i < 38; ++i) cloud.add(nodeOf(8, "A100-SXM4-80GB", 64));
  const auto a = cloud.addQueue(queueOf("a", 100));
  const auto b = cloud.addQueue(queueOf("b", 200));
  for (int i = 0; i < 304; ++i) cloud.queued(in(b, shapeOf(1, 1)), kNow);
  cloud.settle();
  ASSERT_EQ(cloud.gpusOf(b), 304);
  for (int i = 0; i < 100; ++i) cloud.queued(in(a, shapeOf(1, 1)), kNow);
  cloud.settle(kNow + minutes(1));
  EXPECT_EQ(cloud.gpusOf(a), 100);
  EXPECT_EQ(cloud.gpusOf(b), 204);
  cloud.settle(kNow + minutes(30));
  EXPECT_EQ(cloud.gpusOf(a), 100) << "and it stays so";
}

// 25. A limit lowered below what runs lets it run, and refuses new work.
TEST(Scenario25, WhatRunsAboveALoweredLimitGoesOn) {
  Cloud cloud;
  cloud.add(nodeOf(8));
  const auto a = cloud.addQueue(queueOf("a", -1, 8));
  for (int i = 0; i < 6; ++i) cloud.queued(in(a, shapeOf(1, 1)));
  cloud.settle();
  auto policy = *cloud.tables.policy;
  policy.queues.back().limit.gpus = kWholeGpu * 4;
  cloud.tables.policy = std::make_shared<const model::Policy>(policy);
  const auto job = cloud.queued(in(a, shapeOf(1, 1)));
  const auto plan = cloud.plan();
  EXPECT_TRUE(plan.starts.empty());
  EXPECT_TRUE(plan.evictions.empty());
  EXPECT_EQ(reasonOf(plan, job).obstacle, Obstacle::kQueueLimit);
  EXPECT_EQ(reasonOf(plan, job).available, 0);
}

// 26. Guarantees that add up to more than there is are reduced; the queues go on.
TEST(Scenario26, AGpuThatDiesStopsNoQueue) {
  Cloud cloud;
  auto node = nodeOf(8);
  node.gpus[7].health = model::GpuHealth::kDown;
  cloud.add(node);
  const auto a = cloud.addQueue(queueOf("a", 4));
  const auto b = cloud.addQueue(queueOf("b", 4));
  for (int i = 0; i < 8; ++i) {
    cloud.queued(in(a, shapeOf(1, 1)));
    cloud.queued(in(b, shapeOf(1, 1)));
  }
  cloud.settle();
  EXPECT_EQ(cloud.gpusOf(a) + cloud.gpusOf(b), 7);
  EXPECT_GE(cloud.gpusOf(a), 3);
  EXPECT_GE(cloud.gpusOf(b), 3);
}

TEST(Preemption, OnlyWhereTheQueueSaysSoAndOnlyLowerPriorities) {
  for (const bool allowed : {false, true}) {
    Cloud cloud;
    cloud.add(nodeOf(2));
    auto queue = queueOf("q", -1);
    if (allowed) queue.preemption = model::Preemption::kLowerPriority;
    const auto q = cloud.addQueue(queue);
    const auto low = cloud.queued(in(q, shapeOf(1, 1)));
    auto equal = in(q, shapeOf(1, 1));
    equal.priority = 10;
    cloud.queued(equal);
    cloud.settle();
    auto high = in(q, shapeOf(1, 1));
    high.priority = 10;
    cloud.queued(high);
    const auto plan = cloud.plan();
    EXPECT_EQ(victimsOf(plan), allowed ? std::set<JobId>{low} : std::set<JobId>{});
  }
}

TEST(Preemption, TheLeastWorkIsLost) {
  Cloud cloud;
  cloud.add(nodeOf(4));
  const auto a = cloud.addQueue(queueOf("a", 4));
  const auto b = cloud.addQueue(queueOf("b", 0));
  std::vector<JobId> jobs;
  for (int i = 0; i < 4; ++i) {
    jobs.push_back(cloud.queued(in(b, shapeOf(1, 1))));
    cloud.settle(kNow + minutes(i * 10));
  }
  // The oldest has just saved its work.
  cloud.tables.attempts.edit(cloud.job(jobs[0]).attempt)->checkpointAt = kNow + minutes(39);
  cloud.queued(in(a, shapeOf(1, 1)));
  const auto plan = cloud.plan({}, kNow + minutes(40));
  EXPECT_EQ(victimsOf(plan), std::set<JobId>{jobs[0]});
}

TEST(Preemption, NoMoreVictimsThanNeeded) {
  Cloud cloud;
  cloud.add(nodeOf(8));
  cloud.add(nodeOf(8));
  const auto a = cloud.addQueue(queueOf("a", 8));
  const auto b = cloud.addQueue(queueOf("b", 0));
  // One node is full of old single ones, the other of young ones beside a large old one.
  for (int i = 0; i < 8; ++i) cloud.queued(in(b, shapeOf(1, 1)));
  cloud.settle();
  const auto large = cloud.queued(in(b, shapeOf(1, 6)));
  cloud.settle(kNow + minutes(10));
  std::set<JobId> young;
  for (int i = 0; i < 2; ++i) young.insert(cloud.queued(in(b, shapeOf(1, 1))));
  cloud.settle(kNow + minutes(20));
  cloud.queued(in(a, shapeOf(1, 2)));
  EXPECT_EQ(victimsOf(cloud.plan({}, kNow + minutes(30))), young);
  auto all = young;
  all.insert(large);
  cloud.queue.clear();
  cloud.queued(in(a, shapeOf(1, 8)));
  EXPECT_EQ(victimsOf(cloud.plan({}, kNow + minutes(30))), all);
}

TEST(Preemption, SpotGivesWayToAnyoneAndCountsAgainstNoGuarantee) {
  Cloud cloud;
  cloud.add(nodeOf(4));
  const auto a = cloud.addQueue(queueOf("a", -1));
  auto spot = in(a, shapeOf(1, 4));
  spot.spot = true;
  const auto victim = cloud.queued(spot);
  cloud.settle();
  cloud.queued(spot);
  EXPECT_TRUE(cloud.plan().evictions.empty()) << "spot does not stop spot";
  cloud.queued(shapeOf(1, 1));
  EXPECT_EQ(victimsOf(cloud.plan()), std::set<JobId>{victim});
}

TEST(Preemption, WhatCannotBePreemptedBorrowsNothingThatIsGuaranteed) {
  Cloud cloud;
  cloud.add(nodeOf(8));
  const auto a = cloud.addQueue(queueOf("a", 5));
  const auto b = cloud.addQueue(queueOf("b", 1));
  auto firm = in(b, shapeOf(1, 1));
  firm.preemptible = false;
  for (int i = 0; i < 5; ++i) cloud.queued(firm);
  cloud.settle();
  EXPECT_EQ(cloud.gpusOf(b), 3) << "its own and the two that nobody is guaranteed";
  const auto plan = cloud.plan();
  ASSERT_EQ(plan.waiting.size(), 2u);
  EXPECT_EQ(plan.waiting[0].reasons.at(0).obstacle, Obstacle::kGuaranteed);
  EXPECT_EQ(plan.waiting[0].reasons.at(0).available, 0);
  for (int i = 0; i < 5; ++i) cloud.queued(in(a, shapeOf(1, 1)));
  cloud.settle();
  EXPECT_EQ(cloud.gpusOf(a), 5);
}

// 12 and 13. One eviction serves a job that asks for several things of the victim's; the victim
// waits again at its old place.
TEST(Scenario12, OneVictimServesAllThatTheJobAsksFor) {
  Cloud cloud;
  cloud.add(nodeOf(2, "A100-SXM4-80GB"));
  auto queue = queueOf("q", -1);
  queue.preemption = model::Preemption::kLowerPriority;
  const auto q = cloud.addQueue(queue);
  auto low = in(q, shapeOf(1, 2));
  const auto victim = cloud.queued(low, kNow - minutes(5));
  cloud.settle();
  auto high = in(q, shapeOf(2, 1));
  high.priority = 1;
  const auto job = cloud.queued(high);
  auto plan = cloud.plan();
  EXPECT_EQ(victimsOf(plan), std::set<JobId>{victim});
  cloud.follow(plan);
  cloud.requeue(victim);
  plan = cloud.plan();
  ASSERT_EQ(plan.starts.size(), 1u);
  EXPECT_EQ(plan.starts[0].job, job);
  ASSERT_EQ(plan.waiting.size(), 1u);
  EXPECT_EQ(plan.waiting[0].job, victim);
}

// ---- what one user may have

TEST(UserLimits, OneUserHoldsNoMoreThanTheQueueSaysAndOthersGoOn) {
  Cloud cloud;
  cloud.add(nodeOf(8));
  auto queue = queueOf("q", -1);
  queue.perUser.gpus = kWholeGpu * 3;
  const auto q = cloud.addQueue(queue);
  const auto of = [&](std::uint64_t user, std::uint32_t gpus) {
    return cloud.queued(in(q, shapeOf(1, gpus)), kNow, UserId(user));
  };
  of(1, 2);
  const auto refused = of(1, 2);
  const auto fits = of(1, 1);
  const auto other = of(2, 3);
  const auto plan = cloud.plan();
  EXPECT_EQ(startedBy(plan), (std::set<JobId>{JobId(1), fits, other}));
  const auto& reason = reasonOf(plan, refused);
  EXPECT_EQ(reason.obstacle, Obstacle::kUserLimit);
  EXPECT_EQ(reason.needed, 2000);
  EXPECT_EQ(reason.available, 0);
  EXPECT_EQ(explain({reason}),
            "waits for other jobs of its user in queue q: needs 2 GPUs, 0 are left");
}

TEST(UserLimits, SoManyJobsOfOneUserRun) {
  Cloud cloud;
  cloud.add(nodeOf(8));
  auto queue = queueOf("q", -1);
  queue.perUserRunning = 2;
  const auto q = cloud.addQueue(queue);
  auto below = queueOf("below", -1);
  below.parent = q;
  const auto leaf = cloud.addQueue(below);
  for (int i = 0; i < 3; ++i) cloud.queued(in(leaf, shapeOf(2, 1)), kNow, UserId(1));
  const auto other = cloud.queued(in(leaf, shapeOf(1, 1)), kNow, UserId(2));
  auto plan = cloud.plan();
  EXPECT_EQ(startedBy(plan), (std::set<JobId>{JobId(1), JobId(2), other}));
  EXPECT_EQ(explain({reasonOf(plan, JobId(3))}),
            "waits for other jobs of its user in queue q: needs 1 job, 0 are left");
  cloud.follow(plan);
  EXPECT_TRUE(cloud.plan().starts.empty());
  cloud.end(JobId(1));
  EXPECT_EQ(startedBy(cloud.plan()), std::set<JobId>{JobId(3)});
}

// Nobody is stopped for a job that its user's limit would keep from starting all the same.
TEST(UserLimits, NobodyIsStoppedForWhoMayHaveNoMore) {
  Cloud cloud;
  cloud.add(nodeOf(4));
  auto queue = queueOf("q", 4);
  queue.perUserRunning = 1;
  const auto q = cloud.addQueue(queue);
  cloud.queued(in(q, shapeOf(1, 1)), kNow, UserId(1));
  cloud.settle();
  for (int i = 0; i < 3; ++i) cloud.queued(shapeOf(1, 1), kNow, UserId(3));
  cloud.settle();
  cloud.queued(in(q, shapeOf(1, 1)), kNow, UserId(1));
  EXPECT_TRUE(cloud.plan().evictions.empty());
  cloud.queued(in(q, shapeOf(1, 1)), kNow, UserId(2));
  EXPECT_EQ(cloud.plan().evictions.size(), 1u);
}

}  // namespace
}  // namespace bole::scheduler
