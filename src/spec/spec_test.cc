#include "spec/spec.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace bole::spec {
namespace {

std::string readFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

ParseContext contextIn(std::string directory) {
  ParseContext context;
  context.directory = std::move(directory);
  context.user = "ada";
  return context;
}

TEST(ParseSpec, ReadsTheDigitsExample) {
  const auto parsed =
      parseSpec({readFile(std::string(SPEC_EXAMPLES) + "/digits/bole.yaml"), "bole.yaml"},
                contextIn("/home/ada/digits"));
  ASSERT_TRUE(parsed) << parsed.error().message();
  ASSERT_EQ(parsed->jobs.size(), 1U);
  const auto& spec = parsed->jobs[0].spec;
  EXPECT_EQ(spec.text.name, "digits");
  EXPECT_EQ(spec.text.user, "ada");
  EXPECT_EQ(spec.text.workingDir, "/home/ada/digits");
  EXPECT_EQ(spec.shape.runtime, model::Runtime::kProcess);
  EXPECT_EQ(spec.shape.minAvailable, 4U);
  EXPECT_EQ(spec.shape.timeLimit, minutes(10));
  EXPECT_EQ(spec.shape.checkpointEvery, 5U);
  EXPECT_EQ(spec.text.checkpointPath, "checkpoints");
  ASSERT_EQ(spec.shape.tasks.size(), 1U);
  EXPECT_EQ(spec.shape.tasks[0].replicas, 4U);
  EXPECT_EQ(spec.shape.tasks[0].gpus.count, 1U);
  EXPECT_EQ(spec.shape.tasks[0].cpus, MilliCpu(500));
  EXPECT_EQ(spec.shape.tasks[0].memory, kMiB * 512);
  ASSERT_EQ(spec.text.tasks[0].command.size(), 3U);
  EXPECT_EQ(spec.text.tasks[0].command[0], "/bin/sh");
  EXPECT_TRUE(parsed->missingEnv.empty());
}

// A script that tries again while the answer is "not now" must come to its end.
TEST(ParseSpec, WhatIsNeverTakenIsRefusedForGood) {
  for (const auto* text : {
           "apiVersion: batch.volcano.sh/v1alpha1\nkind: CronJob\nmetadata: {name: a}\n",
           "name: a\nkind: service\ncommand: x\n",
       }) {
    const auto parsed = parseSpec({text, "x.yaml"}, contextIn("/d"));
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().code, ErrorCode::kRefused) << text;
  }
  auto plain = contextIn("/d");
  plain.plain = true;
  const auto mounted = parseSpec({"name: a\ncommand: x\nmounts: [\"/a:/b\"]\n", "x"}, plain);
  ASSERT_FALSE(mounted);
  EXPECT_EQ(mounted.error().code, ErrorCode::kRefused);
}

TEST(ParseSpec, AProjectGivenBesideTheFileIsNamedByItsFlag) {
  auto context = contextIn("/d");
  context.projectOverride = "Bad_P";
  const auto parsed = parseSpec({"name: a\ncommand: x\n", "x"}, context);
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().where, "--project");
  EXPECT_NE(parsed.error().message().find("'Bad_P', expected 1 to 63"), std::string::npos)
      << parsed.error().message();
}

}  // namespace
}  // namespace bole::spec
