#include "ledger/reserve.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>

#include "ledger/files.h"

namespace bole::ledger {

Reserve::Reserve(const std::string& directory, Bytes size)
    : directory_(directory),
      path_(directory + "/reserve"),
      size_(static_cast<std::uint64_t>(size.value)),
      held_(size.value == 0 || fileSize(path_) >= size_) {}

Result<void> Reserve::giveUp() {
  held_ = size_ == 0;
  if (::unlink(path_.c_str()) != 0 && errno != ENOENT) {
    return fail(systemError(errno, "cannot free the reserve", path_));
  }
  return {};
}

Result<void> Reserve::restore() {
  if (held_) return {};
  if (freeBytes(directory_) < size_ + size_ / 4) return fail(noRoom());
  auto made = allocate();
  if (!made) {
    ::unlink((path_ + ".new").c_str());
    return made;
  }
  held_ = true;
  return {};
}

Result<void> Reserve::allocate() {
  const std::string temporary = path_ + ".new";
  BOLE_ASSIGN(const auto file,
              openFile(temporary, O_WRONLY | O_CREAT | O_TRUNC, 0600, "cannot make the reserve"));
  const int failed = ::posix_fallocate(file.get(), 0, static_cast<off_t>(size_));
  if (failed == ENOSPC || failed == EDQUOT) return fail(noRoom());
  if (failed != 0) return fail(systemError(failed, "cannot make the reserve", temporary));
  if (::fsync(file.get()) != 0) return fail(systemError(errno, "cannot flush", temporary));
  if (::rename(temporary.c_str(), path_.c_str()) != 0) {
    return fail(systemError(errno, "cannot rename to its place", path_));
  }
  return syncDirectory(directory_);
}

Error Reserve::noRoom() const {
  const auto show = [](std::uint64_t bytes) {
    return formatBytes(Bytes(static_cast<std::int64_t>(bytes)));
  };
  return makeError(ErrorCode::kUnavailable, "the disk is too full to record new work")
      .at(directory_)
      .foundValue(show(freeBytes(directory_)) + " free")
      .expectedValue("at least " + show(size_ + size_ / 4))
      .withHint("free some space; running jobs go on, and stops and exits are still recorded");
}

}  // namespace bole::ledger
