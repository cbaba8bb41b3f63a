#include "engine/local/supervise/posix.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>

namespace bole::supervise {

namespace {

std::int64_t micros(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000 + now.tv_nsec / 1000;
}

}  // namespace

void Fd::close() {
  if (number_ >= 0) ::close(number_);
  number_ = -1;
}

Timestamp wallNow() {
  return Timestamp{micros(CLOCK_REALTIME)};
}
Duration boottimeNow() {
  return Duration(micros(CLOCK_BOOTTIME));
}

Result<Fd> openFile(const std::string& path, int flags, mode_t mode, std::string_view doing) {
  const int number = ::open(path.c_str(), flags | O_CLOEXEC, mode);
  if (number < 0) return fail(systemError(errno, std::string(doing), path));
  return Fd(number);
}

Result<std::string> readFile(const std::string& path, std::size_t maximum) {
  BOLE_ASSIGN(const Fd file, openFile(path, O_RDONLY, 0, "cannot open"));
  std::string content;
  char chunk[16384];
  for (;;) {
    const auto got = ::read(file.get(), chunk, sizeof chunk);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail(systemError(errno, "cannot read", path));
    if (got == 0) return content;
    content.append(chunk, static_cast<std::size_t>(got));
    if (content.size() > maximum) {
      return fail(makeError(ErrorCode::kInvalid, "the file is too large")
                      .at(path)
                      .expectedValue("at most " + std::to_string(maximum) + " bytes"));
    }
  }
}

Result<void> writeAll(int file, std::string_view content, const std::string& path) {
  while (!content.empty()) {
    const auto written = ::write(file, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return fail(systemError(errno, "cannot write", path));
    content.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

Result<void> replaceFile(const std::string& path, std::string_view content, Flush flush) {
  const std::string temporary = path + ".new";
  const auto replace = [&]() -> Result<void> {
    BOLE_ASSIGN(const Fd file, openFile(temporary, O_WRONLY | O_CREAT, 0600, "cannot create"));
    // Written over and then cut: so the blocks that keepRoomFor() took are used.
    BOLE_TRY(writeAll(file.get(), content, temporary));
    if (::ftruncate(file.get(), static_cast<off_t>(content.size())) != 0) {
      return fail(systemError(errno, "cannot cut to its size", temporary));
    }
    if (flush == Flush::kYes && ::fsync(file.get()) != 0) {
      return fail(systemError(errno, "cannot flush", temporary));
    }
    if (::rename(temporary.c_str(), path.c_str()) != 0) {
      return fail(systemError(errno, "cannot rename to its place", path));
    }
    if (flush == Flush::kNo) return {};
    return syncDirectory(path.substr(0, path.rfind('/')));
  };
  auto replaced = replace();
  if (!replaced) ::unlink(temporary.c_str());
  return replaced;
}

void keepRoomFor(const std::string& path, std::size_t bytes) {
  const auto file = openFile(path + ".new", O_WRONLY | O_CREAT, 0600, "cannot create");
  if (!file) return;
  static_cast<void>(::fallocate(file->get(), FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(bytes)));
}

Result<void> syncDirectory(const std::string& path) {
  BOLE_ASSIGN(const Fd directory,
              openFile(path, O_RDONLY | O_DIRECTORY, 0, "cannot open the directory"));
  if (::fsync(directory.get()) != 0) {
    return fail(systemError(errno, "cannot flush the directory", path));
  }
  return {};
}

int writeControl(const std::string& path, std::string_view text) {
  const Fd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file.isOpen()) return errno;
  return ::write(file.get(), text.data(), text.size()) < 0 ? errno : 0;
}

Result<void> makeDirectory(const std::string& path, mode_t mode) {
  if (::mkdir(path.c_str(), mode) == 0 || errno == EEXIST) return {};
  return fail(systemError(errno, "cannot make the directory", path));
}

bool pathExists(const std::string& path) {
  struct stat facts {};
  return ::stat(path.c_str(), &facts) == 0;
}

Result<Fd> memoryFile(std::string_view content, const char* name) {
  Fd file(::memfd_create(name, MFD_CLOEXEC));
  if (!file.isOpen()) return fail(systemError(errno, "cannot make a file in memory", name));
  BOLE_TRY(writeAll(file.get(), content, name));
  if (::lseek(file.get(), 0, SEEK_SET) != 0) return fail(systemError(errno, "cannot seek", name));
  return file;
}

}  // namespace bole::supervise
