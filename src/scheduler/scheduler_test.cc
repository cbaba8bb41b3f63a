#include "scheduler/scheduler.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <functional>
#include <set>

#include "scheduler/match.h"
#include "scheduler/obstacles.h"
#include "scheduler/place.h"
#include "scheduler/testing/cloud.h"
#include "scheduler/world.h"

namespace bole::scheduler {
namespace {

using model::Obstacle;

TEST(Match, ModelsAreNamedByWholeWords) {
  EXPECT_TRUE(namesModel("A100", "A100-SXM4-80GB"));
  EXPECT_TRUE(namesModel("a100", "NVIDIA A100 80GB PCIe"));
  EXPECT_TRUE(namesModel("3090", "GeForce RTX 3090"));
  EXPECT_FALSE(namesModel("H200", "GH200-480GB"));
  EXPECT_FALSE(namesModel("A10", "A100-SXM4-80GB"));
}

TEST(Plan, AGangStartsWholeOrNotAtAll) {
  Cloud cloud;
  cloud.add(nodeOf(4));
  cloud.queued(shapeOf(5, 1));
  const auto plan = cloud.plan();
  EXPECT_TRUE(plan.starts.empty());
  ASSERT_EQ(plan.waiting.size(), 1u);
  EXPECT_EQ(plan.waiting[0].reasons[0].obstacle, Obstacle::kGpus);
  EXPECT_EQ(plan.waiting[0].reasons[0].needed, 5);
  EXPECT_EQ(plan.waiting[0].reasons[0].available, 4);
}

TEST(Plan, AGangWithASmallerMinimumTakesWhatThereIs) {
  Cloud cloud;
  cloud.add(nodeOf(4));
  auto shape = shapeOf(6, 1);
  shape.tasks[0].minAvailable = shape.minAvailable = 3;
  cloud.queued(shape);
  const auto plan = cloud.plan();
  ASSERT_EQ(plan.starts.size(), 1u);
  EXPECT_EQ(plan.starts[0].ranks.size(), 4u);
}

TEST(Plan, JobsThatDifferInTheirMinimumAreNotAlike) {
  Cloud cloud;
  cloud.add(nodeOf(4));
  cloud.queued(shapeOf(6, 1));
  auto shape = shapeOf(6, 1);
  shape.minAvailable = 3;
  shape.tasks[0].minAvailable = 3;
  const auto elastic = cloud.queued(shape);
  const auto plan = cloud.plan();
  ASSERT_EQ(plan.starts.size(), 1u);
  EXPECT_EQ(plan.starts[0].job, elastic);
}

TEST(Plan, ALauncherDoesNotSitDownWhereOnlyAWorkerCould) {
  Cloud cloud;
  const auto h100 = cloud.add(nodeOf(2, "H100-SXM5-80GB", 16));
  const auto a100 = cloud.add(nodeOf(4));
  auto shape = shapeOf(1, 0);
  shape.tasks.push_back(shape.tasks[0]);
  shape.minAvailable = 2;
  shape.tasks[1].gpus.count = 2;
  shape.tasks[1].gpus.models = {"H100"};
  shape.tasks[1].cpus = MilliCpu(16'000);
  cloud.queued(shape);
  const auto plan = cloud.plan();
  ASSERT_EQ(plan.starts.size(), 1u);
  const auto& ranks = plan.starts[0].ranks;
  ASSERT_EQ(ranks.size(), 2u);
  EXPECT_EQ(ranks[0].task, 0u) << "ranks stay in the order of tasks";
  EXPECT_EQ(ranks[0].node, a100);
  EXPECT_EQ(ranks[1].node, h100);
}

TEST(Plan, ARankNeedsItsGpusInOneNode) {
  Cloud cloud;
  cloud.add(nodeOf(2));
  cloud.add(nodeOf(2));
  cloud.queued(shapeOf(1, 3));
  const auto reasons = cloud.plan().waiting.at(0).reasons;
  EXPECT_EQ(reasons[0].obstacle, Obstacle::kGpusPerNode);
  EXPECT_EQ(explain(reasons), "waits for a node with 3 free GPUs: the most on one node is 2");
}

TEST(Plan, TwoGpusAreABridgedPair) {
  auto node = nodeOf(4);
  link(node, 0, 3, 4);
  link(node, 1, 2, 4);
  Cloud cloud;
  cloud.add(node);
  cloud.queued(shapeOf(1, 2));
  EXPECT_EQ(cloud.plan().starts.at(0).ranks.at(0).gpus, (std::vector<std::uint32_t>{0, 3}));
}

TEST(Plan, ASingleGpuDoesNotBreakAPair) {
  auto node = nodeOf(4);
  link(node, 0, 1, 4);
  link(node, 2, 3, 4);
  Cloud cloud;
  const auto id = cloud.add(node);
  cloud.hold(id, 3);
  cloud.queued(shapeOf(1, 1));
  EXPECT_EQ(cloud.plan().starts.at(0).ranks.at(0).gpus, (std::vector<std::uint32_t>{2}));
}

TEST(Plan, TheFullestNodeThatFitsIsTaken) {
  Cloud cloud;
  cloud.add(nodeOf(8));
  const auto small = cloud.add(nodeOf(4));
  cloud.queued(shapeOf(2, 1));
  EXPECT_EQ(cloud.plan().starts.at(0).ranks.at(0).node, small);
}

TEST(Plan, ASmallJobPassesABigOneUntilThatLosesPatience) {
  Cloud cloud;
  const auto id = cloud.add(nodeOf(4));
  cloud.hold(id, 0);
  const auto big = cloud.queued(shapeOf(4, 1), kNow);
  cloud.queued(shapeOf(1, 1), kNow);
  EXPECT_EQ(cloud.plan().starts.size(), 1u);
  EXPECT_EQ(cloud.plan().nextLook, kNow + minutes(10));
  cloud.tables.jobs.edit(big)->queuedAt = kNow - minutes(11);
  const auto plan = cloud.plan();
  EXPECT_TRUE(plan.starts.empty());
  EXPECT_TRUE(plan.keeps);
  ASSERT_EQ(plan.waiting.size(), 2u);
  EXPECT_EQ(plan.waiting[1].reasons[0].obstacle, Obstacle::kAhead);
  EXPECT_EQ(plan.waiting[1].reasons[0].ahead, big);
}

TEST(Plan, ABackOffIsWaitedFor) {
  Cloud cloud;
  cloud.add(nodeOf(4));
  const auto id = cloud.queued(shapeOf(1, 1));
  cloud.tables.jobs.edit(id)->notBefore = kNow + seconds(7);
  cloud.tables.jobs.edit(id)->attempts = 1;
  const auto plan = cloud.plan();
  EXPECT_EQ(plan.waiting.at(0).reasons.at(0).obstacle, Obstacle::kBackoff);
  EXPECT_EQ(plan.nextLook, kNow + seconds(7));
}

TEST(Plan, UnhealthyGpusAreNotGiven) {
  auto node = nodeOf(2);
  node.gpus[0].health = model::GpuHealth::kDown;
  Cloud cloud;
  cloud.add(node);
  cloud.queued(shapeOf(1, 1));
  EXPECT_EQ(cloud.plan().starts.at(0).ranks.at(0).gpus, (std::vector<std::uint32_t>{1}));
}

TEST(CanEverRun, SaysWhatIsNeededAndWhatThereIs) {
  Cloud cloud;
  cloud.add(nodeOf(8));
  const auto refused = canEverRun(cloud.tables, shapeOf(1, 9));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kRefused);
  EXPECT_NE(refused.error().message().find("needs 9 GPUs, this cloud has 8"), std::string::npos)
      << refused.error().message();
  for (const auto id : {NodeId(1)}) cloud.hold(id, 0);
  EXPECT_TRUE(canEverRun(cloud.tables, shapeOf(8, 1))) << "held now is not never";
}

// ---- properties
// ----------------------------------------------------------------------------------------------------

rc::Gen<model::JobShape> anyShape() {
  return rc::gen::exec([] {
    auto shape =
        shapeOf(*rc::gen::inRange<std::uint32_t>(1, 5), *rc::gen::inRange<std::uint32_t>(0, 4));
    shape.tasks[0].cpus = MilliCpu(*rc::gen::inRange<std::int64_t>(0, 9) * 1000);
    if (*rc::gen::inRange(0, 4) == 0)
      shape.tasks[0].gpus.models = {*rc::gen::element<std::string>("A100", "T4")};
    return shape;
  });
}

Cloud anyCloud() {
  Cloud cloud;
  const auto nodes = *rc::gen::inRange(0, 4);
  for (int n = 0; n < nodes; ++n) {
    const auto gpus = *rc::gen::inRange<std::uint32_t>(0, 5);
    auto node = nodeOf(gpus, *rc::gen::element<std::string>("A100-SXM4-80GB", "T4"),
                       *rc::gen::inRange<std::int64_t>(1, 20));
    const auto id = cloud.add(node);
    for (std::uint32_t g = 0; g < gpus; ++g) {
      if (*rc::gen::inRange(0, 3) == 0) cloud.hold(id, g);
    }
  }
  const auto jobs = *rc::gen::inRange(0, 8);
  for (int j = 0; j < jobs; ++j)
    cloud.queued(*anyShape(), kNow - seconds(*rc::gen::inRange(0, 1200)));
  return cloud;
}

RC_GTEST_PROP(PlanProperties, GivesNothingTwiceAndNothingThatIsNotThere, ()) {
  const auto cloud = anyCloud();
  const auto plan = cloud.plan();
  std::set<std::pair<std::uint64_t, std::uint32_t>> given;
  std::map<std::uint64_t, std::int64_t> cpus;
  for (const auto& start : plan.starts) {
    const auto& shape = *cloud.tables.jobs.find(start.job)->shape;
    RC_ASSERT(start.ranks.size() == shape.replicas());
    for (const auto& rank : start.ranks) {
      const auto& node = *cloud.tables.nodes.find(rank.node);
      const auto& request = shape.tasks[rank.task].gpus;
      RC_ASSERT(rank.gpus.size() == request.count);
      for (const auto gpu : rank.gpus) {
        RC_ASSERT(node.gpuUsed.at(gpu).value == 0);
        RC_ASSERT(matches(request, node.node->gpus.at(gpu)));
        RC_ASSERT(given.insert({rank.node.value, gpu}).second);
      }
      cpus[rank.node.value] += shape.tasks[rank.task].cpus.value;
    }
  }
  for (const auto& [id, used] : cpus)
    RC_ASSERT(used <= cloud.tables.nodes.find(NodeId(id))->node->cpus.value);
}

RC_GTEST_PROP(PlanProperties, EveryJobStartsOrHasAReason, ()) {
  const auto cloud = anyCloud();
  const auto plan = cloud.plan();
  std::set<JobId> seen;
  for (const auto& start : plan.starts) RC_ASSERT(seen.insert(start.job).second);
  for (const auto& waiting : plan.waiting) {
    RC_ASSERT(seen.insert(waiting.job).second);
    RC_ASSERT(!waiting.reasons.empty());
    RC_ASSERT(!explain(waiting.reasons).empty());
  }
  RC_ASSERT(seen.size() == cloud.queue.size());
}

RC_GTEST_PROP(PlanProperties, IsTheSameEachTime, ()) {
  const auto cloud = anyCloud();
  const auto a = cloud.plan();
  const auto b = cloud.plan();
  RC_ASSERT(a.starts.size() == b.starts.size());
  for (std::size_t i = 0; i < a.starts.size(); ++i)
    RC_ASSERT(a.starts[i].ranks == b.starts[i].ranks);
  for (std::size_t i = 0; i < a.waiting.size(); ++i)
    RC_ASSERT(a.waiting[i].reasons == b.waiting[i].reasons);
}

// Is there any placement at all? By trying every node for every rank (GPUs within a node are alike
// here).
bool fitsSomehow(const Cloud& cloud, const model::JobShape& shape) {
  struct Left {
    std::int64_t gpus;
    std::int64_t cpus;
  };
  const auto& task = shape.tasks[0];
  std::vector<Left> left;
  cloud.tables.nodes.forEach([&](NodeId, const model::NodeRecord& node) {
    Left here{0, node.node->cpus.value};
    for (std::size_t i = 0; i < node.gpuUsed.size(); ++i) {
      if (node.gpuUsed[i].value == 0 && matches(task.gpus, node.node->gpus[i])) ++here.gpus;
    }
    left.push_back(here);
    return true;
  });
  const std::function<bool(std::uint32_t)> placeRest = [&](std::uint32_t ranks) {
    if (ranks == 0) return true;
    for (auto& node : left) {
      if (node.gpus < task.gpus.count || node.cpus < task.cpus.value) continue;
      node.gpus -= task.gpus.count;
      node.cpus -= task.cpus.value;
      const bool fits = placeRest(ranks - 1);
      node.gpus += task.gpus.count;
      node.cpus += task.cpus.value;
      if (fits) return true;
    }
    return false;
  };
  return placeRest(task.replicas);
}

RC_GTEST_PROP(PlanProperties, AGangThatFitsSomehowIsPlaced, ()) {
  auto cloud = anyCloud();
  cloud.queue.clear();
  const auto shape = *anyShape();
  cloud.queued(shape);
  RC_ASSERT(cloud.plan().starts.size() == (fitsSomehow(cloud, shape) ? 1u : 0u));
}

RC_GTEST_PROP(PlanProperties, WhatIsRefusedForEverNeverFitsAndWhatFitsIsNotRefused, ()) {
  auto cloud = anyCloud();
  const auto shape = *anyShape();
  Cloud empty;
  cloud.tables.nodes.forEach([&](NodeId, const model::NodeRecord& node) {
    empty.add(*node.node);
    return true;
  });
  const bool ever = empty.tables.nodes.size() == 0 || fitsSomehow(empty, shape);
  RC_ASSERT(canEverRun(cloud.tables, shape).has_value() == ever);
}

}  // namespace
}  // namespace bole::scheduler
