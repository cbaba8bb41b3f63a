// Thin forms of what the kernel gives: descriptors, small files, the two clocks. The only place of
// this room that reads a clock.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "base/units.h"

namespace bole::supervise {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int number) : number_(number) {}
  Fd(Fd&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Fd() { close(); }

  void close();
  [[nodiscard]] int get() const { return number_; }
  [[nodiscard]] bool isOpen() const { return number_ >= 0; }

 private:
  int number_ = -1;
};

[[nodiscard]] Timestamp wallNow();
[[nodiscard]] Duration boottimeNow();  // counts suspends

// open(2) with O_CLOEXEC.
[[nodiscard]] Result<Fd> openFile(const std::string& path, int flags, mode_t mode,
                                  std::string_view doing);
// The whole of a file of any kind; kInvalid if it is larger than `maximum`.
[[nodiscard]] Result<std::string> readFile(const std::string& path, std::size_t maximum);
[[nodiscard]] Result<void> writeAll(int file, std::string_view content, const std::string& path);

enum class Flush { kYes, kNo };
// Complete or absent: a temporary name, fsync, rename, fsync of the directory. With kNo only
// complete or absent for readers.
[[nodiscard]] Result<void> replaceFile(const std::string& path, std::string_view content,
                                       Flush flush);
// Takes the disk's room for a later replaceFile() of the same path, so that a full disk cannot
// refuse it. Where the file system cannot, it is not had.
void keepRoomFor(const std::string& path, std::size_t bytes);
[[nodiscard]] Result<void> syncDirectory(const std::string& path);
// One write(2) to a file that exists, as control files below /proc and /sys want it. Returns errno,
// 0 for success.
[[nodiscard]] int writeControl(const std::string& path, std::string_view text);
// mkdir(2); a directory that is there already is no error.
[[nodiscard]] Result<void> makeDirectory(const std::string& path, mode_t mode);
[[nodiscard]] bool pathExists(const std::string& path);
// An anonymous file with that content, at offset 0.
[[nodiscard]] Result<Fd> memoryFile(std::string_view content, const char* name);

}  // namespace bole::supervise
