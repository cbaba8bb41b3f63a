#include "engine/local/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace bole::engine {
namespace {

constexpr int kOpenDirectory = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
constexpr int kDeepest = 512;  // of a tree that is removed or measured: a job may nest without end

struct CloseDir {
  void operator()(DIR* dir) const { ::closedir(dir); }
};

// The names in a directory; takes the descriptor over.
std::vector<std::string> namesIn(Fd directory) {
  std::vector<std::string> names;
  const int copy = ::fcntl(directory.get(), F_DUPFD_CLOEXEC, 0);
  std::unique_ptr<DIR, CloseDir> stream(copy < 0 ? nullptr : ::fdopendir(copy));
  if (!stream) return names;
  while (const auto* entry = ::readdir(stream.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  return names;
}

std::optional<dev_t> deviceOf(int fd) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return std::nullopt;
  return info.st_dev;
}

class Remover {
 public:
  explicit Remover(dev_t device) : device_(device) {}

  // The first errno met, or 0; goes on with the rest.
  int contents(int directory, int depth, const std::function<bool(const std::string&)>& keep) {
    for (const auto& name : namesIn(Fd(::fcntl(directory, F_DUPFD_CLOEXEC, 0)))) {
      if (!keep || !keep(name)) entry(directory, name, depth);
    }
    return error_;
  }

  int entry(int parent, const std::string& name, int depth) {
    if (::unlinkat(parent, name.c_str(), 0) == 0 || errno == ENOENT) return error_;
    if (errno != EISDIR && errno != EPERM && errno != EBUSY) return note(errno);
    Fd inner(::openat(parent, name.c_str(), kOpenDirectory));
    if (!inner.isOpen()) return note(errno);
    if (deviceOf(inner.get()) != device_) return note(EXDEV);
    if (depth > kDeepest) return note(ELOOP);
    contents(inner.get(), depth + 1, nullptr);
    inner.close();
    if (::unlinkat(parent, name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT) note(errno);
    return error_;
  }

 private:
  int note(int value) {
    if (error_ == 0) error_ = value;
    return error_;
  }
  dev_t device_;
  int error_ = 0;
};

// Sums up what lies in a directory, name by name: it may hold more than memory would.
class Measure {
 public:
  explicit Measure(std::size_t& entriesLeft) : entriesLeft_(entriesLeft) {}

  void add(Fd directory, int depth) {
    const int number = directory.release();
    const std::unique_ptr<DIR, CloseDir> stream(::fdopendir(number));
    if (!stream) return static_cast<void>(::close(number));
    while (const auto* entry = ::readdir(stream.get())) {
      const std::string_view name = entry->d_name;
      if (name == "." || name == "..") continue;
      if (entriesLeft_ == 0) return;
      --entriesLeft_;
      addEntry(number, entry->d_name, depth);
    }
  }
  [[nodiscard]] Bytes sum() const { return Bytes(bytes_); }

 private:
  void addEntry(int directory, const char* name, int depth) {
    struct stat info {};
    if (::fstatat(directory, name, &info, AT_SYMLINK_NOFOLLOW) != 0) return;
    if (S_ISREG(info.st_mode)) bytes_ += info.st_size;
    if (!S_ISDIR(info.st_mode) || depth > kDeepest) return;
    Fd inner(::openat(directory, name, kOpenDirectory));
    if (inner.isOpen()) add(std::move(inner), depth + 1);
  }

  std::size_t& entriesLeft_;
  std::int64_t bytes_ = 0;
};

Result<Fd> openBelowAs(const std::string& root, const std::string& relative, std::uint64_t flags) {
  const Fd top(::open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!top.isOpen()) return fail(systemError(errno, "cannot open the directory", root));
  open_how how{};
  how.flags = flags | O_CLOEXEC;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  const auto* name = relative.empty() ? "." : relative.c_str();
  Fd found(static_cast<int>(::syscall(SYS_openat2, top.get(), name, &how, sizeof how)));
  if (!found.isOpen()) {
    return fail(systemError(errno, "cannot open what should lie in the job's own directory",
                            root + "/" + relative));
  }
  return found;
}

}  // namespace

Fd::~Fd() {
  if (number_ >= 0) ::close(number_);
}

bool exists(const std::string& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0;
}

Result<void> makeDirectories(const std::string& path, mode_t mode) {
  // Whatever the umask, `mode` is meant.
  const auto make = [&] {
    if (::mkdir(path.c_str(), mode) == 0) return ::chmod(path.c_str(), mode) == 0;
    return errno == EEXIST;
  };
  if (make()) return {};
  const int first = errno;
  const auto parent = std::filesystem::path(path).parent_path().string();
  if (first == ENOENT && !parent.empty() && parent != path) {
    BOLE_TRY(makeDirectories(parent, mode));
    if (make()) return {};
  }
  return fail(systemError(errno, "cannot make the directory", path));
}

Result<void> writeFile(const std::string& path, std::string_view content, mode_t mode) {
  const auto temporary = path + ".new";
  {
    const Fd file(
        ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, mode));
    if (!file.isOpen() || ::fchmod(file.get(), mode) != 0) {
      return fail(systemError(errno, "cannot write the file", temporary));
    }
    while (!content.empty()) {
      const auto written = ::write(file.get(), content.data(), content.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return fail(systemError(errno, "cannot write the file", temporary));
      content.remove_prefix(static_cast<std::size_t>(written));
    }
  }
  if (::rename(temporary.c_str(), path.c_str()) == 0) return {};
  return fail(systemError(errno, "cannot write the file", path));
}

Result<std::string> readFile(const std::string& path, std::size_t maximum) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!file.isOpen()) return fail(systemError(errno, "cannot read the file", path));
  std::string content(maximum, '\0');
  std::size_t size = 0;
  while (size < maximum) {
    const auto got = ::read(file.get(), content.data() + size, maximum - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail(systemError(errno, "cannot read the file", path));
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  content.resize(size);
  return content;
}

Result<void> removeTree(const std::string& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) return {};
  const int error = Remover(info.st_dev).entry(AT_FDCWD, path, 0);
  if (error != 0) return fail(systemError(error, "cannot remove the directory", path));
  return {};
}

Result<void> removeTreeBut(const std::string& path, const std::string& keepOne,
                           const std::string& keepTwo) {
  const Fd directory(::open(path.c_str(), kOpenDirectory));
  if (!directory.isOpen() && errno == ENOENT) return {};
  const auto device = deviceOf(directory.get());
  if (!device) return fail(systemError(errno, "cannot open the directory", path));
  const int error = Remover(*device).contents(directory.get(), 0, [&](const std::string& name) {
    return name == keepOne || name == keepTwo;
  });
  if (error != 0) return fail(systemError(error, "cannot empty the directory", path));
  return {};
}

std::optional<Bytes> sizeOfTree(const std::string& root, const std::string& relative,
                                std::size_t& entriesLeft) {
  const auto found = openBelowAs(root, relative, O_PATH | O_NOFOLLOW);
  if (!found && found.error().code == ErrorCode::kNotFound) return std::nullopt;
  struct stat info {};
  if (!found || ::fstat(found->get(), &info) != 0) return Bytes(0);
  if (S_ISREG(info.st_mode)) return Bytes(info.st_size);
  if (!S_ISDIR(info.st_mode)) return Bytes(0);
  Fd directory(::openat(found->get(), ".", kOpenDirectory));
  Measure measure(entriesLeft);
  if (directory.isOpen()) measure.add(std::move(directory), 0);
  return measure.sum();
}

Result<Fd> openBelow(const std::string& root, const std::string& relative) {
  return openBelowAs(root, relative, O_RDONLY | O_DIRECTORY);
}

}  // namespace bole::engine
