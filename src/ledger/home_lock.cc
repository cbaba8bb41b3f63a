#include "ledger/home_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <string>

#include "ledger/advice.h"

namespace bole::ledger {

namespace {

// The process that the lock's file names; 0: none.
pid_t holderOf(int file) {
  std::array<char, 24> text{};
  pid_t holder = 0;
  const auto size = ::pread(file, text.data(), text.size(), 0);
  if (size > 0) std::from_chars(text.data(), text.data() + size, holder);
  return holder;
}

bool isDead(pid_t pid) {
  if (pid <= 0) return false;
  std::ifstream stat(fmt::format("/proc/{}/stat", pid));
  std::string line;
  if (!std::getline(stat, line)) return true;
  const auto name = line.rfind(") ");
  return name != std::string::npos && (line[name + 2] == 'Z' || line[name + 2] == 'X');
}

Error heldElsewhere(const std::string& directory, pid_t holder) {
  return makeError(ErrorCode::kConflict, "another Bole server is using this home")
      .at(directory)
      .foundValue(holder > 0 ? fmt::format("process {}", holder) : "process of unknown number")
      .withHint("stop it with " + commandFor("down", directory) +
                ", or choose another home with --home");
}

// 0, or why not: EAGAIN or EACCES where it is held elsewhere.
int tryLock(int file) {
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  // An open-file-description lock: it does not vanish when some other descriptor of the file is
  // closed.
  return ::fcntl(file, F_OFD_SETLK, &whole) == 0 ? 0 : errno;
}

bool heldBy(int error) {
  return error == EAGAIN || error == EACCES;
}

// A server that was killed while it was starting a process leaves the lock to that one, for as long
// as it takes to become what it was started for: only what is dead is waited for, and not long.
int lockAfterTheDead(int file) {
  constexpr int kTries = 200;
  constexpr int kMilliseconds = 50;
  int error = tryLock(file);
  for (int i = 0; i < kTries && heldBy(error) && isDead(holderOf(file)); ++i) {
    ::poll(nullptr, 0, kMilliseconds);
    error = tryLock(file);
  }
  return error;
}

}  // namespace

Result<HomeLock> HomeLock::take(const std::string& directory) {
  const std::string path = directory + "/ledger.lock";
  BOLE_ASSIGN(auto file, openFile(path, O_RDWR | O_CREAT, 0600, "cannot open the ledger's lock"));
  if (const int error = lockAfterTheDead(file.get()); error != 0) {
    if (heldBy(error)) return fail(heldElsewhere(directory, holderOf(file.get())));
    return fail(systemError(error, "cannot lock", path));
  }
  // The number is for people. On a full disk it may not fit, and the lock holds all the same.
  const std::string self = fmt::format("{}\n", ::getpid());
  if (::ftruncate(file.get(), 0) == 0 && ::pwrite(file.get(), self.data(), self.size(), 0) < 0) {
    errno = 0;
  }
  return HomeLock(std::move(file));
}

}  // namespace bole::ledger
