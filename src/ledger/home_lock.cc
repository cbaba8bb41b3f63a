#include "ledger/home_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>

namespace bole::ledger {

namespace {

Error heldElsewhere(const std::string& directory, int file) {
  char text[24] = {};
  const auto size = ::pread(file, text, sizeof text - 1, 0);
  std::string holder(text, size > 0 ? static_cast<std::size_t>(size) : 0);
  while (!holder.empty() && holder.back() == '\n') holder.pop_back();
  if (holder.empty()) holder = "of unknown number";
  return makeError(ErrorCode::kConflict, "another Bole server is using this home")
      .at(directory)
      .foundValue("process " + holder)
      .withHint("stop it with 'bole down', or choose another home with --home");
}

}  // namespace

Result<HomeLock> HomeLock::take(const std::string& directory) {
  const std::string path = directory + "/ledger.lock";
  BOLE_ASSIGN(auto file, openFile(path, O_RDWR | O_CREAT, 0600, "cannot open the ledger's lock"));
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  // An open-file-description lock: it does not vanish when some other descriptor of the file is
  // closed.
  if (::fcntl(file.get(), F_OFD_SETLK, &whole) != 0) {
    if (errno == EAGAIN || errno == EACCES) return fail(heldElsewhere(directory, file.get()));
    return fail(systemError(errno, "cannot lock", path));
  }
  // The number is for people. On a full disk it may not fit, and the lock holds all the same.
  const std::string self = fmt::format("{}\n", ::getpid());
  if (::ftruncate(file.get(), 0) == 0 && ::pwrite(file.get(), self.data(), self.size(), 0) < 0) {
    errno = 0;
  }
  return HomeLock(std::move(file));
}

}  // namespace bole::ledger
