// What the API answers, over a real socket and with the real controller behind it.
#include <gtest/gtest.h>

#include "server/openapi.h"
#include "server/testing/house.h"

namespace bole::server::testing {
namespace {

using model::AttemptOutcome;

class ApiTest : public ::testing::Test {
 protected:
  void SetUp() override { house_.open(); }

  House house_;
};

TEST_F(ApiTest, SubmittedJobIsListedShownAndStopped) {
  auto client = house_.client();
  auto answer = client.post("/v1/jobs", submission(test::job(2, 1)));
  ASSERT_EQ(answer.status, 201) << answer.body;
  EXPECT_EQ(answer.json()["jobs"][0]["id"], 1);
  EXPECT_EQ(answer.json()["jobs"][0]["name"], "train");
  EXPECT_EQ(answer.json()["jobs"][0]["warnings"][0], "a warning");

  answer = client.get("/v1/jobs");
  ASSERT_EQ(answer.status, 200);
  ASSERT_EQ(answer.json()["jobs"].size(), 1);
  EXPECT_EQ(answer.json()["jobs"][0]["user"], kOwner);
  EXPECT_EQ(answer.json()["jobs"][0]["state"], "STARTING");
  EXPECT_EQ(answer.json()["jobs"][0]["gpus"], 2);
  EXPECT_EQ(answer.json()["jobs"][0]["emulated"], true);

  house_.run(JobId(1));
  answer = client.get("/v1/jobs/train");
  ASSERT_EQ(answer.status, 200);
  EXPECT_EQ(answer.json()["summary"]["state"], "RUNNING");
  EXPECT_EQ(answer.json()["spec"]["text"]["tasks"][0]["command"][0], "./train");
  EXPECT_EQ(answer.json()["attempts"][0]["ranks"].size(), 2);
  EXPECT_EQ(answer.json()["exit_code"], -1);

  answer = client.post("/v1/jobs/1/stop");
  ASSERT_EQ(answer.status, 202);
  EXPECT_EQ(answer.json()["state"], "STOPPING") << "the answer shows what the command did";
  house_.finish(JobId(1), AttemptOutcome::kStopped);
  answer = client.get("/v1/jobs/1");
  EXPECT_EQ(answer.json()["summary"]["state"], "CANCELLED");
  EXPECT_EQ(answer.json()["exit_code"], 130);
}

}  // namespace
}  // namespace bole::server::testing
