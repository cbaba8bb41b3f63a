#include "engine/local/log_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <memory>

#include "engine/local/files.h"
#include "engine/local/supervise/attempt_files.h"

namespace bole::engine {
namespace {

constexpr std::size_t kProbe =
    128 * 1024;  // holds a whole line wherever it begins: one is at most 64 KiB

struct CloseDir {
  void operator()(DIR* dir) const { ::closedir(dir); }
};

struct LogName {
  std::uint32_t rank = 0;
  std::uint32_t age = 0;
};

std::optional<std::uint32_t> number(std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// "rank-3.log", "rank-3.log.2"
std::optional<LogName> parseName(std::string_view name) {
  constexpr std::string_view kPrefix = "rank-";
  constexpr std::string_view kSuffix = ".log";
  if (name.substr(0, kPrefix.size()) != kPrefix) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  const auto dot = name.find(kSuffix);
  if (dot == std::string_view::npos) return std::nullopt;
  const auto rank = number(name.substr(0, dot));
  const auto rest = name.substr(dot + kSuffix.size());
  if (!rank) return std::nullopt;
  if (rest.empty()) return LogName{*rank, 0};
  const auto age = rest.front() == '.' ? number(rest.substr(1)) : std::nullopt;
  if (!age || *age == 0) return std::nullopt;
  return LogName{*rank, *age};
}

LogFiles scan(DIR* directory, const std::string& path) {
  LogFiles files;
  ::rewinddir(directory);
  while (const auto* entry = ::readdir(directory)) {
    const auto name = parseName(entry->d_name);
    struct stat info {};
    if (!name || ::fstatat(::dirfd(directory), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(info.st_mode)) {
      continue;
    }
    files[name->rank].push_back({path + "/" + entry->d_name, info.st_ino, info.st_size, name->age});
  }
  for (auto& [rank, list] : files) {
    std::sort(list.begin(), list.end(),
              [](const LogFile& a, const LogFile& b) { return a.age > b.age; });
  }
  return files;
}

bool sameTime(const struct stat& a, const struct stat& b) {
  return a.st_mtim.tv_sec == b.st_mtim.tv_sec && a.st_mtim.tv_nsec == b.st_mtim.tv_nsec;
}

// A file renamed during the scan may be seen twice: as what it was last.
bool hasDoubles(const LogFiles& files) {
  for (const auto& [rank, list] : files) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      for (std::size_t j = i + 1; j < list.size(); ++j) {
        if (list[i].inode == list[j].inode) return true;
      }
    }
  }
  return false;
}

std::string readAt(int fd, std::int64_t offset, std::size_t length) {
  std::string bytes(length, '\0');
  std::size_t size = 0;
  while (size < length) {
    const auto got = ::pread(fd, bytes.data() + size, length - size,
                             static_cast<off_t>(offset) + static_cast<off_t>(size));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    size += static_cast<std::size_t>(got);
  }
  bytes.resize(size);
  return bytes;
}

Timestamp firstTime(int fd) {
  const auto start = readAt(fd, 0, 24);  // a time has 16 digits, and a space follows
  std::int64_t micros = 0;
  const auto [end, error] = std::from_chars(start.data(), start.data() + start.size(), micros);
  const bool whole = error == std::errc() && end < start.data() + start.size() && *end == ' ';
  return Timestamp{whole ? micros : 0};
}

// The first line that starts at `from` or later within `bytes`, if it is whole and a log line.
struct FoundLine {
  std::size_t start = 0;
  Timestamp at;
};
std::optional<FoundLine> lineFrom(std::string_view bytes, std::size_t from) {
  while (from < bytes.size()) {
    const auto end = bytes.find('\n', from);
    if (end == std::string_view::npos) return std::nullopt;
    if (const auto line = supervise::parseLogLine(bytes.substr(from, end - from))) {
      return FoundLine{from, line->at};
    }
    from = end + 1;
  }
  return std::nullopt;
}

}  // namespace

Result<LogFiles> listLogFiles(const std::string& logDirectory) {
  const std::unique_ptr<DIR, CloseDir> directory(::opendir(logDirectory.c_str()));
  if (!directory) {
    if (errno == ENOENT) return LogFiles{};
    return fail(systemError(errno, "cannot list the log files", logDirectory));
  }
  LogFiles files;
  for (int tries = 0; tries < 5; ++tries) {
    struct stat before {};
    struct stat after {};
    ::fstat(::dirfd(directory.get()), &before);
    files = scan(directory.get(), logDirectory);
    ::fstat(::dirfd(directory.get()), &after);
    if (sameTime(before, after) && !hasDoubles(files)) break;
  }
  return files;
}

Result<std::optional<LogBlock>> readLogBlock(const LogFile& file, std::int64_t offset,
                                             std::size_t length) {
  const Fd opened(::open(file.path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  struct stat info {};
  if (!opened.isOpen() || ::fstat(opened.get(), &info) != 0) {
    if (errno == ENOENT) return std::nullopt;
    return fail(systemError(errno, "cannot read the log file", file.path));
  }
  if (info.st_ino != file.inode) return std::nullopt;
  LogBlock block;
  block.size = info.st_size;
  block.first = firstTime(opened.get());
  block.bytes = readAt(opened.get(), offset, length);
  return block;
}

Result<std::int64_t> offsetOfTime(const LogFile& file, Timestamp since) {
  std::int64_t low = 0;  // the start of a line; every line before it is older
  std::int64_t high = file.size;
  while (high - low > static_cast<std::int64_t>(kProbe)) {
    const auto middle = low + (high - low) / 2;
    BOLE_ASSIGN(const auto block, readLogBlock(file, middle, kProbe));
    if (!block) return low;
    const auto newline = block->bytes.find('\n');
    const auto line =
        newline == std::string::npos ? std::nullopt : lineFrom(block->bytes, newline + 1);
    if (!line || line->at >= since) {
      high = middle;
    } else {
      low = middle + static_cast<std::int64_t>(line->start);
    }
  }
  return low;
}

}  // namespace bole::engine
