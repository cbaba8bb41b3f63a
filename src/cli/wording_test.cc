#include "cli/wording.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "cli/redact.h"
#include "cli/run_spec.h"
#include "cli/spec_file.h"
#include "cli/topology.h"

namespace bole::cli {
namespace {

constexpr Timestamp kNow{1'790'000'000'000'000};

TEST(Wording, IndicesAreShort) {
  EXPECT_EQ(indexList({}), "-");
  EXPECT_EQ(indexList({3}), "3");
  EXPECT_EQ(indexList({0, 1}), "0,1");
  EXPECT_EQ(indexList({0, 1, 2, 3, 5, 7, 8, 9}), "0-3,5,7-9");
  EXPECT_EQ(indexList({3, 2, 1}), "3,2,1");
}

TEST(Wording, Spans) {
  EXPECT_EQ(parseSpan("90s"), seconds(90));
  EXPECT_EQ(parseSpan("1h30m"), minutes(90));
  EXPECT_EQ(parseSpan("2d"), hours(48));
  EXPECT_EQ(parseSpan("500ms"), milliseconds(500));
  EXPECT_EQ(parseSpan("0s"), seconds(0));
  EXPECT_EQ(parseSpan("15").error().hint, "15s or 15m?");
  EXPECT_EQ(parseMoment("10", kNow).error().hint, "10s or 10m?");
  for (const auto* wrong : {"", "s", "15", "0", "5x", "-1s", "1.5h", "1h30",
                            "99999999999999999999s", "9999999d", " 1s"}) {
    EXPECT_FALSE(parseSpan(wrong)) << wrong;
  }
}

TEST(Wording, Moments) {
  EXPECT_EQ(parseMoment("10m", kNow), kNow - minutes(10));
  EXPECT_EQ(parseMoment("2026-11-30T12:43:09Z", kNow), Timestamp{1'796'042'589'000'000});
  EXPECT_EQ(parseMoment("2026-11-30 12:43:09.25", kNow), Timestamp{1'796'042'589'250'000});
  EXPECT_EQ(parseMoment("2026-11-30T12:43", kNow), Timestamp{1'796'042'580'000'000});
  EXPECT_EQ(parseMoment("1970-01-01", kNow), Timestamp{0});
  EXPECT_EQ(parseMoment("@1700000000", kNow), Timestamp{1'700'000'000'000'000});
  for (const auto* wrong : {"", "yesterday", "2026-13-01", "2026-02-30", "2026-11-30T25:00",
                            "2026-11-30T12:43:09Zx", "@"}) {
    EXPECT_FALSE(parseMoment(wrong, kNow)) << wrong;
  }
}

RC_GTEST_PROP(Wording, MomentsReadWhatTimesWrite, ()) {
  const auto second = *rc::gen::inRange<std::int64_t>(0, 4'000'000'000);
  const Timestamp time{second * 1'000'000};
  const auto read = parseMoment(formatTimestamp(time), kNow);
  RC_ASSERT(read && *read == time);
}

RC_GTEST_PROP(Wording, AnyTextIsAMomentOrAnError, (const std::string& text)) {
  static_cast<void>(parseMoment(text, kNow));
  static_cast<void>(parseSpan(text));
}

TEST(Wording, Amounts) {
  EXPECT_EQ(cpusText(MilliCpu(500)), "0.5");
  EXPECT_EQ(cpusText(MilliCpu(64'000)), "64");
  EXPECT_EQ(gpuTimeText(49'250), "49.2 GPU-seconds");
  EXPECT_EQ(gpuCount(4, true), "4 emulated");
  EXPECT_EQ(gpuCount(0, true), "-");
  EXPECT_EQ(counted(1, "job", "jobs"), "1 job");
}

// ---- bole run as a spec

TEST(RunSpec, FlagsBecomeFields) {
  RunArgs args;
  args.command = {"python", "train.py", "--name=\"x\": y"};
  args.ranks = 4;
  args.gpus = "A100:2";
  args.cpus = "0.5";
  args.memory = "16G";
  args.time = "2h";
  args.retries = 3;
  args.priority = "high";
  args.env = {"A=1 # no comment", "HF_TOKEN"};
  args.mounts = {"/data:/data:ro"};
  args.workdir = "src";
  const auto spec = makeRunSpec(args, "/home/alice/job");
  EXPECT_EQ(spec.text,
            "name: \"train\"\n"
            "replicas: 4\n"
            "command: [\"python\", \"train.py\", \"--name=\\\"x\\\": y\"]\n"
            "gpus: \"A100:2\"\n"
            "cpus: \"0.5\"\n"
            "memory: \"16G\"\n"
            "time_limit: \"2h\"\n"
            "priority: high\n"
            "restart: on-failure:3\n"
            "env:\n"
            "  - \"A=1 # no comment\"\n"
            "  - \"HF_TOKEN\"\n"
            "mounts:\n"
            "  - \"/data:/data:ro\"\n"
            "working_dir: \"src\"\n");
  const auto placed = [&](const char* where) {
    return errorOfFlag(spec, makeError(ErrorCode::kInvalid, "gpus: no such kind").at(where))
        .message();
  };
  EXPECT_EQ(placed("run:4:7"), "--gpus: no such kind");
  EXPECT_EQ(placed("run:12:5"), "--env: no such kind");
  EXPECT_EQ(placed("run:99:1"), "run:99:1: gpus: no such kind");
  EXPECT_EQ(placed("upload"), "upload: gpus: no such kind");
}

TEST(RunSpec, WhereItWaitsAndWhoMayStopIt) {
  RunArgs args;
  args.command = {"x"};
  args.queue = "night";
  args.spot = true;
  args.noPreempt = true;
  const auto spec = makeRunSpec(args, "/x");
  EXPECT_NE(spec.text.find("queue: \"night\"\nspot: true\npreemptible: false\n"), std::string::npos)
      << spec.text;
  const auto error = makeError(ErrorCode::kInvalid, "preemptible: it cannot").at("run:6:14");
  EXPECT_EQ(errorOfFlag(spec, error).message(), "--no-preempt: it cannot");
}

TEST(RunSpec, NodesAreRanksWhereNothingElseIsSaid) {
  RunArgs args;
  args.command = {"hostname"};
  args.nodes = 3;
  EXPECT_NE(makeRunSpec(args, "/x").text.find("replicas: 3\n"), std::string::npos);
}

TEST(RunSpec, TheWorkingDirectoryBelowIsRelative) {
  RunArgs args;
  args.command = {"x"};
  const auto fieldFor = [&](const std::string& workdir) {
    args.workdir = workdir;
    const auto text = makeRunSpec(args, "/home/a").text;
    const auto at = text.find("working_dir");
    return at == std::string::npos ? std::string() : text.substr(at);
  };
  EXPECT_EQ(fieldFor("."), "");
  EXPECT_EQ(fieldFor("/home/a/b/"), "working_dir: \"b\"\n");
  EXPECT_EQ(fieldFor("/home/ab"), "working_dir: \"/home/ab\"\n");
  EXPECT_EQ(fieldFor("../c"), "working_dir: \"/home/c\"\n");
}

TEST(RunSpec, NamesAfterTheCommand) {
  EXPECT_EQ(nameAfter({"python3.11", "-u", "src/Train_Model.py", "--epochs", "3"}), "train-model");
  EXPECT_EQ(nameAfter({"./digits"}), "digits");
  EXPECT_EQ(nameAfter({"bash", "-c", "echo hi"}), "bash");
  EXPECT_EQ(nameAfter({"python", "-m", "torch.distributed.run"}), "python");
  EXPECT_EQ(nameAfter({"env", "A=1", "sleep", "5"}), "sleep");
  EXPECT_EQ(nameAfter({"/usr/bin/[", "x"}), "job");
  EXPECT_EQ(nameAfter({"123"}), "job-123");
  EXPECT_EQ(nameAfter({}), "job");
}

RC_GTEST_PROP(RunSpec, NamesAreAlwaysNames, (const std::vector<std::string>& command)) {
  const auto name = nameAfter(command);
  RC_ASSERT(!name.empty() && name.size() <= 63U);
  RC_ASSERT(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string::npos);
  RC_ASSERT(name.front() != '-' && name.back() != '-');
  RC_ASSERT(name.find_first_not_of("0123456789") != std::string::npos);
}

// ---- what a spec brings along

TEST(Luggage, TheDirectoryUnlessFilesSayOtherwise) {
  EXPECT_TRUE(luggageOf("name: a\ncommand: x\n").all);
  const auto named = luggageOf("name: a\nfiles: [train.py, src]\n");
  EXPECT_FALSE(named.all);
  EXPECT_EQ(named.files, (std::vector<std::string>{"train.py", "src"}));
  EXPECT_EQ(luggageOf("files: one\n").files, std::vector<std::string>{"one"});
  EXPECT_FALSE(luggageOf("working_dir: /srv/x\n").all);
  EXPECT_TRUE(luggageOf("working_dir: sub\n").all);
  EXPECT_TRUE(luggageOf("files: a\n---\nname: b\n").all);
  EXPECT_FALSE(luggageOf("apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\n").all);
  EXPECT_TRUE(luggageOf("tasks:\n  - {name: a, image: x}\n").image);
  EXPECT_FALSE(luggageOf("a: [").readable);
  EXPECT_FALSE(luggageOf("just text").all);
}

TEST(Luggage, TheSourcesOfMounts) {
  const auto luggage = luggageOf(
      "mounts: [\"/a:/b:ro\", {source: c, target: /d}]\n"
      "---\ntasks:\n  - {name: x, mounts: [\"/e:/f\"]}\n  - {name: y}\n");
  EXPECT_EQ(luggage.mounts, (std::vector<std::string>{"/a", "c", "/e"}));
}

TEST(Luggage, OddTextsComeToAnEnd) {
  for (const auto* text :
       {",", "a: 1\n,", "]", "}", "---\n---\n,\n---", "?", "- ", "%YAML 1.2\n---\na: 1",
        "\xef\xbb\xbf"
        "a: 1"}) {
    static_cast<void>(luggageOf(text));
  }
  static_cast<void>(luggageOf(std::string(100'000, '[')));
  static_cast<void>(luggageOf(std::string("\0\1", 2)));
}

RC_GTEST_PROP(Luggage, AnyTextIsRead, ()) {
  const auto pieces = *rc::gen::container<std::vector<std::string>>(rc::gen::element<std::string>(
      "files", ": ", ":", "\n", "- ", "  ", "[", "]", "{", "}", ",", "a", "---", "&x ", "*x", "|",
      ">", "'", "\"", "#", "!", "? ", "%", "\t", "image", "tasks"));
  std::string text;
  for (const auto& piece : pieces) text += piece;
  static_cast<void>(luggageOf(text));
}

// ---- the matrix

model::Node twoPairs() {
  model::Node node;
  node.name = "emu-a100-1";
  node.emulated = true;
  node.labels = {{"bole.numa-0.cpus", "0-31"}, {"bole.numa-1.cpus", "32-63"}};
  for (int i = 0; i < 4; ++i) {
    model::Gpu gpu;
    gpu.model = "A100-PCIE-40GB";
    gpu.numaNode = i / 2;
    node.gpus.push_back(gpu);
  }
  for (int a = 0; a < 4; ++a) {
    for (int b = 0; b < 4; ++b) {
      model::Link link;
      if (a == b)
        link.kind = model::LinkKind::kSelf;
      else if (a / 2 == b / 2)
        link = {model::LinkKind::kNvLink, 12};
      node.links.push_back(link);
    }
  }
  return node;
}

TEST(TopologyText, LooksLikeNvidiaSmi) {
  EXPECT_EQ(topologyText(twoPairs()),
            "emu-a100-1: 4 x A100-PCIE-40GB (emulated)\n"
            "\n"
            "       GPU0  GPU1  GPU2  GPU3  CPUs   NUMA\n"
            "GPU0    X    NV12  SYS   SYS   0-31   0\n"
            "GPU1   NV12   X    SYS   SYS   0-31   0\n"
            "GPU2   SYS   SYS    X    NV12  32-63  1\n"
            "GPU3   SYS   SYS   NV12   X    32-63  1\n");
}

TEST(TopologyText, WhatIsMissingDoesNotHurt) {
  model::Node node;
  node.name = "box";
  EXPECT_EQ(topologyText(node), "box: no GPUs\n");
  node = twoPairs();
  node.links.clear();
  EXPECT_EQ(topologyText(node), "emu-a100-1: 4 x A100-PCIE-40GB (emulated)\n");
}

// ---- secrets

TEST(Redacted, SecretsGoAndTheRestStays) {
  EXPECT_EQ(redacted("HF_TOKEN=hf_abc done"), "HF_TOKEN=[left out] done");
  EXPECT_EQ(redacted("\"api_key\": \"x\\\"y\", \"n\": 1"), "\"api_key\": \"[left out]\", \"n\": 1");
  EXPECT_EQ(redacted("Authorization: Bearer abc.def=="), "Authorization: [left out]");
  EXPECT_EQ(redacted("sent Bearer abc to x"), "sent Bearer [left out] to x");
  EXPECT_EQ(redacted("http://user:pass@host/x"), "http://[left out]@host/x");
  EXPECT_EQ(redacted("http://host/x PASSWORD: y"), "http://host/x PASSWORD: [left out]");
  EXPECT_EQ(redacted("\"state\": \"RUNNING\", \"gpus\": 4"), "\"state\": \"RUNNING\", \"gpus\": 4");
  EXPECT_EQ(redacted("the token was wrong"), "the token was wrong");
}

RC_GTEST_PROP(Redacted, AnyTextIsTaken, (const std::string& text)) {
  static_cast<void>(redacted(text));
}

}  // namespace
}  // namespace bole::cli
