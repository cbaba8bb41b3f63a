// What users of other systems met, each with its number in the list of scheduling scenarios.
#include <gtest/gtest.h>

#include <set>

#include "scheduler/testing/cloud.h"

namespace bole::scheduler {
namespace {

using model::LinkKind;
using model::Obstacle;
using Gpus = std::vector<std::uint32_t>;

// Two sockets with four GPUs each: links within a socket and across.
model::Node twoSockets(LinkKind within, LinkKind across) {
  auto node = nodeOf(8);
  node.numaNodes = 2;
  for (std::uint32_t a = 0; a < 8; ++a) {
    node.gpus[a].numaNode = a < 4 ? 0 : 1;
    for (std::uint32_t b = 0; b < 8; ++b) {
      node.links[a * 8 + b] = {a == b ? LinkKind::kSelf : a / 4 == b / 4 ? within : across, 0};
    }
  }
  return node;
}

// Starts one job of so many GPUs at once; returns its GPUs.
Gpus startOne(Cloud& cloud, std::uint32_t gpus) {
  cloud.queued(shapeOf(1, gpus));
  const auto plan = cloud.plan();
  if (plan.starts.size() != 1) return {};
  cloud.begin(plan.starts[0]);
  return plan.starts[0].ranks.at(0).gpus;
}

// 5. Ten thousand jobs that cannot start, and one behind them that can. With `patience` lost, the
// first of them is being kept for.
void oneBehindTenThousand(bool alike, Duration waited) {
  Cloud cloud;
  const auto id = cloud.add(nodeOf(4));
  for (std::uint32_t gpu = 0; gpu < 4; ++gpu) cloud.hold(id, gpu);
  for (int i = 0; i < 10'000; ++i) {
    auto shape = shapeOf(1, 1);
    if (!alike) shape.tasks[0].memory = kMiB * (i + 1);
    cloud.queued(shape, kNow - waited);
  }
  const auto job = cloud.queued(shapeOf(1, 0));
  const auto plan = cloud.plan();
  ASSERT_EQ(plan.starts.size(), 1u);
  EXPECT_EQ(plan.starts[0].job, job);
  ASSERT_EQ(plan.waiting.size(), 10'000u);
  EXPECT_EQ(plan.waiting.back().reasons.at(0).obstacle, Obstacle::kGpus);
}

TEST(Scenario5, AnAdmissibleJobStartsInTheCycleThatSeesItBehindTenThousandAlike) {
  oneBehindTenThousand(true, minutes(0));
}
TEST(Scenario5, AnAdmissibleJobStartsInTheCycleThatSeesItBehindTenThousandAllDifferent) {
  oneBehindTenThousand(false, minutes(0));
}
TEST(Scenario5, AnAdmissibleJobStartsThoughTheTenThousandHaveLostPatience) {
  oneBehindTenThousand(false, minutes(60));
}

// 14. Three ask at once for what two can have: the check and the taking are one step.
TEST(Scenario14, ThreeThatAskAtOnceForOneGpuGetItOnce) {
  Cloud cloud;
  auto node = nodeOf(1);
  node.gpus[0].memory = kGiB * 24;
  cloud.add(node);
  auto shape = shapeOf(1, 1);
  shape.tasks[0].gpus.memoryMin = kGiB * 12;
  for (int i = 0; i < 3; ++i) cloud.queued(shape);
  const auto plan = cloud.plan();
  ASSERT_EQ(plan.starts.size(), 1u);
  ASSERT_EQ(plan.waiting.size(), 2u);
  for (const auto& waiting : plan.waiting) {
    EXPECT_EQ(waiting.reasons.at(0).obstacle, Obstacle::kGpus);
    EXPECT_EQ(waiting.reasons.at(0).available, 0);
  }
}

TEST(Scenario14, ThreeThatAskAtOnceForHalfOfTheMemoryAreTwoThatStart) {
  Cloud cloud;
  auto node = nodeOf(4);
  node.memory = kGiB * 24;
  cloud.add(node);
  auto shape = shapeOf(1, 1);
  shape.tasks[0].memory = kGiB * 12;
  for (int i = 0; i < 3; ++i) cloud.queued(shape);
  const auto plan = cloud.plan();
  EXPECT_EQ(plan.starts.size(), 2u);
  ASSERT_EQ(plan.waiting.size(), 1u);
  EXPECT_EQ(explain(plan.waiting[0].reasons), "waits for 12 GiB of memory: 0 B free now");
}

// 20. Pairs linked crosswise: each job of two gets a pair, to the last.
TEST(Scenario20, TwoGpusAreAlwaysANvLinkPair) {
  auto node = nodeOf(8);
  for (const auto& [a, b] : {std::pair(0u, 2u), {1u, 3u}, {4u, 5u}, {6u, 7u}}) link(node, a, b, 4);
  Cloud cloud;
  const auto id = cloud.add(node);
  cloud.hold(id, 0);
  const std::set<Gpus> pairs = {{1, 3}, {4, 5}, {6, 7}};
  std::set<Gpus> given;
  for (int i = 0; i < 3; ++i) given.insert(startOne(cloud, 2));
  EXPECT_EQ(given, pairs);
}

TEST(Scenario20, OneGpuIsTakenFromAPairThatIsBrokenAlready) {
  auto node = nodeOf(8);
  for (const auto& [a, b] : {std::pair(0u, 2u), {1u, 3u}, {4u, 5u}, {6u, 7u}}) link(node, a, b, 4);
  Cloud cloud;
  cloud.hold(cloud.add(node), 5);
  EXPECT_EQ(startOne(cloud, 1), (Gpus{4}));
}

// 21. Small jobs fill the socket that is in use, so that four GPUs of one socket stay together.
void smallJobsLeaveASocket(const model::Node& node) {
  for (const std::uint32_t busy : {0u, 3u, 4u, 6u}) {
    for (const std::uint32_t size : {1u, 2u}) {
      Cloud cloud;
      cloud.hold(cloud.add(node), busy);
      const auto small = startOne(cloud, size);
      ASSERT_EQ(small.size(), size);
      for (const auto gpu : small) EXPECT_EQ(gpu / 4, busy / 4) << "GPU " << busy << " was busy";
      const auto four = startOne(cloud, 4);
      EXPECT_EQ(four, busy < 4 ? (Gpus{4, 5, 6, 7}) : (Gpus{0, 1, 2, 3}));
    }
  }
}

TEST(Scenario21, SmallJobsAreGivenTheSocketInUseByItsLinks) {
  smallJobsLeaveASocket(twoSockets(LinkKind::kNode, LinkKind::kSys));
}
TEST(Scenario21, SmallJobsAreGivenTheSocketInUseThoughNoSocketIsKnown) {
  auto node = twoSockets(LinkKind::kNode, LinkKind::kSys);
  for (auto& gpu : node.gpus) gpu.numaNode = -1;
  smallJobsLeaveASocket(node);
}
TEST(Scenario21, SmallJobsAreGivenTheSocketInUseThoughAllLinksAreEqual) {
  auto node = twoSockets(LinkKind::kSys, LinkKind::kSys);
  for (const std::uint32_t busy : {3u, 6u}) {
    Cloud one;
    one.hold(one.add(node), busy);
    const auto small = startOne(one, 1);
    ASSERT_EQ(small.size(), 1u);
    EXPECT_EQ(small[0] / 4, busy / 4);
  }
}
TEST(Scenario21, FourSmallJobsInOneCycleShareASocket) {
  Cloud cloud;
  cloud.hold(cloud.add(twoSockets(LinkKind::kNode, LinkKind::kSys)), 5);
  for (int i = 0; i < 3; ++i) cloud.queued(shapeOf(1, 1));
  cloud.queued(shapeOf(1, 4));
  const auto plan = cloud.plan();
  ASSERT_EQ(plan.starts.size(), 4u);
  EXPECT_EQ(plan.starts[3].ranks.at(0).gpus, (Gpus{0, 1, 2, 3}));
}

// 22. The second of one cycle sees what the first was given.
TEST(Scenario22, TwoJobsOfOneCycleAreNotGivenTheSameNode) {
  Cloud cloud;
  cloud.add(nodeOf(8));
  const auto first = cloud.queued(shapeOf(1, 8));
  const auto second = cloud.queued(shapeOf(8, 1));
  cloud.tables.jobs.edit(first)->project = ProjectId(1);
  cloud.tables.jobs.edit(second)->project = ProjectId(2);
  const auto plan = cloud.plan();
  ASSERT_EQ(plan.starts.size(), 1u);
  EXPECT_EQ(plan.starts[0].job, first);
  ASSERT_EQ(plan.waiting.size(), 1u);
  EXPECT_EQ(explain(plan.waiting[0].reasons), "waits for 8 GPUs: 0 free now");
}

}  // namespace
}  // namespace bole::scheduler
