#include "cli/ignore.h"

#include <fnmatch.h>

#include <algorithm>

namespace bole::cli {
namespace {

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> parts;
  while (true) {
    const auto end = text.find('/');
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

// Spaces at the end do not count unless they are quoted with a backslash.
std::string_view withoutTrailingSpaces(std::string_view line) {
  while (line.ends_with(' ')) {
    std::size_t backslashes = 0;
    while (backslashes + 1 < line.size() && line[line.size() - 2 - backslashes] == '\\')
      ++backslashes;
    if (backslashes % 2 == 1) break;
    line.remove_suffix(1);
  }
  return line;
}

bool segmentMatches(const std::string& pattern, const std::string& name) {
  return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

// reached[j]: the pattern so far matches the first j names.
bool pathMatches(const std::vector<std::string>& pattern, const std::vector<std::string>& names) {
  std::vector<bool> reached(names.size() + 1, false);
  reached[0] = true;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    std::vector<bool> next(names.size() + 1, false);
    const bool any = pattern[i] == "**";
    const bool last = i + 1 == pattern.size();
    for (std::size_t j = 0; j <= names.size(); ++j) {
      if (!any) next[j] = j > 0 && reached[j - 1] && segmentMatches(pattern[i], names[j - 1]);
      // "a/**" is what lies in a, not a itself; elsewhere "**" may stand for nothing.
      else
        next[j] = (j > 0 && (next[j - 1] || reached[j - 1])) || (!last && reached[j]);
    }
    reached = std::move(next);
  }
  return reached[names.size()];
}

}  // namespace

bool IgnoreRules::parse(std::string_view line, Rule& rule) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (line.starts_with('#')) return false;
  line = withoutTrailingSpaces(line);
  if (line.starts_with('!')) {
    rule.negated = true;
    line.remove_prefix(1);
  }
  if (line.ends_with('/')) {
    rule.directoriesOnly = true;
    line.remove_suffix(1);
  }
  rule.anywhere = line.find('/') == std::string_view::npos;
  if (line.starts_with('/')) line.remove_prefix(1);
  if (line.empty()) return false;
  rule.segments = split(line);
  return true;
}

void IgnoreRules::add(std::string_view directory, std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    Rule rule;
    rule.directory = directory;
    if (parse(text.substr(0, end), rule)) rules_.push_back(std::move(rule));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

bool IgnoreRules::matches(const Rule& rule, std::string_view path, bool isDirectory) {
  if (rule.directoriesOnly && !isDirectory) return false;
  if (!rule.directory.empty()) {
    if (!path.starts_with(rule.directory) || path.size() <= rule.directory.size() ||
        path[rule.directory.size()] != '/') {
      return false;
    }
    path.remove_prefix(rule.directory.size() + 1);
  }
  if (rule.anywhere) {
    return segmentMatches(rule.segments.front(), std::string(path.substr(path.rfind('/') + 1)));
  }
  return pathMatches(rule.segments, split(path));
}

bool IgnoreRules::ignores(std::string_view path, bool isDirectory) const {
  for (auto rule = rules_.rbegin(); rule != rules_.rend(); ++rule) {
    if (matches(*rule, path, isDirectory)) return !rule->negated;
  }
  return false;
}

}  // namespace bole::cli
