// The log files of an attempt as they lie on the disk, rotated by its supervisor while they are
// read: rank-N.log is the newest, rank-N.log.1 the one before, and so on. A file is known by its
// inode and the time of its first line, for its name changes under the reader.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace bole::engine {

struct LogFile {
  std::string path;
  std::uint64_t inode = 0;
  std::int64_t size = 0;
  std::uint32_t age = 0;  // 0: the one that is written
};

using LogFiles = std::map<std::uint32_t, std::vector<LogFile>>;  // of each rank, oldest first

// A directory that is not there has no files.
[[nodiscard]] Result<LogFiles> listLogFiles(const std::string& logDirectory);

struct LogBlock {
  std::string bytes;
  std::int64_t size = 0;  // of the file now
  Timestamp first;        // of its first line; 0: it has no whole line yet
};

// At most `length` bytes from `offset` on. Nothing if the name now stands for another file.
[[nodiscard]] Result<std::optional<LogBlock>> readLogBlock(const LogFile& file, std::int64_t offset,
                                                           std::size_t length);

// Where to begin in the file to see every line of `since` and later: the start of some line. Takes
// the lines to be in the order of time; where a clock was set back it may begin too late by what
// was written before.
[[nodiscard]] Result<std::int64_t> offsetOfTime(const LogFile& file, Timestamp since);

}  // namespace bole::engine
