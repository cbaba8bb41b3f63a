#include "engine/local/log_retention.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "engine/local/files.h"

namespace bole::engine {

namespace {

constexpr std::size_t kMostLogEntries = 1'000'000;  // of one attempt: 65,536 ranks with a few each

Bytes sizeOfLogs(const std::string& attemptDirectory) {
  auto entries = kMostLogEntries;
  return sizeOfTree(attemptDirectory, "log", entries).value_or(Bytes(0));
}

// The names in a directory that are numbers, in order.
std::vector<std::uint64_t> numbersIn(const std::string& directory) {
  std::vector<std::uint64_t> found;
  std::error_code error;
  for (std::filesystem::directory_iterator at(directory, error), end; !error && at != end;
       at.increment(error)) {
    const auto name = at->path().filename().string();
    std::uint64_t number = 0;
    const auto* last = name.data() + name.size();
    const auto [stopped, wrong] = std::from_chars(name.data(), last, number);
    if (wrong == std::errc() && stopped == last && number != 0) found.push_back(number);
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

bool isForgotten(const std::string& attemptDirectory) {
  std::error_code error;
  for (std::filesystem::directory_iterator at(attemptDirectory, error), end; !error && at != end;
       at.increment(error)) {
    const auto entry = at->path().filename().string();
    if (entry != "log" && entry != "claim") return false;
  }
  return !error;
}

std::uint64_t highestNumberIn(const std::string& directory) {
  const auto numbers = numbersIn(directory);
  return numbers.empty() ? 0 : numbers.back();
}

std::vector<AttemptId> attemptsOnDisk(const Layout& layout) {
  std::vector<AttemptId> found;
  for (const auto number : numbersIn(layout.attempts())) found.emplace_back(number);
  return found;
}

void LogRetention::scan() {
  for (const auto id : attemptsOnDisk(layout_)) {
    if (isForgotten(layout_.attempt(id))) keep(id);
  }
  trim();
}

Result<void> LogRetention::keepOnlyLogs(AttemptId attempt) {
  const auto directory = layout_.attempt(attempt);
  BOLE_TRY(removeTreeBut(directory, "log", "claim"));
  if (exists(directory)) keep(attempt);
  trim();
  return {};
}

void LogRetention::keep(AttemptId attempt) {
  const auto bytes = sizeOfLogs(layout_.attempt(attempt));
  auto& known = kept_[attempt];
  total_ += bytes - known;
  known = bytes;
}

void LogRetention::trim() {
  while (!kept_.empty() && (kept_.size() > limits_.attempts || total_ > limits_.bytes)) {
    const auto oldest = kept_.begin();
    // What cannot be removed is not tried for ever: the next scan finds it again.
    static_cast<void>(removeTree(layout_.attempt(oldest->first)));
    total_ -= oldest->second;
    kept_.erase(oldest);
  }
}

}  // namespace bole::engine
