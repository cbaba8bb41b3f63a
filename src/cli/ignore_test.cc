#include "cli/ignore.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstdio>
#include <set>

#include "cli/pack.h"
#include "cli/testing/program.h"

namespace bole::cli {
namespace {

using testing::TempDirectory;

bool ignored(const std::string& rules, const std::string& path, bool isDirectory = false) {
  IgnoreRules set;
  set.add("", rules);
  return set.ignores(path, isDirectory);
}

TEST(Ignore, NamesMatchAnywhere) {
  EXPECT_TRUE(ignored("*.o", "a.o"));
  EXPECT_TRUE(ignored("*.o", "src/deep/a.o"));
  EXPECT_FALSE(ignored("*.o", "a.oo"));
  EXPECT_TRUE(ignored("data[0-9]", "x/data7"));
  EXPECT_FALSE(ignored("data[!0-9]", "data7"));
  EXPECT_TRUE(ignored("?x", "ax"));
}

TEST(Ignore, ASlashTiesToThePlace) {
  EXPECT_TRUE(ignored("/build", "build", true));
  EXPECT_FALSE(ignored("/build", "src/build", true));
  EXPECT_TRUE(ignored("src/*.o", "src/a.o"));
  EXPECT_FALSE(ignored("src/*.o", "src/deep/a.o"));
  EXPECT_FALSE(ignored("src/*.o", "x/src/a.o"));
}

TEST(Ignore, ASlashAtTheEndIsForDirectories) {
  EXPECT_TRUE(ignored("out/", "a/out", true));
  EXPECT_FALSE(ignored("out/", "a/out", false));
}

TEST(Ignore, TwoStarsAreAnyDirectories) {
  EXPECT_TRUE(ignored("**/logs", "logs"));
  EXPECT_TRUE(ignored("**/logs", "a/b/logs"));
  EXPECT_TRUE(ignored("a/**/z", "a/z"));
  EXPECT_TRUE(ignored("a/**/z", "a/b/c/z"));
  EXPECT_TRUE(ignored("a/**", "a/b/c"));
  EXPECT_FALSE(ignored("a/**", "a", true));
  EXPECT_FALSE(ignored("a/**/z", "b/a/z"));
}

TEST(Ignore, TheLastRuleDecides) {
  EXPECT_FALSE(ignored("*.log\n!keep.log", "keep.log"));
  EXPECT_TRUE(ignored("!keep.log\n*.log", "keep.log"));
  EXPECT_TRUE(ignored("*.log\n!keep.log", "other.log"));
}

TEST(Ignore, CommentsSpacesAndEscapes) {
  EXPECT_FALSE(ignored("# *.o\n\n", "a.o"));
  EXPECT_TRUE(ignored("\\#x", "#x"));
  EXPECT_TRUE(ignored("\\!x", "!x"));
  EXPECT_TRUE(ignored("a.o   ", "a.o"));
  EXPECT_TRUE(ignored("a\\ ", "a "));
  EXPECT_TRUE(ignored("a.o\r\n", "a.o"));
  EXPECT_FALSE(ignored("/", "a"));
}

TEST(Ignore, NestedRulesAreAboutTheirOwnDirectory) {
  IgnoreRules rules;
  rules.add("", "*.bin");
  const auto before = rules.size();
  rules.add("keep", "!*.bin\n/only");
  EXPECT_FALSE(rules.ignores("keep/a.bin", false));
  EXPECT_TRUE(rules.ignores("a.bin", false));
  EXPECT_TRUE(rules.ignores("keep/only", false));
  EXPECT_FALSE(rules.ignores("only", false));
  EXPECT_FALSE(rules.ignores("keeper/only", false));
  rules.shrink(before);
  EXPECT_TRUE(rules.ignores("keep/a.bin", false));
}

// ---- against git itself

std::string outputOf(const std::string& command) {
  std::string text;
  FILE* pipe = ::popen(command.c_str(), "r");
  if (!pipe) return text;
  char buffer[4096];
  for (std::size_t got = 0; (got = ::fread(buffer, 1, sizeof buffer, pipe)) > 0;)
    text.append(buffer, got);
  ::pclose(pipe);
  return text;
}

std::set<std::string> splitAtNul(const std::string& text) {
  std::set<std::string> parts;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find('\0', at), text.size());
    parts.insert(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

std::set<std::string> keptByGit(const std::string& directory) {
  return splitAtNul(
      outputOf("cd " + directory +
               " && git -c core.excludesFile=/dev/null ls-files -z --others --exclude-standard"));
}

std::set<std::string> keptByUs(const std::string& directory) {
  PackRequest request;
  request.directory = directory;
  const auto listing = listFiles(request);
  std::set<std::string> files;
  if (!listing) {
    ADD_FAILURE() << listing.error().message();
    return files;
  }
  for (const auto& entry : listing->entries) {
    if (!S_ISDIR(entry.mode)) files.insert(entry.path);
  }
  return files;
}

rc::Gen<std::string> anyPattern() {
  const auto piece = rc::gen::element<std::string>("a", "b", "c", "*", "**", "?", "a*", "*.o",
                                                   "[ab]", "[!a]", "b.o", "\\a");
  return rc::gen::map(
      rc::gen::tuple(rc::gen::element<std::string>("", "", "!", "/", "!/"),
                     rc::gen::resize(
                         3, rc::gen::nonEmpty(rc::gen::container<std::vector<std::string>>(piece))),
                     rc::gen::element<std::string>("", "", "/", " ")),
      [](const std::tuple<std::string, std::vector<std::string>, std::string>& parts) {
        std::string text = std::get<0>(parts);
        for (const auto& part : std::get<1>(parts))
          text += (text.empty() || text.back() == '!' || text.back() == '/' ? "" : "/") + part;
        return text + std::get<2>(parts);
      });
}

// Away with everything but .git.
void emptyOut(const std::string& directory) {
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (entry.path().filename() != ".git") std::filesystem::remove_all(entry.path());
  }
}

RC_GTEST_PROP(Ignore, AgreesWithGit, ()) {
  static const TempDirectory
      directory;  // one repository for all, for making it costs more than asking it
  static const bool hasGit = !outputOf("git --version 2>/dev/null").empty() &&
                             outputOf("git init -q " + directory.path() + " 2>&1").empty();
  if (!hasGit) RC_SUCCEED("no git here");
  emptyOut(directory.path());
  const auto name = rc::gen::element<std::string>("a", "b", "c", "a.o", "b.o");
  for (int i = 0; i < 12; ++i) {
    const auto path =
        *rc::gen::resize(3, rc::gen::nonEmpty(rc::gen::container<std::vector<std::string>>(name)));
    std::string joined;
    for (const auto& part : path) {
      // What is a file already cannot be a directory.
      if (!joined.empty() && std::filesystem::is_regular_file(directory / joined)) break;
      joined += (joined.empty() ? "" : "/") + part;
    }
    if (!std::filesystem::exists(directory / joined)) directory.write(joined, "x");
  }
  std::string shown;
  for (const auto* place : {"", "a/", "b/"}) {
    if (*place != '\0' && !std::filesystem::is_directory(directory / place)) continue;
    std::string rules;
    for (const auto& line :
         *rc::gen::resize(4, rc::gen::container<std::vector<std::string>>(anyPattern())))
      rules += line + "\n";
    directory.write(std::string(place) + ".gitignore", rules);
    shown += std::string(place) + ".gitignore:\n" + rules;
  }
  RC_LOG() << shown;
  RC_ASSERT(keptByUs(directory.path()) == keptByGit(directory.path()));
}

}  // namespace
}  // namespace bole::cli
