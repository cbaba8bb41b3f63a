// The log of one rank: what came through its two pipes, line by line, with the time of arrival.
//
// Format and rotation are told in docs/design/process-protocol.md. Nothing is dropped but what the
// disk refuses, and then a line of the log says how much that was. Bytes are kept as they came.
// Text without a newline is written when the rank falls silent (flushPartial) or when there is too
// much of it, and marked as going on.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "engine/local/supervise/attempt_files.h"
#include "engine/local/supervise/posix.h"

namespace bole::supervise {

inline constexpr std::size_t kLogLineBytes = 64u << 10;  // of text in one record

class RankLog {
 public:
  // Called with the beginning (at most kHeadBytes) of every whole line of standard output.
  using OnLine = std::function<void(std::string_view head)>;
  static constexpr std::size_t kHeadBytes = 4096;

  RankLog(const std::string& dir, std::uint32_t rank, Bytes fileBytes, std::uint32_t files,
          OnLine onLine);

  void feed(LogStream stream, std::string_view bytes, Timestamp now);
  void say(std::string_view text, Timestamp now);  // Bole's own word
  // Whether a line has begun that is not yet written.
  [[nodiscard]] bool hasPartial() const;
  void flushPartial(Timestamp now);
  // No more comes: what is left is a last line, and everything is on disk.
  void finish(Timestamp now);

  // The newest lines of standard error, at most about 1 KiB: for the note of a start that failed.
  [[nodiscard]] const std::string& errorTail() const { return errorTail_; }

 private:
  struct Stream {
    char letter = 'o';
    std::string pending;  // of the line that has begun
    std::string head;     // the beginning of that line, also where it was cut
  };

  void take(Stream& stream, std::string_view text, Timestamp now);
  void endLine(Stream& stream, Timestamp now);
  void record(char letter, std::string_view text, Timestamp now);
  void writeOut(Timestamp now);
  bool openFresh();
  void rotate();

  std::string path_;
  std::size_t limit_;
  std::uint32_t files_;
  OnLine onLine_;
  Fd file_;
  std::size_t size_ = 0;  // of the file
  std::string out_;       // whole records, not yet written
  std::uint64_t outLines_ = 0;
  std::uint64_t lost_ = 0;  // records that the disk refused since the last that it took
  std::string whyLost_;
  Stream stdout_{'o', {}, {}};
  Stream stderr_{'e', {}, {}};
  std::string errorTail_;
};

}  // namespace bole::supervise
