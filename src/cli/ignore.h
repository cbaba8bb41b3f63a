// Which files of a directory are left out, by the rules of .gitignore
// (https://git-scm.com/docs/gitignore).
//
// Pure: the text of each file is handed in. Differences from git: files that git tracks although
// they match are left out too, for nothing here knows git's index, and a user's global excludes do
// not count.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace bole::cli {

class IgnoreRules {
 public:
  // Adds the rules of the .gitignore in `directory` ("" is the top; "a/b" otherwise). Deeper ones
  // must come later: the last rule that matches decides.
  void add(std::string_view directory, std::string_view text);

  // `path` is relative to the top, without "./" or a '/' at its end. What lies in a directory that
  // is ignored is not asked about: nothing can bring it back.
  [[nodiscard]] bool ignores(std::string_view path, bool isDirectory) const;

  // For going back up: how many rules there are, and away with those after the first `count`.
  [[nodiscard]] std::size_t size() const { return rules_.size(); }
  void shrink(std::size_t count) { rules_.resize(count); }

 private:
  struct Rule {
    std::string directory;              // where it stands
    std::vector<std::string> segments;  // of the pattern; "**" is any number of them
    bool negated = false;
    bool directoriesOnly = false;
    bool anywhere = false;  // no '/' in the pattern: it is about the name alone
  };
  [[nodiscard]] static bool parse(std::string_view line, Rule& rule);
  [[nodiscard]] static bool matches(const Rule& rule, std::string_view path, bool isDirectory);

  std::vector<Rule> rules_;
};

}  // namespace bole::cli
