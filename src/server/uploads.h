// What submitters bring along: tar archives named by their SHA-256, kept in one directory.
//
// An upload is written to a part file, hashed on the way and renamed when its hash is the one that
// was promised, so that a file under its final name is whole. Everything here may block; any
// thread, but one at a time for one Upload.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/units.h"

namespace bole::server {

// 64 lower case hex digits?
[[nodiscard]] bool isSha256(std::string_view text);

class Uploads;

// One archive on its way in. Destroyed unfinished, it leaves nothing behind.
class Upload {
 public:
  ~Upload();
  Upload(const Upload&) = delete;
  Upload& operator=(const Upload&) = delete;

  // Errors: kRefused (larger than allowed), kUnavailable (disk full, or too much is kept already).
  [[nodiscard]] Result<void> write(std::string_view piece);

  // Durable under its name after this; true where it was there already. kInvalid: another hash.
  [[nodiscard]] Result<bool> finish();

 private:
  friend class Uploads;
  struct Hash;
  Upload(Uploads& owner, std::string sha256);

  Uploads& owner_;
  std::string sha256_;
  std::string part_;  // empty: the archive is there already, and what comes is only hashed
  int fd_ = -1;
  std::uint64_t size_ = 0;
  std::unique_ptr<Hash> hash_;
};

struct UploadLimits {
  std::uint64_t oneBytes = 0;
  std::uint64_t allBytes = 0;
  std::size_t atOnce = 0;
};

class Uploads {
 public:
  // `inUse`: the archives that jobs which have not ended came with; these are never removed to make
  // room.
  Uploads(std::string directory, UploadLimits limits, std::function<std::set<std::string>()> inUse,
          std::function<Timestamp()> wall);

  // Makes the directory and removes what a server that died left half done.
  [[nodiscard]] Result<void> open();

  // Errors: kUnavailable (too many at once, too much is kept).
  [[nodiscard]] Result<std::shared_ptr<Upload>> begin(const std::string& sha256);

  // Asking counts as use: it is not removed to make room for the next hour.
  [[nodiscard]] bool has(const std::string& sha256) const;
  [[nodiscard]] const UploadLimits& limits() const { return limits_; }
  [[nodiscard]] Error tooLarge(std::uint64_t size) const;

 private:
  friend class Upload;
  [[nodiscard]] std::string pathOf(const std::string& sha256) const;
  [[nodiscard]] Result<void> reserve(std::uint64_t bytes);  // makes room where it can
  void giveBack(std::uint64_t bytes);
  void ended();
  void removeOldest();

  std::string directory_;
  UploadLimits limits_;
  std::function<std::set<std::string>()> inUse_;
  std::function<Timestamp()> wall_;

  std::mutex mutex_;
  std::uint64_t kept_ = 0;  // bytes in the directory, part files included
  std::size_t running_ = 0;
  std::uint64_t parts_ = 0;  // ever begun, for names
};

}  // namespace bole::server
