#include "scheduler/running.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "scheduler/testing/cloud.h"

namespace bole::scheduler {
namespace {

model::JobShape shapeWith(Duration limit, std::uint32_t gpus) {
  auto shape = shapeOf(1, gpus);
  shape.tasks[0].cpus = MilliCpu(0);
  shape.timeLimit = limit;
  return shape;
}

// Against all of them sorted by what is expected of each.
TEST(Running, ReleasesComeSoonestFirst) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    std::mt19937_64 random(seed);
    const auto below = [&](std::int64_t bound) {
      return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(bound));
    };
    Cloud cloud;
    const auto node = cloud.add(nodeOf(1));
    for (std::uint64_t user = 1; user <= 2; ++user) {
      model::RunTimes times;
      times.id = UserId(user);
      times.sizes = {{1, {minutes(1 + below(40))}}};
      cloud.tables.runTimes.put(times.id, times);
    }
    Running running;
    std::vector<Timestamp> expected;
    for (int i = 0; i < 60; ++i) {
      const auto limit = below(2) == 0 ? Duration() : minutes(10 * (1 + below(5)));
      const auto job =
          cloud.queued(shapeWith(limit, 0), kNow, UserId(static_cast<std::uint64_t>(below(4))));
      cloud.begin({job, {{0, 0, node, {}}}}, kNow - minutes(below(60)));
      if (below(8) == 0) cloud.tables.jobs.edit(job)->state = model::JobState::kStopping;
      const auto& record = cloud.job(job);
      const auto& attempt = *cloud.tables.attempts.find(record.attempt);
      running.add(record, attempt);
      if (below(4) == 0) {
        running.remove(record, attempt);
        continue;
      }
      const bool isStopping = record.state == model::JobState::kStopping;
      expected.push_back(isStopping ? kNow : expectedEnd(cloud.tables, record, attempt, kNow));
    }
    std::sort(expected.begin(), expected.end());
    Running::Releases releases(cloud.tables, running, kNow);
    std::vector<Timestamp> given;
    while (const auto next = releases.next()) {
      const auto& attempt = *cloud.tables.attempts.find(next->attempt);
      const auto& job = cloud.job(attempt.job);
      if (job.state != model::JobState::kStopping) {
        EXPECT_EQ(next->at, expectedEnd(cloud.tables, job, attempt, kNow));
      }
      given.push_back(next->at);
    }
    EXPECT_EQ(given, expected) << "seed " << seed;
  }
}

TEST(Running, KnowsWhoMayBeStoppedAndForWhomOthersStop) {
  Cloud cloud;
  const auto node = cloud.add(nodeOf(4));
  auto shape = shapeWith({}, 1);
  const auto plain = cloud.queued(shape);
  shape.preemptible = false;
  const auto firm = cloud.queued(shape);
  shape.preemptible = true;
  shape.spot = true;
  const auto spot = cloud.queued(shape);
  Running running;
  std::uint32_t gpu = 0;
  for (const auto id : {plain, firm, spot}) {
    cloud.begin({id, {{0, 0, node, {gpu++}}}});
    running.add(cloud.job(id), *cloud.tables.attempts.find(cloud.job(id).attempt));
  }
  EXPECT_TRUE(running.areSpot());
  EXPECT_EQ(running.victims().size(), 2u);
  for (const auto id : {plain, spot}) {
    const auto attempt = cloud.job(id).attempt;
    EXPECT_TRUE(running.victims().at({shape.queue, id == spot}).contains(attempt));
  }
  const auto& attempt = *cloud.tables.attempts.find(cloud.job(spot).attempt);
  running.remove(cloud.job(spot), attempt);
  cloud.stopFor({spot, plain});
  running.add(cloud.job(spot), attempt);
  EXPECT_EQ(running.victims().size(), 1u);
  EXPECT_EQ(running.stopping(), std::set<AttemptId>{attempt.id});
  EXPECT_EQ(running.stoppingFor(), (std::map<JobId, std::size_t>{{plain, 1}}));
  running.remove(cloud.job(spot), attempt);
  EXPECT_FALSE(running.areSpot());
  EXPECT_TRUE(running.stoppingFor().empty());
}

}  // namespace
}  // namespace bole::scheduler
