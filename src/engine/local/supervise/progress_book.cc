#include "engine/local/supervise/progress_book.h"

namespace bole::supervise {

namespace {

constexpr std::string_view kProgressLine = "BOLE progress ";
constexpr std::string_view kCheckpointLine = "BOLE checkpoint ";
constexpr std::size_t kMaxPairs = 64;
constexpr std::size_t kMaxCheckpoints = 64;

bool isSpace(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

bool startsWith(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

}  // namespace

std::optional<ProgressValues> parseProgressValues(std::string_view text) {
  ProgressValues values;
  std::size_t at = 0;
  while (at < text.size()) {
    if (isSpace(text[at])) {
      ++at;
      continue;
    }
    auto end = at;
    while (end < text.size() && !isSpace(text[end])) ++end;
    const auto word = text.substr(at, end - at);
    const auto equals = word.find('=');
    if (equals == 0 || equals == std::string_view::npos || values.size() == kMaxPairs) {
      return std::nullopt;
    }
    values.emplace_back(word.substr(0, equals), word.substr(equals + 1));
    at = end;
  }
  if (values.empty()) return std::nullopt;
  return values;
}

bool ProgressBook::takeLine(std::uint32_t rank, std::string_view line, Timestamp now) {
  if (startsWith(line, kProgressLine)) {
    return takeFile(rank, line.substr(kProgressLine.size()), now);
  }
  if (!startsWith(line, kCheckpointLine)) return false;
  auto values = parseProgressValues(line.substr(kCheckpointLine.size()));
  if (!values) return false;
  CheckpointReport report;
  report.rank = rank;
  report.at = now;
  for (auto& [key, value] : *values) {
    if (key == "path")
      report.path = value;
    else
      report.values.emplace_back(std::move(key), std::move(value));
  }
  if (report.path.empty()) return false;
  if (checkpoints_.size() == kMaxCheckpoints) checkpoints_.erase(checkpoints_.begin());
  checkpoints_.push_back(std::move(report));
  return true;
}

bool ProgressBook::takeFile(std::uint32_t rank, std::string_view content, Timestamp now) {
  auto values = parseProgressValues(content);
  if (!values) return false;
  auto& kept = ranks_[rank];
  if (kept.values == *values) return false;
  kept = RankProgress{rank, now, std::move(*values)};
  return true;
}

Progress ProgressBook::snapshot() const {
  Progress progress;
  for (const auto& [rank, report] : ranks_) progress.ranks.push_back(report);
  progress.checkpoints = checkpoints_;
  return progress;
}

}  // namespace bole::supervise
