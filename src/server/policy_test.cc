// Queues and policies over the API, with the real controller behind it.
#include <gtest/gtest.h>
#include <unistd.h>

#include "codec/codec.h"
#include "server/policy_views.h"
#include "server/testing/house.h"
#include "spec/policy.h"

namespace bole::server::testing {
namespace {

using model::AttemptOutcome;
using Lines = std::vector<std::string>;

constexpr const char* kLab = R"(queues:
  research:
    guaranteed: {gpus: 2, A100: 2}
    queues:
      nlp: {guaranteed: {gpus: 1}}
      vision: {limit: {gpus: 1}}
  teaching: {weight: 2}
)";

std::string bodyOf(const std::string& policy, bool dryRun = false) {
  model::PolicyRequest request;
  request.text = policy;
  request.fileName = "lab.yaml";
  request.dryRun = dryRun;
  return codec::toJson(request);
}

model::JobSpec jobIn(const std::string& queue, std::uint32_t gpus, const std::string& name) {
  auto spec = test::job(1, gpus, name);
  spec.text.queue = queue;
  return spec;
}

class PolicyApi : public ::testing::Test {
 protected:
  void SetUp() override { house_.open(); }

  Response put(const std::string& policy, bool dryRun = false) {
    return house_.client().request("PUT", "/v1/policy", bodyOf(policy, dryRun));
  }
  nlohmann::json queue(const std::string& name) {
    const auto list = house_.client().get("/v1/queues").json();
    for (const auto& one : list["queues"])
      if (one["name"] == name) return one;
    ADD_FAILURE() << "no queue " << name;
    return {};
  }

  House house_;
};

TEST_F(PolicyApi, AtFirstThereIsOneQueue) {
  const auto policy = house_.client().get("/v1/policy").json();
  EXPECT_EQ(policy["text"], "queues:\n  default:\n    weight: 1\npatience: 10m\nhalf_life: 7d\n");
  EXPECT_EQ(policy["policy"]["queues"][0]["name"], "default");
  const auto list = house_.client().get("/v1/queues").json();
  ASSERT_EQ(list["queues"].size(), 1);
  EXPECT_EQ(list["queues"][0]["depth"], 0);
  EXPECT_EQ(list["warnings"].size(), 0);
  EXPECT_EQ(house_.client().get("/v1/jobs").json()["queues"], 1);
}

TEST_F(PolicyApi, APolicyIsSetAndReadAgain) {
  const auto answer = put(kLab);
  ASSERT_EQ(answer.status, 200) << answer.body;
  const auto told = answer.json()["changes"].get<Lines>();
  EXPECT_EQ(told, (Lines{"queue research is new, at the top: guaranteed 2 GPUs, 2 A100 GPUs, limit "
                         "none, weight 1",
                         "queue nlp is new, below research: guaranteed 1 GPU, limit none, weight 1",
                         "queue vision is new, below research: guaranteed nothing, limit 1 GPU, "
                         "weight 1",
                         "queue teaching is new, at the top: guaranteed nothing, limit none, "
                         "weight 2"}));
  auto client = house_.client();
  EXPECT_EQ(client.get("/v1/policy").json()["text"], answer.json()["text"]);
  EXPECT_EQ(client.get("/v1/jobs").json()["queues"], 5);
  const auto again = put(kLab);
  EXPECT_EQ(again.json()["changes"].size(), 0);
  const auto events = client.get("/v1/events?kind=policy.set").json()["events"];
  ASSERT_EQ(events.size(), 1) << "the same once more is no change";
  EXPECT_EQ(events[0]["actor"], kOwner);
  house_.restart();
  EXPECT_EQ(house_.client().get("/v1/policy").json()["text"], answer.json()["text"]);
}

TEST_F(PolicyApi, QueuesStandInTheOrderOfTheTree) {
  put(kLab);
  std::string tree;
  const auto list = house_.client().get("/v1/queues").json();
  for (const auto& queue : list["queues"]) {
    tree += std::string(queue["depth"].get<std::size_t>(), ' ') + queue["name"].get<std::string>() +
            "<" + queue["parent"].get<std::string>() + "\n";
  }
  EXPECT_EQ(tree, "default<\nresearch<\n nlp<research\n vision<research\nteaching<\n");
}

TEST_F(PolicyApi, UseAndJobsCountUpTheTree) {
  put(kLab);
  const auto first = house_.add(jobIn("nlp", 2, "first"));
  house_.add(jobIn("vision", 1, "second"));
  house_.add(jobIn("vision", 1, "third"));  // its limit is 1
  house_.add(jobIn("teaching", 1, "fourth"), "ana");
  const auto use = [&](const std::string& name) {
    const auto one = queue(name);
    return std::to_string(one["used"]["gpus"].get<int>()) + " " +
           std::to_string(one["used"]["kinds"][0]["gpus"].get<int>()) + " " +
           std::to_string(one["used"]["cpus"].get<int>()) + " " +
           std::to_string(one["running"].get<int>()) + " " +
           std::to_string(one["waiting"].get<int>());
  };
  EXPECT_EQ(use("nlp"), "2000 2000 1000 1 0");
  EXPECT_EQ(use("vision"), "1000 1000 1000 1 1");
  EXPECT_EQ(use("research"), "3000 3000 2000 2 1");
  EXPECT_EQ(use("teaching"), "1000 1000 1000 1 0");
  EXPECT_EQ(use("default"), "0 0 0 0 0");
  EXPECT_EQ(queue("research")["used"]["kinds"][0]["kind"], "A100");
  house_.finish(first, AttemptOutcome::kCompleted);
  EXPECT_EQ(use("nlp"), "0 0 0 0 0");
  EXPECT_EQ(use("research"), "1000 1000 1000 1 1");
  const auto jobs = house_.client().get("/v1/jobs").json()["jobs"];
  EXPECT_EQ(jobs[0]["queue"], "teaching");
  EXPECT_EQ(house_.client().get("/v1/jobs/third").json()["summary"]["queue"], "vision");
  EXPECT_EQ(house_.client().get("/v1/jobs/third").json()["reasons"][0]["queue"], "vision");
}

TEST_F(PolicyApi, WhatTheCloudLacksIsSaid) {
  const auto* text =
      "queues:\n"
      "  a: {guaranteed: {gpus: 6}}\n"
      "  b: {queues: {b1: {guaranteed: {gpus: 1}}, b2: {guaranteed: {gpus: 1, H100: 1}}}}\n";
  const Lines expected = {
      "all queues together are guaranteed 8 GPUs, and the cloud has 4 GPUs: each guarantee "
      "counts in proportion",
      "all queues together are guaranteed 1 H100 GPU, and the cloud has none: each guarantee "
      "counts in proportion",
      "no GPU of this cloud is one of the kind H100"};
  const auto answer = put(text, true);
  EXPECT_EQ(answer.json()["warnings"].get<Lines>(), expected);
  EXPECT_EQ(house_.client().get("/v1/queues").json()["warnings"].size(), 0) << "it was a dry run";
  put(text);
  EXPECT_EQ(house_.client().get("/v1/queues").json()["warnings"].get<Lines>(), expected);
  EXPECT_EQ(queue("a")["guaranteed"]["gpus"], 6000);
  EXPECT_EQ(queue("a")["effective"]["gpus"], 3000);
  EXPECT_FALSE(queue("b")["guaranteed"].contains("gpus"));
  EXPECT_EQ(queue("b")["effective"]["gpus"], 1000) << "what those below it have together";
  EXPECT_EQ(queue("b1")["effective"]["gpus"], 500);
  EXPECT_FALSE(queue("default")["effective"].contains("gpus"));
}

TEST_F(PolicyApi, ADryRunChangesNothingAndSaysWhatItWould) {
  put(kLab);
  const auto before = house_.client().get("/v1/policy").body;
  const auto* text = "queues: {research: {weight: 3, queues: {nlp: {}}}}\npatience: 5m\n";
  const auto answer = put(text, true);
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.json()["changes"].get<Lines>(),
            (Lines{"queue research: guaranteed: nothing, until now 2 GPUs, 2 A100 GPUs",
                   "queue research: weight: 3, until now 1",
                   "queue nlp: guaranteed: nothing, until now 1 GPU", "queue vision goes",
                   "queue teaching goes", "patience: 5m, until now 10m"}));
  EXPECT_EQ(house_.client().get("/v1/policy").body, before);
  EXPECT_EQ(house_.client().get("/v1/events?kind=policy.set").json()["events"].size(), 1);
}

TEST_F(PolicyApi, AQueueWithJobsStays) {
  put(kLab);
  house_.add(jobIn("teaching", 1, "here"));
  const auto before = house_.client().get("/v1/policy").body;
  for (const bool dryRun : {true, false}) {
    const auto answer = put("queues: {}\n", dryRun);
    EXPECT_EQ(answer.status, 409) << "a dry run finds it too";
    EXPECT_EQ(answer.json()["message"],
              "queue teaching: a queue with jobs in it cannot be removed: found job 1; give it a "
              "limit of 0 GPUs, and remove it when its jobs have ended");
    EXPECT_EQ(put("queues: {teaching: {queues: {first-year: {}}}}\n", dryRun).status, 409);
  }
  EXPECT_EQ(house_.client().get("/v1/policy").body, before);
}

TEST_F(PolicyApi, AWrongFileIsRefusedWithItsPlace) {
  const auto answer = put("queues:\n  lab: {limit: {gpu: 2}}\n");
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.json()["where"], "lab.yaml:2:17");
  EXPECT_EQ(answer.json()["hint"], "did you mean 'gpus'?");
  EXPECT_EQ(house_.client().request("PUT", "/v1/policy", "{\"policy\":1}").status, 400);
  EXPECT_EQ(house_.client().request("PUT", "/v1/policy", "queues: {}").status, 400);
  EXPECT_EQ(house_.client().get("/v1/events?kind=policy.set").json()["events"].size(), 0);
}

TEST_F(PolicyApi, AQueueThatIsNotThereTakesNoJob) {
  put(kLab);
  auto client = house_.client();
  auto answer = client.post("/v1/jobs", submission(jobIn("nlq", 1, "lost")));
  EXPECT_EQ(answer.status, 404);
  EXPECT_EQ(answer.json()["where"], "queue");
  EXPECT_EQ(answer.json()["expected"], "one of default, nlp, vision, teaching");
  answer = client.post("/v1/jobs", submission(jobIn("research", 1, "above")));
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.json()["expected"], "one of nlp, vision");
}

TEST_F(PolicyApi, OnlyWhoRunsTheServerSetsIt) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be somebody else";
  constexpr uid_t kNobody = 65534;
  auto other = house_.clientOf(kNobody);
  for (const bool dryRun : {false, true}) {
    const auto answer = other.request("PUT", "/v1/policy", bodyOf(kLab, dryRun));
    EXPECT_EQ(answer.status, 403);
    EXPECT_EQ(answer.json()["hint"], "only who runs the server and root may");
  }
  EXPECT_EQ(house_.client().get("/v1/queues").json()["queues"].size(), 1);
  put(kLab);
  house_.add(jobIn("nlp", 1, "secret-name"));
  const auto queues = other.get("/v1/queues");
  EXPECT_EQ(queues.status, 200);
  EXPECT_EQ(queues.body, house_.client().get("/v1/queues").body) << "numbers are for everyone";
  EXPECT_EQ(queues.body.find("secret-name"), std::string::npos);
  EXPECT_EQ(other.get("/v1/policy").body, house_.client().get("/v1/policy").body);
}

TEST_F(PolicyApi, OnlyWhoRunsTheServerSaysHowMachinesAreUsed) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be somebody else";
  constexpr uid_t kNobody = 65534;
  auto other = house_.clientOf(kNobody);
  const auto node = house_.client().get("/v1/nodes").json()["nodes"][0]["name"].get<std::string>();
  const auto path = "/v1/nodes/" + node;
  const std::string down = R"({"health":"down"})";
  EXPECT_EQ(other.request("POST", path + "/health", down).status, 403);
  EXPECT_EQ(other.request("POST", path + "/labels", R"({"set":[["a","b"]]})").status, 403);
  EXPECT_EQ(other.get("/v1/snapshot").status, 403);
  EXPECT_EQ(house_.client().get("/v1/nodes").json()["nodes"][0]["health"], "healthy");
  EXPECT_EQ(house_.client().request("POST", path + "/health", down).status, 200);
  EXPECT_EQ(other.get("/v1/nodes").json()["nodes"][0]["health"], "down");
  EXPECT_EQ(house_.client().get("/v1/snapshot").status, 200);
}

TEST_F(PolicyApi, ASnapshotHasNoTextInIt) {
  house_.add(jobIn("default", 1, "secret-name"));
  const auto snapshot = house_.client().get("/v1/snapshot");
  EXPECT_EQ(snapshot.status, 200);
  EXPECT_EQ(snapshot.body.find("secret-name"), std::string::npos);
  EXPECT_EQ(snapshot.json()["jobs"].size(), 1);
}

TEST_F(PolicyApi, AJobMakesRoomAndSaysForWhom) {
  put("queues: {lab: {guaranteed: {gpus: 2}}}\n");
  const auto borrower = house_.add(jobIn("default", 4, "borrower"));
  house_.run(borrower);
  const auto owner = house_.add(jobIn("lab", 2, "owner"));
  auto client = house_.client();
  EXPECT_EQ(client.get("/v1/jobs/borrower").json()["summary"]["reason"],
            "is being stopped: it makes room for job 2");
  EXPECT_EQ(client.get("/v1/jobs/owner").json()["summary"]["reason"],
            "waits for a job to stop for it");
  house_.finish(borrower, AttemptOutcome::kStopped);
  const auto waits = client.get("/v1/jobs/borrower").json();
  EXPECT_EQ(waits["summary"]["state"], "QUEUED");
  EXPECT_EQ(waits["summary"]["reason"],
            "waits for 4 GPUs: 2 free now (attempt 1: made room for another job)");
  EXPECT_EQ(client.get("/v1/jobs/owner").json()["summary"]["state"], "STARTING");
  house_.finish(owner, AttemptOutcome::kCompleted);
  EXPECT_EQ(client.get("/v1/jobs/borrower").json()["summary"]["state"], "STARTING");
}

TEST_F(PolicyApi, AFullMailboxIsSaid) {
  house_.refuseCommands(true);
  EXPECT_EQ(put(kLab).status, 503);
  house_.refuseCommands(false);
}

TEST_F(PolicyApi, OnAFullDiskThePolicyStaysAsItIs) {
  house_.setDisk(test::MemoryLedger::Disk::kFull);
  const auto answer = put(kLab);
  EXPECT_EQ(answer.status, 503) << answer.body;
  EXPECT_EQ(house_.client().get("/v1/queues").json()["queues"].size(), 1);
  house_.setDisk(test::MemoryLedger::Disk::kFine);
}

// ---- what changes, in words

Lines changes(const std::string& before, const std::string& now) {
  const auto old = spec::parsePolicy({before, "before"});
  const auto next = spec::parsePolicy({now, "now"});
  EXPECT_TRUE(old && next);
  return policyChanges(old->policy, next->policy);
}

TEST(PolicyChanges, EveryField) {
  EXPECT_EQ(
      changes("queues: {a: {}, b: {queues: {c: {}}}}",
              "queues: {b: {}, a: {guaranteed: {gpus: 1, cpus: 0.5, memory: 3MiB}, limit: {A100: "
              "2}, weight: 7, preemption: lower-priority, per_user: {gpus: 1, running: 1}, queues: "
              "{c: {}}}}\nhalf_life: 0s"),
      (Lines{"queue a: guaranteed: 1 GPU, 0.5 CPUs, 3MiB of memory, until now nothing",
             "queue a: limit: 2 A100 GPUs, until now none", "queue a: weight: 7, until now 1",
             "queue a: preemption: lower-priority, until now never",
             "queue a: per user: 1 GPU, 1 running job, until now no limit",
             "queue c: place: below a, until now below b", "half_life: 0s, until now 7d"}));
}

TEST(PolicyChanges, NewOnesSayAllThatIsSaidOfThem) {
  EXPECT_EQ(
      changes("queues: {}", "queues: {a: {preemption: lower-priority, per_user: {running: 2}}}"),
      (Lines{"queue a is new, at the top: guaranteed nothing, limit none, weight 1, "
             "preemption lower-priority, per user 2 running jobs"}));
}

TEST(PolicyChanges, OrderAndNothing) {
  EXPECT_EQ(changes("queues: {a: {}, b: {}}", "queues: {b: {}, a: {}}"),
            (Lines{"the queues stand in another order"}));
  EXPECT_EQ(changes("queues: {a: {}}", "queues: {a: {weight: 1}}"), Lines{});
}

}  // namespace
}  // namespace bole::server::testing
