// Who may see and do what. The kernel says who is at the other end of the Unix socket.
#include <gtest/gtest.h>
#include <unistd.h>

#include "server/testing/house.h"

namespace bole::server::testing {
namespace {

using model::AttemptOutcome;

constexpr uid_t kNobody = 65534;       // has a name
constexpr uid_t kNameless = 54321098;  // has none
constexpr const char* kSecret = "s3cr3t-value";

model::JobSpec secretive(const std::string& name = "train") {
  auto spec = test::job(1, 1, name);
  spec.text.tasks[0].command = {"./train", std::string("--key=") + kSecret};
  spec.text.tasks[0].env = {{"API_KEY", kSecret}};
  return spec;
}

class PrivacyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "only root can be somebody else";
    house_.open();
  }

  House house_;
};

TEST_F(PrivacyTest, OthersSeeThatAJobIsThereButNotWhatItRuns) {
  const auto job = house_.add(secretive());
  house_.logs.add(house_.attemptOf(job), 0, house_.clock.wall(), kSecret);
  house_.finish(job, AttemptOutcome::kFailed, 1);
  auto other = house_.clientOf(kNobody);
  const auto list = other.get("/v1/jobs?all=1");
  EXPECT_EQ(list.json()["jobs"][0]["user"], kOwner);
  const auto shown = other.get("/v1/jobs/train");
  ASSERT_EQ(shown.status, 200);
  EXPECT_EQ(shown.json()["summary"]["state"], "FAILED");
  EXPECT_EQ(shown.json()["spec"]["text"]["tasks"][0]["command"].size(), 0);
  EXPECT_EQ(shown.json()["spec"]["text"]["tasks"][0]["env"][0][0], "API_KEY");
  EXPECT_EQ(shown.json()["last_lines"].size(), 0);
  for (const std::string target : {"/v1/jobs?all=1", "/v1/jobs/1", "/v1/events?from=1&limit=1000",
                                   "/v1/gpus", "/v1/nodes", "/v1/topology", "/v1/status"}) {
    EXPECT_EQ(other.get(target).body.find(kSecret), std::string::npos) << target;
  }
  EXPECT_NE(house_.client().get("/v1/jobs/1").body.find(kSecret), std::string::npos)
      << "the owner sees it: the test looks for the right thing";
}

TEST_F(PrivacyTest, OthersMayNotStopItReadItsLogsOrEndTheServer) {
  house_.close();
  std::atomic<bool> ended = false;
  house_.options.onShutdown = [&](bool) { ended = true; };
  house_.open();
  const auto job = house_.add(secretive());
  house_.run(job);
  house_.logs.add(house_.attemptOf(job), 0, house_.clock.wall(), kSecret);
  auto other = house_.clientOf(kNobody);
  for (const auto& answer :
       {other.post("/v1/jobs/1/stop"), other.get("/v1/jobs/1/logs"),
        other.get("/v1/jobs/1/logs?follow=1"), other.get("/v1/jobs/train/logs?attempt=1"),
        other.get("/v1/jobs/1/logs", {{"Accept", "text/event-stream"}}),
        other.get("/v1/jobs/1/logs", {{"Last-Event-ID", "1//p"}}), other.post("/v1/shutdown")}) {
    EXPECT_EQ(answer.status, 403);
    EXPECT_EQ(answer.json()["code"], "permission");
    EXPECT_EQ(answer.body.find(kSecret), std::string::npos);
  }
  EXPECT_EQ(house_.client().get("/v1/jobs/1").json()["summary"]["state"], "RUNNING");
  EXPECT_FALSE(ended);
}

TEST_F(PrivacyTest, EachUserIsHimself) {
  auto nobody = house_.clientOf(kNobody);
  auto spec = secretive();
  spec.text.user = kOwner;  // as if
  ASSERT_EQ(nobody.post("/v1/jobs", submission(spec)).status, 201);
  const auto his = nobody.get("/v1/jobs/1");
  EXPECT_EQ(his.json()["summary"]["user"], "nobody");
  EXPECT_EQ(his.json()["spec"]["text"]["user"], "nobody");
  EXPECT_NE(his.body.find(kSecret), std::string::npos) << "he sees his own";
  EXPECT_EQ(nobody.get("/v1/jobs/1/logs").status, 200);
  auto nameless = house_.clientOf(kNameless);
  EXPECT_EQ(nameless.get("/v1/jobs/1").body.find(kSecret), std::string::npos);
  EXPECT_EQ(nameless.post("/v1/jobs/1/stop").status, 403);
  ASSERT_EQ(nameless.post("/v1/jobs", submission(secretive("mine"))).status, 201);
  EXPECT_EQ(nameless.get("/v1/jobs/mine").json()["summary"]["user"],
            "uid:" + std::to_string(kNameless));
  EXPECT_EQ(nobody.get("/v1/jobs/mine/logs").status, 403);
  EXPECT_EQ(nobody.post("/v1/jobs/1/stop").status, 202);
  EXPECT_EQ(house_.client().post("/v1/jobs/mine/stop").status, 202) << "root may";
}

TEST_F(PrivacyTest, OwnerOfTheServerNeedsNotBeRootAndRootMayAll) {
  house_.close();
  house_.options.ownerUid = kNobody;
  house_.options.ownerName = "nobody";
  std::atomic<bool> ended = false;
  house_.options.onShutdown = [&](bool) { ended = true; };
  house_.open();
  house_.add(secretive("ana-s"), "ana");
  auto owner = house_.clientOf(kNobody);
  EXPECT_NE(owner.get("/v1/jobs/1").body.find(kSecret), std::string::npos);
  EXPECT_EQ(owner.get("/v1/jobs/1/logs").status, 200);
  auto root = house_.client();
  ASSERT_EQ(root.post("/v1/jobs", submission(secretive("root-s"))).status, 201);
  EXPECT_EQ(root.get("/v1/jobs/root-s").json()["summary"]["user"], "root");
  EXPECT_EQ(root.post("/v1/jobs/1/stop").status, 202);
  auto other = house_.clientOf(kNameless);
  EXPECT_EQ(other.post("/v1/shutdown").status, 403);
  EXPECT_EQ(other.post("/v1/jobs/root-s/stop").status, 403);
  EXPECT_EQ(owner.post("/v1/shutdown").status, 202);
  owner.get("/v1/version");
  EXPECT_TRUE(ended);
}

TEST_F(PrivacyTest, JobsWithoutASandboxAreTheOwnersAlone) {
  auto spec = test::job(1, 0);
  spec.shape.runtime = model::Runtime::kPlain;
  EXPECT_EQ(house_.clientOf(kNobody).post("/v1/jobs", submission(spec)).status, 403);
  EXPECT_EQ(house_.client().post("/v1/jobs", submission(spec)).status, 201);
}

TEST_F(PrivacyTest, OfANameOnesOwnJobIsMeantFirst) {
  auto nobody = house_.clientOf(kNobody);
  ASSERT_EQ(nobody.post("/v1/jobs", submission(test::job(1, 0, "same"))).status, 201);
  house_.add(test::job(1, 0, "same"), "ana");
  EXPECT_EQ(nobody.get("/v1/jobs/same").json()["summary"]["id"], 1);
  EXPECT_EQ(house_.clientOf(kNameless).get("/v1/jobs/same").json()["summary"]["id"], 2);
}

TEST_F(PrivacyTest, SameRequestIdOfTwoUsersIsTwoJobs) {
  const auto body = submission(test::job(1, 0), ",\"request_id\":\"r\"");
  ASSERT_EQ(house_.clientOf(kNobody).post("/v1/jobs", body).status, 201);
  const auto second = house_.clientOf(kNameless).post("/v1/jobs", body);
  EXPECT_EQ(second.json()["jobs"][0]["existed"], false);
}

TEST_F(PrivacyTest, BearerOfTheTokenIsTheOwner) {
  house_.add(secretive("ana-s"), "ana");
  auto bearer = house_.tcpClient();
  EXPECT_NE(bearer.get("/v1/jobs/1").body.find(kSecret), std::string::npos);
  ASSERT_EQ(bearer.post("/v1/jobs", submission(test::job(1, 0))).status, 201);
  EXPECT_EQ(bearer.get("/v1/jobs/2").json()["summary"]["user"], kOwner);
}

TEST_F(PrivacyTest, WithoutTheTokenNothingIsTold) {
  house_.add(secretive());
  const std::string token = kToken;
  for (const std::string& value :
       {std::string(), std::string("Bearer"), std::string("Bearer "), token, "Basic " + token,
        "Bearer " + token.substr(1), "Bearer " + token + "0", "Bearer  " + token,
        "Bearer " + std::string(token.size(), '0'), "Token " + token}) {
    auto stranger = Client::overTcp(house_.server().tcpPort());
    Headers headers;
    if (!value.empty()) headers.emplace_back("Authorization", value);
    for (const std::string target : {"/v1/jobs/1", "/v1/version", "/nothing"}) {
      const auto answer = stranger.get(target, headers);
      EXPECT_EQ(answer.status, 401) << value << " " << target;
      EXPECT_EQ(answer.header("www-authenticate"), "Bearer realm=\"bole\"");
    }
  }
  auto stranger = Client::overTcp(house_.server().tcpPort());
  EXPECT_EQ(stranger.post("/v1/jobs", submission(test::job(1, 0))).status, 401);
  EXPECT_EQ(house_.client().get("/v1/jobs").json()["jobs"].size(), 1);
}

TEST_F(PrivacyTest, OtherHostNamesAndWebPagesAreNotServed) {
  auto bearer = house_.tcpClient();
  for (const std::string host : {"evil.example", "evil.example:8470", "127.0.0.1.evil.example",
                                 "localhost.evil.example", "", "169.254.169.254", "[::2]:80"}) {
    EXPECT_EQ(bearer.get("/v1/jobs", {{"Host", host}}).status, 403) << host;
  }
  for (const std::string host :
       {"localhost", "LOCALHOST:8470", "127.0.0.1", "127.0.0.1:1", "[::1]:8470"}) {
    EXPECT_EQ(bearer.get("/v1/jobs", {{"Host", host}}).status, 200) << host;
  }
  EXPECT_EQ(bearer.get("/v1/jobs", {{"Host", "localhost"}, {"Host", "evil.example"}}).status, 403);
  for (const std::string origin : {"http://evil.example", "null", "http://localhost:8470"}) {
    EXPECT_EQ(bearer.get("/v1/jobs", {{"Origin", origin}}).status, 403) << origin;
    EXPECT_EQ(house_.client().get("/v1/jobs", {{"Origin", origin}}).status, 403) << origin;
  }
  const auto preflight =
      bearer.request("OPTIONS", "/v1/jobs", "", {{"Origin", "http://e.example"}});
  EXPECT_EQ(preflight.status, 403);
  EXPECT_EQ(preflight.header("access-control-allow-origin"), "");
}

}  // namespace
}  // namespace bole::server::testing
