// Clients that mean harm, or do it without meaning it: slow, huge, wrong, many, deaf.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <future>
#include <random>
#include <thread>

#include "codec/codec.h"
#include "server/testing/house.h"

namespace bole::server::testing {
namespace {

using model::AttemptOutcome;
using namespace std::string_literals;

constexpr uid_t kNobody = 65534;
constexpr std::size_t kMiB = 1024 * 1024;

// What this process holds in memory, both ends of its connections included.
std::size_t residentBytes() {
  std::ifstream statm("/proc/self/statm");
  std::size_t size = 0;
  std::size_t resident = 0;
  statm >> size >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

std::size_t grown(std::size_t before) {
#ifdef BOLE_SANITIZED
  before =
      SIZE_MAX;  // what a sanitizer keeps beside each byte, and after it is freed, is none of ours
#endif
  const auto now = residentBytes();
  return now > before ? now - before : 0;
}

class AttackTest : public ::testing::Test {
 protected:
  void SetUp() override { house_.open(); }

  void reopen() {
    house_.close();
    house_.open();
  }

  House house_;
};

TEST_F(AttackTest, HeaderThatTricklesIsEnded) {
  auto slow = house_.client();
  slow.send("GET /v1/version HTTP/1.1\r\nHost: x\r\n");
  for (int i = 0; i < 6; ++i) {
    house_.settle();
    house_.clock.advance(seconds(5));
    slow.send("X: y\r\n");  // does not buy it time
  }
  house_.clock.advance(seconds(5));
  const auto answer = slow.read();
  EXPECT_EQ(answer.status, 408);
  EXPECT_TRUE(slow.closed());
}

TEST_F(AttackTest, BodyThatTricklesIsEnded) {
  auto slow = house_.client();
  slow.send("POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{");
  house_.settle();
  house_.clock.advance(seconds(61));
  EXPECT_EQ(slow.read().status, 408);
  EXPECT_TRUE(slow.closed());
}

TEST_F(AttackTest, SilentConnectionsAreClosed) {
  auto silent = house_.client();
  auto once = house_.client();
  EXPECT_EQ(once.get("/v1/version").status, 200);
  house_.settle();
  house_.clock.advance(seconds(31));
  EXPECT_TRUE(silent.closed());
  EXPECT_EQ(once.get("/v1/version").status, 200) << "between requests there is more time";
  house_.settle();
  house_.clock.advance(seconds(61));
  EXPECT_TRUE(once.closed());
}

TEST_F(AttackTest, HugeHeadersAreRefused) {
  for (const auto& head :
       {"GET /" + std::string(100'000, 'a') + " HTTP/1.1\r\n\r\n",
        "GET /v1/version HTTP/1.1\r\nX: " + std::string(100'000, 'a') + "\r\n\r\n",
        std::string(100'000, 'A'), [] {
          std::string many = "GET /v1/version HTTP/1.1\r\n";
          for (int i = 0; i < 10'000; ++i) many += "X" + std::to_string(i) + ": y\r\n";
          return many + "\r\n";
        }()}) {
    auto client = house_.client();
    static_cast<void>(client.trySend(head));
    const auto answer = client.read();
    EXPECT_TRUE(answer.status == 431 || answer.status == 400) << answer.status;
    EXPECT_TRUE(client.closed());
  }
  auto client = house_.client();
  EXPECT_EQ(client.get("/v1/version", {{"X", std::string(10'000, 'a')}}).status, 200);
}

TEST_F(AttackTest, HugeBodiesAreRefusedBeforeTheyAreRead) {
  auto told = house_.client();
  told.send("POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 999999999999\r\n\r\n");
  EXPECT_EQ(told.read("POST", "/v1/jobs").status, 413);
  auto untold = house_.client();
  untold.send("POST /v1/jobs HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
  const std::string chunk = "10000\r\n" + std::string(0x10000, '[') + "\r\n";
  int sent = 0;
  while (sent < 1000 && untold.trySend(chunk)) ++sent;
  EXPECT_EQ(untold.read("POST", "/v1/jobs").status, 413);
  const auto jobs = house_.client().post("/v1/jobs", std::string(3 * kMiB, ' '));
  EXPECT_EQ(jobs.status, 413);
  const auto none = house_.client().request("GET", "/v1/jobs", "{}");
  EXPECT_EQ(none.status, 400) << "a body where none is taken";
}

TEST_F(AttackTest, WhatIsNoHttpIsRefused) {
  for (const std::string& bytes :
       {std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11), std::string("\r\n\r\nx"),
        std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), std::string("GET\r\n\r\n"),
        std::string("GET /v1/version\r\n\r\n"), std::string("GET /v1/version HTTP/9.9\r\n\r\n"),
        std::string("GET /v1/version HTTP/1.1\r\nno colon\r\n\r\n"),
        std::string("GET http://x/v1/version HTTP/1.1\r\nHost: x\r\n\r\n"),
        std::string("CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n"),
        std::string("GET * HTTP/1.1\r\nHost: x\r\n\r\n"),
        std::string("POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n"),
        std::string("POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n"
                    "Content-Length: 6\r\n\r\n"),
        std::string("POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n"
                    "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        std::string("POST /v1/jobs HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                    "zz\r\n\r\n"),
        "GET /v1/jobs\0 HTTP/1.1\r\nHost: x\r\n\r\n"s}) {
    auto client = house_.client();
    client.send(bytes);
    client.finishSending();
    const auto answer = client.everything();
    EXPECT_TRUE(answer.empty() || answer.starts_with("HTTP/1.1 400")) << bytes << "\n" << answer;
  }
  EXPECT_EQ(house_.client().get("/v1/jobs").json()["jobs"].size(), 0);
}

TEST_F(AttackTest, RandomRequestsBreakNothing) {
  std::mt19937 random(20240607);  // NOLINT: the same each time
  const std::vector<std::string> seeds = {
      "GET /v1/jobs?all=1 HTTP/1.1\r\nHost: x\r\n\r\n",
      "POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 12\r\n\r\n{\"spec\":\"x\"}",
      "GET /v1/jobs/1/logs?follow=1 HTTP/1.1\r\nLast-Event-ID: 1/0=1/p,0=2\r\n\r\n",
      "PUT /v1/uploads/" + std::string(64, 'a') +
          " HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"};
  house_.add(test::job(1, 0));
  for (int round = 0; round < 2000; ++round) {
    auto bytes = seeds[random() % seeds.size()];
    for (auto changes = random() % 8; changes > 0; --changes) {
      const auto at = random() % bytes.size();
      if (random() % 3 == 0)
        bytes.erase(at, 1 + random() % 4);
      else if (random() % 2 == 0)
        bytes.insert(at, 1, static_cast<char>(random()));
      else
        bytes[at] = static_cast<char>(random());
      if (bytes.empty()) bytes = "x";
    }
    auto client = Client::overUnix(house_.options.socketPath);
    static_cast<void>(client.trySend(bytes));
  }
  EXPECT_EQ(house_.client().get("/v1/jobs/1").status, 200);
}

TEST_F(AttackTest, ThousandIdleConnectionsCostLittleAndStopNobody) {
  house_.options.limits.connectionsPerUser = 1010;
  reopen();
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  if (files.rlim_cur < 4096) GTEST_SKIP() << "both ends need descriptors";
  const auto before = residentBytes();
  std::vector<Client> idle;
  for (int i = 0; i < 1000; ++i) {
    idle.push_back(house_.client());
    if (i % 2 == 0) idle.back().send("GET /v1/ver");  // half of them in the middle of something
  }
  EXPECT_EQ(house_.client().get("/v1/version").status, 200);
  EXPECT_LT(grown(before), 24 * kMiB);
  house_.clock.advance(seconds(31));
  for (auto& client : idle) static_cast<void>(client.everything());
}

TEST_F(AttackTest, OneUserCannotTakeAllConnections) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be somebody else";
  house_.options.limits.connections = 12;
  house_.options.limits.connectionsPerUser = 8;
  reopen();
  std::vector<Client> his;
  for (int i = 0; i < 8; ++i) his.push_back(house_.clientOf(kNobody));
  auto ninth = house_.clientOf(kNobody);
  EXPECT_EQ(ninth.read().status, 429);
  EXPECT_TRUE(ninth.closed());
  std::vector<Client> theirs;
  for (int i = 0; i < 4; ++i) theirs.push_back(house_.clientOf(1000));
  auto over = house_.clientOf(1001);
  EXPECT_EQ(over.read().status, 503);
  house_.add(test::job(1, 0));
  EXPECT_EQ(house_.client().post("/v1/jobs/1/stop").status, 202) << "the owner always gets in";
  his.clear();
  // His end is noticed when the server reads from it: the door opens again.
  EXPECT_TRUE([&] {
    for (int i = 0; i < 1000; ++i) {
      auto again = house_.clientOf(kNobody);
      again.send("GET /v1/version HTTP/1.1\r\n\r\n");
      if (again.read().status == 200) return true;
    }
    return false;
  }());
}

TEST_F(AttackTest, OneUserCannotFollowWithoutEnd) {
  house_.options.limits.streamsPerUser = 2;
  reopen();
  std::vector<Client> followers;
  for (int i = 0; i < 2; ++i) {
    followers.push_back(house_.client());
    followers.back().follow("/v1/events");
  }
  EXPECT_EQ(house_.client().get("/v1/events?follow=1").status, 429);
  EXPECT_EQ(house_.client().get("/v1/events").status, 200);
  followers.clear();
  EXPECT_TRUE([&] {
    for (int i = 0; i < 1000; ++i) {
      auto again = Client::overUnix(house_.options.socketPath);
      again.send("GET /v1/events HTTP/1.1\r\nAccept: text/event-stream\r\n\r\n");
      if (again.nextLine() == "HTTP/1.1 200 OK") return true;
    }
    return false;
  }()) << "readers that went away are noticed";
}

TEST_F(AttackTest, DeafReadersCostABoundedBufferAndNobodyElsesTime) {
  const auto job = house_.add(test::job(1, 1));
  house_.run(job);
  const auto attempt = house_.attemptOf(job);
  for (int i = 0; i < 30'000; ++i) {
    house_.logs.add(attempt, 0, house_.clock.wall(), std::string(1000, 'x'));
  }
  const auto before = residentBytes();
  std::vector<Client> deaf;
  for (int i = 0; i < 50; ++i) {
    deaf.push_back(house_.client());
    deaf.back().follow("/v1/jobs/1/logs");
  }
  auto reader = house_.client();
  reader.follow("/v1/jobs/1/logs");
  for (int i = 0; i < 30'000; ++i) reader.nextEvent("line");
  EXPECT_LT(grown(before), 40 * kMiB) << "30 MB of log wait for each of 50 readers";
  house_.logs.add(attempt, 0, house_.clock.wall(), "news");
  EXPECT_EQ(reader.nextEvent("line").json()["text"], "news");
  EXPECT_EQ(house_.client().get("/v1/jobs").status, 200);
  house_.clock.advance(seconds(61));
  for (auto& client : deaf) client.awaitHangup();
  house_.logs.add(attempt, 0, house_.clock.wall(), "more");
  EXPECT_EQ(reader.nextEvent("line").json()["text"], "more") << "who reads is not dropped";
}

TEST_F(AttackTest, LargeAnswersThatNobodyTakesAreBounded) {
  const auto job = house_.add(test::job(1, 1));
  for (int i = 0; i < 15'000; ++i) {
    house_.logs.add(house_.attemptOf(job), 0, house_.clock.wall(), std::string(1000, 'x'));
  }
  std::vector<Client> deaf;
  for (int i = 0; i < 20; ++i) {
    deaf.push_back(Client::overUnix(house_.options.socketPath));
    deaf.back().send("GET /v1/jobs/1/logs HTTP/1.1\r\nHost: x\r\n\r\n");
  }
  int refused = 0;
  for (auto& client : deaf) {
    const auto line = client.nextLine();
    refused += line == "HTTP/1.1 429 Too Many Requests" ? 1 : 0;
  }
  EXPECT_EQ(refused, 16) << "16 MB each: 64 MiB hold four";
  deaf.clear();
  EXPECT_TRUE([&] {
    for (int i = 0; i < 100; ++i) {
      if (house_.client().get("/v1/jobs/1/logs").status == 200) return true;
    }
    return false;
  }()) << "those who went away are not counted for ever";
}

TEST_F(AttackTest, LargeRequestsOfOneUserAreBounded) {
  std::vector<Client> slow;
  for (int i = 0; i < 40; ++i) {
    slow.push_back(house_.client());
    slow.back().send("POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 2000000\r\n\r\n{");
  }
  int refused = 0;
  house_.settle();
  house_.clock.advance(seconds(61));
  for (auto& client : slow) refused += client.read().status == 429 ? 1 : 0;
  EXPECT_EQ(refused, 24) << "2 MB each: 32 MiB hold sixteen";
  EXPECT_EQ(house_.client().post("/v1/jobs", std::string(1'900'000, ' ')).status, 400)
      << "those are not counted any more";
}

TEST_F(AttackTest, FloodOnOneConnectionStopsNobody) {
  auto flood = house_.client();
  std::string many;
  for (int i = 0; i < 5000; ++i) many += "GET /v1/version HTTP/1.1\r\nHost: x\r\n\r\n";
  std::thread sending([&] { static_cast<void>(flood.trySend(many)); });
  EXPECT_EQ(house_.client().get("/v1/version").status, 200);
  for (int i = 0; i < 5000; ++i) ASSERT_EQ(flood.read().status, 200);
  sending.join();
}

TEST_F(AttackTest, ClientsThatLeaveInTheMiddleBreakNothing) {
  const auto body = submission(test::job(1, 0));
  const auto whole =
      "POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(body.size()) +
      "\r\n\r\n" + body;
  house_.hold();
  for (std::size_t cut = 1; cut < whole.size(); cut += 7) {
    house_.client().send(whole.substr(0, cut));
  }
  house_.client().send(whole);
  while (house_.waiting() == 0) std::this_thread::yield();
  house_.release();
  EXPECT_EQ(house_.client().get("/v1/version").status, 200);
  house_.tick();
  EXPECT_EQ(house_.snapshot()->tables.jobs.size(), 1) << "what came whole is done";
}

TEST_F(AttackTest, WhatStandsInNamesAndTextsCannotLeaveItsPlace) {
  auto spec = test::job(1, 0, "x\r\nSet-Cookie: a=b\r\n\r\n<script>\x80");
  const auto job = house_.add(spec, "ana\nevent: end\ndata: {}\n\n");
  house_.logs.add(house_.attemptOf(job), 0, house_.clock.wall(), "a\nevent: end\ndata: {}\n\n");
  house_.finish(job, AttemptOutcome::kCompleted);
  auto client = house_.client();
  EXPECT_EQ(client.get("/v1/jobs?all=1").header("set-cookie"), "");
  client.follow("/v1/jobs/1/logs");
  EXPECT_EQ(client.nextEvent().json()["text"], "a\nevent: end\ndata: {}\n\n");
  EXPECT_EQ(client.nextEvent().name, "state");
  EXPECT_EQ(client.nextEvent().name, "end");
}

TEST_F(AttackTest, TenThousandQueuedJobsAreAllListed) {
  std::promise<void> done;
  controller::SubmitJobs many;
  many.caller.user = "ana";
  many.jobs.assign(10'000, test::job(2, 2));
  many.reply = [&](Result<model::SubmitAnswer> answer) {
    EXPECT_TRUE(answer);
    done.set_value();
  };
  ASSERT_TRUE(house_.submit(std::move(many)));
  done.get_future().wait();
  auto client = Client::overUnix(house_.options.socketPath);
  EXPECT_EQ(client.get("/v1/jobs").json()["jobs"].size(), 10'000);
}

}  // namespace
}  // namespace bole::server::testing
