#include "app/what_if.h"

#include <gtest/gtest.h>

#include "codec/codec.h"
#include "state/state.h"

namespace bole::app {
namespace {

model::Node boxOf(std::uint32_t gpus) {
  model::Node node;
  node.name = std::string("box-1");
  node.cpus = MilliCpu(64'000);
  node.memory = kGiB * 512;
  node.gpus.resize(gpus);
  for (auto& gpu : node.gpus) {
    gpu.model = "A100-SXM4-80GB";
    gpu.memory = kGiB * 80;
  }
  node.links.resize(std::size_t{gpus} * gpus);
  return node;
}

class WhatIfTest : public ::testing::Test {
 protected:
  WhatIfTest() {
    add(model::ProjectCreated{ProjectId(1), SideId(1)});
    add(model::NodeRegistered{NodeId(1), boxOf(8)});
  }
  void add(const model::Event& event) {
    const auto done = state_.apply(event, state_.tables().sequence + 1, Timestamp{1'000'000});
    ASSERT_TRUE(done) << done.error().message();
  }
  void submit(std::uint64_t id, std::uint32_t gpus) {
    model::JobSubmitted event{JobId(id), ProjectId(1), UserId(), {}, SideId(1)};
    event.shape.tasks.emplace_back();
    event.shape.tasks[0].gpus.count = gpus;
    add(event);
  }
  cli::PlanInput input() {
    cli::PlanInput in;
    in.snapshot = codec::encodeTables(state_.tables());
    in.snapshotName = "now.json";
    in.directory = "/home/ada";
    in.user = "ada";
    return in;
  }
  static std::vector<std::string> linesOf(const cli::PlanOutcome& outcome) {
    std::vector<std::string> lines;
    for (const auto& row : outcome.rows) {
      lines.push_back(std::to_string(row.job.value) + " " + row.decision +
                      (row.where.empty() ? "" : " on " + row.where) +
                      (row.why.empty() ? "" : ": " + row.why) +
                      (row.before.empty() ? "" : " (else " + row.before + ")"));
    }
    return lines;
  }
  std::vector<std::string> decided(const cli::PlanInput& in) {
    const auto outcome = whatIf(in);
    EXPECT_TRUE(outcome) << (outcome ? "" : outcome.error().message());
    return outcome ? linesOf(*outcome) : std::vector<std::string>();
  }

  state::State state_;
};

using Lines = std::vector<std::string>;

TEST_F(WhatIfTest, TheDecisionOfASnapshotIsMadeAgain) {
  submit(1, 6);
  submit(2, 4);
  EXPECT_EQ(decided(input()),
            (Lines{"1 starts on box-1[0-5]", "2 goes on waiting: waits for 4 GPUs: 2 free now"}));
}

TEST_F(WhatIfTest, MoreJobsAreComparedWithoutThem) {
  submit(1, 6);
  submit(2, 2);
  auto in = input();
  in.spec = "name: first\npriority: high\ngpus: 8\ncommand: x\n";
  in.specName = "bole.yaml";
  EXPECT_EQ(decided(in),
            (Lines{"1 goes on waiting: waits for 6 GPUs: 0 free now (else starts on box-1[0-5])",
                   "2 goes on waiting: waits for 2 GPUs: 0 free now (else starts on box-1[6-7])",
                   "3 starts on box-1[0-7]"}));
}

TEST_F(WhatIfTest, AnotherPolicyIsComparedWithItsOwn) {
  submit(1, 6);
  submit(2, 2);
  auto in = input();
  in.policy = "queues: {default: {limit: {gpus: 4}}}\n";
  in.policyName = "policy.yaml";
  const auto lines = decided(in);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_TRUE(lines[0].ends_with("(else starts on box-1[0-5])")) << lines[0];
  EXPECT_TRUE(lines[1].starts_with("2 starts")) << lines[1];
}

TEST_F(WhatIfTest, WhatIsNoSnapshotIsRefused) {
  submit(1, 6);
  auto in = input();
  in.snapshot = "{\"jobs\": 3}";
  const auto wrong = whatIf(in);
  ASSERT_FALSE(wrong);
  EXPECT_TRUE(wrong.error().where.starts_with("now.json")) << wrong.error().message();
  // A rank on a node that is not there.
  in = input();
  const auto at = in.snapshot.find("\"state\":\"QUEUED\"");
  ASSERT_NE(at, std::string::npos);
  in.snapshot.replace(at, 16, "\"state\":\"RUNNING\"");
  EXPECT_FALSE(whatIf(in)) << "a job that runs nothing";
  in = input();
  in.spec = "name: big\ngpus: 9\ncommand: x\n";
  in.specName = "bole.yaml";
  const auto never = whatIf(in);
  ASSERT_FALSE(never);
  EXPECT_EQ(never.error().code, ErrorCode::kRefused);
  in.spec = "name: big\nqueue: nosuch\ncommand: x\n";
  EXPECT_FALSE(whatIf(in));
}

}  // namespace
}  // namespace bole::app
