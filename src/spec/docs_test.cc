// The pages that say what may be written: every example on them is read, every table of a small
// grammar is true, every field has its line.
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <map>
#include <sstream>

#include "spec/grammar.h"
#include "spec/policy.h"
#include "spec/spec.h"

namespace bole::spec {
namespace {

std::vector<std::string> linesOf(const std::string& page) {
  std::ifstream file(std::string(SPEC_DOCS) + "/" + page);
  EXPECT_TRUE(file) << page;
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

struct Block {
  std::size_t line = 0;  // of the page
  std::string text;
  std::string warnings;  // of the text block that follows it
};

// The ```yaml blocks; a ```text block behind one has the warnings it is answered with.
std::vector<Block> blocksOf(const std::string& page, const std::string& opening = "```yaml") {
  std::vector<Block> blocks;
  std::string* open = nullptr;
  std::size_t number = 0;
  for (const auto& line : linesOf(page)) {
    ++number;
    if (open && line == "```") {
      open = nullptr;
    } else if (open) {
      *open += line + "\n";
    } else if (line == opening) {
      blocks.push_back({number, "", ""});
      open = &blocks.back().text;
    } else if (line == "```text" && !blocks.empty()) {
      open = &blocks.back().warnings;
    }
  }
  EXPECT_EQ(open, nullptr) << page << ": a block that does not end";
  return blocks;
}

Result<ParsedFile> parse(const std::string& text, const std::string& name) {
  ParseContext context;
  context.directory = "/home/ada/job";
  context.user = "ada";
  context.upload = std::string(64, 'a');
  context.env = {{"HF_TOKEN", "x"}, {"WANDB_API_KEY", "y"}};
  return parseSpec({text, name}, context);
}

void expectRead(const std::string& page, const std::string& name, std::size_t least) {
  const auto blocks = blocksOf(page);
  EXPECT_GE(blocks.size(), least) << page;
  for (const auto& block : blocks) {
    SCOPED_TRACE(page + ":" + std::to_string(block.line));
    const auto parsed = parse(block.text, name);
    ASSERT_TRUE(parsed) << parsed.error().message();
    EXPECT_TRUE(parsed->missingEnv.empty());
    std::string warnings;
    for (const auto& job : parsed->jobs) {
      for (const auto& warning : job.warnings) warnings += warning + "\n";
    }
    EXPECT_EQ(warnings, block.warnings);
  }
}

TEST(SpecDocs, EveryExampleOfSpecIsRead) {
  expectRead("spec.md", "bole.yaml", 9);
}

TEST(SpecDocs, EveryExampleOfVolcanoIsRead) {
  expectRead("volcano.md", "job.yaml", 4);
}

TEST(SpecDocs, EveryExampleOfTheQuickStartIsRead) {
  expectRead("quickstart.md", "bole.yaml", 1);
}

TEST(SpecDocs, EveryPolicyIsRead) {
  const auto blocks = blocksOf("queues.md", "```yaml policy");
  EXPECT_GE(blocks.size(), 1u);
  for (const auto& block : blocks) {
    SCOPED_TRACE("queues.md:" + std::to_string(block.line));
    const auto parsed = parsePolicy({block.text, "policy.yaml"});
    ASSERT_TRUE(parsed) << parsed.error().message();
    EXPECT_TRUE(parsed->warnings.empty());
  }
}

// The cells between bars, without their quotes: "| `2` | two |" is {"2", "two"}.
std::vector<std::string> cellsOf(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream text(line.substr(1));
  for (std::string cell; std::getline(text, cell, '|');) {
    const auto begin = cell.find_first_not_of(" `");
    const auto end = cell.find_last_not_of(" `");
    cells.push_back(begin == std::string::npos ? "" : cell.substr(begin, end - begin + 1));
  }
  return cells;
}

TEST(SpecDocs, TablesOfSmallGrammarsAreTrue) {
  const auto read = [](auto parser) {
    return [parser](const std::string& text) { return parser(text).has_value(); };
  };
  const std::map<std::string, std::function<bool(const std::string&)>> readers = {
      {"GPUs", read(parseGpuRequest)},
      {"time", read(parseDuration)},
      {"size", read(parseSize)},
      {"CPUs", read(parseCpus)},
      {"restart", [](const std::string& text) {
         return parse("name: x\ncommand: x\nrestart: " + text + "\n", "bole.yaml").has_value();
       }}};
  constexpr std::string_view kRefused = " that is refused";
  constexpr std::string_view kAllRefused = " that are refused";
  std::map<std::string, int> rows;
  std::string title;
  for (const auto& line : linesOf("spec.md")) {
    if (!line.starts_with('|')) {
      title.clear();
      continue;
    }
    const auto first = cellsOf(line)[0];
    if (title.empty()) {
      title = first;
      continue;
    }
    auto what = title;
    bool expected = true;
    for (const auto suffix : {kRefused, kAllRefused}) {
      if (!what.ends_with(suffix)) continue;
      what.resize(what.size() - suffix.size());
      expected = false;
    }
    if (!readers.contains(what) || first.starts_with("--")) continue;
    ++rows[title];
    EXPECT_EQ(readers.at(what)(first), expected) << title << ": " << first;
  }
  for (const auto& [name, reader] : readers) EXPECT_GE(rows[name], 3) << name;
}

// Every field that the parser knows, as it says itself, has a line in the tables.
TEST(SpecDocs, EveryFieldHasItsLine) {
  std::map<std::string, bool> documented;
  for (const auto& line : linesOf("spec.md")) {
    if (line.starts_with("| `")) documented[cellsOf(line)[0]] = true;
  }
  for (const auto* text : {"zebra: 1\n", "name: x\ntasks: [{zebra: 1}]\n"}) {
    const auto parsed = parse(text, "bole.yaml");
    ASSERT_FALSE(parsed);
    std::string list = parsed.error().expected;
    ASSERT_NE(list.find("command"), std::string::npos) << list;
    if (const auto last = list.rfind(" or "); last != std::string::npos)
      list.replace(last, 4, ", ");
    std::istringstream names(list);
    for (std::string name; std::getline(names, name, ',');) {
      name.erase(0, name.find_first_not_of(' '));
      EXPECT_TRUE(documented[name]) << "docs/spec.md has no line for the field '" << name << "'";
    }
  }
}

TEST(SpecDocs, TheVolcanoExampleIsHonouredWhole) {
  std::ifstream file(std::string(SPEC_EXAMPLES) + "/volcano/job.yaml");
  std::ostringstream text;
  text << file.rdbuf();
  const auto parsed = parse(text.str(), "job.yaml");
  ASSERT_TRUE(parsed) << parsed.error().message();
  ASSERT_EQ(parsed->jobs.size(), 1U);
  EXPECT_TRUE(parsed->jobs[0].warnings.empty()) << parsed->jobs[0].warnings[0];
  EXPECT_EQ(parsed->jobs[0].spec.shape.minAvailable, 4U);
}

}  // namespace
}  // namespace bole::spec
