#include "scheduler/obstacles.h"

#include <gtest/gtest.h>

#include "scheduler/testing/cloud.h"

namespace bole::scheduler {
namespace {

using model::Obstacle;

class Obstacles : public ::testing::Test {
 protected:
  void use(NodeId id, std::int64_t cpus, Bytes memory = {}) {
    auto* node = cloud_.tables.nodes.edit(id);
    node->cpusUsed += MilliCpu(cpus * 1000);
    node->memoryUsed += memory;
  }
  std::vector<model::Reason> why(const model::JobShape& shape) {
    cloud_.queued(shape);
    const auto plan = cloud_.plan();
    if (!plan.starts.empty()) return {};
    return plan.waiting.at(0).reasons;
  }
  static model::JobShape shape(std::uint32_t replicas, std::uint32_t gpus, std::int64_t cpus,
                               Bytes memory = {}) {
    auto made = shapeOf(replicas, gpus);
    made.tasks[0].cpus = MilliCpu(cpus * 1000);
    made.tasks[0].memory = memory;
    return made;
  }
  void expect(const std::vector<model::Reason>& reasons, Obstacle obstacle, std::int64_t needed,
              std::int64_t available, const std::string& text) {
    ASSERT_EQ(reasons.size(), 1u) << explain(reasons);
    EXPECT_EQ(reasons[0].obstacle, obstacle);
    EXPECT_EQ(reasons[0].needed, needed);
    EXPECT_EQ(reasons[0].available, available);
    EXPECT_EQ(explain(reasons), text);
  }

  Cloud cloud_;
};

TEST_F(Obstacles, TooFewCpusInAllAreCountedInThousandths) {
  use(cloud_.add(nodeOf(4)), 60);
  expect(why(shape(2, 1, 4)), Obstacle::kCpus, 8000, 4000, "waits for 8 CPUs: 4 free now");
}

TEST_F(Obstacles, TooLittleMemoryInAllIsCountedInBytes) {
  use(cloud_.add(nodeOf(4)), 0, kGiB * 250);
  expect(why(shape(2, 1, 1, kGiB * 4)), Obstacle::kMemory, (kGiB * 8).value, (kGiB * 6).value,
         "waits for 8 GiB of memory: 6 GiB free now");
}

TEST_F(Obstacles, EverythingThatIsLackingInAllIsNamed) {
  const auto id = cloud_.add(nodeOf(2));
  use(id, 63, kGiB * 255);
  cloud_.hold(id, 0);
  EXPECT_EQ(explain(why(shape(1, 2, 2, kGiB * 2))),
            "waits for 2 GPUs: 1 free now; waits for 2 CPUs: 1 free now; "
            "waits for 2 GiB of memory: 1 GiB free now");
}

TEST_F(Obstacles, CpusThatAreFreeOnlyElsewhereAreNotCounted) {
  use(cloud_.add(nodeOf(4)), 52);
  cloud_.add(nodeOf(0));
  expect(why(shape(1, 4, 16)), Obstacle::kCpus, 16000, 12000,
         "waits for 16 CPUs on one node beside 4 GPUs: 12 free now");
}

TEST_F(Obstacles, MemoryThatIsFreeOnlyElsewhereIsNotCounted) {
  use(cloud_.add(nodeOf(4)), 0, kGiB * 224);
  cloud_.add(nodeOf(0));
  expect(why(shape(2, 1, 1, kGiB * 24)), Obstacle::kMemory, (kGiB * 48).value, (kGiB * 24).value,
         "waits for 48 GiB of memory in groups of 24 GiB on one node beside 1 GPU: "
         "24 GiB free now");
}

TEST_F(Obstacles, CpusInCrumbsAreSaidToBe) {
  use(cloud_.add(nodeOf(0)), 60);
  use(cloud_.add(nodeOf(0)), 60);
  expect(why(shape(1, 0, 6)), Obstacle::kCpus, 6000, 4000,
         "waits for 6 CPUs on one node: 4 free now");
}

TEST_F(Obstacles, CpusAndMemoryThatAreFreeOnDifferentNodesAreSaidToBe) {
  use(cloud_.add(nodeOf(0)), 60);
  use(cloud_.add(nodeOf(0)), 0, kGiB * 250);
  expect(why(shape(1, 0, 6, kGiB * 8)), Obstacle::kCpus, 6000, 4000,
         "waits for 6 CPUs on one node beside 8 GiB of memory: 4 free now");
}

TEST_F(Obstacles, GpusInCrumbsAreSaidToBe) {
  cloud_.add(nodeOf(4));
  cloud_.add(nodeOf(2));
  auto wanted = shape(2, 3, 1);
  wanted.tasks[0].gpus.models = {"A100"};
  wanted.tasks[0].gpus.memoryMin = kGiB * 80;
  expect(why(wanted), Obstacle::kGpus, 6, 3,
         "waits for 6 A100 GPUs of 80 GiB or more in groups of 3 on one node: 3 free now");
}

TEST_F(Obstacles, WhatTheJobsOwnTasksLeaveToEachOtherIsSaid) {
  cloud_.add(nodeOf(6));
  auto gang = shape(1, 4, 1);
  gang.tasks.push_back(gang.tasks[0]);
  gang.minAvailable = 2;
  gang.tasks[1].gpus.count = 3;
  cloud_.add(nodeOf(0));
  expect(why(gang), Obstacle::kGpus, 3, 2,
         "waits for 3 GPUs beside the job's other ranks: 2 free now");
}

TEST_F(Obstacles, AGangWithASmallerMinimumWaitsForThatMinimum) {
  cloud_.add(nodeOf(2));
  auto gang = shape(6, 1, 1);
  gang.minAvailable = gang.tasks[0].minAvailable = 3;
  expect(why(gang), Obstacle::kGpus, 3, 2, "waits for 3 GPUs: 2 free now");
}

TEST_F(Obstacles, AnElasticGangOfSeveralTasksIsToldHowManyRanksAreMissing) {
  cloud_.add(nodeOf(3));
  auto gang = shape(2, 1, 1);
  gang.tasks.push_back(gang.tasks[0]);
  gang.tasks[0].minAvailable = gang.tasks[1].minAvailable = 1;
  gang.tasks[0].replicas = gang.tasks[1].replicas = 4;
  gang.minAvailable = 5;
  expect(why(gang), Obstacle::kGpus, 2, 0,
         "waits for 2 GPUs beside the job's other ranks: 0 free now");
}

TEST_F(Obstacles, AnElasticGangWhoseTasksAllHaveTheirLeastIsToldHowManyRanksAreMissing) {
  auto gang = shape(2, 1, 1);
  gang.tasks[0].minAvailable = 1;
  gang.tasks.resize(3, gang.tasks[0]);
  const char* const models[] = {"A100", "H100", "T4"};
  for (std::size_t t = 0; t < 3; ++t) {
    gang.tasks[t].gpus.models = {models[t]};
    cloud_.add(nodeOf(1, models[t]));
  }
  gang.minAvailable = 5;
  expect(why(gang), Obstacle::kGpus, 2, 0,
         "waits for 2 A100 GPUs beside the job's other ranks: 0 free now");
}

TEST_F(Obstacles, WhatCanNeverRunIsToldInTheSameWords) {
  cloud_.add(nodeOf(2));
  const auto refused = canEverRun(cloud_.tables, shape(1, 2, 65));
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("needs 65 CPUs, this cloud has 64"), std::string::npos)
      << refused.error().message();
}

}  // namespace
}  // namespace bole::scheduler
