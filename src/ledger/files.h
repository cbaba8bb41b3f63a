// Small files that must be complete or absent, and the descriptors behind them. No SQLite file is
// ever opened through here while SQLite has it open: closing any descriptor of it would drop
// SQLite's POSIX locks.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace bole::ledger {

class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int number) : number_(number) {}
  FileDescriptor(FileDescriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~FileDescriptor();

  [[nodiscard]] int get() const { return number_; }
  [[nodiscard]] bool isOpen() const { return number_ >= 0; }

 private:
  int number_ = -1;
};

// open(2) with O_CLOEXEC; `doing` opens the error's sentence: "cannot open the key".
[[nodiscard]] Result<FileDescriptor> openFile(const std::string& path, int flags, mode_t mode,
                                              std::string_view doing);

[[nodiscard]] bool fileExists(const std::string& path);
// 0 for a file that is not there.
[[nodiscard]] std::uint64_t fileSize(const std::string& path);

// The whole file; kInvalid if it is larger than `maximum`.
[[nodiscard]] Result<std::string> readSmallFile(const std::string& path, std::size_t maximum);

// Temporary name, fsync, rename, fsync of the directory: after it returns the file survives a power
// loss.
[[nodiscard]] Result<void> writeFileDurably(const std::string& path, std::string_view content,
                                            mode_t mode);

[[nodiscard]] Result<void> syncDirectory(const std::string& path);
[[nodiscard]] std::string directoryOf(const std::string& path);

// Bytes that this process may still write on the file system of `path`; 0 if it cannot be asked.
[[nodiscard]] std::uint64_t freeBytes(const std::string& path);

}  // namespace bole::ledger
