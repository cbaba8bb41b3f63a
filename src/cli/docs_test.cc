// The pages that show commands: every command and every flag on them is one that there is.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "cli/parser.h"

namespace bole::cli {
namespace {

using Flags = std::map<std::string, std::set<std::string>>;  // of each command

Flags knownFlags() {
  Flags known;
  for (const auto& command : describeCommands()) {
    auto& flags = known[command.name];
    for (const auto& option : command.options)
      flags.insert(option.names.begin(), option.names.end());
  }
  return known;
}

// What stands between backticks, and whole lines of shell blocks.
std::vector<std::string> codeOf(const std::string& page) {
  std::ifstream file(std::string(CLI_DOCS) + "/" + page);
  EXPECT_TRUE(file) << page;
  std::vector<std::string> code;
  bool block = false;
  bool shell = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("```")) {
      block = !block;
      shell = block && line == "```sh";
      continue;
    }
    if (shell) code.push_back(line.substr(0, line.find(" #")));
    if (block) continue;
    for (auto at = line.find('`'); at != std::string::npos;) {
      const auto end = line.find('`', at + 1);
      if (end == std::string::npos) break;
      code.push_back(line.substr(at + 1, end - at - 1));
      at = line.find('`', end + 1);
    }
  }
  return code;
}

// "[--grace TIME]" is --grace; "-n," is -n; "--wait=5s" is --wait.
std::string flagIn(std::string word) {
  word.erase(0, word.find_first_not_of("[(\"'"));
  return word.substr(0, word.find_first_of("],)=|\\\"'"));
}

// The first word that `known` lacks; "" where all are there.
std::string strange(const Flags& known, const std::string& command, std::istringstream& words) {
  for (std::string word; words >> word && word != "--" && word != "|";) {
    const auto flag = flagIn(word);
    if (flag.size() < 2 || flag.front() != '-' || flag == "-") continue;
    const auto second = flag[1];
    if (second >= '0' && second <= '9') continue;
    if (!known.at(command).contains(flag)) return flag;
  }
  return "";
}

TEST(CliDocs, CommandsAndTheirFlagsExist) {
  const auto known = knownFlags();
  int seen = 0;
  for (const std::string page : {"cli.md", "quickstart.md", "operators.md", "emulated-gpus.md",
                                 "exit-codes.md", "api.md", "spec.md", "volcano.md", "queues.md"}) {
    for (const auto& code : codeOf(page)) {
      std::istringstream words(code);
      std::string command;
      words >> command;
      const bool named = command == "bole";
      if (named && !(words >> command)) continue;
      if (!known.contains(command)) {
        const bool word =
            !command.empty() && std::all_of(command.begin(), command.end(),
                                            [](char c) { return c >= 'a' && c <= 'z'; });
        EXPECT_FALSE(named && word) << page << ": no such command: " << code;
        continue;
      }
      ++seen;
      EXPECT_EQ(strange(known, command, words), "") << page << ": `" << code << "`";
    }
  }
  EXPECT_GE(seen, 50);
}

// Flags that stand alone on the page of the command line are some command's.
TEST(CliDocs, FlagsNamedAloneExist) {
  std::set<std::string> all = {"--version"};
  for (const auto& [command, flags] : knownFlags()) all.insert(flags.begin(), flags.end());
  int seen = 0;
  for (const auto& code : codeOf("cli.md")) {
    std::istringstream words(code);
    for (std::string word; words >> word && code.front() == '-';) {
      const auto flag = flagIn(word);
      if (flag.size() < 2 || flag.front() != '-' || flag == "--") continue;
      ++seen;
      EXPECT_TRUE(all.contains(flag)) << "`" << code << "`";
    }
  }
  EXPECT_GE(seen, 20);
}

// The table of `run` has all of its flags, and every command stands on the page.
TEST(CliDocs, ThePageIsWhole) {
  std::set<std::string> words;
  for (const auto& code : codeOf("cli.md")) {
    std::istringstream text(code);
    for (std::string word; text >> word;) words.insert(flagIn(word));
  }
  const std::set<std::string> inHelpAlone = {"-h",        "--help",     "--json",      "--dry-run",
                                             "--project", "--priority", "--no-upload", "--raw"};
  for (const auto& command : describeCommands()) {
    EXPECT_TRUE(words.contains(command.name)) << command.name;
    if (command.name != "run") continue;
    for (const auto& option : command.options) {
      for (const auto& name : option.names)
        EXPECT_TRUE(words.contains(name) || inHelpAlone.contains(name)) << "run " << name;
    }
  }
}

}  // namespace
}  // namespace bole::cli
