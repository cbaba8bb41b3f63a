// What the API answers, over a real socket and with the real controller behind it.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cctype>
#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

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

TEST_F(ApiTest, ListShowsWhatHasNotEndedAndFilters) {
  house_.add(test::job(4, 1, "holder"), "ana");
  const auto done = house_.add(test::job(1, 0, "done"), "ben");
  house_.finish(done, AttemptOutcome::kCompleted);
  house_.add(test::job(2, 1, "waits"), "ben");
  auto client = house_.client();
  const auto names = [&](const std::string& query) {
    std::string text;
    const auto answer = client.get("/v1/jobs" + query);
    EXPECT_EQ(answer.status, 200) << answer.body;
    const auto list = answer.json();
    for (const auto& job : list["jobs"]) text += job["name"].get<std::string>() + " ";
    return text;
  };
  EXPECT_EQ(names(""), "waits holder ") << "newest first, without those that have ended";
  EXPECT_EQ(names("?all=1"), "waits done holder ");
  EXPECT_EQ(names("?all=true&limit=2"), "waits done ");
  EXPECT_EQ(names("?state=succeeded"), "done ");
  EXPECT_EQ(names("?state=queued,starting"), "waits holder ");
  EXPECT_EQ(names("?user=ben"), "waits ");
  EXPECT_EQ(names("?user=ben&all=1"), "waits done ");
  EXPECT_EQ(names("?name=holder"), "holder ");
  EXPECT_EQ(names("?project=default"), "waits holder ");
  EXPECT_EQ(names("?project=none"), "");
  EXPECT_EQ(names("?limit=0"), "");
}

TEST_F(ApiTest, WaitingJobSaysWhy) {
  house_.add(test::job(3, 1));
  house_.add(test::job(2, 1, "second"));
  const auto shown = house_.client().get("/v1/jobs/second").json();
  EXPECT_EQ(shown["summary"]["state"], "QUEUED");
  EXPECT_EQ(shown["summary"]["reason"], "waits for 2 GPUs: 1 free now");
  ASSERT_EQ(shown["reasons"].size(), 1);
  EXPECT_EQ(shown["reasons"][0]["obstacle"], "gpus");
}

TEST_F(ApiTest, NameMeansTheNewestLiveJobElseTheNewest) {
  const auto first = house_.add(test::job(1, 0, "same"));
  const auto second = house_.add(test::job(1, 0, "same"));
  auto client = house_.client();
  EXPECT_EQ(client.get("/v1/jobs/same").json()["summary"]["id"], second.value);
  house_.finish(second, AttemptOutcome::kCompleted);
  EXPECT_EQ(client.get("/v1/jobs/same").json()["summary"]["id"], first.value);
  house_.finish(first, AttemptOutcome::kCompleted);
  EXPECT_EQ(client.get("/v1/jobs/same").json()["summary"]["id"], second.value);
}

TEST_F(ApiTest, NameOfDigitsIsFoundWhereThereIsNoSuchNumber) {
  house_.add(test::job(1, 0, "2024"));
  auto client = house_.client();
  EXPECT_EQ(client.get("/v1/jobs/2024").json()["summary"]["id"], 1);
  EXPECT_EQ(client.get("/v1/jobs/99999999999999999999999").status, 404);
}

TEST_F(ApiTest, FailedJobTellsWhichRankHowAndItsLastLines) {
  const auto job = house_.add(test::job(3, 1));
  house_.run(job);
  const auto attempt = house_.attemptOf(job);
  for (int i = 0; i < 30; ++i) {
    house_.logs.add(attempt, 2, house_.clock.wall(), "line " + std::to_string(i), "err");
  }
  house_.clock.advance(seconds(10));
  house_.finish(job, AttemptOutcome::kFailed, 3, 2);
  const auto shown = house_.client().get("/v1/jobs/1").json();
  EXPECT_EQ(shown["summary"]["reason"], "rank 2 failed first: exit 3");
  EXPECT_EQ(shown["summary"]["running"], seconds(10).value);
  EXPECT_EQ(shown["exit_code"], 3);
  EXPECT_EQ(shown["gpu_milliseconds"], 30'000);
  ASSERT_EQ(shown["last_lines"].size(), 20);
  EXPECT_EQ(shown["last_lines"][19], "line 29");
  const auto& attempts = shown["attempts"];
  ASSERT_EQ(attempts.size(), 1);
  EXPECT_EQ(attempts[0]["first_failed"], 2);
  EXPECT_EQ(attempts[0]["outcome"], "failed");
  EXPECT_EQ(attempts[0]["log_directory"], "/logs/1");
  EXPECT_EQ(attempts[0]["ranks"][2]["exit"]["text"], "exit 3");
}

TEST_F(ApiTest, SameRequestIdIsOneJob) {
  auto client = house_.client();
  const auto body = submission(test::job(1, 0), ",\"request_id\":\"abc\"");
  const auto first = client.post("/v1/jobs", body);
  const auto second = client.post("/v1/jobs", body);
  ASSERT_EQ(first.status, 201);
  ASSERT_EQ(second.status, 201);
  EXPECT_EQ(first.json()["jobs"][0]["existed"], false);
  EXPECT_EQ(second.json()["jobs"][0]["existed"], true);
  EXPECT_EQ(second.json()["jobs"][0]["id"], first.json()["jobs"][0]["id"]);
}

TEST_F(ApiTest, DryRunChecksAndQueuesNothing) {
  auto client = house_.client();
  EXPECT_EQ(client.post("/v1/jobs", submission(test::job(1, 1), ",\"dry_run\":true")).status, 200);
  EXPECT_EQ(client.post("/v1/jobs", submission(test::job(1, 9), ",\"dry_run\":true")).status, 422);
  EXPECT_EQ(client.get("/v1/jobs?all=1").json()["jobs"].size(), 0);
}

TEST_F(ApiTest, WhatCanNeverRunIsRefusedInWords) {
  const auto answer = house_.client().post("/v1/jobs", submission(test::job(1, 9)));
  EXPECT_EQ(answer.status, 422);
  EXPECT_EQ(answer.json()["code"], "refused");
  EXPECT_NE(answer.json()["message"].get<std::string>().find("needs 9"), std::string::npos)
      << answer.body;
}

TEST_F(ApiTest, MissingValuesAreNamed) {
  const auto answer = house_.client().post(
      "/v1/jobs", R"({"spec":"missing: WANDB_API_KEY","file_name":"bole.yaml"})");
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.json()["missing_env"][0], "WANDB_API_KEY");
  EXPECT_EQ(answer.json()["where"], "bole.yaml");
}

TEST_F(ApiTest, BadBodiesAreRefusedWithPlaceFoundAndExpected) {
  auto client = house_.client();
  const auto refused = [&](const std::string& body) {
    const auto answer = client.post("/v1/jobs", body);
    EXPECT_EQ(answer.status, 400) << body.substr(0, 100);
    return answer.json()["message"].get<std::string>();
  };
  EXPECT_NE(refused("{").find("request body"), std::string::npos);
  EXPECT_NE(refused("{}").find("spec"), std::string::npos);
  EXPECT_NE(refused(R"({"spec":"x","nope":1})").find("nope"), std::string::npos);
  EXPECT_NE(refused(R"({"spec":7})").find("string"), std::string::npos);
  EXPECT_NE(refused(R"({"spec":"x"} more)").find("request body"), std::string::npos);
  EXPECT_NE(refused(R"({"spec":"x","spec":"y"})").find("spec"), std::string::npos);
  EXPECT_NE(refused(std::string(100'000, '[')).find("nesting"), std::string::npos);
  refused("\xff\xfe{}");
  refused(std::string("\0", 1));
  const auto stop = client.post("/v1/jobs/1/stop", R"({"grace":90000000000000})");
  EXPECT_EQ(stop.status, 400);
  EXPECT_EQ(client.get("/v1/jobs").status, 200) << "the connection goes on";
}

TEST_F(ApiTest, BadQueriesAreRefused) {
  house_.add(test::job(2, 0));
  auto client = house_.client();
  for (const std::string target :
       {"/v1/jobs?nope=1", "/v1/jobs?limit=-1", "/v1/jobs?limit=x", "/v1/jobs?limit=",
        "/v1/jobs?state=sleeping", "/v1/jobs?all=2", "/v1/jobs?all=1&all=1", "/v1/jobs?limit=1e3",
        "/v1/jobs?limit=99999999999999999999", "/v1/jobs/1/logs?rank=2", "/v1/jobs/1/logs?tail=x",
        "/v1/jobs/1/logs?attempt=0", "/v1/events?limit=0", "/v1/events?limit=10001",
        "/v1/status?x=1", "/v1/jobs?%zz=1", "/v1/jobs?a=%0", "/v1/jobs?name=%00", "/v1/jobs%"}) {
    const auto answer = client.get(target);
    EXPECT_EQ(answer.status, 400) << target;
    EXPECT_EQ(answer.json()["code"], "invalid") << target;
  }
}

TEST_F(ApiTest, WrongPathsAndMethodsAreToldApart) {
  auto client = house_.client();
  for (const std::string target : {"/", "/v1", "/v2/jobs", "/v1/jobs/1/2/3", "/v1//jobs",
                                   "/v1/jobs/1/logs/x", "/etc/passwd", "/v1/../v1/jobs"}) {
    EXPECT_EQ(client.get(target).status, 404) << target;
  }
  const auto answer = client.request("DELETE", "/v1/jobs/1");
  EXPECT_EQ(answer.status, 405);
  EXPECT_EQ(answer.header("allow"), "GET");
  EXPECT_EQ(client.request("PATCH", "/v1/jobs").header("allow"), "POST, GET");
  EXPECT_EQ(client.request("GET", "/v1/jobs/7").status, 404);
  EXPECT_EQ(client.post("/v1/jobs/7/stop").status, 404);
  EXPECT_EQ(client.get("/v1/jobs/7/logs").status, 404);
  EXPECT_EQ(client.get("/v1/jobs/%FF%C3").status, 404) << "no UTF-8, and the answer still is JSON";
}

TEST_F(ApiTest, JobThatHasEndedCannotBeStopped) {
  const auto job = house_.add(test::job(1, 0));
  house_.finish(job, AttemptOutcome::kCompleted);
  EXPECT_EQ(house_.client().post("/v1/jobs/1/stop").status, 409);
}

TEST_F(ApiTest, StopTakesAGrace) {
  house_.add(test::job(1, 0));
  EXPECT_EQ(house_.client().post("/v1/jobs/1/stop", R"({"grace":1000000})").status, 202);
}

TEST_F(ApiTest, NodesGpusAndTopologyShowTheMachine) {
  house_.add(test::job(1, 2, "holder"), "ana");
  auto client = house_.client();
  const auto nodes = client.get("/v1/nodes").json()["nodes"];
  ASSERT_EQ(nodes.size(), 1);
  EXPECT_EQ(nodes[0]["name"], "a");
  EXPECT_EQ(nodes[0]["gpu_model"], "4 x A100-SXM4-80GB");
  EXPECT_EQ(nodes[0]["gpus_used"], 2);
  EXPECT_EQ(nodes[0]["emulated"], true);
  const auto gpus = client.get("/v1/gpus").json()["gpus"];
  ASSERT_EQ(gpus.size(), 4);
  EXPECT_EQ(gpus[0]["job_name"], "holder");
  EXPECT_EQ(gpus[0]["user"], "ana");
  EXPECT_EQ(gpus[0]["job"], 1);
  EXPECT_FALSE(gpus[3].contains("job"));
  const auto topology = client.get("/v1/topology").json()["nodes"];
  ASSERT_EQ(topology.size(), 1);
  EXPECT_EQ(topology[0]["links"].size(), 16);
  EXPECT_EQ(topology[0]["links"][1]["kind"], "NV");
}

TEST_F(ApiTest, StatusTellsHowTheServerFares) {
  house_.add(test::job(4, 1));
  house_.add(test::job(1, 1));
  auto client = house_.client();
  const auto status = client.get("/v1/status").json();
  EXPECT_EQ(status["version"], "1.2.3");
  EXPECT_EQ(status["queued"], 1);
  EXPECT_EQ(status["running"], 1);
  EXPECT_EQ(status["gpus"], 4);
  EXPECT_EQ(status["gpus_used"], 4);
  EXPECT_EQ(status["emulated"], true);
  EXPECT_EQ(status["writable"], true);
  EXPECT_EQ(status["sandbox"], "bubblewrap");
  EXPECT_GT(status["events"], 0);
  EXPECT_EQ(client.get("/v1/version").json()["version"], "1.2.3");
}

TEST_F(ApiTest, FullDiskRefusesJobsInWordsAndStopsStillWork) {
  house_.add(test::job(1, 0));
  house_.setDisk(test::MemoryLedger::Disk::kFull);
  auto client = house_.client();
  const auto refused = client.post("/v1/jobs", submission(test::job(1, 0)));
  EXPECT_EQ(refused.status, 503);
  EXPECT_NE(refused.json()["message"].get<std::string>().find("no space"), std::string::npos);
  EXPECT_EQ(client.get("/v1/status").json()["writable"], false);
  EXPECT_EQ(client.post("/v1/jobs/1/stop").status, 202);
}

TEST_F(ApiTest, FullMailboxIsSaidAndNotWaitedFor) {
  house_.add(test::job(1, 0));
  house_.refuseCommands(true);
  auto client = house_.client();
  const auto refused = client.post("/v1/jobs", submission(test::job(1, 0)));
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.header("retry-after"), "1");
  EXPECT_EQ(client.post("/v1/jobs/1/stop").status, 503);
}

TEST_F(ApiTest, EventsAreReadFromTheNewestFromAPlaceAndByKind) {
  for (int i = 0; i < 5; ++i) house_.add(test::job(1, 0));
  auto client = house_.client();
  const auto newest = client.get("/v1/events?limit=2").json()["events"];
  ASSERT_EQ(newest.size(), 2);
  EXPECT_LT(newest[0]["sequence"], newest[1]["sequence"]);
  EXPECT_EQ(newest[1]["sequence"], client.get("/v1/status").json()["events"]);
  const auto first = client.get("/v1/events?from=0&limit=1").json()["events"];
  ASSERT_EQ(first.size(), 1);
  EXPECT_EQ(first[0]["sequence"], 1);
  EXPECT_EQ(first[0]["kind"], "server.started");
  EXPECT_EQ(client.get("/v1/events?from=1&kind=job.submitted").json()["events"].size(), 5);
  const auto two = client.get("/v1/events?kind=job.submitted&limit=2").json()["events"];
  ASSERT_EQ(two.size(), 2);
  EXPECT_NE(two[1]["body"].get<std::string>().find("\"job\":5"), std::string::npos) << two[1];
  EXPECT_EQ(client.get("/v1/events?from=999999").json()["events"].size(), 0);
  EXPECT_EQ(client.get("/v1/events?kind=job.forgotten").json()["events"].size(), 0);
}

TEST_F(ApiTest, EventsOfNoKnownKindAreRefusedWithTheNearest) {
  auto client = house_.client();
  const auto hintOf = [&](const std::string& kind) {
    for (const std::string query : {"?kind=", "?from=1&kind=", "?follow=1&kind="}) {
      const auto answer = client.get("/v1/events" + query + kind);
      EXPECT_EQ(answer.status, 400) << query << kind;
      EXPECT_EQ(answer.json()["where"], "kind");
      EXPECT_EQ(answer.json()["found"], "'" + kind + "'");
    }
    return client.get("/v1/events?kind=" + kind).json()["hint"].get<std::string>();
  };
  EXPECT_EQ(hintOf("job.submited"), "did you mean job.submitted?");
  EXPECT_EQ(hintOf("JOB_SUBMITTED"), "did you mean job.submitted?");
  EXPECT_EQ(hintOf("planned"), "did you mean attempt.planned?");
  EXPECT_EQ(hintOf("node.went_away"),
            "did you mean node.registered, node.lost, node.health_set or node.labelled?");
  EXPECT_EQ(hintOf("nothing.like.it"), "");
  EXPECT_EQ(hintOf(""), "");
  const auto expected = client.get("/v1/events?kind=x").json()["expected"].get<std::string>();
  EXPECT_TRUE(expected.starts_with("server.started, clock.adjusted,")) << expected;
  client.follow("/v1/events?kind=job.submitted");
}

TEST_F(ApiTest, EveryKindOfEventIsInTheDocument) {
  house_.finish(house_.add(test::job(1, 0)), AttemptOutcome::kCompleted);
  auto client = house_.client();
  const auto document = client.get("/v1/openapi.json").json();
  std::set<std::string> kinds;
  for (const auto& field : document["paths"]["/v1/events"]["get"]["parameters"]) {
    if (field["name"] != "kind") continue;
    for (const auto& kind : field["schema"]["enum"]) kinds.insert(kind);
  }
  EXPECT_EQ(kinds.size(), std::variant_size_v<model::Event>);
  for (const auto& event : client.get("/v1/events?from=1").json()["events"]) {
    EXPECT_TRUE(kinds.contains(event["kind"])) << event["kind"];
    EXPECT_EQ(client.get("/v1/events?kind=" + event["kind"].get<std::string>()).status, 200);
  }
}

TEST_F(ApiTest, WhatIsToBeTypedNamesTheHomeWhereTheCallerIsOnTheMachine) {
  const auto hint = [](const Response& answer) { return answer.json()["hint"].get<std::string>(); };
  const auto here = "`bole ps --all --home " + house_.options.facts.home + "` lists them";
  EXPECT_EQ(hint(house_.client().get("/v1/jobs/7")), here);
  EXPECT_EQ(hint(house_.client().get("/v1/jobs/7/logs")), here);
  EXPECT_EQ(hint(house_.client().post("/v1/jobs/7/stop")), here);
  EXPECT_EQ(hint(house_.tcpClient().get("/v1/jobs/7")), "`bole ps --all` lists them");
  EXPECT_EQ(commandFor("ps", "/srv/it's"), "`bole ps --home '/srv/it'\\''s'`");
}

TEST_F(ApiTest, LogsAreReadWholeByRankByTimeAndByTail) {
  const auto job = house_.add(test::job(2, 1));
  house_.run(job);
  const auto attempt = house_.attemptOf(job);
  const auto start = house_.clock.wall();
  for (std::uint32_t i = 0; i < 6; ++i) {
    house_.logs.add(attempt, i % 2, start + seconds(i), std::string(1, static_cast<char>('a' + i)),
                    i % 2 == 0 ? "out" : "err");
  }
  auto client = house_.client();
  const auto text = [&](const std::string& query) {
    std::string all;
    const auto page = client.get("/v1/jobs/train/logs" + query).json();
    for (const auto& line : page["lines"]) all += line["text"].get<std::string>();
    return all;
  };
  EXPECT_EQ(text(""), "abcdef");
  EXPECT_EQ(text("?rank=1"), "bdf");
  EXPECT_EQ(text("?tail=2"), "ef");
  EXPECT_EQ(text("?tail=0"), "");
  EXPECT_EQ(text("?attempt=1"), "abcdef");
  EXPECT_EQ(text("?since=" + std::to_string((start + seconds(4)).micros)), "ef");
  EXPECT_EQ(client.get("/v1/jobs/1/logs?attempt=2").status, 404);
  house_.logs.breakWith(makeError(ErrorCode::kInternal, "the disk is broken"));
  EXPECT_EQ(client.get("/v1/jobs/1/logs").status, 500);
  EXPECT_EQ(client.get("/v1/jobs/1").status, 200);
}

TEST_F(ApiTest, DocumentIsServedAndNamesEveryRoute) {
  const auto answer = house_.client().get("/v1/openapi.json");
  ASSERT_EQ(answer.status, 200);
  const auto document = answer.json();
  EXPECT_EQ(document, house_.contract().document());
  EXPECT_EQ(document["openapi"], "3.1.0");
  for (const auto& route : routes()) {
    std::string method(route.method);
    for (auto& c : method) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    EXPECT_TRUE(document["paths"][std::string(route.path)].contains(method)) << route.path;
  }
}

TEST_F(ApiTest, RequestsOfTheTestsAreAsTheDocumentSays) {
  const auto sent = nlohmann::json::parse(submission(test::job(1, 0)));
  EXPECT_TRUE(house_.contract().check("SubmitRequest", sent).empty());
  EXPECT_TRUE(house_.contract().check("StopCommand", {{"grace", 1}}).empty());
  EXPECT_FALSE(house_.contract().check("SubmitRequest", {{"spec", 1}}).empty());
  EXPECT_FALSE(house_.contract().check("StopCommand", {{"nope", 1}}).empty());
}

TEST_F(ApiTest, ShutdownIsAnsweredFirst) {
  house_.close();
  std::promise<bool> asked;
  house_.options.onShutdown = [&](bool stopJobs) { asked.set_value(stopJobs); };
  house_.open();
  EXPECT_EQ(house_.client().post("/v1/shutdown?stop_jobs=1").status, 202);
  EXPECT_TRUE(asked.get_future().get());
}

TEST_F(ApiTest, WithoutPartsTheirRoutesSaySo) {
  house_.close();
  house_.options.logs = nullptr;
  house_.options.readEvents = nullptr;
  house_.options.parseSpec = nullptr;
  house_.open();
  house_.add(test::job(1, 0));
  auto client = house_.client();
  EXPECT_EQ(client.get("/v1/jobs/1/logs").status, 501);
  EXPECT_EQ(client.get("/v1/events").status, 501);
  EXPECT_EQ(client.post("/v1/jobs", submission(test::job(1, 0))).status, 501);
  EXPECT_EQ(client.post("/v1/shutdown").status, 501);
  EXPECT_EQ(client.get("/v1/jobs/1").status, 200);
}

TEST_F(ApiTest, AnswersComeInOrderOverOneConnection) {
  auto client = house_.client();
  client.send(
      "GET /v1/version HTTP/1.1\r\nHost: x\r\n\r\nGET /v1/nodes HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(client.read().json().contains("version"));
  EXPECT_TRUE(client.read().json().contains("nodes"));
  client.send("GET /v1/version HTTP/1.0\r\n\r\n");
  EXPECT_EQ(client.read().header("connection"), "close");
  EXPECT_TRUE(client.closed());
}

TEST_F(ApiTest, ServerThatStopsGivesTheAnswersInTheMaking) {
  auto client = house_.client();
  house_.hold();
  const auto body = submission(test::job(1, 0));
  client.send("POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: " +
              std::to_string(body.size()) + "\r\n\r\n" + body);
  // The command is with the controller once another one is refused or taken behind it.
  while (house_.waiting() == 0) std::this_thread::yield();
  std::thread stopping([&] { house_.server().stop(seconds(20)); });
  while (::access(house_.options.socketPath.c_str(), F_OK) == 0) std::this_thread::yield();
  house_.release();
  EXPECT_EQ(client.read("POST", "/v1/jobs").status, 201);
  stopping.join();
}

TEST_F(ApiTest, ReplyThatComesAfterTheServerIsGoneIsDropped) {
  auto client = house_.client();
  house_.hold();
  const auto body = submission(test::job(1, 0));
  client.send("POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: " +
              std::to_string(body.size()) + "\r\n\r\n" + body);
  while (house_.waiting() == 0) std::this_thread::yield();
  house_.server().stop(milliseconds(1));
  EXPECT_TRUE(client.closed());
  house_.release();
  house_.tick();
  EXPECT_EQ(house_.snapshot()->tables.jobs.size(), 1) << "what was taken is done all the same";
}

TEST(Doors, AnythingButLoopbackIsRefused) {
  House house;
  for (const auto* host : {"0.0.0.0", "192.168.1.1", "::", "8.8.8.8"}) {
    house.options.tcpHost = host;
    const auto server = Server::start(house.options);
    ASSERT_FALSE(server) << host;
    EXPECT_EQ(server.error().code, ErrorCode::kUnsupported) << host;
    EXPECT_NE(::access(house.options.socketPath.c_str(), F_OK), 0) << "no door is left behind";
  }
  house.options.tcpHost = "somewhere";
  EXPECT_EQ(Server::start(house.options).error().code, ErrorCode::kInvalid);
  house.options.tcpHost = "127.0.0.1";
  house.options.token = "short";
  EXPECT_EQ(Server::start(house.options).error().code, ErrorCode::kInvalid);
}

TEST(Doors, SecondServerAtTheSameDoorIsRefusedAndTheFirstGoesOn) {
  House house;
  house.open();
  auto options = house.options;
  options.tcpPort.reset();
  const auto second = Server::start(options);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kConflict);
  const auto down = "`bole down --home " + house.options.facts.home + "`";
  EXPECT_NE(second.error().hint.find(down), std::string::npos) << second.error().message();
  options.socketPath += "2";
  options.tcpPort = house.server().tcpPort();
  const auto third = Server::start(options);
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().code, ErrorCode::kConflict);
  EXPECT_NE(::access(options.socketPath.c_str(), F_OK), 0);
  EXPECT_EQ(house.client().get("/v1/version").status, 200);
}

TEST(Doors, SocketOfAServerThatDiedIsReplacedAndAFileIsNot) {
  House house;
  const int left = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  house.options.socketPath.copy(address.sun_path, sizeof(address.sun_path) - 1);
  ASSERT_EQ(bind(left, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ::close(left);
  house.open();
  EXPECT_EQ(house.client().get("/v1/version").status, 200);
  house.close();
  EXPECT_NE(::access(house.options.socketPath.c_str(), F_OK), 0);
  std::ofstream(house.options.socketPath) << "precious";
  EXPECT_EQ(Server::start(house.options).error().code, ErrorCode::kConflict);
  EXPECT_EQ(std::filesystem::file_size(house.options.socketPath), 8);
}

}  // namespace
}  // namespace bole::server::testing
