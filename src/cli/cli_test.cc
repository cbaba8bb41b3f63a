// The whole command line against a small server of the test's own.
#include "cli/cli.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <sstream>
#include <thread>

#include "cli/http.h"
#include "cli/screen.h"
#include "cli/testing/answers.h"
#include "cli/testing/fake_server.h"
#include "cli/testing/program.h"
#include "cli/text.h"

namespace bole::cli {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): this room's own

class Cli : public ::testing::Test {
 protected:
  // Answers by "METHOD /path" without the query; anything else is 404.
  void answer(const std::string& line, FakeReply reply) {
    answers_[line] = [reply](const FakeRequest&) { return reply; };
  }
  void answer(const std::string& line, FakeHandler handler) { answers_[line] = std::move(handler); }
  template <class View>
  void answerView(const std::string& line, const View& view) {
    FakeReply reply;
    reply.body = codec::toJson(view);
    answer(line, reply);
  }
  void answerError(const std::string& line, int status, const Error& error) {
    FakeReply reply;
    reply.status = status;
    reply.body = errorBody(error);
    answer(line, reply);
  }

  void start() {
    server_ = std::make_unique<FakeServer>(program_.socket(), [this](const FakeRequest& request) {
      const auto line = request.method + " " + request.target.substr(0, request.target.find('?'));
      const auto known = answers_.find(line);
      if (known != answers_.end()) return known->second(request);
      FakeReply reply;
      reply.status = 404;
      reply.body = errorBody(makeError(ErrorCode::kNotFound, "nothing for " + line));
      return reply;
    });
    ASSERT_TRUE(server_->ready());
  }

  Outcome run(const std::vector<std::string>& words) {
    if (!server_) start();
    return program_.run(words);
  }

  // What was asked, as "METHOD /path?query".
  [[nodiscard]] std::vector<std::string> asked() const {
    std::vector<std::string> lines;
    for (const auto& request : server_->requests()) lines.push_back(request.line());
    return lines;
  }
  [[nodiscard]] std::vector<FakeRequest> askedFor(const std::string& line) const {
    std::vector<FakeRequest> found;
    for (auto& request : server_->requests()) {
      if (request.line() == line) found.push_back(request);
    }
    return found;
  }

  static void fits(const std::string& text, std::size_t columns = 100) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);)
      EXPECT_LE(displayWidth(line), columns) << line;
  }

  Program program_;
  std::map<std::string, FakeHandler> answers_;
  std::unique_ptr<FakeServer> server_;
};

// ---- reaching the server

TEST_F(Cli, NoServer) {
  const auto outcome = program_.run({"ps"});
  EXPECT_EQ(outcome.code, kExitUnavailable);
  EXPECT_EQ(outcome.err,
            "bole: no server at " + program_.socket() + "\n  start one with 'bole up'\n");
  EXPECT_EQ(outcome.out, "");
}

TEST_F(Cli, NoServerInANamedHome) {
  const auto outcome = program_.run({"ps", "--home", "/else where"});
  EXPECT_EQ(outcome.err,
            "bole: no server at /else where/bole.sock\n"
            "  start one with 'bole up --home '/else where''\n");
}

TEST_F(Cli, HomesAreFoundInOrder) {
  program_.base.variables["BOLE_HOME"] = "";
  EXPECT_NE(program_.run({"ps"}).err.find("/user/.local/share/bole/bole.sock"), std::string::npos);
  program_.base.variables["BOLE_HOME"] = "/elsewhere";
  EXPECT_NE(program_.run({"ps"}).err.find("at /elsewhere/bole.sock"), std::string::npos);
  EXPECT_NE(program_.run({"ps", "--home", "rel/../x"}).err.find(program_.work() + "/x/bole.sock"),
            std::string::npos);
}

TEST_F(Cli, TheErrorOfTheServerInTwoLines) {
  answerError("GET /v1/jobs/x", 404,
              makeError(ErrorCode::kNotFound, "no such job")
                  .foundValue("'x'")
                  .withHint("`bole ps --all` lists them"));
  const auto outcome = run({"show", "x"});
  EXPECT_EQ(outcome.code, kExitNotFound);
  EXPECT_EQ(outcome.err, "bole: no such job: found 'x'\n  `bole ps --all` lists them\n");
}

TEST_F(Cli, ExitCodesFollowTheError) {
  const std::vector<std::tuple<int, ErrorCode, int>> cases = {
      {400, ErrorCode::kInvalid, kExitUsage},
      {403, ErrorCode::kPermission, kExitPermission},
      {409, ErrorCode::kConflict, kExitRefused},
      {422, ErrorCode::kRefused, kExitRefused},
      {503, ErrorCode::kUnavailable, kExitUnavailable},
      {501, ErrorCode::kUnsupported, kExitUnavailable},
      {500, ErrorCode::kInternal, kExitInternal},
      {500, ErrorCode::kCorrupt, kExitInternal}};
  for (const auto& [status, code, exit] : cases) {
    answerError("GET /v1/status", status, makeError(code, "so it is"));
    EXPECT_EQ(run({"status"}).code, exit) << status;
  }
}

TEST_F(Cli, AnAnswerOfAnotherVersionIsSaid) {
  answer("GET /v1/status", FakeReply{.body = "{\"version\":\"9\",\"unheard_of\":1}"});
  const auto outcome = run({"status"});
  EXPECT_EQ(outcome.code, kExitInternal);
  EXPECT_NE(outcome.err.find("unheard_of"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("same version"), std::string::npos) << outcome.err;
}

TEST_F(Cli, OverTcpTheTokenGoesAlong) {
  FakeServer tcp([](const FakeRequest& request) {
    FakeReply reply;
    const auto token = request.headers.find("authorization");
    reply.status = token != request.headers.end() && token->second == "Bearer s3cret" ? 200 : 401;
    reply.body = reply.status == 200 ? codec::toJson(model::JobList{})
                                     : errorBody(makeError(ErrorCode::kPermission, "no token"));
    return reply;
  });
  ASSERT_TRUE(tcp.ready());
  program_.directory.write("token", "s3cret\n");
  program_.directory.write("other", "wrong\n");
  program_.base.variables["BOLE_SERVER"] = "http://127.0.0.1:" + std::to_string(tcp.port());
  program_.base.variables["BOLE_TOKEN_FILE"] = program_.directory / "token";
  EXPECT_EQ(program_.run({"ps", "--json"}).out, codec::toJson(model::JobList{}) + "\n");
  program_.base.variables["BOLE_TOKEN_FILE"] = program_.directory / "other";
  EXPECT_EQ(program_.run({"ps"}).code, kExitPermission);
  program_.base.variables["BOLE_TOKEN_FILE"] = program_.directory / "missing";
  const auto outcome = program_.run({"ps"});
  EXPECT_EQ(outcome.code, kExitNotFound);
  EXPECT_NE(outcome.err.find("BOLE_TOKEN_FILE"), std::string::npos);
}

TEST_F(Cli, AddressesThatWouldCarryTheTokenAwayAreRefused) {
  for (const auto* url : {"https://127.0.0.1:1", "http://example.com", "http://10.0.0.1:8470",
                          "http://127.0.0.1@evil/", "127.0.0.1:8470", "http://127.evil.com"}) {
    const auto outcome = program_.run({"ps", "--server", url});
    EXPECT_EQ(outcome.code, kExitUsage) << url;
    EXPECT_NE(outcome.err.find("wrong address"), std::string::npos) << outcome.err;
  }
}

// ---- listings

model::JobList someJobs() {
  auto running = digitsJob();
  running.progress = digitsProgress(3);
  model::JobView waiting;
  waiting.id = JobId(12);
  waiting.name = "a-name-that-is-as-long-as-a-name-may-ever-be-in-this-cloud-of-ours";
  waiting.user = "maximilian";
  waiting.ranks = 64;
  waiting.gpus = 512;
  waiting.reason = "waits for 512 A100 GPUs of 80 GB: 2 are free now, and 6 more when job 7 ends";
  auto failed = digitsJob();
  failed.id = JobId(3);
  failed.state = model::JobState::kFailed;
  failed.emulated = false;
  failed.gpus = 0;
  failed.reason = "rank 2 failed first: exit 3";
  return {{waiting, running, failed}};
}

TEST_F(Cli, Ps) {
  answerView("GET /v1/jobs", someJobs());
  const auto outcome = run({"ps"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out,
            "JOB  NAME                    USER        STATE    RANKS  GPUS          TIME  WHAT\n"
            " 12  a-name-that-is-as-lon…  maximilian  QUEUED      64  512              -  waits "
            "for 512 A100 GPU…\n"
            "  7  digits                  alice       RUNNING      4  4 emulated  1m 02s  epoch "
            "3/20, loss 0.312…\n"
            "  3  digits                  alice       FAILED       4  -           1m 02s  rank 2 "
            "failed first: e…\n");
  fits(outcome.out);
  EXPECT_EQ(asked(), std::vector<std::string>{"GET /v1/jobs"});
}

TEST_F(Cli, PsNamesTheQueuesWhereThereAreSeveral) {
  auto list = someJobs();
  list.queues = 3;
  list.jobs[0].queue = "vision";
  list.jobs[1].queue = list.jobs[2].queue = "default";
  answerView("GET /v1/jobs", list);
  const auto outcome = run({"ps"});
  EXPECT_EQ(
      outcome.out,
      "JOB  NAME                USER        QUEUE    STATE    RANKS  GPUS          TIME  WHAT\n"
      " 12  a-name-that-is-as…  maximilian  vision   QUEUED      64  512              -  "
      "waits for 512 A10…\n"
      "  7  digits              alice       default  RUNNING      4  4 emulated  1m 02s  "
      "epoch 3/20, loss …\n"
      "  3  digits              alice       default  FAILED       4  -           1m 02s  "
      "rank 2 failed fir…\n");
  fits(outcome.out);
}

TEST_F(Cli, PsAsksForWhatIsWanted) {
  answerView("GET /v1/jobs", model::JobList{});
  const auto outcome = run({"ps", "-a", "--state", "failed,cancelled", "--user", "a b", "--project",
                            "p", "--limit", "5"});
  EXPECT_EQ(asked().at(0),
            "GET /v1/jobs?all=1&state=failed%2Ccancelled&user=a%20b&project=p&limit=5");
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err, "no jobs\n");
}

TEST_F(Cli, ColourOnlyOnATerminalThatWantsIt) {
  answerView("GET /v1/jobs", someJobs());
  EXPECT_EQ(run({"ps"}).out.find('\x1b'), std::string::npos);
  program_.base.stdoutIsTerminal = true;
  program_.base.columns = [] { return 140; };
  const auto coloured = run({"ps"}).out;
  EXPECT_NE(coloured.find("\x1b[31mFAILED\x1b[0m"), std::string::npos);
  program_.base.variables["NO_COLOR"] = "1";
  const auto plain = run({"ps"}).out;
  EXPECT_EQ(plain.find('\x1b'), std::string::npos);
  fits(plain, 140);
}

TEST_F(Cli, JsonIsTheServersOwn) {
  const std::string body = "{\"jobs\": [ ], \"of a later version\": 1}";
  for (const auto& [command, line] :
       std::map<std::string, std::string>{{"ps", "GET /v1/jobs"},
                                          {"status", "GET /v1/status"},
                                          {"nodes", "GET /v1/nodes"},
                                          {"gpus", "GET /v1/gpus"},
                                          {"topo", "GET /v1/topology"},
                                          {"queues", "GET /v1/queues"},
                                          {"policy", "GET /v1/policy"},
                                          {"events", "GET /v1/events"}}) {
    answer(line, FakeReply{.body = body});
    const auto outcome = run({command, "--json"});
    EXPECT_EQ(outcome.code, 0) << command << outcome.err;
    EXPECT_EQ(outcome.out, body + "\n") << command;
  }
  answer("GET /v1/jobs/7", FakeReply{.body = body});
  EXPECT_EQ(run({"show", "7", "--json"}).out, body + "\n");
  EXPECT_EQ(run({"why", "7", "--json"}).out, body + "\n");
}

TEST_F(Cli, ShowEverythingOfAJob) {
  answerView("GET /v1/jobs/digits", endedDetail(model::JobState::kFailed, 3));
  const auto outcome = run({"show", "digits"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out,
            "Job:         7 (digits)\n"
            "State:       FAILED\n"
            "Reason:      rank 2 failed first: exit 3\n"
            "Owner:       alice, project default\n"
            "Submitted:   2026-09-21 13:56:40 UTC\n"
            "Started:     2026-09-21 13:56:41 UTC\n"
            "Ended:       2026-09-21 13:57:43 UTC\n"
            "Duration:    1m 02s\n"
            "GPUs:        4 emulated\n"
            "GPU-time:    248.0 GPU-seconds (emulated)\n"
            "Directory:   /srv/bole/work/7\n"
            "Logs:        /srv/bole/attempts/9/log\n"
            "Checkpoint:  /srv/bole/work/7/checkpoints/epoch-0020 (epoch 20)\n"
            "Exit code:   3\n"
            "\n"
            "TASK    RANKS  GPUS EACH  CPUS   MEMORY  COMMAND\n"
            "worker      4  1           0.5  512 MiB  ./digits --epochs 20\n"
            "\n"
            "ATTEMPT  STARTED                  ENDED                    OUTCOME  NOTE\n"
            "      1  2026-09-21 13:56:41 UTC  2026-09-21 13:57:43 UTC  failed\n"
            "\n"
            "RANK  TASK      NODE        GPUS  EXIT\n"
            "   0  worker-0  emu-a100-1  0     exit 0\n"
            "   1  worker-1  emu-a100-1  1     exit 0\n"
            "   2  worker-2  emu-a100-1  2     exit 3 (failed first)\n"
            "   3  worker-3  emu-a100-1  3     exit 0\n"
            "\n"
            "the last lines of rank 2:\n"
            "  Traceback (most recent call last):\n"
            "  RuntimeError: boom\n");
  fits(outcome.out);
}

TEST_F(Cli, WhyAJobWaits) {
  auto detail = digitsDetail();
  detail.summary.state = model::JobState::kQueued;
  detail.summary.reason = "waits for 4 A100 GPUs: 2 are free now";
  detail.attempts.clear();
  model::Reason gpus;
  gpus.obstacle = model::Obstacle::kGpus;
  gpus.needed = 4;
  gpus.available = 2;
  gpus.detail = "A100";
  model::Reason memory;
  memory.obstacle = model::Obstacle::kMemory;
  memory.needed = (kGiB * 2).value;
  memory.available = kGiB.value;
  detail.reasons = {gpus, memory};
  answerView("GET /v1/jobs/7", detail);
  const auto outcome = run({"why", "7"});
  EXPECT_EQ(outcome.out,
            "job 7 (digits) is QUEUED, submitted 16m 40s ago\n"
            "  waits for 4 A100 GPUs: 2 are free now\n"
            "It starts when all of these are gone:\n"
            "  - GPUs: 4 needed (A100), 2 free now\n"
            "  - Memory: 2 GiB needed, 1 GiB free now\n");
  detail.reasons = {gpus};
  answerView("GET /v1/jobs/7", detail);
  EXPECT_EQ(run({"why", "7"}).out,
            "job 7 (digits) is QUEUED, submitted 16m 40s ago\n"
            "  waits for 4 A100 GPUs: 2 are free now\n");
}

TEST_F(Cli, ShowAndWhyNameTheQueue) {
  auto detail = digitsDetail();
  detail.summary.queue = "vision";
  answerView("GET /v1/jobs/7", detail);
  EXPECT_NE(run({"show", "7"}).out.find("Queue:        vision\n"), std::string::npos)
      << run({"show", "7"}).out;
  EXPECT_EQ(run({"why", "7"}).out,
            "job 7 (digits) is RUNNING in queue vision, since 2026-09-21 13:56:41 UTC on "
            "emu-a100-1\n");
  detail.spec.shape.spot = true;
  answerView("GET /v1/jobs/7", detail);
  EXPECT_NE(run({"show", "7"}).out.find("vision, spot\n"), std::string::npos);
  detail.spec.shape.spot = false;
  detail.spec.shape.preemptible = false;
  answerView("GET /v1/jobs/7", detail);
  EXPECT_NE(run({"show", "7"}).out.find("vision, not preemptible\n"), std::string::npos);
  detail.summary.state = model::JobState::kQueued;
  answerView("GET /v1/jobs/7", detail);
  EXPECT_EQ(run({"why", "7"}).out,
            "job 7 (digits) is QUEUED in queue vision, submitted 16m 40s ago\n");
}

TEST_F(Cli, WhyOfQueues) {
  auto detail = digitsDetail();
  detail.summary.state = model::JobState::kQueued;
  detail.summary.queue = "vision";
  detail.attempts.clear();
  const auto reason = [](model::Obstacle obstacle, std::int64_t needed, std::int64_t left,
                         const std::string& of) {
    model::Reason one;
    one.obstacle = obstacle;
    one.needed = needed;
    one.available = left;
    one.detail = of;
    one.queue = "vision";
    return one;
  };
  detail.reasons = {reason(model::Obstacle::kQueueLimit, 2000, 500, "A100 GPUs"),
                    reason(model::Obstacle::kQueueLimit, 1000, 0, "GPUs"),
                    reason(model::Obstacle::kQueueLimit, (kGiB * 8).value, kGiB.value, "memory"),
                    reason(model::Obstacle::kGuaranteed, 4000, 1000, "GPUs"),
                    reason(model::Obstacle::kUserLimit, 4000, 2500, "CPUs"),
                    reason(model::Obstacle::kStopping, 1, 0, ""),
                    reason(model::Obstacle::kStopping, 2, 0, "")};
  answerView("GET /v1/jobs/7", detail);
  const auto outcome = run({"why", "7"});
  EXPECT_EQ(
      outcome.out,
      "job 7 (digits) is QUEUED in queue vision, submitted 16m 40s ago\n"
      "It starts when all of these are gone:\n"
      "  - Queue vision is at its limit: 2 A100 GPUs needed, 0.5 left\n"
      "  - Queue vision is at its limit: 1 GPU needed, 0 left\n"
      "  - Queue vision is at its limit: 8 GiB of memory needed, 1 GiB left\n"
      "  - The rest is guaranteed to other queues than vision, and this job cannot be stopped "
      "for them: 4\n    GPUs needed, 1 left\n"
      "  - Its user has all that one may have of queue vision: 4 CPUs needed, 2.5 left\n"
      "  - A job is being stopped for it\n"
      "  - 2 jobs are being stopped for it\n");
  fits(outcome.out);
}

TEST_F(Cli, WhyOfPartsAndLabels) {
  auto detail = digitsDetail();
  detail.summary.state = model::JobState::kQueued;
  detail.attempts.clear();
  model::Reason part;
  part.obstacle = model::Obstacle::kGpuShare;
  part.needed = 2;
  part.available = 1;
  part.detail = "0.5 of one GPU; the largest free part is 0.6";
  model::Reason labels;
  labels.obstacle = model::Obstacle::kLabels;
  labels.needed = 1;
  labels.detail = "disk=ssd";
  detail.reasons = {part, labels};
  answerView("GET /v1/jobs/7", detail);
  const auto outcome = run({"why", "7"});
  EXPECT_NE(outcome.out.find("  - Parts of GPUs: 2 needed, 1 free now (0.5 of one GPU; the largest "
                             "free part is 0.6)\n"
                             "  - No node has disk=ssd\n"),
            std::string::npos)
      << outcome.out;
  fits(outcome.out);
}

TEST_F(Cli, ShowSaysForWhomAnAttemptMadeRoom) {
  auto detail = digitsDetail();
  detail.attempts.back().outcome = "stopped";
  detail.attempts.back().stoppedFor = JobId(9);
  detail.attempts.push_back(detail.attempts.back());
  answerView("GET /v1/jobs/7", detail);
  EXPECT_NE(run({"show", "7"}).out.find("made room for job 9"), std::string::npos)
      << run({"show", "7"}).out;
}

TEST_F(Cli, WhyARunningJob) {
  auto detail = digitsDetail();
  answerView("GET /v1/jobs/7", detail);
  EXPECT_EQ(run({"why", "7"}).out,
            "job 7 (digits) is RUNNING, since 2026-09-21 13:56:41 UTC on emu-a100-1\n");
}

TEST_F(Cli, WhyACancelledJob) {
  auto detail = endedDetail(model::JobState::kCancelled, 130);
  detail.summary.reason = "was cancelled";
  detail.attempts[0].firstFailed = -1;
  answerView("GET /v1/jobs/7", detail);
  const std::string head = "job 7 (digits) is CANCELLED, since 2026-09-21 13:57:43 UTC\n";
  EXPECT_EQ(run({"why", "7"}).out, head + "  was cancelled\n") << "the events may not be told";
  model::EventList list;
  const auto stopped = [&](std::uint64_t job, const char* by) {
    model::EventView event;
    event.kind = "job.stop_requested";
    event.actor = by;
    event.body = codec::encodeBody(model::StopRequested{JobId(job), {}, {}, {}});
    list.events.push_back(event);
  };
  stopped(7, "bob");
  stopped(8, "eve");
  answerView("GET /v1/events", list);
  EXPECT_EQ(run({"why", "7"}).out, head + "  was cancelled by bob\n");
  stopped(7, "bole");
  answerView("GET /v1/events", list);
  EXPECT_EQ(run({"why", "7"}).out, head + "  was cancelled\n") << "that is nobody";
}

TEST_F(Cli, AJobThatNeverStartedHasNoUnknownEnd) {
  auto detail = endedDetail(model::JobState::kFailed, 0);
  detail.attempts[0].outcome = "launch-failed";
  detail.attempts[0].startedAt = Timestamp{};
  for (auto& rank : detail.attempts[0].ranks) {
    rank.exit = model::ExitView{rank.rank, false, -1, 0, "unknown"};
  }
  answerView("GET /v1/jobs/7", detail);
  const auto text = run({"show", "7"}).out;
  EXPECT_NE(text.find("not started"), std::string::npos) << text;
  EXPECT_EQ(text.find("unknown"), std::string::npos) << text;
  detail.attempts[0].outcome = "supervisor-lost";
  answerView("GET /v1/jobs/7", detail);
  EXPECT_NE(run({"show", "7"}).out.find("unknown"), std::string::npos);
}

TEST_F(Cli, AKindOfEventThatThereIsNone) {
  const auto outcome = run({"events", "--kind", "job.submited"});
  EXPECT_EQ(outcome.code, kExitUsage);
  EXPECT_EQ(outcome.err,
            "bole: --kind: there is no such kind of event: found 'job.submited'\n"
            "  did you mean 'job.submitted'?\n");
  EXPECT_NE(run({"events", "-f", "--kind", "zzz"}).err.find("expected one of server.started, "),
            std::string::npos);
}

// ---- queues

model::QueueView queueOf(const std::string& name, std::uint32_t depth) {
  model::QueueView queue;
  queue.name = name;
  queue.depth = depth;
  queue.used.gpus = MilliGpu(0);
  queue.used.cpus = MilliCpu(0);
  queue.used.memory = Bytes(0);
  return queue;
}

TEST_F(Cli, Queues) {
  model::QueueList list;
  list.emulated = true;
  auto fallback = queueOf("default", 0);
  fallback.used = {MilliGpu(1000), {{"A100", MilliGpu(1000)}}, MilliCpu(2500), kGiB * 3};
  fallback.running = 1;
  auto lab = queueOf("lab", 0);
  lab.guaranteed = {MilliGpu(8000), {{"A100", MilliGpu(4000)}}, MilliCpu(64'000), kGiB * 512};
  lab.effective = {MilliGpu(4000), {{"A100", MilliGpu(4000)}}, MilliCpu(1000), kGiB * 512};
  lab.limit.gpus = MilliGpu(16'000);
  lab.weight = 3;
  lab.used = {MilliGpu(3000), {{"A100", MilliGpu(2000)}}, MilliCpu(12'000), kGiB * 64};
  lab.waiting = 4;
  lab.running = 2;
  auto nlp = queueOf("nlp", 1);
  nlp.limit.memory = kGiB * 8;
  list.queues = {fallback, lab, nlp};
  list.warnings = {"all queues together are guaranteed too \x1b[2Jmuch"};
  answerView("GET /v1/queues", list);
  program_.base.stdoutIsTerminal = true;
  program_.base.variables["NO_COLOR"] = "1";
  program_.base.columns = [] { return 160; };
  auto outcome = run({"queues"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(
      outcome.out,
      "QUEUE    GUARANTEED                                  LIMIT    WEIGHT  USED                "
      "                               RUNNING  WAITING\n"
      "default  -                                           -             1  1 emulated GPU      "
      "                                     1        0\n"
      "lab      4 of 8 GPUs, 4 A100, 1 of 64 CPUs, 512 GiB  16 GPUs       3  3 emulated GPUs, 2 "
      "emulated A100, 12 CPUs, 64 GiB        2        4\n"
      "  nlp    -                                           8 GiB         1  0 emulated GPUs, 0 "
      "B                                     0        0\n");
  EXPECT_EQ(outcome.err, "bole: warning: all queues together are guaranteed too ?[2Jmuch\n");
  program_.base.columns = [] { return 100; };
  fits(run({"queues"}).out);
}

TEST_F(Cli, ThePolicyIsPrintedAsItCanBeAppliedAgain) {
  model::PolicyView view;
  view.text = "queues:\n  default:\n    weight: 1\npatience: 10m\nhalf_life: 7d\n";
  answerView("GET /v1/policy", view);
  EXPECT_EQ(run({"policy"}).out, view.text);
}

TEST_F(Cli, APolicyIsApplied) {
  program_.directory.write("work/lab.yaml", "queues: {lab: {}}\n");
  model::PolicyAnswer answer;
  answer.changes = {"queue lab is new", "queue old goes"};
  answer.warnings = {"lab.yaml:1:1: look"};
  answerView("PUT /v1/policy", answer);
  auto outcome = run({"policy", "apply", "lab.yaml"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "queue lab is new\nqueue old goes\n");
  EXPECT_EQ(outcome.err, "bole: warning: lab.yaml:1:1: look\n");
  const auto sent = [&] {
    const auto body = askedFor("PUT /v1/policy").back().body;
    const auto request = codec::fromJson<model::PolicyRequest>(body);
    EXPECT_TRUE(request) << body;
    return request ? *request : model::PolicyRequest();
  };
  EXPECT_EQ(sent().text, "queues: {lab: {}}\n");
  EXPECT_EQ(sent().fileName, "lab.yaml");
  EXPECT_FALSE(sent().dryRun);

  answer.warnings.clear();
  answerView("PUT /v1/policy", answer);
  program_.input = "queues: {}\n";
  outcome = run({"policy", "apply", "-", "--dry-run"});
  EXPECT_EQ(outcome.out, "queue lab is new\nqueue old goes\n");
  EXPECT_EQ(outcome.err, "bole: so it would be; without --dry-run it will\n");
  EXPECT_EQ(sent().text, "queues: {}\n");
  EXPECT_EQ(sent().fileName, "stdin");
  EXPECT_TRUE(sent().dryRun);

  answer.changes.clear();
  answerView("PUT /v1/policy", answer);
  EXPECT_EQ(run({"policy", "apply", "-"}).out, "nothing changes: the cloud is shared so already\n");
  EXPECT_EQ(run({"policy", "apply", "-", "--json"}).out, codec::toJson(answer) + "\n");
}

TEST_F(Cli, APolicyThatIsWrongOrNotThere) {
  auto outcome = run({"policy", "apply", "none.yaml"});
  EXPECT_EQ(outcome.code, kExitNotFound);
  EXPECT_EQ(outcome.err,
            "bole: none.yaml: there is no such file\n"
            "  'bole policy > none.yaml' writes the present policy\n");
  program_.directory.write("work/lab.yaml", "queus: {}\n");
  answerError("PUT /v1/policy", 400,
              makeError(ErrorCode::kInvalid, "unknown field")
                  .at("lab.yaml:1:1")
                  .foundValue("'queus'")
                  .withHint("did you mean 'queues'?"));
  outcome = run({"policy", "apply", "lab.yaml"});
  EXPECT_EQ(outcome.code, kExitUsage);
  EXPECT_EQ(outcome.err,
            "bole: lab.yaml:1:1: unknown field: found 'queus'\n  did you mean 'queues'?\n");
  answerError("PUT /v1/policy", 403, makeError(ErrorCode::kPermission, "you may not"));
  EXPECT_EQ(run({"policy", "apply", "lab.yaml"}).code, kExitPermission);
}

TEST_F(Cli, LogsOfAJobThatNeverWroteSayWhy) {
  auto detail = digitsDetail();
  detail.summary.state = model::JobState::kQueued;
  detail.summary.startedAt = Timestamp{};
  detail.summary.reason = "waits for 4 GPUs";
  detail.attempts.clear();
  answerView("GET /v1/jobs/7", detail);
  answerView("GET /v1/jobs/7/logs", model::LogPage{});
  auto outcome = run({"logs", "7"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err, "bole: job 7 (digits) has not started yet: waits for 4 GPUs\n");
  detail = digitsDetail();
  detail.attempts[0].startedAt = Timestamp{};
  detail.summary.state = model::JobState::kFailed;
  detail.summary.reason = "could not be started: no such image";
  answerView("GET /v1/jobs/7", detail);
  outcome = run({"logs", "7"});
  EXPECT_EQ(outcome.err,
            "bole: job 7 (digits) never started: could not be started: no such image\n");
  // The job counts as started once its ranks are being launched; its attempt does not.
  detail.summary.startedAt = kSubmitted;
  detail.attempts[0].startedAt = Timestamp{};
  answerView("GET /v1/jobs/7", detail);
  EXPECT_EQ(run({"logs", "7"}).err, outcome.err);
  answerView("GET /v1/jobs/7", digitsDetail());
  EXPECT_EQ(run({"logs", "7"}).err, "") << "one that runs may be quiet";
}

TEST_F(Cli, Status) {
  answerView("GET /v1/status", healthyStatus());
  const auto outcome = run({"status"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out,
            "State:    in order\n"
            "Jobs:     1 running, 2 queued\n"
            "GPUs:     4 of 8 in use (emulated)\n"
            "Sandbox:  bubblewrap\n"
            "Server:   bole 0.1.0, process 4242, since 2026-09-21 13:56:40 UTC\n"
            "Home:     /srv/bole\n"
            "Ledger:   123 events\n"
            "Note:     no NVIDIA driver: the GPUs are emulated\n");
}

TEST_F(Cli, NodesAndGpus) {
  model::NodeView node;
  node.name = "emu-a100-1";
  node.emulated = true;
  node.gpuModel = "8 x A100-SXM4-80GB";
  node.gpus = 8;
  node.gpusUsed = 4;
  node.cpus = MilliCpu(256'000);
  node.cpusUsed = MilliCpu(2'500);
  node.memory = kGiB * 2048;
  node.memoryUsed = kGiB * 2;
  node.driverVersion = "550.54";
  answerView("GET /v1/nodes", model::NodeList{{node}});
  EXPECT_EQ(run({"nodes"}).out,
            "NODE        STATE    GPUS                         IN USE  CPUS IN USE  MEMORY IN USE  "
            "DRIVER\n"
            "emu-a100-1  present  emulated 8 x A100-SXM4-80GB     4/8      2.5/256    2 GiB/2 TiB  "
            "550.54\n");
  model::GpuView gpu;
  gpu.node = "emu-a100-1";
  gpu.index = 3;
  gpu.model = "A100-SXM4-80GB";
  gpu.memory = kGiB * 80;
  gpu.pciBusId = "0000:4E:00.0";
  gpu.emulated = true;
  gpu.job = JobId(7);
  gpu.jobName = "digits";
  gpu.user = "alice";
  answerView("GET /v1/gpus", model::GpuList{{gpu}});
  const auto out = run({"gpus"}).out;
  EXPECT_EQ(
      out,
      "NODE        GPU  MODEL                    MEMORY  PCI           HEALTH   JOB       USER\n"
      "emu-a100-1    3  A100-SXM4-80GB emulated  80 GiB  0000:4E:00.0  healthy  7 digits  alice\n");
  fits(out);
  gpu.job.reset();
  gpu.jobName = gpu.user = "";
  gpu.used = MilliGpu(750);
  gpu.sharers = {JobId(3), JobId(12)};
  answerView("GET /v1/gpus", model::GpuList{{gpu}});
  EXPECT_NE(run({"gpus"}).out.find("healthy  0.75: 3, 12  -\n"), std::string::npos)
      << run({"gpus"}).out;
}

TEST_F(Cli, TopoOfOneMachine) {
  model::TopologyView view;
  model::Node node;
  node.name = "box";
  view.nodes = {node};
  answerView("GET /v1/topology", view);
  EXPECT_NE(run({"topo"}).out.find("box: no GPUs\n"), std::string::npos);
  EXPECT_NE(run({"topo", "box"}).out.find("Legend:"), std::string::npos);
  EXPECT_EQ(run({"topo", "other"}).code, kExitNotFound);
}

model::EventView someEvent(std::uint64_t sequence) {
  model::EventView event;
  event.sequence = sequence;
  event.time = kSubmitted;
  event.kind = "job.submitted";
  event.actor = "alice";
  event.summary = "job 7 (digits), 4 ranks\x1b[2J";
  return event;
}

TEST_F(Cli, Events) {
  answerView("GET /v1/events", model::EventList{{someEvent(41)}});
  const auto outcome = run({"events", "--from", "41", "--limit", "1", "--kind", "job.submitted"});
  EXPECT_EQ(asked().at(0), "GET /v1/events?from=41&limit=1&kind=job.submitted");
  EXPECT_EQ(outcome.out,
            "EVENT  TIME (UTC)           KIND           BY     WHAT\n"
            "   41  2026-09-21 13:56:40  job.submitted  alice  job 7 (digits), 4 ranks?[2J\n");
}

TEST_F(Cli, VersionWithAndWithoutAServer) {
  EXPECT_EQ(program_.run({"version"}).out, "bole 0.1.0\nserver: none answers\n");
  EXPECT_EQ(program_.run({"--version", "--json"}).out, "{\"version\":\"0.1.0\",\"server\":null}\n");
  answerView("GET /v1/status", healthyStatus());
  EXPECT_EQ(run({"version"}).out, "bole 0.1.0\nserver 0.1.0 in /srv/bole\n");
}

TEST_F(Cli, AReaderThatGoesAway) {
  answerView("GET /v1/jobs", someJobs());
  program_.outputLimit = 10;
  EXPECT_EQ(run({"ps"}).code, kExitOutputClosed);
}

// ---- what the machine does by itself

TEST_F(Cli, LocalCommandsGetWholePaths) {
  UpOptions up;
  program_.base.local.up = [&](const UpOptions& options) {
    up = options;
    return 0;
  };
  EXPECT_EQ(
      program_.run({"up", "--emulate", "4xT4", "--port", "0", "--token-file", "t", "--home", "h"})
          .code,
      0);
  EXPECT_EQ(up.home, program_.work() + "/h");
  EXPECT_EQ(up.tokenFile, program_.work() + "/t");
  EXPECT_EQ(up.emulate, std::vector<std::string>{"4xT4"});
  EXPECT_EQ(up.port, 0);

  BackupOptions backup;
  program_.base.local.backup = [&](const BackupOptions& options) {
    backup = options;
    return 4;
  };
  EXPECT_EQ(program_.run({"backup", "../b/", "--with-key"}).code, 4);
  EXPECT_EQ(backup.destination, program_.directory / "b");
  EXPECT_TRUE(backup.withKey);
  EXPECT_EQ(program_.run({"backup", ""}).code, kExitUsage);

  FsckOptions fsck;
  program_.base.local.fsck = [&](const FsckOptions& options) {
    fsck = options;
    return 0;
  };
  EXPECT_EQ(program_.run({"fsck", "--full", "--json"}).code, 0);
  EXPECT_TRUE(fsck.full && fsck.json);
  EXPECT_EQ(fsck.home, program_.home());
  EXPECT_EQ(program_.run({"restore", "/s"}).code, kExitUnavailable);
}

TEST_F(Cli, DownWaitsForTheEnd) {
  answerView("GET /v1/status", healthyStatus());
  answer("POST /v1/shutdown", FakeReply{.status = 202});
  DownWait waited;
  program_.base.local.waitDown = [&](const DownWait& wait) {
    waited = wait;
    return 0;
  };
  auto outcome = run({"down", "--wait", "5s"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(waited.pid, 4242);
  EXPECT_EQ(waited.home, "/srv/bole");
  EXPECT_EQ(waited.patience, seconds(5));
  EXPECT_EQ(waited.again, "bole down --wait");
  EXPECT_EQ(outcome.out, "the server is down; 1 job goes on: 'bole up' finds it again\n");
  EXPECT_EQ(asked().back(), "POST /v1/shutdown?stop_jobs=0");
  outcome = run({"down", "--stop-jobs"});
  EXPECT_EQ(asked().back(), "POST /v1/shutdown?stop_jobs=1");
  program_.base.local.waitDown = [](const DownWait&) { return kExitUnavailable; };
  EXPECT_EQ(run({"down"}).code, kExitUnavailable);
  EXPECT_EQ(run({"down", "--wait", "soon"}).code, kExitUsage);
  program_.base.local.waitDown = [&](const DownWait& wait) {
    waited = wait;
    return 0;
  };
  EXPECT_EQ(run({"down"}).code, 0);
  EXPECT_EQ(waited.patience, seconds(60));
  for (const auto& words :
       std::vector<std::vector<std::string>>{{"down", "--wait"},
                                             {"down", "--wait", "--stop-jobs"},
                                             {"down", "--stop-jobs", "--wait"}}) {
    waited = {};
    EXPECT_EQ(run(words).code, 0);
    EXPECT_LT(waited.patience.value, 0) << "as long as it takes";
  }
  waited.patience = seconds(7);
  EXPECT_EQ(run({"down", "--wait", "0s"}).code, 0);
  EXPECT_EQ(waited.patience, seconds(7)) << "not waited for";
}

// ---- stopping

TEST_F(Cli, StopSeveral) {
  auto stopping = digitsJob();
  stopping.state = model::JobState::kStopping;
  answer("POST /v1/jobs/7/stop", FakeReply{.status = 202, .body = codec::toJson(stopping)});
  answerError("POST /v1/jobs/8/stop", 403,
              makeError(ErrorCode::kPermission, "you may not stop this job"));
  const auto outcome = run({"stop", "8", "7", "--grace", "5s"});
  EXPECT_EQ(outcome.code, kExitPermission);
  EXPECT_EQ(outcome.out, "job 7 (digits) is being stopped\n");
  EXPECT_EQ(outcome.err, "bole: you may not stop this job\n");
  EXPECT_EQ(server_->requests().back().body, "{\"grace\":5000000}");
}

TEST_F(Cli, NamesAreEncoded) {
  static_cast<void>(run({"show", "../x?y"}));
  EXPECT_EQ(asked().at(0), "GET /v1/jobs/..%2Fx%3Fy");
}

// ---- logs

model::LogPage somePage() {
  model::LogPage page;
  for (std::uint32_t rank : {0U, 3U}) {
    model::LogLineView line;
    line.time = Timestamp{1'789'999'999'123'456};
    line.rank = rank;
    line.stream = "out";
    line.text = "\x1b[31mred\x1b[2J rank " + std::to_string(rank);
    page.lines.push_back(line);
  }
  return page;
}

TEST_F(Cli, LogsOfAllRanks) {
  answerView("GET /v1/jobs/digits", digitsDetail());
  answerView("GET /v1/jobs/7/logs", somePage());
  EXPECT_EQ(run({"logs", "digits"}).out,
            "[0] \x1b[31mred\x1b[2J rank 0\n[3] \x1b[31mred\x1b[2J rank 3\n");
  program_.base.stdoutIsTerminal = true;
  program_.base.variables["NO_COLOR"] = "1";
  EXPECT_EQ(run({"logs", "digits", "--timestamps"}).out,
            "2026-09-21T14:13:19.123Z [0] \x1b[31mred rank 0\x1b[0m\n"
            "2026-09-21T14:13:19.123Z [3] \x1b[31mred rank 3\x1b[0m\n");
}

TEST_F(Cli, LogsAskForWhatIsWanted) {
  answerView("GET /v1/jobs/digits", digitsDetail());
  answerView("GET /v1/jobs/7/logs", somePage());
  const auto outcome =
      run({"logs", "digits", "--rank", "3", "--tail", "5", "--since", "10s", "--attempt", "1"});
  EXPECT_EQ(asked().back(), "GET /v1/jobs/7/logs?rank=3&since=1789999990000000&tail=5&attempt=1");
  EXPECT_EQ(outcome.out.find("[3]"), std::string::npos);
  EXPECT_EQ(run({"logs", "digits", "--since", "soon"}).code, kExitUsage);
}

// ---- following

FakeReply events(std::string text) {
  FakeReply reply;
  reply.stream = [text = std::move(text)](const auto& write) { write(text); };
  return reply;
}

// As the server sends it: without the last lines of the rank that failed.
std::string endEvent(model::JobState state, std::int32_t code) {
  auto detail = endedDetail(state, code);
  detail.lastLines.clear();
  return eventText("end", codec::toJson(detail));
}

TEST_F(Cli, AttachEndsWithTheJob) {
  answerView("GET /v1/jobs/7", endedDetail(model::JobState::kFailed, 3));
  answerView("GET /v1/jobs/digits", digitsDetail());
  answer("GET /v1/jobs/7/logs",
         events(eventText("state", codec::toJson(digitsJob())) + lineEvent(0, "hello") +
                lineEvent(2, "boom") + endEvent(model::JobState::kFailed, 3)));
  const auto outcome = run({"attach", "digits"});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_EQ(outcome.out, "[0] hello\n[2] boom\n");
  EXPECT_EQ(outcome.err,
            "\n"
            "Job:         7 (digits)\n"
            "State:       FAILED\n"
            "Reason:      rank 2 failed first: exit 3\n"
            "Duration:    1m 02s\n"
            "GPU-time:    248.0 GPU-seconds (emulated)\n"
            "Logs:        /srv/bole/attempts/9/log\n"
            "Checkpoint:  /srv/bole/work/7/checkpoints/epoch-0020 (epoch 20)\n"
            "\n"
            "the last lines of rank 2:\n"
            "  Traceback (most recent call last):\n"
            "  RuntimeError: boom\n");
  EXPECT_EQ(askedFor("GET /v1/jobs/7/logs?tail=20").at(0).headers.at("accept"),
            "text/event-stream");
}

TEST_F(Cli, LogsFollowedSayNothingOfTheirOwn) {
  answerView("GET /v1/jobs/digits", digitsDetail());
  answer("GET /v1/jobs/7/logs",
         events(lineEvent(1, "x") + endEvent(model::JobState::kSucceeded, 0)));
  const auto outcome = run({"logs", "-f", "digits"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.out, "[1] x\n");
  EXPECT_EQ(outcome.err, "");
}

TEST_F(Cli, FollowedAsJson) {
  answerView("GET /v1/jobs/digits", digitsDetail());
  const auto end = codec::toJson(endedDetail(model::JobState::kSucceeded, 0));
  answer("GET /v1/jobs/7/logs", events(lineEvent(1, "x") + eventText("end", end)));
  auto outcome = run({"logs", "-f", "digits", "--json"});
  EXPECT_EQ(outcome.out,
            "{\"time\":1789999999123000,\"rank\":1,\"stream\":\"out\",\"text\":\"x\"}\n");
  outcome = run({"attach", "digits", "--json"});
  EXPECT_EQ(outcome.out, end + "\n");
  EXPECT_EQ(outcome.err, "[1] x\n");
}

TEST_F(Cli, ASingleRankNeedsNoPrefix) {
  auto detail = digitsDetail();
  detail.summary.ranks = 1;
  answerView("GET /v1/jobs/7", detail);
  answer("GET /v1/jobs/7/logs",
         events(lineEvent(0, "{\"a\":1}") + endEvent(model::JobState::kSucceeded, 0)));
  EXPECT_EQ(run({"attach", "7"}).out, "{\"a\":1}\n");
}

TEST_F(Cli, OnATerminalLinesAreHarmless) {
  program_.base.stdoutIsTerminal = true;
  program_.base.columns = [] { return 80; };
  program_.base.variables["NO_COLOR"] = "1";
  answerView("GET /v1/jobs/digits", digitsDetail());
  answer("GET /v1/jobs/7/logs", [](const FakeRequest&) {
    FakeReply reply;
    reply.stream = [](const auto& write) {
      write(eventText("state", codec::toJson(digitsJob())) +
            eventText("progress", codec::toJson(digitsProgress(5))) +
            lineEvent(0, "BOLE progress epoch=5 epochs=20") +
            lineEvent(0, "epoch 5\x1b]0;gotcha\a") + endEvent(model::JobState::kSucceeded, 0));
    };
    return reply;
  });
  const auto outcome = run({"attach", "digits"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_NE(outcome.out.find("[0] epoch 5\n"), std::string::npos);
  EXPECT_EQ(outcome.out.find("BOLE progress"), std::string::npos);
  EXPECT_EQ(outcome.out.find("gotcha"), std::string::npos);
}

TEST_F(Cli, LinesOfTheBarAreShownWhereThereIsNoneOrWhereTheyAreWanted) {
  answerView("GET /v1/jobs/digits", digitsDetail());
  answer("GET /v1/jobs/7/logs",
         events(eventText("state", codec::toJson(digitsJob())) +
                lineEvent(0, "BOLE progress epoch=5 epochs=20") +
                lineEvent(0, "BOLE checkpoint path=c/5 epoch=5") +
                lineEvent(0, "BOLE progress is made") + endEvent(model::JobState::kSucceeded, 0)));
  const std::string both =
      "[0] BOLE progress epoch=5 epochs=20\n[0] BOLE checkpoint path=c/5 epoch=5\n";
  for (const std::string command : {"attach", "logs"}) {
    std::vector<std::string> words = {command, "digits"};
    if (command == "logs") words.emplace_back("-f");
    program_.base.stdoutIsTerminal = false;
    EXPECT_NE(run(words).out.find(both), std::string::npos) << command << ": in a file";
    program_.base.stdoutIsTerminal = true;
    program_.base.columns = [] { return 80; };
    program_.base.variables["NO_COLOR"] = "1";
    const auto shown = run(words).out;
    EXPECT_EQ(shown.find("epochs=20"), std::string::npos) << shown;
    EXPECT_EQ(shown.find("path="), std::string::npos) << shown;
    EXPECT_NE(shown.find("[0] BOLE progress is made\n"), std::string::npos)
        << "what the bar does not say stays";
    words.emplace_back("--raw");
    EXPECT_NE(run(words).out.find(both), std::string::npos) << command << ": as wanted";
  }
}

TEST_F(Cli, TheBarNamesTheCheckpoint) {
  EXPECT_EQ(checkpointIn("BOLE checkpoint path=c/5 epoch=5"), "epoch 5");
  EXPECT_EQ(checkpointIn("BOLE checkpoint step=70 path=c"), "step 70");
  EXPECT_EQ(checkpointIn("BOLE checkpoint path=c/latest"), "c/latest");
  EXPECT_EQ(checkpointIn("BOLE checkpoint is next"), "");
  EXPECT_EQ(checkpointIn("BOLE progress epoch=5"), "");
  auto job = digitsJob();
  job.progress = digitsProgress(5);
  EXPECT_NE(barText(job, 200, "epoch 5").find("(saved: epoch 5)"), std::string::npos);
  EXPECT_EQ(barText(job, 200).find("saved"), std::string::npos);
}

TEST_F(Cli, TheBarIsDrawnAndTakenAway) {
  program_.base.stdoutIsTerminal = true;
  program_.base.columns = [] { return 80; };
  program_.base.variables["NO_COLOR"] = "1";
  std::atomic<bool> barSeen = false;
  program_.onOut = [&](const std::string& soFar) {
    barSeen = barSeen || soFar.find("epoch 5/20") != std::string::npos;
  };
  answerView("GET /v1/jobs/digits", digitsDetail());
  answer("GET /v1/jobs/7/logs", [&](const FakeRequest&) {
    FakeReply reply;
    reply.stream = [&](const auto& write) {
      write(eventText("state", codec::toJson(digitsJob())) +
            eventText("progress", codec::toJson(digitsProgress(5))));
      while (!barSeen && write(":\n\n")) std::this_thread::yield();
      write(lineEvent(0, "a line") + endEvent(model::JobState::kSucceeded, 0));
    };
    return reply;
  });
  const auto outcome = run({"attach", "digits"});
  EXPECT_EQ(outcome.out.substr(outcome.out.find("digits  RUNNING  [")),
            "digits  RUNNING  [#####---------------]  epoch 5/20, loss 0.3121, accuracy "
            "0.9…\r\x1b[K[0] a line\n");
}

// The fewest bytes that a heartbeat may have, further apart than a second.
TEST_F(Cli, AQuietStreamIsNotGivenUpAndASilentOneIs) {
  int beats = 0;
  const auto nap = [] { std::this_thread::sleep_for(std::chrono::milliseconds(1300)); };
  answer("GET /beats", [&](const FakeRequest&) {
    FakeReply reply;
    reply.stream = [&](const auto& write) {
      for (; beats < 3 && write(":"); ++beats) nap();
      write("end");
    };
    return reply;
  });
  answer("GET /silent", [&](const FakeRequest&) {
    FakeReply reply;
    reply.stream = [&](const auto& write) {
      write(":");
      nap();
      nap();
      nap();
    };
    return reply;
  });
  start();
  Client client({program_.socket(), "", ""}, seconds(2));
  std::string heard;
  const auto take = [&](std::string_view bytes) {
    heard += bytes;
    return true;
  };
  Request request;
  request.path = "/beats";
  const auto quiet = client.stream(request, take);
  ASSERT_TRUE(quiet) << quiet.error().message();
  EXPECT_EQ(heard, ":::end");
  request.path = "/silent";
  const auto silent = client.stream(request, take);
  ASSERT_FALSE(silent);
  EXPECT_EQ(silent.error().code, ErrorCode::kUnavailable);
}

TEST_F(Cli, ARestartOfTheServerIsLivedThrough) {
  answerView("GET /v1/jobs/digits", digitsDetail());
  std::atomic<int> calls = 0;
  answer("GET /v1/jobs/7/logs", [&](const FakeRequest& request) {
    const int call = ++calls;
    if (call == 1)
      return events(lineEvent(0, "one", "1/0=1/a") + lineEvent(1, "two", "1/0=1,1=1/a"));
    if (call == 2) return FakeReply{.drop = true};
    EXPECT_EQ(request.headers.at("last-event-id"), "1/0=1,1=1/a");
    return events(lineEvent(0, "three") + endEvent(model::JobState::kSucceeded, 0));
  });
  const auto outcome = run({"logs", "-f", "digits"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "[0] one\n[1] two\n[0] three\n");
  EXPECT_EQ(outcome.err,
            "bole: the server went away; the job goes on; waiting for the server to come back\n");
}

TEST_F(Cli, PatienceWithAServerEnds) {
  answerView("GET /v1/jobs/digits", digitsDetail());
  answer("GET /v1/jobs/7/logs", events(lineEvent(0, "one")));
  program_.clock.step = minutes(4);
  std::atomic<int> calls = 0;
  answer("GET /v1/jobs/7/logs", [&](const FakeRequest&) {
    return ++calls == 1 ? events(lineEvent(0, "one")) : FakeReply{.drop = true};
  });
  const auto outcome = run({"attach", "digits"});
  EXPECT_EQ(outcome.code, kExitUnavailable);
  EXPECT_NE(outcome.err.find("the server did not come back"), std::string::npos) << outcome.err;
}

TEST_F(Cli, CtrlCDetachesAndSaysHowToComeBack) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  program_.base.catchInterrupts = [&] { return pipe[0]; };
  program_.onOut = [&](const std::string&) { EXPECT_EQ(::write(pipe[1], "x", 1), 1); };
  answerView("GET /v1/jobs/digits", digitsDetail());
  answer("GET /v1/jobs/7/logs", [](const FakeRequest&) {
    FakeReply reply;
    reply.stream = [](const auto& write) {
      write(lineEvent(0, "hello"));
      while (write(":\n\n")) std::this_thread::yield();
    };
    return reply;
  });
  const auto outcome = run({"attach", "digits", "--home", program_.home()});
  EXPECT_EQ(outcome.code, kExitInterrupted);
  EXPECT_EQ(outcome.err,
            "\nbole: job 7 (digits) goes on without you\n"
            "  bole attach 7 --home " +
                program_.home() +
                "   watches it again\n"
                "  bole stop 7 --home " +
                program_.home() + "     stops it\n");
  ::close(pipe[0]);
  ::close(pipe[1]);
}

TEST_F(Cli, WhatAJobWaitsForIsSaid) {
  auto detail = digitsDetail();
  auto waiting = digitsJob();
  waiting.state = model::JobState::kQueued;
  waiting.reason = "waits for 4 GPUs: 2 are free now";
  waiting.attempts = 0;
  detail.summary = waiting;
  answerView("GET /v1/jobs/7", detail);
  answer("GET /v1/jobs/7/logs",
         events(eventText("state", codec::toJson(waiting)) + eventText("lost", "{\"lines\":3}") +
                endEvent(model::JobState::kCancelled, 130)));
  const auto outcome = run({"attach", "7"});
  EXPECT_EQ(outcome.code, 130);
  EXPECT_TRUE(
      outcome.err.starts_with("bole: job 7 (digits) waits for 4 GPUs: 2 are free now\n"
                              "bole: 3 lines were rotated away before they could be shown\n"))
      << outcome.err;
}

TEST_F(Cli, EventsFollowed) {
  std::atomic<int> calls = 0;
  answer("GET /v1/events", [&](const FakeRequest& request) {
    if (++calls == 1) return events(eventText("event", codec::toJson(someEvent(41)), "41"));
    EXPECT_EQ(request.headers.at("last-event-id"), "41");
    return events(
        eventText("error", errorBody(makeError(ErrorCode::kCorrupt, "record 42 is broken"))));
  });
  const auto outcome = run({"events", "-f"});
  EXPECT_EQ(outcome.code, kExitInternal);
  EXPECT_EQ(outcome.out,
            "      41  2026-09-21 13:56:40  job.submitted         alice       job 7 (digits), 4 "
            "ranks?[2J\n");
  EXPECT_NE(outcome.err.find("bole: record 42 is broken\n"), std::string::npos) << outcome.err;
}

// ---- submitting

class Submitting : public Cli {
 protected:
  Submitting() {
    answerView("GET /v1/status", healthyStatus());
    answer("POST /v1/jobs", [this](const FakeRequest& request) { return taken(request); });
    answer("GET /v1/jobs/7", FakeReply{.body = codec::toJson(digitsDetail())});
  }

  FakeReply taken(const FakeRequest& request) {
    const auto wanted = codec::fromJson<model::SubmitRequest>(request.body);
    EXPECT_TRUE(wanted) << request.body;
    if (wanted) wanted_.push_back(*wanted);
    model::Submitted job;
    job.id = JobId(wanted && wanted->dryRun ? 0 : 7);
    job.name = "digits";
    job.warnings = warnings_;
    FakeReply reply;
    reply.status = wanted && wanted->dryRun ? 200 : 201;
    reply.body = codec::toJson(model::SubmitAnswer{{job}});
    return reply;
  }
  // Uploads have a path that is not known before: the handler of last resort.
  void startWithUploads(bool known) {
    server_ =
        std::make_unique<FakeServer>(program_.socket(), [this, known](const FakeRequest& request) {
          if (request.target.starts_with("/v1/uploads/")) {
            FakeReply reply;
            reply.status = request.method == "PUT" ? 201 : known ? 200 : 404;
            if (request.method == "PUT") archive_ = request.body;
            return reply;
          }
          const auto found = answers_.find(request.method + " " +
                                           request.target.substr(0, request.target.find('?')));
          return found == answers_.end() ? FakeReply{.status = 404} : found->second(request);
        });
    ASSERT_TRUE(server_->ready());
  }
  [[nodiscard]] std::vector<std::string> methods() const {
    std::vector<std::string> out;
    for (const auto& request : server_->requests())
      out.push_back(request.method + " " + request.target.substr(0, 12));
    return out;
  }

  std::vector<model::SubmitRequest> wanted_;
  std::vector<std::string> warnings_;
  std::string archive_;
};

TEST_F(Submitting, ADirectoryIsCheckedBroughtAlongAndSubmitted) {
  startWithUploads(false);
  program_.directory.write("work/job/bole.yaml", "name: digits\ncommand: ./digits\n");
  program_.directory.write("work/job/digits", "binary");
  program_.directory.write("work/job/.gitignore", "*.pt\n");
  program_.directory.write("work/job/big.pt", "x");
  warnings_ = {"job/bole.yaml:1:1: something"};
  const auto outcome = run({"submit", "job"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "job 7 (digits) submitted\n");
  EXPECT_EQ(outcome.err, "bole: warning: job/bole.yaml:1:1: something\n");
  EXPECT_EQ(methods(),
            (std::vector<std::string>{"GET /v1/status", "POST /v1/jobs", "HEAD /v1/uploads/",
                                      "PUT /v1/uploads/", "POST /v1/jobs"}));
  ASSERT_EQ(wanted_.size(), 2U);
  EXPECT_TRUE(wanted_[0].dryRun);
  EXPECT_FALSE(wanted_[1].dryRun);
  EXPECT_EQ(wanted_[0].upload, "");
  EXPECT_EQ(wanted_[1].upload.size(), 64U);
  EXPECT_EQ(wanted_[1].directory, program_.work() + "/job");
  EXPECT_EQ(wanted_[1].fileName, "job/bole.yaml");
  EXPECT_EQ(wanted_[1].spec, "name: digits\ncommand: ./digits\n");
  EXPECT_EQ(wanted_[1].requestId.size(), 32U);
  EXPECT_NE(archive_.find("digits"), std::string::npos);
  EXPECT_EQ(archive_.find("big.pt"), std::string::npos);
  for (const auto& request : server_->requests()) {
    if (request.method == "PUT") {
      EXPECT_EQ(request.target, "/v1/uploads/" + wanted_[1].upload);
    }
  }
}

TEST_F(Submitting, WhatIsThereIsNotSentAgain) {
  startWithUploads(true);
  program_.directory.write("work/bole.yaml", "name: digits\n");
  EXPECT_EQ(run({"submit"}).code, 0);
  EXPECT_EQ(methods().back(), "POST /v1/jobs");
  for (const auto& method : methods()) EXPECT_FALSE(method.starts_with("PUT"));
  EXPECT_EQ(wanted_.back().upload.size(), 64U);
}

TEST_F(Submitting, AMountWithoutASourceIsSaid) {
  program_.directory.write("work/data/x", "");
  const std::vector<std::string> words{
      "run",    "--dry-run", "--no-upload",       "-v", "data:/d", "-v",
      "dat:/e", "-v",        "/dev/null/x:/f:ro", "--", "x"};
  EXPECT_EQ(run(words).err,
            "bole: warning: the source of a mount is not there: dat\n"
            "bole: warning: the source of a mount is not there: /dev/null/x\n");
}

TEST_F(Submitting, NothingComesAlongWhereItShouldNot) {
  startWithUploads(true);
  program_.directory.write("work/bole.yaml", "name: digits\n");
  EXPECT_EQ(run({"submit", "--no-upload"}).code, 0);
  EXPECT_EQ(wanted_.back().upload, "");
  program_.input = "name: digits\n";
  EXPECT_EQ(run({"submit", "-f", "-"}).code, 0);
  EXPECT_EQ(wanted_.back().upload, "");
  EXPECT_EQ(wanted_.back().fileName, "stdin");
  EXPECT_EQ(wanted_.back().directory, program_.work());
  program_.directory.write("user/bole.yaml", "name: digits\n");
  const auto outcome = run({"submit", program_.directory / "user"});
  EXPECT_EQ(wanted_.back().upload, "");
  EXPECT_NE(outcome.err.find("is not brought along"), std::string::npos);
  auto plain = healthyStatus();
  plain.sandbox = "plain";
  answerView("GET /v1/status", plain);
  EXPECT_EQ(run({"submit"}).code, 0);
  EXPECT_EQ(wanted_.back().upload, "");
}

TEST_F(Submitting, AWrongSpecIsRefusedBeforeAnythingIsSent) {
  startWithUploads(false);
  program_.directory.write("work/bole.yaml", "name: digits\n");
  answerError("POST /v1/jobs", 422,
              makeError(ErrorCode::kRefused, "needs 9 GPUs in one node, the largest node has 8")
                  .at("bole.yaml:4:5"));
  const auto outcome = run({"submit"});
  EXPECT_EQ(outcome.code, kExitRefused);
  EXPECT_EQ(outcome.err, "bole: bole.yaml:4:5: needs 9 GPUs in one node, the largest node has 8\n");
  EXPECT_EQ(methods().back(), "POST /v1/jobs");
}

TEST_F(Submitting, NoSpec) {
  const auto outcome = run({"submit"});
  EXPECT_EQ(outcome.code, kExitNotFound);
  EXPECT_EQ(outcome.err,
            "bole: bole.yaml: there is no such file\n  name one with 'bole submit -f FILE', or use "
            "'bole run -- COMMAND'\n");
}

TEST_F(Submitting, VariablesWithoutAValueAreGiven) {
  answer("POST /v1/jobs", [this](const FakeRequest& request) {
    const auto wanted = codec::fromJson<model::SubmitRequest>(request.body);
    if (wanted && wanted->env.empty()) {
      FakeReply reply;
      reply.status = 400;
      reply.body = errorBody(
          makeError(ErrorCode::kInvalid, "the spec names variables without a value").at("run"),
          {"HF_TOKEN", "WANDB"});
      return reply;
    }
    return taken(request);
  });
  program_.base.variables["HF_TOKEN"] = "hf_1";
  auto outcome = run({"run", "-d", "--no-upload", "-e", "HF_TOKEN", "-e", "WANDB", "--", "./x"});
  EXPECT_EQ(outcome.code, kExitUsage);
  EXPECT_EQ(
      outcome.err,
      "bole: run: the job names variables without a value, and they are not set here: found WANDB\n"
      "  export them, or write their values (NAME=VALUE)\n");
  program_.base.variables["WANDB"] = "";
  outcome = run({"run", "-d", "--no-upload", "-e", "HF_TOKEN", "-e", "WANDB", "--", "./x"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(wanted_.back().env, (std::vector<std::pair<std::string, std::string>>{
                                    {"HF_TOKEN", "hf_1"}, {"WANDB", ""}}));
}

TEST_F(Submitting, ABrokenConnectionIsTriedAgainWithTheSameId) {
  std::atomic<int> calls = 0;
  std::vector<std::string> ids;
  answer("POST /v1/jobs", [&](const FakeRequest& request) {
    const auto wanted = codec::fromJson<model::SubmitRequest>(request.body);
    ids.push_back(wanted ? wanted->requestId : "");
    return ++calls == 1 ? FakeReply{.drop = true} : taken(request);
  });
  EXPECT_EQ(run({"run", "-d", "--no-upload", "--", "./x"}).code, 0);
  ASSERT_EQ(ids.size(), 2U);
  EXPECT_EQ(ids[0], ids[1]);
}

TEST_F(Submitting, RunWatchesAndEndsWithTheJobsCode) {
  startWithUploads(false);
  program_.directory.write("work/train.py", "print()");
  answer("GET /v1/jobs/7/logs", events(lineEvent(0, "hi") + endEvent(model::JobState::kFailed, 3)));
  const auto outcome = run({"run", "--gpus", "1", "-n", "4", "--", "python3", "train.py"});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_EQ(outcome.out, "[0] hi\n");
  EXPECT_TRUE(outcome.err.starts_with("bole: job 7 (digits) submitted\n")) << outcome.err;
  EXPECT_EQ(wanted_.back().spec,
            "name: \"train\"\nreplicas: 4\ncommand: [\"python3\", \"train.py\"]\ngpus: \"1\"\n");
  EXPECT_EQ(wanted_.back().upload.size(), 64U);
}

TEST_F(Submitting, RunNamesTheFlagThatIsWrong) {
  answerError(
      "POST /v1/jobs", 400,
      makeError(ErrorCode::kInvalid, "gpus: no such kind").at("run:4:7").foundValue("'A1000:x'"));
  const auto outcome = run({"run", "--no-upload", "-G", "A1000:x", "--", "x"});
  EXPECT_EQ(outcome.code, kExitUsage);
  EXPECT_EQ(outcome.err, "bole: --gpus: no such kind: found 'A1000:x'\n");
}

TEST_F(Submitting, RunNamesTheFlagThatAWarningIsOf) {
  warnings_ = {"run:1:1: task 'main': port 80 is not published", "run:4:7: gpus: a strange kind"};
  const auto outcome = run({"run", "-d", "--no-upload", "-G", "1", "-p", "80", "--", "x"});
  EXPECT_EQ(outcome.err,
            "bole: warning: task 'main': port 80 is not published\n"
            "bole: warning: --gpus: a strange kind\n");
}

TEST_F(Submitting, RunSaysWhatItCannotHonour) {
  const auto outcome = run({"run", "-d", "--no-upload", "-N", "2", "--", "x"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_NE(outcome.err.find("warning: --nodes 2"), std::string::npos);
}

TEST_F(Submitting, DryRunSubmitsAndSendsNothing) {
  startWithUploads(false);
  program_.directory.write("work/x", "1");
  const auto outcome = run({"run", "--dry-run", "--", "./x"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "digits would be taken; when it would start is not known\n");
  for (const auto& request : wanted_) EXPECT_TRUE(request.dryRun);
  for (const auto& method : methods()) EXPECT_FALSE(method.starts_with("PUT"));
}

TEST_F(Submitting, DetachedAsJson) {
  const auto outcome = run({"run", "-d", "--json", "--no-upload", "--project", "p", "--", "x"});
  EXPECT_EQ(outcome.out,
            "{\"jobs\":[{\"id\":7,\"name\":\"digits\",\"warnings\":[],\"existed\":false,\"count\":"
            "1}]}\n");
  EXPECT_EQ(wanted_.back().project, "p");
}

// ---- support

TEST_F(Cli, SupportLeavesSecretsOut) {
  auto status = healthyStatus();
  status.problem = "token=abcdef";
  answerView("GET /v1/status", status);
  program_.directory.write("home/server.log", "fine\nAuthorization: Bearer abcdef\n");
  const auto outcome = run({"support", "-o", "report.tar.gz"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  std::string text;
  FILE* pipe = ::popen(("tar -xzOf " + program_.work() + "/report.tar.gz").c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::array<char, 4096> buffer{};
  for (std::size_t got = 0; (got = ::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
    text.append(buffer.data(), got);
  EXPECT_EQ(::pclose(pipe), 0);
  EXPECT_NE(text.find("\"gpus_used\": 4"), std::string::npos);
  EXPECT_NE(text.find("fine\n"), std::string::npos);
  EXPECT_EQ(text.find("abcdef"), std::string::npos);
  EXPECT_EQ(run({"support", "-o", "again.tar.gz", "--json"}).out,
            "{\"path\":\"" + program_.work() + "/again.tar.gz\"}\n");
  EXPECT_NE(text.find("nothing for GET /v1/nodes"), std::string::npos)
      << "what could not be had is said";
}

}  // namespace
}  // namespace bole::cli
