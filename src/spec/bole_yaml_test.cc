// Every field of bole.yaml, and where it goes. (What is refused stands in testdata/bole_yaml.txt.)
#include <gtest/gtest.h>

#include "spec/spec.h"

namespace bole::spec {
namespace {

using Words = std::vector<std::string>;

ParseContext contextOf() {
  ParseContext context;
  context.directory = "/home/ada/job";
  context.user = "ada";
  return context;
}

ParsedFile parse(const std::string& text, const ParseContext& context = contextOf()) {
  auto parsed = parseSpec({text, "bole.yaml"}, context);
  EXPECT_TRUE(parsed) << (parsed ? "" : parsed.error().message()) << "\n" << text;
  return parsed ? std::move(*parsed) : ParsedFile{};
}

Parsed parseOne(const std::string& text, const ParseContext& context = contextOf()) {
  auto file = parse(text, context);
  EXPECT_EQ(file.jobs.size(), 1U);
  return file.jobs.empty() ? Parsed{} : std::move(file.jobs[0]);
}

std::string messageOf(const std::string& text, const ParseContext& context) {
  const auto parsed = parseSpec({text, "bole.yaml"}, context);
  return parsed ? "accepted" : parsed.error().message();
}

TEST(BoleYaml, WhatIsNotWrittenIsAsModelSays) {
  const auto job = parseOne("name: a\ncommand: echo hello\n");
  EXPECT_EQ(job.project, "");
  EXPECT_EQ(job.spec.text.queue, "default");
  EXPECT_EQ(job.spec.text.specSource, "bole.yaml");
  model::JobShape expected;
  expected.tasks.emplace_back();
  EXPECT_EQ(job.spec.shape, expected);
  ASSERT_EQ(job.spec.text.tasks.size(), 1U);
  EXPECT_EQ(job.spec.text.tasks[0].name, "main");
  EXPECT_EQ(job.spec.text.tasks[0].command, (Words{"/bin/sh", "-c", "echo hello"}));
}

TEST(BoleYaml, EveryFieldOfAJob) {
  const auto job = parseOne(R"(
name: train
kind: job
project: vision
queue: night
priority: high
gang: 6
restart: {policy: on-failure, max_retries: 5, backoff: 30s, max_backoff: 1h}
time_limit: 12h
grace: 2m
checkpoint: {path: ckpt, every: 5}
working_dir: src
network: host
labels: {team: vision, paper: "12"}
tasks:
  - name: worker
    replicas: 4
    command: python train.py
  - name: ps
    replicas: 2
    command: [python, ps.py]
    working_dir: /srv/ps
)");
  const auto& shape = job.spec.shape;
  const auto& text = job.spec.text;
  EXPECT_EQ(job.project, "vision");
  EXPECT_EQ(text.name, "train");
  EXPECT_EQ(text.queue, "night");
  EXPECT_TRUE(job.warnings.empty());
  EXPECT_EQ(shape.priority, 1000);
  EXPECT_EQ(shape.minAvailable, 6U);
  EXPECT_EQ(shape.restart,
            (model::RestartPolicy{model::RestartKind::kOnFailure, 5, seconds(30), hours(1)}));
  EXPECT_EQ(shape.timeLimit, hours(12));
  EXPECT_EQ(shape.grace, minutes(2));
  EXPECT_EQ(shape.checkpointEvery, 5U);
  EXPECT_EQ(shape.network, model::Network::kHost);
  EXPECT_EQ(text.checkpointPath, "/home/ada/job/src/ckpt");
  EXPECT_EQ(text.workingDir, "/home/ada/job");
  EXPECT_EQ(text.tasks[0].workingDir, "/home/ada/job/src");
  EXPECT_EQ(text.tasks[1].workingDir, "/srv/ps");
  EXPECT_EQ(text.labels, (model::EnvList{{"team", "vision"}, {"paper", "12"}}));
  EXPECT_EQ(text.tasks[1].command, (Words{"python", "ps.py"}));
}

TEST(BoleYaml, WhoMayStopIt) {
  const auto shapeOf = [](const std::string& fields) {
    return parseOne("name: a\ncommand: x\n" + fields).spec.shape;
  };
  EXPECT_TRUE(shapeOf("").preemptible);
  EXPECT_FALSE(shapeOf("").spot);
  EXPECT_FALSE(shapeOf("preemptible: false\n").preemptible);
  EXPECT_TRUE(shapeOf("preemptible: true\nspot: true\n").spot);
  EXPECT_TRUE(shapeOf("spot: true\n").preemptible);
  EXPECT_FALSE(shapeOf("spot: false\npreemptible: false\n").preemptible);
}

TEST(BoleYaml, EveryFieldOfATask) {
  const auto job = parseOne(R"(
name: train
image: docker.io/library/debian:12
command: [python, -u, train.py]
replicas: 2
gpus: A100:80GB:4
cpus: 7.5
memory: 64GiB
shm_size: 8G
env: {A: 1, B: no}
ports: ["8080:80", 9000]
mounts:
  - ./data:/data:ro
  - {source: /scratch, target: /scratch}
  - {source: ., target: /code, read_only: true}
)");
  const auto& shape = job.spec.shape.tasks.at(0);
  const auto& text = job.spec.text.tasks.at(0);
  EXPECT_EQ(job.spec.shape.runtime, model::Runtime::kPodman);
  EXPECT_EQ(shape.replicas, 2U);
  EXPECT_EQ(shape.minAvailable, 2U);
  EXPECT_EQ(shape.gpus.count, 4U);
  EXPECT_EQ(shape.gpus.models, Words{"A100"});
  EXPECT_EQ(shape.cpus, MilliCpu(7500));
  EXPECT_EQ(shape.memory, kGiB * 64);
  EXPECT_EQ(shape.shm, kGiB * 8);
  EXPECT_EQ(text.image, "docker.io/library/debian:12");
  EXPECT_EQ(text.env, (model::EnvList{{"A", "1"}, {"B", "no"}}));
  EXPECT_EQ(text.ports,
            (std::vector<model::Port>{{80, 8080, "127.0.0.1"}, {9000, 0, "127.0.0.1"}}));
  EXPECT_EQ(text.mounts, (std::vector<model::Mount>{{"/home/ada/job/data", "/data", true},
                                                    {"/scratch", "/scratch", false},
                                                    {"/home/ada/job", "/code", true}}));
}

TEST(BoleYaml, GangIsAllOrSomeOrNone) {
  const std::string tasks =
      "tasks:\n- {name: a, replicas: 3, command: x}\n- {name: b, command: x}\n";
  const auto leastOf = [&](const std::string& gang) {
    const auto shape = parseOne("name: j\n" + gang + tasks).spec.shape;
    return std::vector<std::uint32_t>{shape.minAvailable, shape.tasks[0].minAvailable,
                                      shape.tasks[1].minAvailable};
  };
  EXPECT_EQ(leastOf(""), (std::vector<std::uint32_t>{4, 3, 1}));
  EXPECT_EQ(leastOf("gang: true\n"), (std::vector<std::uint32_t>{4, 3, 1}));
  EXPECT_EQ(leastOf("gang: 4\n"), (std::vector<std::uint32_t>{4, 3, 1}));
  EXPECT_EQ(leastOf("gang: 2\n"), (std::vector<std::uint32_t>{2, 0, 0}));
  EXPECT_EQ(leastOf("gang: false\n"), (std::vector<std::uint32_t>{1, 0, 0}));
}

TEST(BoleYaml, RestartInFewWords) {
  const auto restartOf = [](const std::string& text) {
    return parseOne("name: j\ncommand: x\nrestart: " + text + "\n").spec.shape.restart;
  };
  EXPECT_EQ(restartOf("never"), model::RestartPolicy{});
  EXPECT_EQ(restartOf("no"), model::RestartPolicy{});
  EXPECT_EQ(restartOf("on-failure").maxRetries, 3U);
  EXPECT_EQ(restartOf("on-failure:7").maxRetries, 7U);
  EXPECT_EQ(restartOf("on-failure:7").kind, model::RestartKind::kOnFailure);
  EXPECT_EQ(restartOf("{max_retries: 2}").kind, model::RestartKind::kOnFailure);
  EXPECT_EQ(restartOf("{backoff: 1h}").maxBackoff, hours(1));
}

TEST(BoleYaml, PriorityByNameOrNumber) {
  const auto priorityOf = [](const std::string& text) {
    return parseOne("name: j\ncommand: x\npriority: " + text + "\n").spec.shape.priority;
  };
  EXPECT_EQ(priorityOf("low"), -1000);
  EXPECT_EQ(priorityOf("normal"), 0);
  EXPECT_EQ(priorityOf("high"), 1000);
  EXPECT_EQ(priorityOf("-1000000"), -1'000'000);
  EXPECT_EQ(priorityOf("1000000"), 1'000'000);
}

TEST(BoleYaml, BareNamesTakeTheSubmittersValues) {
  auto context = contextOf();
  context.env = {{"TOKEN", "old"}, {"TOKEN", "new"}, {"UNUSED", "x"}};
  const auto list = parse("name: j\ncommand: x\nenv: [TOKEN, A=1, A=2, B=a=b, C=]\n", context);
  EXPECT_TRUE(list.missingEnv.empty());
  EXPECT_EQ(list.jobs[0].spec.text.tasks[0].env,
            (model::EnvList{{"TOKEN", "new"}, {"A", "2"}, {"B", "a=b"}, {"C", ""}}));
  const auto map = parse("name: j\ncommand: x\nenv: {TOKEN: , OTHER: ~, A: 'null'}\n", context);
  EXPECT_EQ(map.missingEnv, Words{"OTHER"});
}

TEST(BoleYaml, ValuesOfTheSubmitterMustBeText) {
  auto context = contextOf();
  context.env = {{"TOKEN", std::string("a\0b", 3)}};
  EXPECT_EQ(messageOf("name: j\ncommand: x\nenv: [TOKEN]\n", context),
            "bole.yaml:3:7: the value given for TOKEN is not text: expected UTF-8 without NUL");
  context.env = {{"TOKEN", "\xff"}};
  EXPECT_NE(messageOf("name: j\ncommand: x\nenv: [TOKEN]\n", context), "accepted");
}

TEST(BoleYaml, TheContextGoesIntoTheJob) {
  auto context = contextOf();
  context.projectOverride = "other";
  context.upload = std::string(64, 'a');
  context.plain = true;
  const auto job =
      parseOne("name: j\ncommand: x\nproject: mine\nfiles: [train.py, data]\n", context);
  EXPECT_EQ(job.project, "other");
  EXPECT_EQ(job.spec.text.upload, context.upload);
  EXPECT_EQ(job.spec.shape.runtime, model::Runtime::kPlain);
  EXPECT_EQ(job.files, (Words{"train.py", "data"}));
  EXPECT_TRUE(job.warnings.empty());
}

TEST(BoleYaml, AFaultyContextIsRefusedToo) {
  const std::string job = "name: j\ncommand: x\n";
  auto context = contextOf();
  context.directory = "relative";
  EXPECT_EQ(messageOf(job, context),
            "bole.yaml:1:1: the directory of the job is not an absolute path: found 'relative'");
  context = contextOf();
  context.projectOverride = "No Project";
  EXPECT_EQ(
      messageOf(job, context),
      "--project: not the name of a project: found 'No Project', expected 1 to 63 of a-z, 0-9 and "
      "'-', with a letter or digit at both ends; for example 'no-project'");
  context = contextOf();
  context.upload = "../../etc";
  EXPECT_EQ(
      messageOf(job, context),
      "bole.yaml:1:1: not the name of an upload: found '../../etc', expected its SHA-256 in hex");
}

TEST(BoleYaml, MountsNeedASandbox) {
  auto context = contextOf();
  context.plain = true;
  EXPECT_NE(messageOf("name: j\ncommand: x\nmounts: [\"/a:/b\"]\n", context), "accepted");
  EXPECT_EQ(messageOf("name: j\ncommand: x\nmounts: [\"/a:/a\"]\n", context), "accepted");
}

TEST(BoleYaml, SeveralJobsInOrder) {
  const auto file = parse("name: one\ncommand: x\n---\n---\nname: two\ncommand: y\n...\n");
  ASSERT_EQ(file.jobs.size(), 2U);
  EXPECT_EQ(file.jobs[0].spec.text.name, "one");
  EXPECT_EQ(file.jobs[1].spec.text.name, "two");
}

TEST(BoleYaml, WarningsBelongToTheirJob) {
  const auto file = parse("name: one\ncommand: x\nfiles: a\n---\nname: two\ncommand: y\n");
  ASSERT_EQ(file.jobs.size(), 2U);
  EXPECT_EQ(file.jobs[0].warnings.size(), 1U);
  EXPECT_TRUE(file.jobs[1].warnings.empty());
}

TEST(BoleYaml, AnchorsMergeAndTheNearerWins) {
  const auto job = parseOne(R"(
x-base: &base {gpus: 1, cpus: 2, env: {A: 1}}
name: j
tasks:
  - {<<: *base, name: a, command: x}
  - {name: b, command: x, <<: [*base, {cpus: 9, memory: 1GiB}], gpus: 4}
)");
  const auto& tasks = job.spec.shape.tasks;
  EXPECT_EQ(tasks[0].gpus.count, 1U);
  EXPECT_EQ(tasks[1].gpus.count, 4U);
  EXPECT_EQ(tasks[1].cpus, MilliCpu(2000));
  EXPECT_EQ(tasks[1].memory, kGiB);
}

TEST(BoleYaml, JsonIsYaml) {
  const auto job = parseOne(
      R"({"name": "j", "command": ["echo", "a b", "\u00e9"], "gpus": 2, "env": {"A": "1"}})");
  EXPECT_EQ(job.spec.text.tasks[0].command, (Words{"echo", "a b", "\xc3\xa9"}));
  EXPECT_EQ(job.spec.shape.tasks[0].gpus.count, 2U);
}

}  // namespace
}  // namespace bole::spec
