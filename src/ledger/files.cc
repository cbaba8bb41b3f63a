#include "ledger/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>

namespace bole::ledger {

namespace {

Result<void> writeAll(int file, std::string_view content, const std::string& path) {
  while (!content.empty()) {
    const auto written = ::write(file, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return fail(systemError(errno, "cannot write", path));
    content.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

}  // namespace

FileDescriptor::~FileDescriptor() {
  if (number_ >= 0) ::close(number_);
}

Result<FileDescriptor> openFile(const std::string& path, int flags, mode_t mode,
                                std::string_view doing) {
  const int number = ::open(path.c_str(), flags | O_CLOEXEC, mode);
  if (number < 0) return fail(systemError(errno, std::string(doing), path));
  return FileDescriptor(number);
}

bool fileExists(const std::string& path) {
  struct stat facts {};
  return ::lstat(path.c_str(), &facts) == 0;
}

std::uint64_t fileSize(const std::string& path) {
  struct stat facts {};
  return ::stat(path.c_str(), &facts) == 0 ? static_cast<std::uint64_t>(facts.st_size) : 0;
}

Result<std::string> readSmallFile(const std::string& path, std::size_t maximum) {
  BOLE_ASSIGN(const auto file, openFile(path, O_RDONLY, 0, "cannot open"));
  std::string content(maximum + 1, '\0');
  std::size_t size = 0;
  while (size < content.size()) {
    const auto got = ::read(file.get(), content.data() + size, content.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail(systemError(errno, "cannot read", path));
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  if (size > maximum) {
    return fail(makeError(ErrorCode::kInvalid, "the file is too large")
                    .at(path)
                    .expectedValue(fmt::format("at most {} bytes", maximum)));
  }
  content.resize(size);
  return content;
}

Result<void> writeFileDurably(const std::string& path, std::string_view content, mode_t mode) {
  const std::string temporary = path + ".new";
  const auto write = [&]() -> Result<void> {
    BOLE_ASSIGN(const auto file,
                openFile(temporary, O_WRONLY | O_CREAT | O_TRUNC, mode, "cannot create"));
    if (::fchmod(file.get(), mode) != 0) {
      return fail(systemError(errno, "cannot set the permissions", temporary));
    }
    BOLE_TRY(writeAll(file.get(), content, temporary));
    if (::fsync(file.get()) != 0) return fail(systemError(errno, "cannot flush", temporary));
    if (::rename(temporary.c_str(), path.c_str()) != 0) {
      return fail(systemError(errno, "cannot rename to its place", path));
    }
    return syncDirectory(directoryOf(path));
  };
  auto written = write();
  if (!written) ::unlink(temporary.c_str());
  return written;
}

Result<void> syncDirectory(const std::string& path) {
  BOLE_ASSIGN(const auto directory,
              openFile(path, O_RDONLY | O_DIRECTORY, 0, "cannot open the directory"));
  if (::fsync(directory.get()) != 0) {
    return fail(systemError(errno, "cannot flush the directory", path));
  }
  return {};
}

std::string directoryOf(const std::string& path) {
  const auto slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::uint64_t freeBytes(const std::string& path) {
  struct statvfs facts {};
  if (::statvfs(path.c_str(), &facts) != 0) return 0;
  return static_cast<std::uint64_t>(facts.f_bavail) * facts.f_frsize;
}

}  // namespace bole::ledger
