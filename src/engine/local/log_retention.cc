#include "engine/local/log_retention.h"

#include <charconv>
#include <filesystem>

#include "engine/local/files.h"

namespace bole::engine {

void LogRetention::scan() {
  std::error_code error;
  for (std::filesystem::directory_iterator at(layout_.attempts(), error), end; !error && at != end;
       at.increment(error)) {
    const auto name = at->path().filename().string();
    std::uint64_t id = 0;
    const auto [last, wrong] = std::from_chars(name.data(), name.data() + name.size(), id);
    if (wrong != std::errc() || last != name.data() + name.size() || id == 0) continue;
    const auto path = at->path().string();
    // Whatever has more than logs and a claim is not forgotten yet.
    bool forgotten = true;
    std::error_code inner;
    for (std::filesystem::directory_iterator in(path, inner), none; !inner && in != none;
         in.increment(inner)) {
      const auto entry = in->path().filename().string();
      forgotten = forgotten && (entry == "log" || entry == "claim");
    }
    if (!forgotten || inner) continue;
    const auto bytes = sizeOfTree(path, "log");
    kept_[AttemptId(id)] = bytes;
    total_ += bytes;
  }
  trim();
}

Result<void> LogRetention::keepOnlyLogs(AttemptId attempt) {
  const auto directory = layout_.attempt(attempt);
  BOLE_TRY(removeTreeBut(directory, "log", "claim"));
  if (!exists(directory) || kept_.count(attempt) > 0) return {};
  const auto bytes = sizeOfTree(directory, "log");
  kept_[attempt] = bytes;
  total_ += bytes;
  trim();
  return {};
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
