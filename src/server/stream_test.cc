// What followers of a job's output and of the ledger are told.
#include <gtest/gtest.h>

#include <thread>

#include "server/testing/house.h"

namespace bole::server::testing {
namespace {

using model::AttemptOutcome;

class StreamTest : public ::testing::Test {
 protected:
  void SetUp() override { house_.open(); }

  void write(JobId job, std::uint32_t rank, const std::string& text) {
    house_.clock.advance(milliseconds(1));
    house_.logs.add(house_.attemptOf(job), rank, house_.clock.wall(), text);
  }

  static std::string text(const Event& line) { return line.json()["text"]; }

  House house_;
};

TEST_F(StreamTest, JobIsFollowedFromItsQueueToItsEnd) {
  const auto holder = house_.add(test::job(4, 1, "holder"));
  const auto job = house_.add(test::job(1, 1));
  auto client = house_.client();
  client.follow("/v1/jobs/train/logs");
  EXPECT_EQ(client.nextEvent("state").json()["state"], "QUEUED");
  house_.finish(holder, AttemptOutcome::kCompleted);
  EXPECT_EQ(client.nextEvent("state").json()["state"], "STARTING");
  house_.run(job);
  EXPECT_EQ(client.nextEvent("state").json()["state"], "RUNNING");
  write(job, 0, "epoch 1");
  const auto line = client.nextEvent();
  EXPECT_EQ(line.name, "line");
  EXPECT_EQ(text(line), "epoch 1");
  EXPECT_FALSE(line.id.empty());
  house_.setProgress(house_.attemptOf(job), {1, 20, "epoch", {{"loss", "0.5"}}, {}});
  EXPECT_EQ(client.nextEvent("progress").json()["values"][0][1], "0.5");
  write(job, 0, "last words");
  house_.finish(job, AttemptOutcome::kCompleted);
  EXPECT_EQ(text(client.nextEvent("line")), "last words");
  EXPECT_EQ(client.nextEvent("state").json()["state"], "SUCCEEDED");
  const auto end = client.nextEvent();
  EXPECT_EQ(end.name, "end");
  EXPECT_EQ(end.json()["exit_code"], 0);
  EXPECT_TRUE(client.streamEnded());
  EXPECT_TRUE(client.closed());
}

TEST_F(StreamTest, FollowingGoesOnOverRetries) {
  auto spec = test::job(1, 1);
  spec.shape.restart = {model::RestartKind::kOnFailure, 1, seconds(1), seconds(1)};
  const auto job = house_.add(spec);
  house_.run(job);
  auto client = house_.client();
  client.follow("/v1/jobs/train/logs?tail=1");
  write(job, 0, "first");
  EXPECT_EQ(text(client.nextEvent("line")), "first");
  house_.finish(job, AttemptOutcome::kFailed, 1);
  EXPECT_EQ(client.nextEvent("state").json()["state"], "QUEUED") << "it has not ended for good";
  house_.clock.advance(seconds(2));
  house_.tick();
  EXPECT_EQ(client.nextEvent("state").json()["attempts"], 2);
  write(job, 0, "second");
  write(job, 0, "third");
  EXPECT_EQ(text(client.nextEvent("line")), "second");
  EXPECT_EQ(text(client.nextEvent("line")), "third");
  house_.finish(job, AttemptOutcome::kFailed, 2);
  EXPECT_EQ(client.nextEvent("end").json()["exit_code"], 2);
  EXPECT_TRUE(client.streamEnded());
}

TEST_F(StreamTest, OneAttemptIsFollowedToItsOwnEnd) {
  auto spec = test::job(1, 1);
  spec.shape.restart = {model::RestartKind::kOnFailure, 1, seconds(1), seconds(1)};
  const auto job = house_.add(spec);
  write(job, 0, "first");
  house_.finish(job, AttemptOutcome::kFailed, 1);
  house_.clock.advance(seconds(2));
  house_.tick();
  write(job, 0, "second");
  auto client = house_.client();
  client.follow("/v1/jobs/train/logs?attempt=1");
  EXPECT_EQ(text(client.nextEvent("line")), "first");
  EXPECT_EQ(client.nextEvent().name, "end");
  EXPECT_TRUE(client.streamEnded());
}

TEST_F(StreamTest, FollowingAnEndedJobTellsAllAndEnds) {
  const auto job = house_.add(test::job(2, 1));
  for (std::uint32_t i = 0; i < 5000; ++i)
    write(job, i % 2, std::string(100, 'x') + std::to_string(i));
  house_.finish(job, AttemptOutcome::kCompleted);
  auto client = house_.client();
  client.follow("/v1/jobs/1/logs");
  for (int i = 0; i < 5000; ++i) {
    EXPECT_EQ(text(client.nextEvent("line")), std::string(100, 'x') + std::to_string(i));
  }
  EXPECT_EQ(client.nextEvent("end").json()["summary"]["state"], "SUCCEEDED");
  EXPECT_TRUE(client.streamEnded());
}

TEST_F(StreamTest, JobThatNeverRanEndsItsStream) {
  house_.add(test::job(4, 1, "holder"));
  house_.add(test::job(1, 1));
  auto client = house_.client();
  client.follow("/v1/jobs/train/logs");
  EXPECT_EQ(client.nextEvent("state").json()["state"], "QUEUED");
  EXPECT_EQ(house_.client().post("/v1/jobs/train/stop").status, 202);
  EXPECT_EQ(client.nextEvent("end").json()["exit_code"], 130);
  EXPECT_TRUE(client.streamEnded());
}

// A reader that comes back with the id of any line gets exactly those after it: by a new server
// that merges the ranks in another way.
TEST_F(StreamTest, AnyLineIsAPlaceToComeBackTo) {
  const auto job = house_.add(test::job(3, 1));
  std::vector<std::string> ofRank[3];
  for (std::uint32_t i = 0; i < 30; ++i) {
    ofRank[i % 3].push_back("line " + std::to_string(i));
    write(job, i % 3, ofRank[i % 3].back());
  }
  house_.finish(job, AttemptOutcome::kCompleted);
  std::vector<Event> seen;
  {
    auto client = house_.client();
    client.follow("/v1/jobs/1/logs");
    for (int i = 0; i < 30; ++i) seen.push_back(client.nextEvent("line"));
  }
  house_.logs.favourLowRanks();
  house_.restart();
  for (std::size_t stop = 0; stop < seen.size(); ++stop) {
    ASSERT_FALSE(seen[stop].id.empty());
    std::vector<std::string> got[3];
    for (std::size_t i = 0; i <= stop; ++i) {
      got[seen[i].json()["rank"].get<int>()].push_back(text(seen[i]));
    }
    auto client = house_.client();
    client.follow("/v1/jobs/1/logs", {{"Last-Event-ID", seen[stop].id}});
    for (auto event = client.nextEvent(); event.name != "end"; event = client.nextEvent()) {
      if (event.name == "line") got[event.json()["rank"].get<int>()].push_back(text(event));
    }
    for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(got[rank], ofRank[rank]) << "after " << stop;
  }
}

TEST_F(StreamTest, ComingBackTwiceWithinWhatWasSkippedLosesNothing) {
  const auto job = house_.add(test::job(2, 1));
  for (std::uint32_t i = 0; i < 20; ++i) write(job, i % 2, std::to_string(i));
  house_.finish(job, AttemptOutcome::kCompleted);
  std::string id;
  std::vector<int> got;
  // One line at a time, and away again.
  for (int i = 0; i < 20; ++i) {
    auto client = house_.client();
    Headers headers;
    if (!id.empty()) headers.emplace_back("Last-Event-ID", id);
    client.follow("/v1/jobs/1/logs", headers);
    const auto line = client.nextEvent("line");
    got.push_back(std::stoi(text(line)));
    id = line.id;
  }
  for (int i = 0; i < 20; ++i) EXPECT_EQ(got[static_cast<std::size_t>(i)], i);
}

TEST_F(StreamTest, PlaceInAnEarlierAttemptIsGoneOnFrom) {
  auto spec = test::job(1, 1);
  spec.shape.restart = {model::RestartKind::kOnFailure, 1, seconds(1), seconds(1)};
  const auto job = house_.add(spec);
  write(job, 0, "a");
  write(job, 0, "b");
  std::string id;
  {
    auto client = house_.client();
    client.follow("/v1/jobs/1/logs");
    id = client.nextEvent("line").id;
  }
  house_.finish(job, AttemptOutcome::kFailed, 1);
  house_.clock.advance(seconds(2));
  house_.tick();
  write(job, 0, "c");
  house_.finish(job, AttemptOutcome::kCompleted);
  auto client = house_.client();
  client.follow("/v1/jobs/1/logs", {{"Last-Event-ID", id}});
  EXPECT_EQ(text(client.nextEvent("line")), "b");
  EXPECT_EQ(text(client.nextEvent("line")), "c");
  client.nextEvent("end");
}

TEST_F(StreamTest, WrongPlacesAreRefused) {
  house_.add(test::job(1, 1));
  auto client = house_.client();
  for (const std::string id : {"x", "0//p", "1", "1/", "1/0=/p", "1/0=0/p", "1/0=1", "1//nonsense",
                               "99999999999//p", "1/a=b/p", "-1//p"}) {
    const auto answer = client.get("/v1/jobs/1/logs?follow=1", {{"Last-Event-ID", id}});
    EXPECT_EQ(answer.status, 400) << id;
  }
  EXPECT_EQ(client.get("/v1/events?follow=1", {{"Last-Event-ID", "x"}}).status, 400);
}

TEST_F(StreamTest, LinesRotatedAwayAreCounted) {
  const auto job = house_.add(test::job(1, 1));
  auto client = house_.client();
  client.follow("/v1/jobs/1/logs");
  write(job, 0, "one");
  EXPECT_EQ(text(client.nextEvent("line")), "one");
  // The reader stands behind line 1 while lines 2 to 4 come and go; in one step, for it reads on.
  house_.logs.addRotated(house_.attemptOf(job), 0, {"two", "three", "four", "five"}, 3);
  EXPECT_EQ(client.nextEvent("lost").json()["lines"], 3);
  EXPECT_EQ(text(client.nextEvent("line")), "five");
}

TEST_F(StreamTest, LogsThatCannotBeReadAreSaidAndTheEndStillComes) {
  const auto job = house_.add(test::job(1, 1));
  house_.logs.breakWith(makeError(ErrorCode::kInternal, "the disk is broken"));
  auto client = house_.client();
  client.follow("/v1/jobs/1/logs");
  const auto line = client.nextEvent("line");
  EXPECT_NE(text(line).find("the disk is broken"), std::string::npos);
  EXPECT_TRUE(line.id.empty()) << "it is no line of the log";
  house_.finish(job, AttemptOutcome::kCompleted);
  EXPECT_EQ(client.nextEvent("end").json()["exit_code"], 0);
  EXPECT_TRUE(client.streamEnded());
}

TEST_F(StreamTest, FollowedByQueryAndRank) {
  const auto job = house_.add(test::job(2, 1));
  write(job, 0, "zero");
  write(job, 1, "one");
  house_.finish(job, AttemptOutcome::kCompleted);
  auto client = house_.client();
  client.follow("/v1/jobs/1/logs?rank=1&follow=1");
  EXPECT_EQ(text(client.nextEvent("line")), "one");
  EXPECT_EQ(client.nextEvent("end").name, "end");
}

TEST_F(StreamTest, EventsAreToldAsTheyHappenAndFromAPlace) {
  auto client = house_.client();
  client.follow("/v1/events?kind=job.submitted");
  auto all = house_.client();
  all.follow("/v1/events?from=1");
  const auto first = all.nextEvent();
  EXPECT_EQ(first.id, "1");
  EXPECT_EQ(first.json()["kind"], "server.started");
  house_.add(test::job(1, 0));
  EXPECT_EQ(client.nextEvent().json()["kind"], "job.submitted");
  house_.add(test::job(1, 0));
  const auto second = client.nextEvent();
  EXPECT_EQ(second.json()["sequence"], std::stoull(second.id));
  house_.restart();
  auto back = house_.client();
  back.follow("/v1/events", {{"Last-Event-ID", second.id}});
  EXPECT_EQ(back.nextEvent().json()["sequence"], std::stoull(second.id) + 1);
}

TEST_F(StreamTest, QuietStreamIsKeptAlive) {
  house_.add(test::job(1, 1));
  auto client = house_.client();
  client.follow("/v1/events");
  house_.clock.advance(seconds(16));
  EXPECT_TRUE(client.nextBytes().starts_with(":")) << "a comment";
  house_.clock.advance(minutes(10));
  EXPECT_TRUE(client.nextBytes().starts_with(":")) << "and it is not dropped";
}

TEST_F(StreamTest, ServerThatStopsCutsStreamsAndTheyResume) {
  const auto job = house_.add(test::job(1, 1));
  write(job, 0, "one");
  auto client = house_.client();
  client.follow("/v1/jobs/1/logs");
  const auto line = client.nextEvent("line");
  house_.restart();
  EXPECT_THROW(client.nextEvent("end"), std::runtime_error);
  write(job, 0, "two");
  auto back = house_.client();
  back.follow("/v1/jobs/1/logs", {{"Last-Event-ID", line.id}});
  EXPECT_EQ(text(back.nextEvent("line")), "two");
}

TEST_F(StreamTest, OldProtocolGetsAStreamWithoutChunks) {
  const auto job = house_.add(test::job(1, 1));
  write(job, 0, "one");
  house_.finish(job, AttemptOutcome::kCompleted);
  auto client = house_.client();
  client.send("GET /v1/jobs/1/logs?follow=1 HTTP/1.0\r\n\r\n");
  const auto all = client.everything();
  EXPECT_NE(all.find("\r\n\r\nid: "), std::string::npos) << all;
  EXPECT_NE(all.find("event: end"), std::string::npos);
}

}  // namespace
}  // namespace bole::server::testing
