// The runner of scenario files itself: what it finds, what it writes back, and what it says of
// files that are wrong.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "scenario/run.h"
#include "scenario/scenario.h"
#include "scenario/table.h"

namespace bole::test {
namespace {

const std::string kHead = "title: t\ncloud: 1x[2xT4]\nsteps:\n";  // lines 1 to 3

std::string errorOf(const std::string& text) {
  const auto outcome = runScenario(text, "f.yaml");
  return outcome ? "no error" : outcome.error().message();
}

std::vector<std::string> differencesOf(const std::string& steps) {
  const auto outcome = runScenario(kHead + steps, "f.yaml");
  if (!outcome) return {"error: " + outcome.error().message()};
  return outcome->differences;
}

TEST(ScenarioRunner, AFileThatSaysWhatHappensPasses) {
  EXPECT_TRUE(differencesOf("  - submit: {name: a, gpus: 2}\n"
                            "  - submit: {name: b, gpus: 1}\n"
                            "  - expect: |\n"
                            "      job  state    where    why\n"
                            "      a    RUNNING  n1[0-1]  -\n"
                            "      b    QUEUED   -        waits for 1 GPU: 0 free now\n")
                  .empty());
}

TEST(ScenarioRunner, EveryCellCountsAndSpacesDoNot) {
  const std::string submit = "  - submit: {name: a, gpus: 2}\n";
  EXPECT_TRUE(differencesOf(submit + "  - expect: |\n      state    job\n\n      RUNNING      a\n")
                  .empty());
  for (const auto* row : {"b  RUNNING  n1[0-1]  -", "a  QUEUED  n1[0-1]  -", "a  RUNNING  n1[0]  -",
                          "a  RUNNING  n1[0-1]  waits"}) {
    const auto found = differencesOf(
        submit + "  - expect: |\n      job  state    where    why\n      " + row + "\n");
    ASSERT_EQ(found.size(), 1u) << row;
    EXPECT_EQ(found[0].substr(0, 77),
              "f.yaml:5:5: at 2030-01-07 00:00:00: the table is another. Expected:\n    job  ");
    EXPECT_TRUE(
        found[0].ends_with("  and it is:\n"
                           "    job  state    where    why\n"
                           "  ! a    RUNNING  n1[0-1]  -\n"))
        << found[0];
  }
}

TEST(ScenarioRunner, ARowTooManyOrTooFewIsFound) {
  const std::string submit = "  - submit: {name: a, gpus: 1}\n";
  EXPECT_EQ(differencesOf(submit + "  - expect: |\n      job  state\n").size(), 1u);
  EXPECT_EQ(differencesOf(submit +
                          "  - expect: |\n      job  state\n      a    RUNNING\n      b  RUNNING\n")
                .size(),
            1u);
  EXPECT_EQ(differencesOf(submit + "  - expect:\n").size(), 1u) << "nothing written yet";
}

TEST(ScenarioRunner, WhatWasRefusedStandsInTheNextTableOrIsSaid) {
  const std::string submit = "  - submit: {name: a, gpus: 3}\n";
  EXPECT_TRUE(differencesOf(submit +
                            "  - expect: |\n      job  state    where  why\n"
                            "      a    REFUSED  -      this can never start here: needs 3 GPUs, "
                            "this cloud has 2\n")
                  .empty());
  const auto found = differencesOf("  - expect: |\n      job  state\n" + submit);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_NE(found[0].find("something was refused and no table behind it shows it"),
            std::string::npos);
}

TEST(ScenarioRunner, AcceptedTextPassesAndAllElseStays) {
  const std::string text = kHead +
                           "  # a remark\n"
                           "  - submit: {name: a, gpus: 1}  # another\n"
                           "  - expect: |\n"
                           "        job  ranks\n"
                           "        b    1\n"
                           "\n"
                           "  - queues:\n"
                           "  - completes: a\n"
                           "  - expect:\n";
  const auto outcome = runScenario(text, "f.yaml");
  ASSERT_TRUE(outcome) << outcome.error().message();
  EXPECT_EQ(outcome->differences.size(), 3u);
  EXPECT_EQ(outcome->accepted, kHead +
                                   "  # a remark\n"
                                   "  - submit: {name: a, gpus: 1}  # another\n"
                                   "  - expect: |\n"
                                   "      job  ranks\n"
                                   "      a    1\n"
                                   "\n"
                                   "  - queues: |\n"
                                   "      queue    guaranteed  limit  used  waiting  running\n"
                                   "      default  -           -      1     0        1\n"
                                   "  - completes: a\n"
                                   "  - expect: |\n"
                                   "      job  state      where  why\n"
                                   "      a    SUCCEEDED  -      -\n");
  const auto again = runScenario(outcome->accepted, "f.yaml");
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_TRUE(again->differences.empty());
  EXPECT_EQ(again->accepted, outcome->accepted);
}

TEST(ScenarioRunner, WrongFilesAreToldWhereAndWhatWasExpected) {
  const std::string table = "  - expect:\n";
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"",
       "f.yaml:1:1: not one scenario: found 0 YAML documents, expected one: `title`, `cloud`, "
       "`steps`"},
      {"title: t\n",
       "f.yaml:1:1: the scenario has no cloud: expected `cloud: 2x[8xA100-SXM4-80GB]`"},
      {kHead + "  - cancel: a\n",
       "f.yaml:1:1: the scenario has no table: expected `- expect:` among the steps"},
      {"title: t\ncloud: 1x[2xT5]\nsteps: []\n",
       "f.yaml:2:8: cloud: no such GPU can be emulated: found T5; did you mean"},
      {kHead + "  - sumbit: {name: a}\n" + table,
       "f.yaml:4:5: unknown field: found 'sumbit'; did you mean 'submit'?"},
      {kHead + "  - submit: {name: a, gpu: 1}\n" + table,
       "f.yaml:4:23: unknown field: found 'gpu'"},
      {kHead + "  - submit:\n      name: a\n      replicas: 0\n" + table,
       "f.yaml:6:17: replicas: out of range"},
      {kHead + "  - after: 10\n" + table, "f.yaml:4:12: after: not a length of time"},
      {kHead + "  - policy:\n      queues:\n        a: {wieght: 3}\n" + table,
       "f.yaml:6:13: unknown field in queues.a: found 'wieght'; did you mean 'weight'?"},
      {kHead + "  - completes: a\n" + table,
       "f.yaml:4:5: no job of this name was accepted: found a"},
      {kHead + "  - submit: {name: a}\n  - stopped: a\n" + table,
       "f.yaml:5:5: nobody asked the job to stop: found a"},
      {kHead + "  - submit: {name: a}\n  - fails: {job: a, rank: 1}\n" + table,
       "f.yaml:5:5: the job has no such rank: found 1 of a, expected 0 to 0"},
      {kHead + "  - gpu_fails: n1[2]\n" + table, "f.yaml:4:5: no such GPU: found n1[2]"},
      {kHead + "  - node_fails: n2\n" + table, "f.yaml:4:5: no such node: found n2"},
      {kHead + "  - submit: {name: a}\n  - submit: {name: a}\n" + table,
       "f.yaml:5:5: two jobs of one name: found a"},
      {kHead + "  - expect: |\n      job  state\n      a  RUNNING  n1\n",
       "f.yaml:6: a row with another number of cells than the header: found 3 cells, expected 2"},
      {kHead + "  - expect: |\n      job  place\n", "f.yaml:4:5: no such column: found place"},
      {kHead + "  - queues: |\n      queue  used gold\n",
       "f.yaml:4:5: no such column: found used gold"},
      {kHead + "  - repeat:\n      times: 2\n      steps:\n        - expect:\n" + table,
       "f.yaml:7:11: a table cannot stand in what is repeated"},
  };
  for (const auto& [text, message] : wrong)
    EXPECT_EQ(errorOf(text).substr(0, message.size()), message) << text;
}

TEST(ScenarioRunner, TheExampleOfThePageRuns) {
  std::ifstream file(SCENARIO_README);
  std::ostringstream page;
  page << file.rdbuf();
  const auto text = page.str();
  const std::string fence = "```yaml\n";
  const auto begin = text.find(fence);
  ASSERT_NE(begin, std::string::npos);
  const auto from = begin + fence.size();
  const auto outcome = runScenario(text.substr(from, text.find("```", from) - from), "README.md");
  ASSERT_TRUE(outcome) << outcome.error().message();
  for (const auto& difference : outcome->differences) ADD_FAILURE() << difference;
}

TEST(ScenarioRunner, NamesMayBeRanges) {
  EXPECT_EQ(namesIn("a").value(), std::vector<std::string>{"a"});
  EXPECT_EQ(namesIn("a-[1-3,7]").value(), (std::vector<std::string>{"a-1", "a-2", "a-3", "a-7"}));
  for (const auto* bad : {"a-[", "a-[]", "a-[3-1]", "a-[x]", "a-[1"})
    EXPECT_FALSE(namesIn(bad)) << bad;
}

TEST(ScenarioRunner, TimeBringsWhatIsDue) {
  EXPECT_TRUE(differencesOf("  - submit: {name: a, gpus: 2, takes: 5m}\n"
                            "  - submit: {name: b, gpus: 2, time_limit: 2m}\n"
                            "  - submit: {name: c, gpus: 2, takes: 2m, time_limit: 2m}\n"
                            "  - after: 8m\n"
                            "  - expect: |\n"
                            "      job  state      where    why         gpu-hours\n"
                            "      a    SUCCEEDED  -        -           0.166\n"
                            "      b    FAILED     -        time limit  0.066\n"
                            "      c    RUNNING    n1[0-1]  -           0.033\n"
                            "  - after: 1m\n"
                            "  - expect: |\n"
                            "      job  state\n"
                            "      c    SUCCEEDED\n")
                  .empty());
}

}  // namespace
}  // namespace bole::test
