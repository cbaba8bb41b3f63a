// Files that were made to do harm, and bytes that no editor shows: each is answered at once, with a
// place, and costs little.
#include <gtest/gtest.h>

#include <ctime>

#include "spec/quote.h"
#include "spec/spec.h"
#include "spec/yaml_tree.h"

namespace bole::spec {
namespace {

const std::string kJob = "name: a\ncommand: x\n";

Result<ParsedFile> parse(const std::string& text, const std::string& name = "bole.yaml") {
  ParseContext context;
  context.directory = "/home/ada/job";
  context.user = "ada";
  return parseSpec({text, name}, context);
}

std::string messageOf(const std::string& text) {
  const auto parsed = parse(text);
  if (parsed) return "accepted";
  EXPECT_LT(parsed.error().message().size(), 1000U);
  return parsed.error().message();
}

std::string repeat(std::string_view text, std::size_t times) {
  std::string out;
  for (std::size_t i = 0; i < times; ++i) out += text;
  return out;
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

// Processor time, so that a busy machine does not matter; an optimised build takes a tenth of what
// is allowed.
class Stopwatch {
 public:
  ~Stopwatch() { EXPECT_LT(static_cast<double>(std::clock() - begin_) / CLOCKS_PER_SEC, 5.0); }

 private:
  std::clock_t begin_ = std::clock();
};

TEST(HostileSpec, BillionLaughs) {
  std::string text = "a: &a [x,x,x,x,x,x,x,x,x,x]\n";
  for (char c = 'b'; c < 'k'; ++c) {
    const std::string name(1, c);
    const std::string before(1, static_cast<char>(c - 1));
    text += name + ": &" + name + " [" + repeat("*" + before + ",", 10) + "]\n";
  }
  EXPECT_EQ(messageOf(text),
            "bole.yaml:6:8: the file grows beyond 200000 values or 4194304 bytes; use fewer "
            "aliases (*name) or split the file");
}

TEST(HostileSpec, FewAliasesOfALongText) {
  const auto text = "x-a: &a " + std::string(100'000, 'x') + "\nname: a\ncommand: [echo" +
                    repeat(", *a", 50) + "]\n";
  EXPECT_TRUE(contains(messageOf(text), "the file grows beyond"));
}

TEST(HostileSpec, DepthHasAnEnd) {
  EXPECT_TRUE(parse("name: a\ncommand: x\nx-deep: " + repeat("[", 62) + repeat("]", 62) + "\n"));
  for (const std::size_t depth : {64U, 65U, 500U, 5000U, 500'000U}) {
    for (const auto* opening : {"[", "{a: ", "- ", "? "}) {
      const auto part =
          repeat(opening, std::min(depth, 1'000'000 / std::string_view(opening).size()));
      const auto message = messageOf(kJob + "env:\n  " + part);
      EXPECT_TRUE(contains(message, "nested deeper than 64 levels") || depth == 64)
          << opening << ": " << message;
      EXPECT_NE(message, "accepted");
    }
  }
}

TEST(HostileSpec, AFullMebibyteIsTheMost) {
  const auto full = kJob + "#" + std::string(kMaxSpecBytes - kJob.size() - 1, 'x');
  EXPECT_TRUE(parse(full));
  EXPECT_EQ(messageOf(full + "x"),
            "bole.yaml:1:1: the file is too large: found 1048577 bytes, expected at most 1048576");
}

// Each of these took 4 to 30 seconds before positions on long lines, missing variables and
// references were made cheap.
TEST(HostileSpec, LongLinesAndLongListsTakeNoTime) {
  const Stopwatch stopwatch;
  EXPECT_TRUE(contains(messageOf(kJob + "command2: [" + repeat("'',", 300'000) + "]"),
                       "the file grows beyond"));
  EXPECT_TRUE(contains(messageOf(kJob + "labels: {" +
                                 [] {
                                   std::string fields;
                                   for (int i = 0; i < 60'000; ++i)
                                     fields += "k" + std::to_string(i) + ": v,";
                                   return fields;
                                 }() +
                                 "}"),
                       "too many labels"));
  std::string text = "name: a\ntasks:\n";
  for (int task = 0; task < 20; ++task) {
    text += "- name: t" + std::to_string(task) + "\n  command: x\n  env:\n";
    for (int i = 0; i < 4000; ++i)
      text += "  - A" + std::to_string(task) + "_" + std::to_string(i) + "\n";
  }
  const auto parsed = parse(text);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->missingEnv.size(), 80'000U);
}

TEST(HostileSpec, ReferencesAreNotSearchedForever) {
  const Stopwatch stopwatch;
  const auto job = [](const std::string& env, const std::string& args) {
    return "{apiVersion: batch.volcano.sh/v1alpha1, kind: Job, metadata: {name: a}, spec: {tasks: "
           "[{replicas: 1, template: {spec: "
           "{restartPolicy: Never, containers: [{image: x, command: [x], env: [" +
           env + "], args: [" + args + "]}]}}}]}}";
  };
  EXPECT_TRUE(parse(job("", repeat("'" + repeat("$(", 60'000) + ")',", 8))));
  std::string variables;
  for (int i = 0; i < 4000; ++i) variables += "{name: V" + std::to_string(i) + ", value: ''},";
  EXPECT_TRUE(parse(job(variables, repeat("'" + repeat("$(V3999)", 15'000) + "',", 6))));
  const auto unknown = parse(job("", repeat("'" + repeat("$(Z)", 30'000) + "',", 7)));
  ASSERT_TRUE(unknown);
  EXPECT_EQ(unknown->jobs[0].warnings.size(), 101U);
  EXPECT_TRUE(contains(unknown->jobs[0].warnings.back(), "209900 more warnings like these"));
  // A value that doubles itself.
  std::string doubling = "{name: A0, value: xxxxxxxxxxxxxxxx},";
  for (int i = 1; i < 30; ++i) {
    const auto before = "$(A" + std::to_string(i - 1) + ")";
    doubling += "{name: A" + std::to_string(i) + ", value: " + before + before + "},";
  }
  EXPECT_TRUE(contains(messageOf(job(doubling, "")), "expected at most 131071 bytes"));
}

TEST(HostileSpec, BytesThatAreNoText) {
  EXPECT_TRUE(contains(messageOf(kJob + "gpus: \xff\n"), "bole.yaml:3:7: the file is not UTF-8"));
  EXPECT_TRUE(contains(messageOf(kJob + "gpus: \xed\xa0\x80\n"), "not UTF-8"));  // a surrogate
  EXPECT_TRUE(
      contains(messageOf(kJob + "gpus: \xc0\x80\n"), "not UTF-8"));  // NUL in too many bytes
  EXPECT_TRUE(
      contains(messageOf(kJob + "gpus: \xf4\x90\x80\x80\n"), "not UTF-8"));  // beyond U+10FFFF
  EXPECT_TRUE(contains(messageOf(kJob + std::string("gpus: 1\0\n", 9)),
                       "bole.yaml:3:8: a control character (0x00)"));
  EXPECT_TRUE(
      contains(messageOf(kJob + "# \x1b[2J\n"), "bole.yaml:3:3: a control character (0x1b)"));
  EXPECT_TRUE(contains(messageOf("name: a\ncommand: \"x\\0y\"\n"),
                       "bole.yaml:2:10: text holds a NUL character"));
  EXPECT_TRUE(contains(messageOf(std::string("\xff\xfen\0a\0", 6)),
                       "bole.yaml:1:1: the file is not UTF-8"));  // UTF-16
}

TEST(HostileSpec, LineEndsOfAllKinds) {
  const auto crlf = parse("name: a\r\ncommand: |\r\n  echo 1\r\n  echo 2\r\ngpus: 1\r\n");
  ASSERT_TRUE(crlf);
  EXPECT_EQ(crlf->jobs[0].spec.text.tasks[0].command[2], "echo 1\necho 2\n");
  EXPECT_TRUE(
      contains(messageOf("name: a\r\ncommand: x\r\ngpsu: 1\r\n"), "bole.yaml:3:1: unknown field"));
  EXPECT_TRUE(
      contains(messageOf("name: a\rcommand: x\r"), "bole.yaml:1:8: a line end of CR alone"));
}

TEST(HostileSpec, AByteOrderMarkIsNoText) {
  EXPECT_TRUE(parse("\xef\xbb\xbfname: a\ncommand: x\n"));
  EXPECT_TRUE(
      contains(messageOf("\xef\xbb\xbfname: a\ngpsu: x\n"), "bole.yaml:2:1: unknown field"));
  EXPECT_TRUE(contains(messageOf(kJob + "---\n\xef\xbb\xbfname: b\n"),
                       "bole.yaml:4:1: unknown field: found '\\ufeffname'"));
}

TEST(HostileSpec, ColumnsCountCharacters) {
  EXPECT_TRUE(contains(messageOf("{name: a, command: \"\xe4\xbc\xaf\xe4\xb9\x90\", gpsu: 1}"),
                       "bole.yaml:1:26: unknown field"));
  // Beyond the blocks in which characters are counted ahead.
  const auto pad = repeat("\xe4\xbc\xaf", 300);
  EXPECT_TRUE(contains(messageOf("{name: a, command: \"" + pad + "\", gpsu: 1}"),
                       "bole.yaml:1:324: unknown field"));
  EXPECT_TRUE(contains(messageOf("{name: a, command: \"" + std::string(300, 'x') + "\", gpsu: 1}"),
                       "bole.yaml:1:324: unknown field"));
}

TEST(HostileSpec, MessagesNeverObeyATerminal) {
  for (const auto* text :
       {"name: \"\\e[31m\"\ncommand: x\n", "name: a\ncommand: x\n\"\\e[31m\\n\": 1\n",
        "name: a\ncommand: x\nlabels: {\"\\e\": 1}\n", "name: a\ncommand: x\nenv: {\"\\e\": 1}\n",
        "name: a\ncommand: x\ntime_limit: \"1\\n2\"\n",
        "name: a\ncommand: x\n\"\\e\": 1\n\"\\e\": 2\n", "name: a\ncommand: x\ngpus: \"\\e\"\n"}) {
    const auto message = messageOf(text);
    EXPECT_NE(message, "accepted");
    for (const char c : message) EXPECT_FALSE(isControl(c)) << text;
  }
  const auto parsed = parse("x", "a\x1b[31m\nb");
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().where, "a?[31m?b:1:1");
}

TEST(HostileSpec, LongTextIsCutInMessages) {
  const std::string longText(900'000, 'x');
  for (const auto& text :
       {"name: " + longText, kJob + "time_limit: 1" + longText, kJob + "memory: 1" + longText,
        kJob + "cpus: " + longText, kJob + "gpus: " + longText, kJob + "image: +" + longText,
        kJob + "labels:\n  ? " + longText + "\n  : [a]\n",
        kJob + "env:\n  ? " + longText + "\n  : a\n", kJob + "? " + longText + "\n: 1\n",
        "? " + longText + "\n: 1\n? " + longText + "\n: 1\n", kJob + "env: !" + longText + " x",
        kJob + "restart: " + longText, kJob + "ports: [" + longText + "]",
        kJob + "mounts: [" + longText + "]", kJob + "kind: " + longText,
        kJob + "files: /" + longText}) {
    EXPECT_NE(messageOf(text), "accepted") << text.substr(0, 80);  // messageOf() holds the length
  }
}

TEST(HostileSpec, WhatLinuxCannotStartIsRefused) {
  EXPECT_TRUE(parse("name: a\ncommand: [echo, " + std::string(131'071, 'x') + "]"));
  EXPECT_TRUE(contains(messageOf("name: a\ncommand: [echo, " + std::string(131'072, 'x') + "]"),
                       "argument 1 of its command is too long"));
  EXPECT_TRUE(contains(messageOf(kJob + "env: {A: " + std::string(131'070, 'x') + "}"),
                       "its variable A is too long"));
  EXPECT_TRUE(contains(messageOf("x-a: &a " + std::string(120'000, 'x') +
                                 "\nname: a\ncommand: [echo" + repeat(", *a", 10) + "]"),
                       "command and variables are too long"));
}

TEST(HostileSpec, CountsAtTheirLimits) {
  const auto task = [](int i, int replicas) {
    return "- {name: t" + std::to_string(i) +
           ", command: x, replicas: " + std::to_string(replicas) + "}\n";
  };
  const auto job = [&](int tasks, int replicas) {
    std::string text = "name: a\ntasks:\n";
    for (int i = 0; i < tasks; ++i) text += task(i, replicas);
    return text;
  };
  EXPECT_TRUE(parse(job(64, 1024)));
  EXPECT_TRUE(contains(messageOf(job(64, 1025)),
                       "too many ranks in one job: found 65600, expected at most 65536"));
  EXPECT_TRUE(contains(messageOf(job(64, 65'536)), "too many ranks in one job: found 4194304"));
  EXPECT_TRUE(contains(messageOf(job(65, 1)),
                       "bole.yaml:67:3: too many tasks: found 65, expected at most 64"));
  EXPECT_TRUE(contains(messageOf(job(5000, 1)), "too many tasks"));
  EXPECT_TRUE(parse(repeat("---\n" + kJob, 1000)));
  EXPECT_TRUE(contains(messageOf(repeat("---\n" + kJob, 1001)), "too many jobs in one file"));
  EXPECT_TRUE(parse(kJob + "replicas: 1024\nmemory: 1PiB\n"));
  EXPECT_TRUE(contains(messageOf(kJob + "replicas: 1025\nmemory: 1PiB\n"),
                       "the job's memory is too large"));
}

}  // namespace
}  // namespace bole::spec
