// Parts of GPUs, labels and compute capability, as the scheduler's plans show them.
#include <gtest/gtest.h>

#include <map>

#include "model/use.h"
#include "scheduler/match.h"
#include "scheduler/testing/cloud.h"

namespace bole::scheduler {
namespace {

using model::Obstacle;

model::JobShape part(std::int64_t thousandths, std::int64_t gib = 0) {
  auto shape = shapeOf(1, 1);
  shape.tasks[0].cpus = MilliCpu(0);
  shape.tasks[0].gpus.share = MilliGpu(thousandths);
  if (gib > 0) shape.tasks[0].gpus.shareMemory = kGiB * gib;
  return shape;
}

model::Node nodeWithMemory(std::uint32_t gpus, std::int64_t gib) {
  auto node = nodeOf(gpus);
  for (auto& gpu : node.gpus) gpu.memory = kGiB * gib;
  return node;
}

const model::Reason& onlyReason(const model::Plan& plan) {
  EXPECT_EQ(plan.waiting.size(), 1u);
  EXPECT_EQ(plan.waiting.at(0).reasons.size(), 1u);
  return plan.waiting.at(0).reasons.at(0);
}

TEST(Grant, ShareAndMemoryFollowEachOtherAndNEqualPartsAlwaysFit) {
  model::Gpu gpu;
  gpu.memory = kGiB * 24;
  const auto grant = [&](std::int64_t share, std::optional<Bytes> memory) {
    model::GpuRequest request;
    request.count = 1;
    request.share = MilliGpu(share);
    request.shareMemory = memory;
    return grantOf(request, gpu);
  };
  EXPECT_EQ(grant(1000, {}), model::GpuGrant());
  EXPECT_EQ(grant(500, {}), (model::GpuGrant{MilliGpu(500), kGiB * 12}));
  EXPECT_EQ(grant(0, kGiB * 8), (model::GpuGrant{MilliGpu(333), kGiB * 8}));
  EXPECT_EQ(grant(250, kGiB * 20), (model::GpuGrant{MilliGpu(250), kGiB * 20}));
  EXPECT_EQ(grant(0, Bytes(1)).share, MilliGpu(1)) << "a part is never nothing";
}

TEST(ComputeCapability, IsReadInTenths) {
  EXPECT_EQ(computeTenths("8.0"), 80u);
  EXPECT_EQ(computeTenths("8.9"), 89u);
  EXPECT_EQ(computeTenths("12.0"), 120u);
  EXPECT_EQ(computeTenths("9"), 90u);
  EXPECT_EQ(computeTenths("12"), 120u);
  EXPECT_EQ(computeTenths("."), 0u);
  EXPECT_EQ(computeTenths(""), 0u);
  EXPECT_EQ(computeTenths("x.y"), 0u);
}

// 14. One free GPU of 24 GiB and three requests for 12 GiB at once: two start.
TEST(Scenario14, OfThreeHalvesAtOnceTwoStart) {
  Cloud cloud;
  cloud.add(nodeWithMemory(1, 24));
  for (int i = 0; i < 3; ++i) cloud.queued(part(0, 12));
  const auto plan = cloud.plan();
  ASSERT_EQ(plan.starts.size(), 2u);
  EXPECT_EQ(plan.starts[0].ranks[0].grants,
            (std::vector<model::GpuGrant>{{MilliGpu(500), kGiB * 12}}));
  const auto& reason = onlyReason(plan);
  EXPECT_EQ(reason.obstacle, Obstacle::kGpuShare);
  EXPECT_EQ(explain({reason}),
            "waits for 12 GiB of one GPU: 0 free now; the largest free part is 0 B");
}

// 15. Many parts at once: no GPU beyond its whole at any time, and all run in the end.
TEST(Scenario15, ManyPartsNeverOverfillAGpuAndAllFinish) {
  Cloud cloud;
  cloud.add(nodeOf(8));
  const std::vector<std::int64_t> sizes = {100, 250, 300, 450, 500, 600, 700, 900};
  for (std::size_t i = 0; i < 200; ++i) cloud.queued(part(sizes[i * 7 % sizes.size()]));
  std::vector<JobId> running;
  std::size_t done = 0;
  while (done < 200) {
    const auto plan = cloud.plan();
    cloud.follow(plan);
    for (const auto& start : plan.starts) running.push_back(start.job);
    ASSERT_FALSE(running.empty()) << done;
    const auto& node = *cloud.tables.nodes.find(NodeId(1));
    for (std::size_t g = 0; g < 8; ++g) {
      EXPECT_LE(node.gpuUsed[g], kWholeGpu);
      EXPECT_LE(node.gpuMemoryUsed[g], node.node->gpus[g].memory);
    }
    // Every second one ends.
    std::vector<JobId> stay;
    for (std::size_t r = 0; r < running.size(); ++r) {
      if (r % 2 == 1) {
        stay.push_back(running[r]);
        continue;
      }
      cloud.end(running[r]);
      ++done;
    }
    running = stay;
  }
  EXPECT_TRUE(running.empty());
}

// 16. Two GPUs with 0.4 free each do not serve 0.5, and the reason says why.
TEST(Scenario16, ThePartsOfTwoGpusAreNotAdded) {
  Cloud cloud;
  cloud.add(nodeOf(2));
  for (int i = 0; i < 2; ++i) cloud.queued(part(600));
  cloud.settle();
  cloud.queued(part(500));
  const auto plan = cloud.plan();
  EXPECT_TRUE(plan.starts.empty());
  EXPECT_EQ(explain({onlyReason(plan)}),
            "waits for 0.5 of one GPU: 0 free now; the largest free part is 0.4");
  cloud.add(nodeOf(1));
  EXPECT_EQ(cloud.plan().starts.at(0).ranks.at(0).node, NodeId(2)) << "the other node is used";
}

TEST(Shares, GoWhereOneIsAlreadyAndTheTightestFits) {
  Cloud cloud;
  cloud.add(nodeOf(4));
  cloud.add(nodeOf(2));
  const auto first = cloud.queued(part(300));
  cloud.settle();
  cloud.queued(part(600));
  auto plan = cloud.plan();
  const auto& before = cloud.tables.attempts.find(cloud.job(first).attempt)->ranks.at(0);
  EXPECT_EQ(before.node, NodeId(2)) << "the node with the fewest idle GPUs is opened";
  EXPECT_EQ(plan.starts.at(0).ranks.at(0).node, before.node);
  EXPECT_EQ(plan.starts.at(0).ranks.at(0).gpus, before.gpus);
}

TEST(Shares, AWholeGpuIsNoneThatIsShared) {
  Cloud cloud;
  cloud.add(nodeOf(1));
  cloud.queued(part(1));
  cloud.settle();
  cloud.queued(shapeOf(1, 1));
  EXPECT_EQ(onlyReason(cloud.plan()).obstacle, Obstacle::kGpus);
}

TEST(Shares, AQueueIsChargedWithItsParts) {
  Cloud cloud;
  cloud.add(nodeOf(4));
  auto queue = queueOf("q", -1);
  queue.limit.gpus = MilliGpu(1500);
  const auto q = cloud.addQueue(queue);
  for (int i = 0; i < 4; ++i) cloud.queued(in(q, part(500)));
  const auto plan = cloud.plan();
  EXPECT_EQ(plan.starts.size(), 3u);
  EXPECT_EQ(onlyReason(plan).obstacle, Obstacle::kQueueLimit);
}

// A part by memory has no share until its GPU is known: the reason counts what the limit counted.
TEST(Shares, APartByMemoryIsCountedInTheReasonToo) {
  Cloud cloud;
  cloud.add(nodeWithMemory(4, 24));
  auto queue = queueOf("q", -1);
  queue.limit.gpus = MilliGpu(600);
  const auto q = cloud.addQueue(queue);
  for (int i = 0; i < 2; ++i) cloud.queued(in(q, part(0, 12)));
  const auto plan = cloud.plan();
  EXPECT_EQ(plan.starts.size(), 1u);
  EXPECT_EQ(explain({onlyReason(plan)}),
            "waits for room in queue q: needs 0.5 GPUs, 0.1 are left under its limit");
}

// Each replica has its parts on different GPUs.
TEST(Shares, TwoPartsOfOneRankAreOnTwoGpus) {
  Cloud cloud;
  cloud.add(nodeOf(1));
  auto shape = part(250);
  shape.tasks[0].gpus.count = 2;
  EXPECT_FALSE(canEverRun(cloud.tables, shape));
  cloud.add(nodeOf(2));
  cloud.queued(shape);
  const auto plan = cloud.plan();
  ASSERT_EQ(plan.starts.size(), 1u);
  EXPECT_EQ(plan.starts[0].ranks[0].gpus, (std::vector<std::uint32_t>{0, 1}));
}

// A gang of parts may share one GPU.
TEST(Shares, AGangOfQuartersLiesOnOneGpu) {
  Cloud cloud;
  cloud.add(nodeOf(2));
  auto shape = part(250);
  shape.tasks[0].replicas = shape.tasks[0].minAvailable = shape.minAvailable = 4;
  cloud.queued(shape);
  const auto plan = cloud.plan();
  ASSERT_EQ(plan.starts.size(), 1u);
  for (const auto& rank : plan.starts[0].ranks) EXPECT_EQ(rank.gpus, plan.starts[0].ranks[0].gpus);
}

TEST(Shares, WhatAWaitingWholeGpuIsKeptNoPartTakes) {
  Cloud cloud;
  cloud.add(nodeOf(2));
  for (int i = 0; i < 2; ++i) cloud.queued(part(500));
  cloud.settle();  // both on one GPU; the other is idle
  const auto big = cloud.queued(shapeOf(1, 2), kNow - hours(1));
  cloud.queued(part(500));
  const auto plan = cloud.plan();
  EXPECT_TRUE(plan.starts.empty()) << "the idle GPU is kept for the job that has waited";
  ASSERT_EQ(plan.reservations.size(), 1u);
  EXPECT_EQ(plan.reservations[0].job, big);
}

TEST(Labels, OnlyNodesThatHaveThemAll) {
  Cloud cloud;
  cloud.add(nodeOf(4));
  auto node = nodeOf(4);
  node.labels = {{"zone", "a"}, {"disk", "ssd"}};
  cloud.add(node);
  auto shape = shapeOf(1, 1);
  shape.tasks[0].nodeLabels = {{"disk", "ssd"}};
  cloud.queued(shape);
  EXPECT_EQ(cloud.plan().starts.at(0).ranks.at(0).node, NodeId(2));
  shape.tasks[0].nodeLabels = {{"disk", "ssd"}, {"zone", "b"}};
  const auto never = canEverRun(cloud.tables, shape);
  ASSERT_FALSE(never);
  EXPECT_NE(never.error().message().find("needs a node with disk=ssd, zone=b, this cloud has none"),
            std::string::npos)
      << never.error().message();
  shape = shapeOf(1, 4);
  shape.tasks[0].nodeLabels = {{"disk", "ssd"}};
  cloud.settle();
  cloud.queued(shape);
  EXPECT_EQ(explain({onlyReason(cloud.plan())}),
            "waits for 4 GPUs on nodes with disk=ssd: 3 free now");
}

TEST(ComputeCapability, OnlyGpusOfAtLeastThat) {
  Cloud cloud;
  for (const auto* capability : {"7.5", "8.0"}) {
    auto node = nodeOf(1);
    node.gpus[0].computeCapability = capability;
    cloud.add(node);
  }
  auto shape = shapeOf(1, 1);
  shape.tasks[0].gpus.computeMin = 80;
  cloud.queued(shape);
  EXPECT_EQ(cloud.plan().starts.at(0).ranks.at(0).node, NodeId(2));
  shape.tasks[0].gpus.computeMin = 90;
  EXPECT_NE(canEverRun(cloud.tables, shape)
                .error()
                .message()
                .find("needs 1 GPU of compute capability 9.0 or more, this cloud has 0"),
            std::string::npos);
}

// ---- use of the past

TEST(PastUse, WhoHasUsedLessComesFirst) {
  Cloud cloud;
  cloud.add(nodeOf(1));
  const auto a = cloud.addQueue(queueOf("a", -1));
  const auto b = cloud.addQueue(queueOf("b", -1));
  const auto ofA = cloud.queued(in(a, shapeOf(1, 1)), kNow - minutes(2));
  const auto ofB = cloud.queued(in(b, shapeOf(1, 1)), kNow - minutes(1));
  EXPECT_EQ(cloud.plan().starts.at(0).job, ofA);
  model::QueueUse use{a, kNow};
  use.gpus = 500;
  cloud.tables.queueUse.put(a, use);
  EXPECT_EQ(cloud.plan().starts.at(0).job, ofB);
  // What lies far back counts little beside what another holds now.
  use.at = kNow - cloud.tables.policy->halfLife * 10;
  cloud.tables.queueUse.put(a, use);
  use = {b, kNow};
  use.gpus = 1;
  cloud.tables.queueUse.put(b, use);
  EXPECT_EQ(cloud.plan().starts.at(0).job, ofA);
}

// Long-run shares converge to the weights: what each queue gets over a long time, jobs always
// waiting in both.
TEST(PastUse, LongRunSharesConvergeToTheWeights) {
  Cloud cloud;
  cloud.add(nodeOf(5));
  auto heavy = queueOf("heavy", -1);
  heavy.weight = 3;
  const auto a = cloud.addQueue(heavy);
  const auto b = cloud.addQueue(queueOf("light", -1));
  auto policy = *cloud.tables.policy;
  policy.halfLife = hours(12);
  cloud.tables.policy = std::make_shared<const model::Policy>(policy);
  std::map<QueueId, std::int64_t> got;
  auto now = kNow;
  std::uint64_t state = 7;
  for (int turn = 0; turn < 2000; ++turn) {
    for (const auto queue : {a, b}) {
      const auto ofIt = std::count_if(cloud.queue.begin(), cloud.queue.end(), [&](JobId id) {
        return cloud.job(id).shape->queue == queue;
      });
      for (auto i = ofIt; i < 6; ++i) {
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
        cloud.queued(in(queue, shapeOf(1, static_cast<std::uint32_t>(1 + (state >> 60) % 2))), now);
      }
    }
    cloud.follow(cloud.plan({}, now), now);
    for (const auto queue : {a, b}) {
      const auto gpus = cloud.gpusOf(queue);
      got[queue] += gpus;
      const auto* known = cloud.tables.queueUse.find(queue);
      auto use = known ? model::useAt(*known, now, cloud.tables.policy->halfLife)
                       : model::QueueUse{queue, now};
      use.gpusHeld = kWholeGpu * gpus;
      cloud.tables.queueUse.put(queue, use);
    }
    now = now + minutes(10);
    std::vector<JobId> running;
    cloud.tables.attempts.forEach([&](AttemptId, const model::AttemptRecord& attempt) {
      if (attempt.live) running.push_back(attempt.job);
      return true;
    });
    for (std::size_t i = 0; i < running.size(); ++i) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      if ((state >> 60) % 3 == 0) cloud.end(running[i]);
    }
  }
  const auto ratio = static_cast<double>(got[a]) / static_cast<double>(got[b]);
  EXPECT_NEAR(ratio, 3, 0.3);
}

}  // namespace
}  // namespace bole::scheduler
