// Planners that live, large clouds, and what nodes are worth to the jobs to come.
#include "scheduler/planner.h"

#include <gtest/gtest.h>

#include <set>

#include "scheduler/place.h"
#include "scheduler/testing/cloud.h"
#include "scheduler/world.h"

namespace bole::scheduler {
namespace {

model::JobShape part(std::int64_t milli) {
  auto shape = shapeOf(1, 1);
  shape.tasks[0].gpus.share = MilliGpu(milli);
  return shape;
}

std::set<NodeId> nodesOfAll(const model::Plan& plan) {
  std::set<NodeId> nodes;
  for (const auto& start : plan.starts)
    for (const auto& rank : start.ranks) nodes.insert(rank.node);
  return nodes;
}

// What has been asked for so far: whole nodes, pairs, single GPUs and parts.
void addHistory(Cloud& cloud) {
  for (int i = 0; i < 40; ++i) {
    for (const auto& shape : {shapeOf(1, 8), shapeOf(1, 2), shapeOf(1, 1), part(500), part(250)}) {
      const auto id = cloud.queued(shape);
      cloud.tables.jobs.edit(id)->state = model::JobState::kSucceeded;
    }
  }
  cloud.queue.clear();
}

TEST(Value, SmallJobsFillOneNodeAndWholeNodesStayWhole) {
  Cloud cloud;
  for (int n = 0; n < 6; ++n) cloud.add(nodeOf(8));
  addHistory(cloud);
  Planner planner;
  for (int i = 0; i < 8; ++i) {
    for (const auto& shape : {part(500), part(250), shapeOf(1, 1)}) cloud.queued(shape);
    cloud.follow(planner.plan(cloud.tables, cloud.queue, kNow, {}));
    EXPECT_TRUE(cloud.queue.empty());
  }
  // 8 halves, 8 quarters and 8 whole ones are 14 GPUs: two nodes, and one more at the most.
  for (int i = 0; i < 3; ++i) cloud.queued(shapeOf(1, 8));
  EXPECT_EQ(planner.plan(cloud.tables, cloud.queue, kNow, {}).starts.size(), 3u);
}

TEST(Value, ARequestThatFitsIsNeverRefusedForItsValue) {
  Cloud cloud;
  for (int n = 0; n < 3; ++n) cloud.add(nodeOf(8, "A100-SXM4-80GB", 31));  // rounded down: 30
  addHistory(cloud);
  auto shape = shapeOf(1, 8);
  shape.tasks[0].cpus = MilliCpu(31'000);
  for (int n = 0; n < 3; ++n) cloud.queued(shape);
  EXPECT_EQ(cloud.plan().starts.size(), 3u);
}

TEST(Gang, GoesToAsFewNodesAsItCan) {
  Cloud cloud;
  for (int n = 0; n < 8; ++n) {
    const auto id = cloud.add(nodeOf(8));
    for (std::uint32_t g = 0; g < (n < 5 ? 6U : 0U); ++g) cloud.hold(id, g);
  }
  cloud.queued(shapeOf(16, 1));
  const auto plan = cloud.plan();
  ASSERT_EQ(plan.starts.size(), 1u);
  EXPECT_EQ(nodesOfAll(plan), (std::set<NodeId>{NodeId(6), NodeId(7)}));
  cloud.queue.clear();
  cloud.queued(shapeOf(18, 1));
  const auto more = cloud.plan();
  EXPECT_EQ(nodesOfAll(more), (std::set<NodeId>{NodeId(1), NodeId(6), NodeId(7)}))
      << "what is left over goes where it fits best";
}

// Rank by rank against all at once: as many as fit, wherever CPUs or GPUs are what lacks.
TEST(Gang, OfAThousandRanksTakesAllThatThereIs) {
  Cloud cloud;
  for (int n = 0; n < 200; ++n) cloud.add(nodeOf(8, "A100-SXM4-80GB", n % 2 == 0 ? 5 : 64));
  auto shape = shapeOf(100 * 5 + 100 * 8, 1);
  cloud.queued(shape);
  ASSERT_EQ(cloud.plan().starts.size(), 1u);
  cloud.queue.clear();
  shape.tasks[0].replicas = shape.tasks[0].minAvailable = ++shape.minAvailable;
  cloud.queued(shape);
  const auto plan = cloud.plan();
  EXPECT_TRUE(plan.starts.empty());
  EXPECT_EQ(explain(plan.waiting.at(0).reasons),
            "waits for 1301 CPUs in groups of 1 on one node beside 1 GPU: 1300 free now");
}

TEST(Planner, FollowsNodesThatComeAndGoAndAreDrained) {
  Cloud cloud;
  Planner planner;
  cloud.queued(shapeOf(1, 4));
  const auto starts = [&] { return planner.plan(cloud.tables, cloud.queue, kNow, {}).starts; };
  EXPECT_TRUE(starts().empty());
  const auto id = cloud.add(nodeOf(4));
  EXPECT_EQ(starts().size(), 1u);
  EXPECT_EQ(starts().size(), 1u) << "a plan leaves nothing behind";
  cloud.tables.nodes.edit(id)->present = false;
  EXPECT_TRUE(starts().empty());
  cloud.tables.nodes.edit(id)->present = true;
  EXPECT_EQ(starts().size(), 1u);
  auto drained = nodeOf(4);
  drained.health = model::GpuHealth::kDraining;
  cloud.tables.nodes.edit(id)->node = std::make_shared<const model::Node>(drained);
  EXPECT_TRUE(starts().empty());
}

}  // namespace
}  // namespace bole::scheduler
