// What must hold of every plan, whatever the cloud: tried on many small ones over many turns.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include "scheduler/match.h"
#include "scheduler/obstacles.h"
#include "scheduler/planner.h"
#include "scheduler/world.h"
#include "small_cloud.h"

namespace bole::test {
namespace {

using model::Obstacle;

constexpr std::uint64_t kClouds = 300;
constexpr int kTurns = 12;

std::uint64_t clouds() {
  const char* asked = std::getenv("BOLE_PROPERTY_CLOUDS");
  return asked ? std::strtoull(asked, nullptr, 10) : kClouds;
}

// Of each cloud and turn: judge(cloud, plan), before the plan is followed.
template <class Judge>
void everyTurn(Making making, Judge&& judge) {
  for (std::uint64_t seed = 1; seed <= clouds(); ++seed) {
    SmallCloud small(seed, making);
    for (int turn = 0; turn < kTurns; ++turn) {
      SCOPED_TRACE(testing::Message() << "cloud " << seed << ", turn " << turn);
      small.turn();
      const auto plan = small.plan();
      judge(small, plan);
      if (testing::Test::HasFailure()) return;
      small.follow(plan);
    }
  }
}

std::size_t ranksOfTask(const std::vector<model::RankPlacement>& ranks, std::uint32_t task) {
  return static_cast<std::size_t>(std::count_if(
      ranks.begin(), ranks.end(), [&](const auto& rank) { return rank.task == task; }));
}

TEST(Property, NoPartialGangAndNothingGivenTwice) {
  everyTurn({}, [](SmallCloud& small, const model::Plan& plan) {
    const auto& tables = small.cloud.tables;
    auto rooms = roomIn(tables);
    for (const auto& start : plan.starts) {
      const auto& shape = *tables.jobs.find(start.job)->shape;
      EXPECT_GE(start.ranks.size(), shape.minAvailable);
      for (std::uint32_t t = 0; t < shape.tasks.size(); ++t)
        EXPECT_GE(ranksOfTask(start.ranks, t), shape.tasks[t].minAvailable);
      for (const auto& rank : start.ranks) {
        const auto& task = shape.tasks[rank.task];
        auto& room = rooms.at(rank.node);
        EXPECT_EQ(rank.gpus.size(), task.gpus.count);
        for (std::size_t i = 0; i < rank.gpus.size(); ++i) {
          EXPECT_EQ(rank.grant(i).share, task.gpus.share);
          room.share.at(rank.gpus[i]) -= rank.grant(i).share.value;
          EXPECT_GE(room.share[rank.gpus[i]], 0);
        }
        EXPECT_TRUE(scheduler::labelsMatch(task, *room.node));
        room.cpus -= task.cpus.value;
        room.memory -= task.memory.value;
        EXPECT_GE(room.cpus, 0);
        EXPECT_GE(room.memory, 0);
      }
    }
  });
}

TEST(Property, EveryJobStartsOrHasAReason) {
  everyTurn({}, [](SmallCloud& small, const model::Plan& plan) {
    std::multiset<JobId> told;
    for (const auto& start : plan.starts) told.insert(start.job);
    for (const auto& waiting : plan.waiting) {
      told.insert(waiting.job);
      ASSERT_FALSE(waiting.reasons.empty());
      for (const auto& reason : waiting.reasons) EXPECT_NE(reason.obstacle, Obstacle::kNotLookedAt);
      EXPECT_FALSE(scheduler::explain(waiting.reasons).empty());
    }
    EXPECT_EQ(told, std::multiset<JobId>(small.cloud.queue.begin(), small.cloud.queue.end()));
  });
}

TEST(Property, NoQueueIsAboveItsLimit) {
  everyTurn({}, [](SmallCloud& small, const model::Plan& plan) {
    auto after = small.cloud;
    const auto before = gpusOfQueues(after.tables);
    after.follow(plan);
    for (const auto& [id, use] : gpusOfQueues(after.tables)) {
      const auto& queue = *after.tables.policy->find(id);
      if (!queue.limit.gpus || use <= (before.contains(id) ? before.at(id) : 0)) continue;
      EXPECT_LE(use, queue.limit.gpus->value) << queue.name;
    }
  });
}

// Whoever waits for hardware alone does not fit on what is free, in whatever way he were placed.
// Where anything is held for others, that counts as taken.
TEST(Property, NoAvoidableIdleGpu) {
  Making making;
  making.evictions = false;
  everyTurn(making, [](SmallCloud& small, const model::Plan& plan) {
    auto after = small.cloud;
    after.follow(plan);
    const bool held =
        std::any_of(plan.waiting.begin(), plan.waiting.end(), [](const model::Waiting& waiting) {
          return waiting.reasons.front().obstacle == Obstacle::kStopping;
        });
    if (held || !plan.reservations.empty()) return;
    const auto room = roomIn(after.tables);
    for (const auto& waiting : plan.waiting) {
      const auto& shape = *after.job(waiting.job).shape;
      const auto& first = waiting.reasons.front().obstacle;
      if (first == Obstacle::kQueueLimit || first == Obstacle::kGuaranteed) continue;
      EXPECT_FALSE(fitsSomehow(room, shape))
          << "job " << waiting.job.value << " " << scheduler::explain(waiting.reasons);
    }
  });
}

// Evictions are for a job that then starts, lose nobody his guarantee, and none could be spared.
TEST(Property, NobodyIsStoppedInVain) {
  everyTurn({}, [](SmallCloud& small, const model::Plan& plan) {
    std::map<JobId, std::vector<JobId>> victims;
    for (const auto& eviction : plan.evictions)
      victims[eviction.beneficiary].push_back(eviction.job);
    std::set<JobId> stopped;
    for (const auto& [beneficiary, jobs] : victims) {
      const auto& job = small.cloud.job(beneficiary);
      EXPECT_EQ(job.state, model::JobState::kQueued);
      for (const auto victim : jobs) {
        const auto& shape = *small.cloud.job(victim).shape;
        EXPECT_EQ(small.cloud.job(victim).state, model::JobState::kRunning);
        EXPECT_TRUE(stopped.insert(victim).second) << "stopped for two";
        EXPECT_TRUE(shape.preemptible || shape.spot);
        EXPECT_FALSE(shape.spot && job.shape->spot);
      }
    }
    if (victims.empty()) return;
    // When all have gone, each beneficiary starts, though everyone else asks too.
    auto after = small.cloud;
    after.follow(plan, small.now());
    for (const auto victim : stopped) after.requeue(victim);
    const auto next = after.plan(small.options(), small.now());
    std::set<JobId> started;
    for (const auto& start : next.starts) started.insert(start.job);
    bool othersStop = false;
    after.tables.jobs.forEach([&](JobId, const model::JobRecord& job) {
      othersStop = othersStop || job.state == model::JobState::kStopping;
      return true;
    });
    for (const auto& [beneficiary, jobs] : victims) {
      if (othersStop) break;  // some of his room may be what they still hold
      EXPECT_TRUE(started.contains(beneficiary)) << "job " << beneficiary.value;
    }
  });
}

TEST(Property, NobodyLosesHisGuarantee) {
  everyTurn({}, [](SmallCloud& small, const model::Plan& plan) {
    const auto& policy = *small.cloud.tables.policy;
    const auto before = gpusOfQueues(small.cloud.tables, false);
    auto after = small.cloud;
    std::set<QueueId> losers;
    for (const auto& eviction : plan.evictions) {
      const auto& victim = *small.cloud.job(eviction.job).shape;
      const auto& job = *small.cloud.job(eviction.beneficiary).shape;
      if (victim.spot || victim.queue == job.queue) continue;
      std::set<QueueId> above;
      for (auto id = job.queue; id.isSet(); id = policy.find(id)->parent) above.insert(id);
      for (auto id = victim.queue; id.isSet() && !above.contains(id); id = policy.find(id)->parent)
        losers.insert(id);
    }
    for (const auto& eviction : plan.evictions) after.end(eviction.job);
    auto use = gpusOfQueues(after.tables, false);
    const scheduler::World world(small.cloud.tables, scheduler::Of::kNow, scheduler::kNow);
    for (const auto id : losers) {
      const auto& queue = world.queues().at(world.queues().indexOf(id));
      const auto own = queue.guaranteed.of[scheduler::kGpuDimension];
      EXPECT_GE(use[id], std::min(own, before.at(id))) << queue.name;
    }
  });
}

TEST(Property, TheOrderOfAskingDoesNotMatter) {
  everyTurn({}, [](SmallCloud& small, const model::Plan& plan) {
    auto other = small.cloud;
    for (std::size_t i = other.queue.size(); i > 1; --i)
      std::swap(other.queue[i - 1], other.queue[small.below(i)]);
    const auto again = other.plan(small.options(), small.now());
    ASSERT_EQ(again.starts.size(), plan.starts.size());
    for (std::size_t i = 0; i < plan.starts.size(); ++i) {
      EXPECT_EQ(again.starts[i].job, plan.starts[i].job);
      EXPECT_EQ(again.starts[i].ranks, plan.starts[i].ranks);
    }
    EXPECT_EQ(again.evictions.size(), plan.evictions.size());
  });
}

// A reason names all that stands in the way: with that much gone, and no more, the job starts.
TEST(Property, AReasonIsEnough) {
  everyTurn({}, [](SmallCloud& small, const model::Plan& plan) {
    auto after = small.cloud;
    after.follow(plan);
    const auto room = roomIn(after.tables);
    const auto use = gpusOfQueues(after.tables);
    const auto& policy = *after.tables.policy;
    for (const auto& waiting : plan.waiting) {
      auto shape = *after.job(waiting.job).shape;
      std::set<Obstacle> named;
      std::set<std::string> limits;
      for (const auto& reason : waiting.reasons) {
        named.insert(reason.obstacle);
        if (reason.obstacle == Obstacle::kQueueLimit) limits.insert(reason.queue);
      }
      // Room that is held for others counts as free here: nothing is asked of these.
      if (named.contains(Obstacle::kStopping) || named.contains(Obstacle::kGuaranteed)) continue;
      std::int64_t gpus = 0;
      for (const auto& task : shape.tasks)
        gpus += task.gpus.share.value * task.gpus.count * task.minAvailable;
      for (auto id = shape.queue; id.isSet(); id = policy.find(id)->parent) {
        const auto& queue = *policy.find(id);
        if (!queue.limit.gpus || limits.contains(queue.name)) continue;
        const auto used = use.contains(id) ? use.at(id) : 0;
        // The nearest queue that refuses is named; what lies above it is looked at when that
        // yields.
        if (!limits.empty()) break;
        EXPECT_LE(used + gpus, queue.limit.gpus->value)
            << "job " << waiting.job.value << ": " << queue.name << " is not named in "
            << scheduler::explain(waiting.reasons);
      }
      for (auto& task : shape.tasks) {
        if (named.contains(Obstacle::kGpus) || named.contains(Obstacle::kGpusPerNode) ||
            named.contains(Obstacle::kGpuShare)) {
          task.gpus.count = 0;
        }
        if (named.contains(Obstacle::kLabels)) task.nodeLabels.clear();
        if (named.contains(Obstacle::kCpus)) task.cpus = MilliCpu(0);
        if (named.contains(Obstacle::kMemory)) task.memory = Bytes(0);
      }
      EXPECT_TRUE(fitsSomehow(room, shape))
          << "job " << waiting.job.value << ": " << scheduler::explain(waiting.reasons);
    }
  });
}

void expectSame(const model::Plan& a, const model::Plan& b) {
  ASSERT_EQ(a.starts.size(), b.starts.size());
  for (std::size_t i = 0; i < a.starts.size(); ++i) {
    EXPECT_EQ(a.starts[i].job, b.starts[i].job);
    EXPECT_EQ(a.starts[i].ranks, b.starts[i].ranks);
  }
  ASSERT_EQ(a.evictions.size(), b.evictions.size());
  for (std::size_t i = 0; i < a.evictions.size(); ++i) {
    EXPECT_EQ(a.evictions[i].job, b.evictions[i].job);
    EXPECT_EQ(a.evictions[i].beneficiary, b.evictions[i].beneficiary);
  }
  ASSERT_EQ(a.reservations.size(), b.reservations.size());
  for (std::size_t i = 0; i < a.reservations.size(); ++i) {
    EXPECT_EQ(a.reservations[i].job, b.reservations[i].job);
    EXPECT_EQ(a.reservations[i].nodes, b.reservations[i].nodes);
    EXPECT_EQ(a.reservations[i].start, b.reservations[i].start);
  }
  ASSERT_EQ(a.waiting.size(), b.waiting.size());
  for (std::size_t i = 0; i < a.waiting.size(); ++i) {
    EXPECT_EQ(a.waiting[i].job, b.waiting[i].job);
    EXPECT_EQ(a.waiting[i].reasons, b.waiting[i].reasons);
  }
  EXPECT_EQ(a.nextLook, b.nextLook);
  EXPECT_EQ(a.keeps, b.keeps);
}

// A planner that has lived through a cloud's whole history plans as one that sees it for the first
// time, whatever was changed in between, and asked for part of the queue as for all of it.
TEST(Property, APlannerThatLivesPlansAsAFreshOne) {
  for (std::uint64_t seed = 1; seed <= clouds(); ++seed) {
    SmallCloud small(seed, {});
    scheduler::Planner planner;
    for (int turn = 0; turn < 2 * kTurns; ++turn) {
      SCOPED_TRACE(testing::Message() << "cloud " << seed << ", turn " << turn);
      small.turn();
      if (small.chance(10)) small.changeHardware();
      if (small.chance(5)) small.changePolicy();
      if (small.chance(20)) small.learn();
      auto queue = small.cloud.queue;
      if (small.chance(30)) queue.resize(small.below(queue.size() + 1));
      const auto plan = planner.plan(small.cloud.tables, queue, small.now(), small.options());
      expectSame(plan, scheduler::plan(small.cloud.tables, queue, small.now(), small.options()));
      if (testing::Test::HasFailure()) return;
      if (small.chance(80)) small.follow(plan);
    }
  }
}

TEST(Property, APlannerThatLivesKnowsWhatCanEverRunAsAFreshOne) {
  for (std::uint64_t seed = 1; seed <= clouds(); ++seed) {
    SmallCloud small(seed, {});
    scheduler::Planner planner;
    for (int turn = 0; turn < kTurns; ++turn) {
      small.turn();
      if (small.chance(20)) small.changeHardware();
      const auto shape = scheduler::shapeOf(static_cast<std::uint32_t>(1 + small.below(6)),
                                            static_cast<std::uint32_t>(small.below(6)));
      const auto fresh = scheduler::canEverRun(small.cloud.tables, shape);
      const auto lived = planner.canEverRun(small.cloud.tables, shape);
      ASSERT_EQ(lived.has_value(), fresh.has_value());
      if (!fresh) {
        EXPECT_EQ(lived.error().message(), fresh.error().message());
      }
    }
  }
}

// Left alone, a cloud comes to rest: nobody stops and starts for ever.
TEST(Property, StoppingAndStartingComeToAnEnd) {
  for (std::uint64_t seed = 1; seed <= clouds(); ++seed) {
    SCOPED_TRACE(testing::Message() << "cloud " << seed);
    SmallCloud small(seed, {});
    for (int turn = 0; turn < kTurns; ++turn) {
      small.turn();
      small.follow(small.plan());
    }
    std::size_t decisions = 1;
    for (int round = 0; round < 60 && decisions > 0; ++round) {
      const auto plan = small.plan();
      decisions = plan.starts.size() + plan.evictions.size();
      small.follow(plan);
      std::vector<JobId> stopping;
      small.cloud.tables.jobs.forEach([&](JobId id, const model::JobRecord& job) {
        if (job.state == model::JobState::kStopping) stopping.push_back(id);
        return true;
      });
      for (const auto id : stopping) small.cloud.requeue(id);
      decisions += stopping.size();
    }
    ASSERT_EQ(decisions, 0u);
  }
}

}  // namespace
}  // namespace bole::test
