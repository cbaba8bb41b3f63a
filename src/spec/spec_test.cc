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

}  // namespace
}  // namespace bole::spec
