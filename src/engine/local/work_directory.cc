#include "engine/local/work_directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "engine/local/files.h"

namespace bole::engine {
namespace {

constexpr int kOpenDirectory = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

Result<void> give(int directory, const std::optional<Owner>& owner, const std::string& path) {
  if (owner && ::fchown(directory, owner->uid, owner->gid) != 0) {
    return fail(systemError(errno, "cannot give the directory to the job's user", path));
  }
  return {};
}

// Makes `relative` one part after the other. What the archive put in its way stays: then there is
// none, and the job may deal with its own links as it likes.
Result<void> makeCheckpoints(int top, const WorkRequest& request) {
  Fd at(::fcntl(top, F_DUPFD_CLOEXEC, 0));
  for (const auto& part : std::filesystem::path(request.checkpoints)) {
    const auto name = part.string();
    if (name.empty() || name == ".") continue;
    if (name == "..") return {};
    const bool isNew = ::mkdirat(at.get(), name.c_str(), 0755) == 0;
    if (!isNew && errno != EEXIST) {
      return fail(systemError(errno, "cannot make the directory for checkpoints",
                              request.directory + "/" + request.checkpoints));
    }
    Fd inner(::openat(at.get(), name.c_str(), kOpenDirectory));
    if (!inner.isOpen()) return {};
    if (isNew && ::fchmod(inner.get(), 0755) != 0) return {};
    if (isNew) BOLE_TRY(give(inner.get(), request.owner, request.directory));
    at = std::move(inner);
  }
  return {};
}

}  // namespace

bool hasWorkDirectory(const std::string& directory) {
  struct stat info {};
  return ::lstat(directory.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

Result<void> makeWorkDirectory(const WorkRequest& request, const std::atomic<bool>& cancelled) {
  if (hasWorkDirectory(request.directory)) return {};
  const std::filesystem::path path(request.directory);
  const auto parent = path.parent_path().string();
  const auto making = parent + "/.new-" + path.filename().string();
  BOLE_TRY(makeDirectories(parent, 0711));
  BOLE_TRY(removeTree(making));
  BOLE_TRY(makeDirectories(making, 0700));
  const Fd top(::open(making.c_str(), kOpenDirectory));
  if (!top.isOpen()) return fail(systemError(errno, "cannot open the directory", making));
  if (!request.archive.empty()) {
    BOLE_TRY(unpackUpload(request.archive, making, request.owner, request.limits, cancelled));
  }
  if (!request.checkpoints.empty()) BOLE_TRY(makeCheckpoints(top.get(), request));
  BOLE_TRY(give(top.get(), request.owner, making));
  // Files first, then the name that says that they are complete.
  if (!request.archive.empty() && ::syncfs(top.get()) != 0) {
    return fail(systemError(errno, "cannot flush what the job brought along", making));
  }
  if (::rename(making.c_str(), request.directory.c_str()) != 0) {
    return fail(systemError(errno, "cannot make the job's directory", request.directory));
  }
  return {};
}

Result<void> checkStartDirectory(const std::string& directory, const std::string& relative,
                                 const std::optional<Owner>& owner) {
  const auto opened = openBelow(directory, relative);
  const auto path = relative.empty() ? directory : directory + "/" + relative;
  struct stat info {};
  const bool fine =
      opened && ::fstat(opened->get(), &info) == 0 && (!owner || info.st_uid == owner->uid);
  if (fine) return {};
  return fail(makeError(ErrorCode::kInvalid, "the job cannot start in this directory")
                  .at(path)
                  .foundValue(opened ? "a directory of uid " + std::to_string(info.st_uid)
                                     : "no directory, or a link on the way")
                  .expectedValue("a directory that the job brought along or made"));
}

}  // namespace bole::engine
