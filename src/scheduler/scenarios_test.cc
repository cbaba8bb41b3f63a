// What users of other systems met, where a file of tests/scenario cannot say it: many jobs that all
// differ, and nodes of every shape.
#include <gtest/gtest.h>

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

// 5. Ten thousand jobs, all different, that cannot start, and one behind them that can. With
// `patience` lost, the first of them is being kept for.
void oneBehindTenThousand(Duration waited) {
  Cloud cloud;
  const auto id = cloud.add(nodeOf(4));
  for (std::uint32_t gpu = 0; gpu < 4; ++gpu) cloud.hold(id, gpu);
  for (int i = 0; i < 10'000; ++i) {
    auto shape = shapeOf(1, 1);
    shape.tasks[0].memory = kMiB * (i + 1);
    cloud.queued(shape, kNow - waited);
  }
  const auto job = cloud.queued(shapeOf(1, 0));
  const auto plan = cloud.plan();
  ASSERT_EQ(plan.starts.size(), 1u);
  EXPECT_EQ(plan.starts[0].job, job);
  ASSERT_EQ(plan.waiting.size(), 10'000u);
  EXPECT_EQ(plan.waiting.back().reasons.at(0).obstacle, Obstacle::kGpus);
}

TEST(Scenario5, AnAdmissibleJobStartsInTheCycleThatSeesItBehindTenThousandAllDifferent) {
  oneBehindTenThousand(minutes(0));
}
TEST(Scenario5, AnAdmissibleJobStartsThoughTheTenThousandHaveLostPatience) {
  oneBehindTenThousand(minutes(60));
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
}  // namespace
}  // namespace bole::scheduler
