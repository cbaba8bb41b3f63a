// Reads the output of an attempt's ranks: pages of it, and cursors that follow it while it is
// written and rotated.
//
// Lines of several ranks are merged in the order of their times; lines of one rank keep their order
// whatever the clock did. Works without the engine, before, during and after the attempt. Files are
// read, so every call may block; from several threads at once, but each cursor from one at a time.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/local/layout.h"
#include "engine/local/log_files.h"
#include "model/views.h"

namespace bole::engine {

struct LogQuery {
  AttemptId attempt;
  std::optional<std::uint32_t> rank;  // none: all
  Timestamp since;                    // lines from this time on
  std::optional<std::size_t> tail;    // only the newest so many of them
};

struct LogChunk {
  std::vector<model::LogLineView> lines;
  // Gaps: places where a file was rotated away before it could be read. How many lines it had,
  // nobody can know.
  std::uint64_t lost = 0;
  bool more = false;  // there is more to be had at once
};

class LogCursor {
 public:
  // What there is now, at most about `maxBytes` of text; nothing new: no lines. Never waits for
  // more.
  [[nodiscard]] Result<LogChunk> next(std::size_t maxBytes);

  // Where it stands, for LogReader::follow() later on, by this process or another: printable text
  // without spaces. A new reader goes on with exactly the next line of each rank.
  [[nodiscard]] std::string position() const;

 private:
  friend class LogReader;
  struct Line {
    Timestamp at;
    const char* stream = "out";
    std::string text;
    std::int64_t end = 0;  // offset of what follows it
  };
  // Where one rank is read: `offset` is the start of the next line that was not given out.
  struct Place {
    std::uint64_t inode = 0;  // 0: nothing was read yet
    Timestamp first;          // of the file's first line; 0: it had none
    std::int64_t offset = 0;
    std::deque<Line> lines;   // read but not given out
    std::int64_t readTo = 0;  // offset behind the last of them
  };

  LogCursor(std::string directory, const LogQuery& query)
      : directory_(std::move(directory)), query_(query) {}
  Result<void> restore(const std::string& position);
  void begin(const LogFiles& files);
  Result<void> fill(Place& place, const std::vector<LogFile>& files, std::size_t length,
                    std::uint64_t& lost);
  enum class Found { kSame, kMoved, kOther };  // what now stands under a file's name
  Result<Found> fillFrom(Place& place, const LogFile& file, std::size_t length);

  std::string directory_;
  LogQuery query_;
  std::map<std::uint32_t, Place> places_;
};

class LogReader {
 public:
  explicit LogReader(Layout layout) : layout_(std::move(layout)) {}

  // At most the newest `maxLines` of what the query selects, oldest first. An attempt that wrote
  // nothing yet has none.
  [[nodiscard]] Result<model::LogPage> page(const LogQuery& query, std::size_t maxLines) const;

  // A cursor at the first line that the query selects, or behind `position` where that is not
  // empty. kInvalid: no such position.
  [[nodiscard]] Result<std::unique_ptr<LogCursor>> follow(const LogQuery& query,
                                                          const std::string& position) const;

 private:
  Layout layout_;
};

}  // namespace bole::engine
