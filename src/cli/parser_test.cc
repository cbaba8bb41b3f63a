#include "cli/parser.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "cli/cli.h"
#include "cli/completion.h"
#include "cli/testing/program.h"
#include "cli/text.h"

namespace bole::cli {
namespace {

using Words = std::vector<std::string>;

template <class Args>
Args parsedAs(const Words& words) {
  const auto parse = parseArguments(words);
  EXPECT_TRUE(parse.complete) << parse.text;
  if (!std::holds_alternative<Args>(parse.invocation.command)) {
    ADD_FAILURE() << "another command";
    return {};
  }
  return std::get<Args>(parse.invocation.command);
}

std::string refusal(const Words& words) {
  const auto parse = parseArguments(words);
  EXPECT_FALSE(parse.complete);
  EXPECT_EQ(parse.code, kExitUsage);
  return parse.text;
}

TEST(Parser, TheNamesOfSbatchAndDocker) {
  const auto run = parsedAs<RunArgs>({"run",
                                      "-n",
                                      "4",
                                      "-N",
                                      "2",
                                      "-G",
                                      "A100:80GB:2",
                                      "-c",
                                      "0.5",
                                      "--mem",
                                      "16G",
                                      "-t",
                                      "1-12:00:00",
                                      "-e",
                                      "A=1",
                                      "-e",
                                      "B",
                                      "-v",
                                      "/data:/data:ro",
                                      "-p",
                                      "8080:80",
                                      "-p",
                                      "9090",
                                      "-d",
                                      "-J",
                                      "train",
                                      "-i",
                                      "docker.io/x",
                                      "--priority",
                                      "high",
                                      "--project",
                                      "p",
                                      "--shm-size",
                                      "2G",
                                      "--retries",
                                      "3",
                                      "--workdir",
                                      "src",
                                      "--no-upload",
                                      "--dry-run",
                                      "--",
                                      "python",
                                      "train.py",
                                      "--epochs",
                                      "20"});
  EXPECT_EQ(run.ranks, 4U);
  EXPECT_EQ(run.nodes, 2U);
  EXPECT_EQ(run.gpus, "A100:80GB:2");
  EXPECT_EQ(run.cpus, "0.5");
  EXPECT_EQ(run.memory, "16G");
  EXPECT_EQ(run.time, "1-12:00:00");
  EXPECT_EQ(run.env, (Words{"A=1", "B"}));
  EXPECT_EQ(run.mounts, Words{"/data:/data:ro"});
  EXPECT_EQ(run.ports, (Words{"8080:80", "9090"}));
  EXPECT_EQ(run.name, "train");
  EXPECT_EQ(run.image, "docker.io/x");
  EXPECT_EQ(run.retries, 3U);
  EXPECT_TRUE(run.detach && run.noUpload && run.dryRun);
  EXPECT_EQ(run.command, (Words{"python", "train.py", "--epochs", "20"}));
}

TEST(Parser, TheCommandBeginsAtItsFirstWord) {
  const auto run = parsedAs<RunArgs>({"run", "--gpus", "1", "python", "-c", "1", "--gpus", "9"});
  EXPECT_EQ(run.gpus, "1");
  EXPECT_EQ(run.command, (Words{"python", "-c", "1", "--gpus", "9"}));
}

TEST(Parser, ADoubleDashInsideTheCommandIsItsOwn) {
  EXPECT_EQ(parsedAs<RunArgs>({"run", "cargo", "run", "--", "x"}).command,
            (Words{"cargo", "run", "--", "x"}));
  EXPECT_EQ(parsedAs<RunArgs>({"run", "--", "cargo", "run", "--", "x"}).command,
            (Words{"cargo", "run", "--", "x"}));
  EXPECT_EQ(parsedAs<RunArgs>({"--json", "--home", "/x", "run", "--", "--odd"}).command,
            Words{"--odd"});
}

TEST(Parser, NoCommandToRun) {
  EXPECT_NE(refusal({"run"}).find("no command to run"), std::string::npos);
  EXPECT_NE(refusal({"run", "-n", "2", "--"}).find("no command to run"), std::string::npos);
  EXPECT_NE(refusal({"run", "--", ""}).find("no command to run"), std::string::npos);
}

TEST(Parser, CommonOptionsStandBeforeAndBehindTheCommand) {
  for (const auto& words :
       {Words{"--home", "/h", "--json", "ps"}, Words{"ps", "--home", "/h", "--json"}}) {
    const auto parse = parseArguments(words);
    ASSERT_TRUE(parse.complete) << parse.text;
    EXPECT_EQ(parse.invocation.common.home, "/h");
    EXPECT_TRUE(parse.invocation.common.json);
  }
}

TEST(Parser, OptionsOfTheOthers) {
  const auto up = parsedAs<UpArgs>(
      {"up", "--port", "0", "--emulate", "4xT4", "--emulate", "[8xH100]", "--plain"});
  EXPECT_EQ(up.port, 0);
  EXPECT_EQ(up.emulate, (Words{"4xT4", "[8xH100]"}));
  EXPECT_TRUE(up.plain);
  EXPECT_EQ(parsedAs<SubmitArgs>({"submit", "-f", "-"}).source, "-");
  EXPECT_EQ(parsedAs<SubmitArgs>({"submit", "-"}).source, "-");
  EXPECT_EQ(parsedAs<SubmitArgs>({"submit", "dir"}).source, "dir");
  EXPECT_EQ(parsedAs<StopArgs>({"stop", "1", "two", "--grace", "5s"}).jobs, (Words{"1", "two"}));
  const auto logs =
      parsedAs<LogsArgs>({"logs", "digits", "-f", "--rank", "0", "--tail", "5", "-t"});
  EXPECT_TRUE(logs.follow && logs.timestamps);
  EXPECT_EQ(logs.rank, 0U);
  EXPECT_EQ(logs.tail, 5U);
  EXPECT_TRUE(parsedAs<FsckArgs>({"fsck", "--full"}).full);
  EXPECT_TRUE(parsedAs<BackupArgs>({"backup", "/d", "--with-key"}).withKey);
  EXPECT_EQ(parsedAs<RestoreArgs>({"restore", "/d"}).source, "/d");
  EXPECT_TRUE(parsedAs<DownArgs>({"down", "--stop-jobs"}).stopJobs);
  EXPECT_EQ(parsedAs<EventsArgs>({"events", "--from", "7", "--kind", "job.ended"}).from, 7U);
  static_cast<void>(parsedAs<VersionArgs>({"--version"}));
}

TEST(Parser, MistakesAreNamedWithWhatWasMeant) {
  EXPECT_EQ(refusal({"pss"}),
            "bole: unknown command 'pss'; did you mean 'ps'?\nsee 'bole --help'\n");
  EXPECT_EQ(
      refusal({"logs", "x", "--folow"}),
      "bole logs: unknown option '--folow'; did you mean '--follow'?\nsee 'bole logs --help'\n");
  EXPECT_NE(refusal({"run", "--gpu", "2", "--", "x"}).find("did you mean '--gpus'"),
            std::string::npos);
  EXPECT_NE(refusal({"ps", "extra"}).find("one argument too many: 'extra'"), std::string::npos);
  EXPECT_NE(refusal({"run", "-n", "0", "--", "x"}).find("--ntasks"), std::string::npos);
  EXPECT_NE(refusal({"up", "--port", "70000"}).find("--port"), std::string::npos);
  EXPECT_NE(refusal({"logs"}).find("JOB is required"), std::string::npos);
  EXPECT_NE(refusal({"completion", "tcsh"}).find("tcsh"), std::string::npos);
}

TEST(Parser, ANumberThatIsNoneIsNamedWithItsFlagAndRange) {
  EXPECT_EQ(refusal({"logs", "x", "--tail", "-1"}),
            "bole logs: --tail: out of range: found '-1', expected a whole number, 0 or more\n"
            "see 'bole logs --help'\n");
  EXPECT_EQ(refusal({"run", "--retries", "x", "--", "a"}),
            "bole run: --retries: not a whole number: found 'x', expected a whole number from 0 to "
            "1000000\nsee 'bole run --help'\n");
  const std::vector<std::pair<Words, std::string>> cases = {
      {{"run", "--retries", "-1", "--", "a"}, "--retries: out of range: found '-1'"},
      {{"run", "-n", "1e3", "--", "a"}, "--ntasks: not a whole number: found '1e3'"},
      {{"run", "-N", "65537", "--", "a"}, "--nodes: out of range: found '65537'"},
      {{"ps", "--limit", "0"}, "--limit: out of range: found '0'"},
      {{"ps", "--limit", "-1"}, "--limit: out of range: found '-1'"},
      {{"logs", "x", "--rank", "-1"}, "--rank: out of range: found '-1'"},
      {{"logs", "x", "--attempt", "x"}, "--attempt: not a whole number: found 'x'"},
      {{"logs", "x", "--attempt", "0"}, "--attempt: out of range: found '0'"},
      {{"events", "--from", "-1"}, "--from: out of range: found '-1'"},
      {{"events", "--limit", "10001"}, "--limit: out of range: found '10001'"},
      {{"up", "--port", "99999"},
       "--port: out of range: found '99999', expected a whole number "
       "from 0 to 65535"},
      {{"up", "--port", "99999999999999999999"}, "--port: out of range"}};
  for (const auto& [words, text] : cases) {
    EXPECT_NE(refusal(words).find(text), std::string::npos) << refusal(words);
  }
}

TEST(Parser, WhatCli11FindsIsSaidInOurWords) {
  EXPECT_EQ(refusal({"run", "--image"}),
            "bole run: --image: its value is missing: expected IMAGE\nsee 'bole run --help'\n");
  EXPECT_EQ(refusal({"ps", "--user", "a", "--user", "b"}),
            "bole ps: --user: given more than once\nsee 'bole ps --help'\n");
  EXPECT_EQ(refusal({"ps", "--all=maybe"}),
            "bole ps: --all: takes no value\nsee 'bole ps --help'\n");
  EXPECT_EQ(refusal({"completion", "tcsh"}),
            "bole completion: SHELL: there are no completions for this shell: found 'tcsh', "
            "expected bash, zsh or fish\nsee 'bole completion --help'\n");
  EXPECT_EQ(parseArguments({"completion", "-h"}).text.find('{'), std::string::npos);
  EXPECT_NE(refusal({"-v"}).find("did you mean 'bole version'?"), std::string::npos);
}

TEST(Parser, APolicyIsShownOrApplied) {
  EXPECT_FALSE(parsedAs<PolicyArgs>({"policy"}).apply);
  const auto args = parsedAs<PolicyArgs>({"policy", "apply", "lab.yaml", "--dry-run"});
  EXPECT_TRUE(args.apply && args.dryRun);
  EXPECT_EQ(args.file, "lab.yaml");
  EXPECT_EQ(parsedAs<PolicyArgs>({"policy", "--dry-run", "apply", "-"}).file, "-");
  EXPECT_EQ(refusal({"policy", "aply", "x"}),
            "bole policy: there is no such action: found 'aply', expected apply\n"
            "see 'bole policy --help'\n");
  EXPECT_EQ(refusal({"policy", "apply"}),
            "bole policy: no file to apply: 'bole policy apply FILE'\nsee 'bole policy --help'\n");
  EXPECT_EQ(refusal({"policy", "--dry-run"}),
            "bole policy: --dry-run: there is nothing to try: 'bole policy apply FILE'\n"
            "see 'bole policy --help'\n");
  EXPECT_EQ(refusal({"policy", "apply", "a", "b"}),
            "bole policy: one argument too many: 'b'\nsee 'bole policy --help'\n");
}

TEST(Parser, TwoSpecsAreOneTooMany) {
  EXPECT_EQ(refusal({"submit", "-f", "a", "b"}),
            "bole submit: two specs: found 'a' and 'b', expected one\n"
            "see 'bole submit --help'\n");
}

TEST(Parser, AnErrorIsTwoLinesAndHarmless) {
  for (const auto& words : {Words{"a\nb\x1b[2J"}, Words{"ps", "--x\ny"}, Words{"ps", "z\x1b"},
                            Words{"up", "--port", "\x1b[1"}}) {
    const auto text = refusal(words);
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2) << text;
    EXPECT_EQ(text.find('\x1b'), std::string::npos);
  }
}

TEST(Parser, EveryCommandHasHelpWithAnExampleThatParses) {
  std::set<std::string> names;
  for (const auto& command : describeCommands()) {
    names.insert(command.name);
    const auto help = parseArguments({command.name, "--help"});
    EXPECT_FALSE(help.complete);
    EXPECT_EQ(help.code, kExitOk);
    EXPECT_NE(help.text.find("Example:\n  " + command.example), std::string::npos) << command.name;
    EXPECT_EQ(help.text, parseArguments({"help", command.name}).text);
    EXPECT_EQ(help.text, parseArguments({command.name, "-h"}).text);
    if (command.name == "completion") continue;
    std::istringstream text(command.example);
    Words words;
    for (std::string word; text >> word;) words.push_back(word);
    ASSERT_EQ(words.at(0), "bole");
    words.erase(words.begin());
    EXPECT_EQ(words.at(0), command.name);
    EXPECT_TRUE(parseArguments(words).complete) << command.example << "\n"
                                                << parseArguments(words).text;
  }
  EXPECT_EQ(names, (std::set<std::string>{
                       "up",         "node",   "snapshot", "plan",   "down",  "status",  "run",
                       "submit",     "ps",     "show",     "why",    "logs",  "stop",    "attach",
                       "nodes",      "gpus",   "topo",     "events", "fsck",  "version", "support",
                       "completion", "backup", "restore",  "queues", "policy"}));
}

TEST(Parser, HelpFitsAScreen) {
  std::vector<std::string> helps{parseArguments({"--help"}).text};
  for (const auto& command : describeCommands())
    helps.push_back(parseArguments({command.name, "-h"}).text);
  for (const auto& help : helps) {
    std::istringstream lines(help);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(displayWidth(line), 110U) << line;
    EXPECT_EQ(help.find("\n\n\n"), std::string::npos) << help;
  }
}

// ---- completions, in the real shells

class Completion : public ::testing::Test {
 protected:
  std::string outputOf(const std::string& command) {
    std::string text;
    FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
    if (!pipe) return text;
    char buffer[4096];
    for (std::size_t got = 0; (got = ::fread(buffer, 1, sizeof buffer, pipe)) > 0;)
      text.append(buffer, got);
    ::pclose(pipe);
    return text;
  }
  [[nodiscard]] bool has(const std::string& shell) {
    return !outputOf("command -v " + shell).empty();
  }

  std::string script(const std::string& shell) {
    directory_.write(shell, completionScript(shell, describeCommands()));
    return directory_ / shell;
  }
  // What bash offers for these words, the last of which is being typed.
  std::string offeredByBash(const std::string& words, int count) {
    return outputOf(
        "bash --norc --noprofile -c 'set -u; bole() { "
        "[[ \"$1\" != queues ]] || { printf \"QUEUE\\ndefault\\n  vision\\n\"; return; }; "
        "printf \"JOB NAME\\n7 digits\\n\"; "
        "[[ \"$*\" != *--all* ]] || printf \"3 done\\n\"; }; "
        "source " +
        script("bash") + "; COMP_WORDS=(" + words + "); COMP_CWORD=" + std::to_string(count - 1) +
        "; _bole; echo \"${COMPREPLY[*]}\"'");
  }

  testing::TempDirectory directory_;
};

TEST_F(Completion, Bash) {
  ASSERT_TRUE(has("bash"));
  EXPECT_EQ(offeredByBash("bole su", 2), "submit support\n");
  EXPECT_EQ(offeredByBash("bole logs --fo", 3), "--follow\n");
  EXPECT_EQ(offeredByBash("bole logs di", 3), "digits\n");
  EXPECT_EQ(offeredByBash("bole logs do", 3), "done\n");
  EXPECT_EQ(offeredByBash("bole stop d", 3), "digits\n") << "one that has ended is not to stop";
  EXPECT_EQ(offeredByBash("bole attach do", 3), "\n");
  EXPECT_EQ(offeredByBash("bole ps --state f", 4), "failed\n");
  EXPECT_EQ(offeredByBash("bole completion z", 3), "zsh\n");
  EXPECT_EQ(offeredByBash("bole help wh", 3), "why\n");
  EXPECT_EQ(offeredByBash("bole que", 2), "queues\n");
  EXPECT_EQ(offeredByBash("bole policy app", 3), "apply\n");
  EXPECT_EQ(offeredByBash("bole policy apply --dr", 4), "--dry-run\n");
  EXPECT_EQ(offeredByBash("bole run --queue v", 4), "vision\n");
  EXPECT_EQ(outputOf("bash -n " + script("bash")), "");
  EXPECT_NE(outputOf("bash --norc -c 'source " + script("bash") + "; complete -p bole'")
                .find("-F _bole bole"),
            std::string::npos);
}

TEST_F(Completion, Zsh) {
  if (!has("zsh")) GTEST_SKIP() << "no zsh here";
  EXPECT_EQ(outputOf("zsh -f -c 'autoload -Uz compinit; compinit -u -D; source " + script("zsh") +
                     "; print $_comps[bole]'"),
            "_bole\n");
}

TEST_F(Completion, Fish) {
  if (!has("fish")) GTEST_SKIP() << "no fish here";
  const auto offered = [&](const std::string& line) {
    return outputOf("HOME=" + directory_.path() + " fish --no-config -c 'source " + script("fish") +
                    "; function bole; printf \"JOB NAME\\n7 digits\\n\"; end; complete -C \"" +
                    line + "\"'");
  };
  EXPECT_NE(offered("bole su").find("submit"), std::string::npos) << offered("bole su");
  EXPECT_NE(offered("bole logs --fo").find("--follow"), std::string::npos)
      << offered("bole logs --fo");
  EXPECT_NE(offered("bole logs d").find("digits"), std::string::npos) << offered("bole logs d");
}

}  // namespace
}  // namespace bole::cli
