#include "engine/local/supervise/rank_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace bole::supervise {

namespace {

constexpr std::size_t kErrorTailBytes = 1024;
constexpr std::size_t kSmallestFile = 4096;
constexpr std::size_t kBatchBytes = 256u << 10;

}  // namespace

RankLog::RankLog(const std::string& dir, std::uint32_t rank, Bytes fileBytes, std::uint32_t files,
                 OnLine onLine)
    : path_(logPath(dir, rank)),
      limit_(std::max(static_cast<std::size_t>(std::max<std::int64_t>(fileBytes.value, 0)),
                      kSmallestFile)),
      files_(std::max(files, 1u)),
      onLine_(std::move(onLine)) {
  openFresh();
}

bool RankLog::openFresh() {
  file_ = Fd(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  struct stat facts {};
  size_ = file_.isOpen() && ::fstat(file_.get(), &facts) == 0
              ? static_cast<std::size_t>(facts.st_size)
              : 0;
  return file_.isOpen();
}

bool RankLog::hasPartial() const {
  return !stdout_.pending.empty() || !stderr_.pending.empty();
}

void RankLog::feed(LogStream stream, std::string_view bytes, Timestamp now) {
  auto& target = stream == LogStream::kErr ? stderr_ : stdout_;
  while (!bytes.empty()) {
    const auto end = bytes.find('\n');
    take(target, bytes.substr(0, end), now);
    if (end == std::string_view::npos) break;
    endLine(target, now);
    bytes.remove_prefix(end + 1);
  }
  writeOut(now);
}

void RankLog::take(Stream& stream, std::string_view text, Timestamp now) {
  stream.head.append(text.substr(0, kHeadBytes - std::min(kHeadBytes, stream.head.size())));
  while (stream.pending.size() + text.size() > kLogLineBytes) {
    const auto room = kLogLineBytes - stream.pending.size();
    stream.pending.append(text.substr(0, room));
    text.remove_prefix(room);
    record(static_cast<char>(stream.letter - 'a' + 'A'), stream.pending, now);
    stream.pending.clear();
  }
  stream.pending.append(text);
}

void RankLog::endLine(Stream& stream, Timestamp now) {
  record(stream.letter, stream.pending, now);
  if (stream.letter == 'o') {
    onLine_(stream.head);
  } else {
    errorTail_ += stream.head + "\n";
    if (errorTail_.size() > kErrorTailBytes) {
      errorTail_.erase(0, errorTail_.size() - kErrorTailBytes);
    }
  }
  stream.pending.clear();
  stream.head.clear();
}

void RankLog::flushPartial(Timestamp now) {
  for (auto* stream : {&stdout_, &stderr_}) {
    if (stream->pending.empty()) continue;
    record(static_cast<char>(stream->letter - 'a' + 'A'), stream->pending, now);
    stream->pending.clear();
  }
  writeOut(now);
}

void RankLog::say(std::string_view text, Timestamp now) {
  record('b', text, now);
  writeOut(now);
}

void RankLog::finish(Timestamp now) {
  for (auto* stream : {&stdout_, &stderr_}) {
    if (!stream->head.empty() || !stream->pending.empty()) endLine(*stream, now);
  }
  writeOut(now);
  if (file_.isOpen()) ::fdatasync(file_.get());
}

void RankLog::record(char letter, std::string_view text, Timestamp now) {
  char prefix[40];
  const int length =
      std::snprintf(prefix, sizeof prefix, "%lld %c ", static_cast<long long>(now.micros), letter);
  const auto size = static_cast<std::size_t>(length) + text.size() + 1;
  // Rotation is between records: what is buffered belongs to the old file.
  if (size_ + out_.size() + size > limit_ && size_ + out_.size() > 0) {
    writeOut(now);
    if (size_ > 0) rotate();
  }
  out_.append(prefix, static_cast<std::size_t>(length)).append(text).push_back('\n');
  ++outLines_;
  if (out_.size() >= kBatchBytes) writeOut(now);
}

void RankLog::writeOut(Timestamp now) {
  if (out_.empty()) return;
  if (!file_.isOpen()) openFresh();
  std::string batch;
  if (lost_ > 0) {
    batch = std::to_string(now.micros) + " b " + std::to_string(lost_) +
            " lines were lost: " + whyLost_ + "\n";
  }
  batch += out_;
  std::size_t done = 0;
  int error = file_.isOpen() ? 0 : errno;
  while (error == 0 && done < batch.size()) {
    const auto written = ::write(file_.get(), batch.data() + done, batch.size() - done);
    if (written >= 0)
      done += static_cast<std::size_t>(written);
    else if (errno != EINTR)
      error = errno;
  }
  if (error == 0) {
    size_ += batch.size();
    lost_ = 0;
  } else {
    // No half record stays: readers take a line as it is.
    if (done > 0 && ::ftruncate(file_.get(), static_cast<off_t>(size_)) != 0) size_ += done;
    lost_ += outLines_;
    whyLost_ = std::strerror(error);
  }
  out_.clear();
  outLines_ = 0;
}

void RankLog::rotate() {
  file_.close();
  for (auto number = files_; number-- > 1;) {
    const auto from = number == 1 ? path_ : path_ + "." + std::to_string(number - 1);
    ::rename(from.c_str(), (path_ + "." + std::to_string(number)).c_str());
  }
  if (files_ == 1) ::unlink(path_.c_str());
  openFresh();
}

}  // namespace bole::supervise
