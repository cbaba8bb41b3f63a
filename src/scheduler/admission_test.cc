// What keeps a job from being looked at: others that it waits for, its time, its array, bookings.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "scheduler/testing/cloud.h"

namespace bole::scheduler {
namespace {

using model::Obstacle;

std::set<JobId> startedBy(const model::Plan& plan) {
  std::set<JobId> started;
  for (const auto& start : plan.starts) started.insert(start.job);
  return started;
}

std::string whyOf(const model::Plan& plan, JobId job) {
  for (const auto& waiting : plan.waiting)
    if (waiting.job == job) return explain(waiting.reasons);
  return "does not wait";
}

TEST(Admission, AJobWaitsForTheOthersThatItNames) {
  Cloud cloud;
  cloud.add(nodeOf(4));
  const auto first = cloud.queued(shapeOf(1, 1));
  const auto second = cloud.queued(shapeOf(1, 1));
  cloud.tables.jobs.edit(second)->waitsFor = {{first, model::DependencyKind::kOk}};
  const auto plan = cloud.plan();
  EXPECT_EQ(startedBy(plan), std::set<JobId>{first});
  EXPECT_EQ(whyOf(plan, second), "waits for job 1 to end");
}

TEST(Admission, AJobDoesNotStartBeforeItsTime) {
  Cloud cloud;
  cloud.add(nodeOf(4));
  const auto later = cloud.queued(shapeOf(1, 1));
  cloud.tables.jobs.edit(later)->notBefore = kNow + hours(2);
  auto plan = cloud.plan();
  EXPECT_TRUE(plan.starts.empty());
  EXPECT_EQ(plan.nextLook, kNow + hours(2));
  EXPECT_EQ(whyOf(plan, later), "is not to start before 1970-01-01 02:16:40 UTC");
  plan = cloud.plan({}, kNow + hours(2));
  EXPECT_EQ(startedBy(plan), std::set<JobId>{later});
}

TEST(Admission, OfAnArrayRunNoMoreElementsThanItAllows) {
  Cloud cloud;
  cloud.add(nodeOf(8));
  std::vector<JobId> elements;
  for (std::uint32_t i = 0; i < 5; ++i) {
    auto shape = shapeOf(1, 1);
    shape.array = model::ArrayPlace{JobId(1), 5, i, 2};
    elements.push_back(cloud.queued(shape));
  }
  const auto other = cloud.queued(shapeOf(1, 1));
  auto plan = cloud.plan();
  EXPECT_EQ(startedBy(plan), (std::set<JobId>{elements[0], elements[1], other}));
  EXPECT_EQ(whyOf(plan, elements[4]),
            "waits for its array: 2 of its elements run, no more may at a time");
  cloud.follow(plan);
  EXPECT_TRUE(cloud.plan().starts.empty());
  cloud.end(elements[0]);
  EXPECT_EQ(startedBy(cloud.plan()), std::set<JobId>{elements[2]});
}

TEST(Admission, AnArrayWithoutAMostRunsAllItsElements) {
  Cloud cloud;
  cloud.add(nodeOf(8));
  for (std::uint32_t i = 0; i < 5; ++i) {
    auto shape = shapeOf(1, 1);
    shape.array = model::ArrayPlace{JobId(1), 5, i, 0};
    cloud.queued(shape);
  }
  EXPECT_EQ(cloud.plan().starts.size(), 5U);
}

struct Course {
  Cloud cloud;
  QueueId teaching;
  QueueId lab;

  Course() {
    cloud.add(nodeOf(8));
    teaching = cloud.addQueue(queueOf("teaching", -1));
    lab = cloud.addQueue(queueOf("lab", -1));
    auto policy = *cloud.tables.policy;
    model::Booking booking;
    booking.name = "course";
    booking.queue = teaching;
    booking.amounts.gpus = kWholeGpu * 6;
    booking.from = kNow + hours(24);
    booking.to = kNow + hours(27);
    policy.bookings = {booking};
    cloud.tables.policy = std::make_shared<const model::Policy>(policy);
  }
  JobId firm(std::uint32_t gpus, Duration limit) {
    auto shape = in(lab, shapeOf(gpus, 1));
    shape.preemptible = false;
    shape.timeLimit = limit;
    return cloud.queued(shape);
  }
};

TEST(Bookings, AJobThatCannotBeStoppedDoesNotRunIntoOne) {
  Course course;
  const auto endless = course.firm(4, {});
  auto plan = course.cloud.plan();
  EXPECT_TRUE(plan.starts.empty());
  EXPECT_EQ(whyOf(plan, endless),
            "needs 4 GPUs that others have not booked, as it may run that long and cannot be "
            "preempted: 2 are left from 1970-01-02 00:16:40 UTC on");
  const auto brief = course.firm(8, hours(23));
  plan = course.cloud.plan();
  EXPECT_EQ(startedBy(plan), std::set<JobId>{brief});
}

TEST(Bookings, WhatNobodyBookedIsFreeForFirmJobs) {
  Course course;
  const auto two = course.firm(2, {});
  EXPECT_EQ(startedBy(course.cloud.plan()), std::set<JobId>{two});
}

TEST(Bookings, HoldOnlyForTheirTime) {
  Course course;
  const auto firm = course.firm(8, {});
  EXPECT_TRUE(course.cloud.plan({}, kNow + hours(26)).starts.empty());
  EXPECT_EQ(startedBy(course.cloud.plan({}, kNow + hours(27))), std::set<JobId>{firm});
}

TEST(Bookings, AtTheirTimeOthersMakeRoom) {
  Course course;
  auto& cloud = course.cloud;
  for (int i = 0; i < 8; ++i) cloud.queued(in(course.lab, shapeOf(1, 1)));
  cloud.follow(cloud.plan());
  EXPECT_EQ(cloud.gpusOf(course.lab), 8);
  for (int i = 0; i < 8; ++i) cloud.queued(in(course.teaching, shapeOf(1, 1)));
  auto plan = cloud.plan({}, kNow + hours(23));
  EXPECT_TRUE(plan.evictions.empty());
  EXPECT_EQ(plan.nextLook, kNow + hours(24));
  cloud.settle(kNow + hours(24));
  EXPECT_EQ(cloud.gpusOf(course.teaching), 6);
  EXPECT_EQ(cloud.gpusOf(course.lab), 2);
}

TEST(Bookings, OfMoreThanThereIsAreReducedAndTheRestGoesOn) {
  Course course;
  auto policy = *course.cloud.tables.policy;
  policy.bookings[0].amounts.gpus = kWholeGpu * 100;
  course.cloud.tables.policy = std::make_shared<const model::Policy>(policy);
  const auto firm = course.firm(1, {});
  const auto soft = course.cloud.queued(in(course.lab, shapeOf(1, 1)));
  const auto plan = course.cloud.plan();
  EXPECT_EQ(startedBy(plan), std::set<JobId>{soft});
  EXPECT_NE(whyOf(plan, firm).find("0 are left"), std::string::npos) << whyOf(plan, firm);
}

}  // namespace
}  // namespace bole::scheduler
