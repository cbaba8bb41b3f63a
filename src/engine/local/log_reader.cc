#include "engine/local/log_reader.h"

#include <algorithm>
#include <charconv>
#include <queue>

#include "engine/local/supervise/attempt_files.h"

namespace bole::engine {
namespace {

constexpr std::size_t kLargestLine = 96 * 1024;  // one is at most 64 KiB and its head
constexpr std::size_t kBlock = 64 * 1024;

const char* streamName(supervise::LogStream stream) {
  switch (stream) {
    case supervise::LogStream::kErr:
      return "err";
    case supervise::LogStream::kBole:
      return "bole";
    case supervise::LogStream::kOut:
      break;
  }
  return "out";
}

// ---- backwards: the newest lines of all ranks
// ---------------------------------------------------------------------

struct BackLine {
  Timestamp at;
  const char* stream = "out";
  std::string text;
  std::int64_t start = 0;
};

// One rank's lines, newest first.
class BackReader {
 public:
  BackReader(std::uint32_t rank, const std::vector<LogFile>& files, Timestamp since)
      : rank_(rank), files_(files), next_(files.size()), since_(since) {}

  [[nodiscard]] std::uint32_t rank() const { return rank_; }
  [[nodiscard]] const BackLine* head() const { return lines_.empty() ? nullptr : &lines_.back(); }
  void pop() { lines_.pop_back(); }

  // Where the line at the head is; the file is one of files().
  [[nodiscard]] const LogFile& file() const { return files_[next_]; }
  [[nodiscard]] Timestamp fileFirst() const { return first_; }

  // Sees to it that head() is the next older line, if there is one to be given.
  Result<void> prepare() {
    while (lines_.empty() && !done_) BOLE_TRY(readBlock());
    return {};
  }

 private:
  Result<void> readBlock() {
    if (end_ == 0) {  // the file is finished, or none was begun
      if (next_ == 0) {
        done_ = true;
        return {};
      }
      const auto& file = files_[--next_];
      end_ = file.size;
      tail_.clear();
      if (end_ == 0) return {};
    }
    const auto start = std::max<std::int64_t>(0, end_ - static_cast<std::int64_t>(kBlock));
    BOLE_ASSIGN(auto block,
                readLogBlock(files_[next_], start, static_cast<std::size_t>(end_ - start)));
    if (!block || block->bytes.size() != static_cast<std::size_t>(end_ - start)) {
      done_ = true;  // rotated away meanwhile: older lines are gone
      return {};
    }
    first_ = block->first;
    take(block->bytes + tail_, start);
    end_ = start;
    return {};
  }

  // `bytes` lie at `start` in the file. What stands before the first line's beginning waits for the
  // block before it.
  void take(std::string bytes, std::int64_t start) {
    std::size_t begin = 0;
    if (start > 0) {
      const auto newline = bytes.find('\n');
      if (newline == std::string::npos) {
        tail_ = bytes.size() > kLargestLine ? std::string() : std::move(bytes);
        return;
      }
      begin = newline + 1;
    }
    std::vector<BackLine> found;
    for (auto at = begin; at < bytes.size();) {
      const auto end = bytes.find('\n', at);
      if (end == std::string::npos) break;  // not whole yet
      const auto line = supervise::parseLogLine(std::string_view(bytes).substr(at, end - at));
      if (line && line->at >= since_) {
        found.push_back({line->at, streamName(line->stream), std::string(line->text),
                         start + static_cast<std::int64_t>(at)});
      } else if (line) {
        done_ = true;  // older than what is asked for: so are those before it
        found.clear();
      }
      at = end + 1;
    }
    bytes.resize(begin);
    tail_ = std::move(bytes);
    lines_ = std::move(found);
  }

  std::uint32_t rank_;
  const std::vector<LogFile>& files_;
  std::size_t next_;  // index of the file being read
  std::int64_t end_ = 0;
  Timestamp since_;
  Timestamp first_;
  std::string tail_;  // the beginning of what was read last: the end of a line
  std::vector<BackLine> lines_;
  bool done_ = false;
};

struct Selected {
  std::uint32_t rank = 0;
  BackLine line;
};

struct Newest {
  std::vector<Selected> lines;  // newest first
  struct Start {
    std::uint64_t inode = 0;
    Timestamp first;
    std::int64_t offset = 0;
  };
  std::map<std::uint32_t, Start> starts;  // of each rank: its oldest selected line
};

// At most `count` newest lines since `since` of the ranks in `files`.
Result<Newest> newestLines(const LogFiles& files, Timestamp since, std::size_t count) {
  std::vector<BackReader> readers;
  for (const auto& [rank, list] : files) readers.emplace_back(rank, list, since);
  // Of equal times the higher rank is the newer: turned around, ranks come in order.
  const auto older = [&](std::size_t a, std::size_t b) {
    const auto& x = *readers[a].head();
    const auto& y = *readers[b].head();
    return x.at != y.at ? x.at < y.at : readers[a].rank() < readers[b].rank();
  };
  std::priority_queue<std::size_t, std::vector<std::size_t>, decltype(older)> heads(older);
  const auto push = [&](std::size_t i) -> Result<void> {
    BOLE_TRY(readers[i].prepare());
    if (readers[i].head()) heads.push(i);
    return {};
  };
  for (std::size_t i = 0; i < readers.size(); ++i) BOLE_TRY(push(i));
  Newest result;
  while (!heads.empty() && result.lines.size() < count) {
    const auto i = heads.top();
    heads.pop();
    auto& reader = readers[i];
    result.starts[reader.rank()] = {reader.file().inode, reader.fileFirst(), reader.head()->start};
    result.lines.push_back({reader.rank(), *reader.head()});
    reader.pop();
    BOLE_TRY(push(i));
  }
  return result;
}

// Behind the last line that was written to its end.
Result<std::int64_t> endOfWholeLines(const LogFile& file) {
  const auto start = std::max<std::int64_t>(0, file.size - static_cast<std::int64_t>(kLargestLine));
  BOLE_ASSIGN(const auto block,
              readLogBlock(file, start, static_cast<std::size_t>(file.size - start)));
  const auto last = block ? block->bytes.rfind('\n') : std::string::npos;
  return last == std::string::npos ? start : start + static_cast<std::int64_t>(last) + 1;
}

// ---- positions
// ----------------------------------------------------------------------------------------------------

std::string base36(std::uint64_t value) {
  char text[16];
  const auto end = std::to_chars(text, text + sizeof text, value, 36).ptr;
  return {text, end};
}

// Takes a number and the separator behind it off the front of `text`.
std::optional<std::uint64_t> takeNumber(std::string_view& text, char separator) {
  std::uint64_t value = 0;
  const auto* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value, 36);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  if (text.empty()) return separator == ',' ? std::optional(value) : std::nullopt;
  if (text.front() != separator) return std::nullopt;
  text.remove_prefix(1);
  return value;
}

constexpr std::string_view kPositionMark = "1:";

Result<LogFiles> filesOf(const std::string& directory, const std::optional<std::uint32_t>& rank) {
  BOLE_ASSIGN(auto files, listLogFiles(directory));
  if (!rank) return files;
  LogFiles one;
  if (const auto found = files.find(*rank); found != files.end()) one.insert(*found);
  return one;
}

}  // namespace

// ---- forwards
// -----------------------------------------------------------------------------------------------------

std::string LogCursor::position() const {
  std::string text(kPositionMark);
  for (const auto& [rank, place] : places_) {
    if (text.size() > kPositionMark.size()) text += ',';
    text += base36(rank) + "." + base36(place.inode) + "." +
            base36(static_cast<std::uint64_t>(place.first.micros)) + "." +
            base36(static_cast<std::uint64_t>(place.offset));
  }
  return text;
}

Result<void> LogCursor::restore(const std::string& position) {
  std::string_view text = position;
  bool good = text.substr(0, kPositionMark.size()) == kPositionMark;
  if (good) text.remove_prefix(kPositionMark.size());
  while (good && !text.empty()) {
    const auto rank = takeNumber(text, '.');
    const auto inode = rank ? takeNumber(text, '.') : std::nullopt;
    const auto first = inode ? takeNumber(text, '.') : std::nullopt;
    const auto offset = first ? takeNumber(text, ',') : std::nullopt;
    good = offset && *rank <= UINT32_MAX && *first <= INT64_MAX && *offset <= INT64_MAX;
    if (!good) break;
    auto& place = places_[static_cast<std::uint32_t>(*rank)];
    place.inode = *inode;
    place.first = Timestamp{static_cast<std::int64_t>(*first)};
    place.offset = place.readTo = static_cast<std::int64_t>(*offset);
  }
  if (good) return {};
  return fail(makeError(ErrorCode::kInvalid, "not a position in a log")
                  .foundValue("'" + position.substr(0, 64) + "'")
                  .expectedValue("one that was given out with a line of this log"));
}

// Ranks that the cursor has not met yet start with the oldest file that can hold what is asked for.
void LogCursor::begin(const LogFiles& files) {
  for (const auto& [rank, list] : files) {
    auto& place = places_[rank];
    if (place.inode != 0 || query_.since.micros == 0) continue;
    std::size_t from = 0;
    for (std::size_t i = 1; i < list.size(); ++i) {
      const auto block = readLogBlock(list[i], 0, 0);
      if (block && *block && (*block)->first.micros != 0 && (*block)->first < query_.since)
        from = i;
    }
    const auto block = readLogBlock(list[from], 0, 0);
    const auto offset = offsetOfTime(list[from], query_.since);
    if (!block || !*block || !offset) continue;
    place.inode = list[from].inode;
    place.first = (*block)->first;
    place.offset = place.readTo = *offset;
  }
}

// Reads what follows in this file.
Result<LogCursor::Found> LogCursor::fillFrom(Place& place, const LogFile& file,
                                             std::size_t length) {
  for (;;) {
    BOLE_ASSIGN(const auto block, readLogBlock(file, place.readTo, length));
    if (!block) return Found::kMoved;
    const bool same = place.first.micros == 0 || block->first == place.first;
    if (!same || block->size < place.readTo) return Found::kOther;
    if (place.first.micros == 0) place.first = block->first;
    const std::string_view bytes = block->bytes;
    std::size_t at = 0;
    for (auto end = bytes.find('\n'); end != std::string_view::npos; end = bytes.find('\n', at)) {
      const auto line = supervise::parseLogLine(bytes.substr(at, end - at));
      at = end + 1;
      if (!line || line->at < query_.since) continue;
      place.lines.push_back({line->at, streamName(line->stream), std::string(line->text),
                             place.readTo + static_cast<std::int64_t>(at)});
    }
    place.readTo += static_cast<std::int64_t>(at);
    if (!place.lines.empty()) return Found::kSame;
    if (at == 0 && bytes.size() < length) return Found::kSame;  // the end, or half of a line
    if (at == 0 && length >= kLargestLine) {                    // no log: skip what is no line
      place.readTo += static_cast<std::int64_t>(length);
    }
    if (at == 0) length = kLargestLine;
    place.offset = place.readTo;
  }
}

Result<void> LogCursor::fill(Place& place, const std::vector<LogFile>& files, std::size_t length,
                             std::uint64_t& lost) {
  auto file = std::find_if(files.begin(), files.end(),
                           [&](const LogFile& one) { return one.inode == place.inode; });
  const auto goTo = [&](std::vector<LogFile>::const_iterator target) {
    file = target;
    place.inode = target->inode;
    place.first = Timestamp{};
    place.offset = place.readTo = 0;
  };
  if (file == files.end()) {
    if (place.inode != 0) ++lost;
    goTo(files.begin());
  }
  for (;;) {
    BOLE_ASSIGN(const auto found, fillFrom(place, *file, length));
    if (found == Found::kMoved) return {};  // it has another name since it was listed: next time
    if (found == Found::kOther) {           // another file has its inode: it is gone
      ++lost;
      goTo(files.begin());
      continue;
    }
    if (!place.lines.empty() || std::next(file) == files.end()) return {};
    goTo(std::next(file));
  }
}

Result<LogChunk> LogCursor::next(std::size_t maxBytes) {
  LogChunk chunk;
  BOLE_ASSIGN(const auto files, filesOf(directory_, query_.rank));
  if (files.empty()) return chunk;
  begin(files);
  const auto length = std::clamp(maxBytes / files.size(), std::size_t{4096}, kBlock);
  const auto newer = [&](std::uint32_t a, std::uint32_t b) {
    const auto x = places_.at(a).lines.front().at;
    const auto y = places_.at(b).lines.front().at;
    return x != y ? x > y : a > b;
  };
  std::priority_queue<std::uint32_t, std::vector<std::uint32_t>, decltype(newer)> heads(newer);
  const auto push = [&](std::uint32_t rank) -> Result<void> {
    auto& place = places_.at(rank);
    if (place.lines.empty()) BOLE_TRY(fill(place, files.at(rank), length, chunk.lost));
    if (!place.lines.empty()) heads.push(rank);
    return {};
  };
  for (const auto& [rank, list] : files) BOLE_TRY(push(rank));
  std::size_t bytes = 0;
  while (!heads.empty() && bytes < maxBytes) {
    const auto rank = heads.top();
    heads.pop();
    auto& place = places_.at(rank);
    auto line = std::move(place.lines.front());
    place.lines.pop_front();
    place.offset = place.lines.empty() ? place.readTo : line.end;
    bytes += line.text.size() + 1;
    chunk.lines.push_back({line.at, rank, line.stream, std::move(line.text)});
    BOLE_TRY(push(rank));
  }
  chunk.more = !heads.empty();
  return chunk;
}

// ---- the reader
// ---------------------------------------------------------------------------------------------------

Result<model::LogPage> LogReader::page(const LogQuery& query, std::size_t maxLines) const {
  BOLE_ASSIGN(const auto files, filesOf(layout_.logs(query.attempt), query.rank));
  const auto count = std::min(query.tail.value_or(maxLines), maxLines);
  BOLE_ASSIGN(auto newest, newestLines(files, query.since, count));
  model::LogPage page;
  page.lines.reserve(newest.lines.size());
  for (auto at = newest.lines.rbegin(); at != newest.lines.rend(); ++at) {
    page.lines.push_back({at->line.at, at->rank, at->line.stream, std::move(at->line.text)});
  }
  return page;
}

Result<std::unique_ptr<LogCursor>> LogReader::follow(const LogQuery& query,
                                                     const std::string& position) const {
  std::unique_ptr<LogCursor> cursor(new LogCursor(layout_.logs(query.attempt), query));
  if (!position.empty()) {
    BOLE_TRY(cursor->restore(position));
    return cursor;
  }
  if (!query.tail) return cursor;
  BOLE_ASSIGN(const auto files, filesOf(cursor->directory_, query.rank));
  BOLE_ASSIGN(const auto newest, newestLines(files, query.since, *query.tail));
  for (const auto& [rank, list] : files) {
    auto& place = cursor->places_[rank];
    if (const auto start = newest.starts.find(rank); start != newest.starts.end()) {
      place.inode = start->second.inode;
      place.first = start->second.first;
      place.offset = place.readTo = start->second.offset;
      continue;
    }
    // Nothing of it is among the newest: only what comes from now on.
    const auto& file = list.back();
    const auto block = readLogBlock(file, 0, 0);
    place.inode = file.inode;
    if (block && *block) place.first = (*block)->first;
    BOLE_ASSIGN(const auto end, endOfWholeLines(file));
    place.offset = place.readTo = end;
  }
  return cursor;
}

}  // namespace bole::engine
