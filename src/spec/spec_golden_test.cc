// The answers in testdata/*.txt: files as people write them, and every word that they get back.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "spec/policy.h"
#include "spec/spec.h"

namespace bole::spec {
namespace {

constexpr std::string_view kCase = "=== ";
constexpr std::string_view kAnswer = "---> ";

struct Case {
  std::string title;
  std::string text;
  std::string answer;
};

std::vector<Case> readCases(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  std::vector<Case> cases;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(kCase)) {
      cases.push_back({line.substr(kCase.size()), "", ""});
    } else if (!cases.empty() && line.starts_with(kAnswer)) {
      cases.back().answer += line + "\n";
    } else if (!cases.empty() && cases.back().answer.empty()) {
      cases.back().text += line + "\n";
    }
  }
  return cases;
}

std::string answerTo(const Case& one, const std::string& fileName) {
  ParseContext context;
  context.directory = "/home/ada/job";
  context.user = "ada";
  const auto parsed = parseSpec({one.text, fileName}, context);
  std::ostringstream out;
  if (!parsed) {
    out << kAnswer << "error: " << parsed.error().message() << "\n";
    return out.str();
  }
  out << kAnswer << "accepted\n";
  for (const auto& name : parsed->missingEnv) out << kAnswer << "missing: " << name << "\n";
  for (const auto& job : parsed->jobs) {
    for (const auto& warning : job.warnings) out << kAnswer << "warning: " << warning << "\n";
  }
  return out.str();
}

std::string answerToPolicy(const Case& one, const std::string& fileName) {
  const auto parsed = parsePolicy({one.text, fileName});
  if (!parsed) return std::string(kAnswer) + "error: " + parsed.error().message() + "\n";
  auto out = std::string(kAnswer) + "accepted\n";
  for (const auto& warning : parsed->warnings)
    out += std::string(kAnswer) + "warning: " + warning + "\n";
  return out;
}

using Answer = std::string (*)(const Case&, const std::string&);

void expectAnswers(const std::string& table, const std::string& fileName, std::size_t least,
                   Answer answer = answerTo) {
  const auto cases = readCases(std::string(SPEC_TESTDATA) + "/" + table);
  EXPECT_GE(cases.size(), least);
  for (const auto& one : cases) {
    EXPECT_FALSE(one.answer.empty()) << table << ": " << one.title << ": no answer is written";
    EXPECT_EQ(answer(one, fileName), one.answer) << table << ": " << one.title;
  }
}

TEST(SpecGolden, BoleYaml) {
  expectAnswers("bole_yaml.txt", "bole.yaml", 100);
}

TEST(SpecGolden, VolcanoJobs) {
  expectAnswers("volcano.txt", "job.yaml", 50);
}

TEST(SpecGolden, Policies) {
  expectAnswers("policy.txt", "policy.yaml", 40, answerToPolicy);
}

}  // namespace
}  // namespace bole::spec
