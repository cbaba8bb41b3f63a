#include "scheduler/window.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "scheduler/testing/cloud.h"

namespace bole::scheduler {
namespace {

constexpr Timestamp kMonday{1'796'601'600'000'000};  // 2026-12-07 00:00 UTC

const model::Window kNights{0x1F, 20 * 60, 12 * 60};  // Monday to Friday, 20:00 to 08:00

TEST(Window, OpensAndClosesByTheClock) {
  const auto monday = kMonday;
  const std::vector<model::Window> nights = {kNights};
  EXPECT_EQ(opensAt(nights, monday + hours(12), {}), monday + hours(20));
  EXPECT_EQ(opensAt(nights, monday + hours(20), {}), std::nullopt);
  EXPECT_EQ(opensAt(nights, monday + hours(24 + 7), {}), std::nullopt) << "opened the day before";
  EXPECT_EQ(opensAt(nights, monday + hours(24 + 8), {}), monday + hours(24 + 20));
  EXPECT_EQ(opensAt(nights, monday + hours(4), {}), monday + hours(20)) << "Sunday opens nothing";
  EXPECT_EQ(opensAt(nights, monday + hours(24 * 5 + 9), {}), monday + hours(24 * 7 + 20));
  EXPECT_EQ(opensAt({}, monday, {}), std::nullopt);
}

TEST(Window, IsOfLocalTime) {
  const std::vector<model::Window> nights = {kNights};
  EXPECT_EQ(opensAt(nights, kMonday + hours(11), hours(8)), kMonday + hours(12));
  EXPECT_EQ(opensAt(nights, kMonday + hours(12), hours(8)), std::nullopt);
}

TEST(Window, OfAQueueIsOpenWhereAllAboveItAre) {
  model::Policy policy;
  model::Queue above = queueOf("above", -1);
  above.id = QueueId(2);
  above.windows = {kNights};
  model::Queue below = queueOf("below", -1);
  below.id = QueueId(3);
  below.parent = above.id;
  below.windows = {{0x7F, 6 * 60, 60}};
  policy.queues.push_back(above);
  policy.queues.push_back(below);
  EXPECT_EQ(opensAt(policy, below.id, kMonday + hours(12)), kMonday + hours(24 + 6));
  EXPECT_EQ(opensAt(policy, below.id, kMonday + hours(24 + 6)), std::nullopt);
  EXPECT_EQ(opensAt(policy, model::kDefaultQueue, kMonday), std::nullopt);
  policy.queues.back().windows = {{0x7F, 12 * 60, 60}};  // never at night
  EXPECT_GT(opensAt(policy, below.id, kMonday), kMonday + hours(24 * 13));
}

TEST(Window, JobsOfAClosedQueueWaitForItsHour) {
  Cloud cloud;
  cloud.add(nodeOf(4));
  auto queue = queueOf("night", -1);
  queue.windows = {kNights};
  const auto night = cloud.addQueue(queue);
  const auto waits = cloud.queued(in(night, shapeOf(1, 1)));
  const auto goes = cloud.queued(shapeOf(1, 1));
  auto plan = cloud.plan({}, kMonday + hours(12));
  ASSERT_EQ(plan.starts.size(), 1U);
  EXPECT_EQ(plan.starts[0].job, goes);
  ASSERT_EQ(plan.waiting.size(), 1U);
  const auto& reason = plan.waiting[0].reasons.at(0);
  EXPECT_EQ(reason.obstacle, model::Obstacle::kWindow);
  EXPECT_EQ(plan.nextLook, kMonday + hours(20));
  EXPECT_EQ(explain(plan.waiting[0].reasons),
            "waits for queue night to start jobs again at 2026-12-07 20:00:00 UTC");
  plan = cloud.plan({}, kMonday + hours(20));
  EXPECT_EQ(plan.starts.size(), 2U);
  EXPECT_TRUE(std::any_of(plan.starts.begin(), plan.starts.end(),
                          [&](const auto& start) { return start.job == waits; }));
}

}  // namespace
}  // namespace bole::scheduler
