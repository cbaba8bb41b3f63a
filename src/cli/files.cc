#include "cli/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/units.h"

namespace bole::cli {

Descriptor::~Descriptor() {
  if (number_ >= 0) ::close(number_);
}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(number_, other.number_);
  return *this;
}

Result<std::string> readFile(const std::string& path, std::size_t most) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.isOpen()) return fail(systemError(errno, "cannot read the file", path));
  struct stat info {};
  if (::fstat(file.get(), &info) == 0 && S_ISDIR(info.st_mode)) {
    return fail(makeError(ErrorCode::kInvalid, "a directory where a file is expected").at(path));
  }
  std::string text;
  char buffer[16 * 1024];
  while (text.size() <= most) {
    const auto got = ::read(file.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail(systemError(errno, "cannot read the file", path));
    if (got == 0) return text;
    text.append(buffer, static_cast<std::size_t>(got));
  }
  return fail(makeError(ErrorCode::kInvalid, "the file is too large")
                  .at(path)
                  .expectedValue("at most " + formatBytes(Bytes(static_cast<std::int64_t>(most)))));
}

}  // namespace bole::cli
