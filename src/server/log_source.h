// Where the server reads the output of ranks from. The local engine's log files stand behind it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "model/views.h"

namespace bole::server {

struct LogQuery {
  AttemptId attempt;
  std::optional<std::uint32_t> rank;  // none: all, merged in the order of time
  Timestamp since;                    // lines from this time on
  std::optional<std::size_t> tail;    // only the newest so many of them
};

// What a cursor found: lines in order, and how many were gone before they could be read (rotated).
struct LogChunk {
  std::vector<model::LogLineView> lines;
  std::uint64_t lost = 0;
  bool more = false;  // there is more to be had at once
};

// Reads on where it stopped. One thread at a time.
class LogCursor {
 public:
  virtual ~LogCursor() = default;

  // What there is now, at most about `maxBytes` of text; nothing new: no lines. Never waits for
  // more.
  [[nodiscard]] virtual Result<LogChunk> next(std::size_t maxBytes) = 0;

  // Where it stands, for LogSource::follow() later on, by this process or another: short printable
  // text without line ends. Not empty, also before the first next(). Behind one position the lines
  // of one rank always come in the same order; how ranks are merged may differ.
  [[nodiscard]] virtual std::string position() const = 0;
};

inline constexpr std::size_t kMaxPageBytes = 16 * 1024 * 1024;

// Files are read, so every call may block; from several threads at once.
class LogSource {
 public:
  virtual ~LogSource() = default;

  // At most the newest `maxLines` of what the query selects, and of these the newest of about
  // kMaxPageBytes, oldest first. An attempt that wrote nothing yet has no lines; that is no error.
  [[nodiscard]] virtual Result<model::LogPage> page(const LogQuery& query,
                                                    std::size_t maxLines) = 0;

  // A cursor at the first line that the query selects, or behind `position` where that is not
  // empty. A position comes back from outside: nothing in it is to be trusted. kInvalid: no such
  // position.
  [[nodiscard]] virtual Result<std::unique_ptr<LogCursor>> follow(const LogQuery& query,
                                                                  const std::string& position) = 0;
};

}  // namespace bole::server
