#include "engine/local/upload_archive.h"

#include <archive.h>
#include <archive_entry.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <unordered_set>

#include "engine/local/files.h"

namespace bole::engine {
namespace {

struct CloseReader {
  void operator()(archive* reader) const { archive_read_free(reader); }
};
struct CloseWriter {
  void operator()(archive* writer) const { archive_write_free(writer); }
};

struct FreeEntry {
  void operator()(archive_entry* entry) const { archive_entry_free(entry); }
};

// The path below the directory: without "./" and doubled slashes, "" for the directory itself;
// nothing if it would leave.
std::optional<std::string> inside(const std::string& path) {
  if (path.empty() || path.front() == '/') return std::nullopt;
  std::string clean;
  std::size_t at = 0;
  while (at <= path.size()) {
    const auto end = std::min(path.find('/', at), path.size());
    const auto part = path.substr(at, end - at);
    if (part == "..") return std::nullopt;
    if (!part.empty() && part != ".") clean += (clean.empty() ? "" : "/") + part;
    at = end + 1;
  }
  return clean;
}

class Unpacker {
 public:
  Unpacker(std::string archivePath, std::string directory, std::optional<Owner> owner,
           const UploadLimits& limits, const std::atomic<bool>& cancelled)
      : path_(std::move(archivePath)),
        directory_(std::move(directory)),
        owner_(owner),
        limits_(limits),
        cancelled_(cancelled),
        reader_(archive_read_new()),
        writer_(archive_write_disk_new()) {}

  Result<void> run() {
    archive_read_support_format_tar(reader_.get());
    archive_read_support_format_empty(reader_.get());
    int flags = ARCHIVE_EXTRACT_PERM | ARCHIVE_EXTRACT_TIME | ARCHIVE_EXTRACT_SECURE_NODOTDOT |
                ARCHIVE_EXTRACT_SECURE_SYMLINKS;
    if (owner_) flags |= ARCHIVE_EXTRACT_OWNER;
    archive_write_disk_set_options(writer_.get(), flags);
    if (archive_read_open_filename(reader_.get(), path_.c_str(), 64 * 1024) != ARCHIVE_OK) {
      return fail(readError());
    }
    for (;;) {
      archive_entry* entry = nullptr;
      const int got = archive_read_next_header(reader_.get(), &entry);
      if (got == ARCHIVE_EOF) break;
      if (got != ARCHIVE_OK && got != ARCHIVE_WARN) return fail(readError());
      BOLE_TRY(take(entry));
    }
    // Times and modes of directories are set last.
    if (archive_write_close(writer_.get()) != ARCHIVE_OK) return fail(writeError(directory_));
    return {};
  }

 private:
  Result<void> take(archive_entry* entry) {
    BOLE_TRY(checkBounds(entry));
    BOLE_ASSIGN(const auto path, checkPath(entry));
    if (path.empty()) return {};  // the directory itself is ours
    BOLE_TRY(checkKind(entry, path));
    BOLE_TRY(makeParents(path));
    return write(entry, path);
  }

  // The directories above that the archive does not name: libarchive would make them, but as the
  // server's.
  Result<void> makeParents(const std::string& path) {
    for (auto at = path.find('/'); at != std::string::npos; at = path.find('/', at + 1)) {
      const auto parent = path.substr(0, at);
      if (!known_.insert(parent).second) continue;
      BOLE_TRY(countEntry());
      const std::unique_ptr<archive_entry, FreeEntry> made(archive_entry_new());
      archive_entry_set_filetype(made.get(), AE_IFDIR);
      archive_entry_set_perm(made.get(), 0755);
      BOLE_TRY(write(made.get(), parent));
    }
    known_.insert(path);
    return {};
  }

  Result<void> write(archive_entry* entry, const std::string& path) {
    archive_entry_set_pathname(entry, (directory_ + "/" + path).c_str());
    const bool isDirectory = archive_entry_filetype(entry) == AE_IFDIR;
    archive_entry_set_perm(entry,
                           (archive_entry_perm(entry) & 0777) | (isDirectory ? 0700U : 0600U));
    if (owner_) {
      archive_entry_set_uid(entry, owner_->uid);
      archive_entry_set_gid(entry, owner_->gid);
      archive_entry_set_uname(entry, nullptr);
      archive_entry_set_gname(entry, nullptr);
    }
    const int made = archive_write_header(writer_.get(), entry);
    if (made != ARCHIVE_OK) return fail(writeError(path));
    if (!archive_entry_hardlink(entry) && !isDirectory) BOLE_TRY(copyData(path));
    if (archive_write_finish_entry(writer_.get()) != ARCHIVE_OK) return fail(writeError(path));
    return {};
  }

  Result<void> checkBounds(archive_entry* entry) {
    if (cancelled_)
      return fail(ErrorCode::kUnavailable, "unpacking was given up: the server stops");
    BOLE_TRY(countEntry());
    const auto size = archive_entry_size(entry);
    if (size < 0 || size > limits_.bytes.value - bytes_) {
      return fail(makeError(ErrorCode::kInvalid, "the archive's files are too large")
                      .at(path_)
                      .expectedValue("at most " + formatBytes(limits_.bytes) + " together"));
    }
    bytes_ += size;
    return {};
  }

  Result<void> countEntry() {
    if (++entries_ <= limits_.entries) return {};
    return fail(makeError(ErrorCode::kInvalid, "the archive holds too many files")
                    .at(path_)
                    .expectedValue("at most " + std::to_string(limits_.entries)));
  }

  Result<std::string> checkPath(archive_entry* entry) {
    const char* raw = archive_entry_pathname(entry);
    auto path = raw ? inside(raw) : std::nullopt;
    if (!path) return fail(refused(raw ? raw : "", "a path inside of the archive's own directory"));
    return *path;
  }

  Result<void> checkKind(archive_entry* entry, const std::string& path) {
    if (const char* target = archive_entry_hardlink(entry)) {
      const auto clean = inside(target);
      if (!clean || files_.count(*clean) == 0) {
        return fail(refused(path, "a hard link to a file of the archive, before it"));
      }
      archive_entry_set_hardlink(entry, (directory_ + "/" + *clean).c_str());
      archive_entry_set_size(entry, 0);
      return {};
    }
    const auto kind = archive_entry_filetype(entry);
    if (kind == AE_IFREG) files_.insert(path);
    if (kind == AE_IFREG || kind == AE_IFDIR || kind == AE_IFLNK) return {};
    return fail(refused(path, "files, directories and links"));
  }

  Result<void> copyData(const std::string& path) {
    const void* block = nullptr;
    std::size_t size = 0;
    la_int64_t offset = 0;
    for (;;) {
      const int got = archive_read_data_block(reader_.get(), &block, &size, &offset);
      if (got == ARCHIVE_EOF) return {};
      if (got != ARCHIVE_OK) return fail(readError());
      if (cancelled_) {
        return fail(ErrorCode::kUnavailable, "unpacking was given up: the server stops");
      }
      if (archive_write_data_block(writer_.get(), block, size, offset) < ARCHIVE_OK) {
        return fail(writeError(path));
      }
    }
  }

  Error refused(const std::string& path, std::string expected) {
    return makeError(ErrorCode::kInvalid, "the archive that the job brought along is refused")
        .at(path_)
        .foundValue("entry '" + path + "'")
        .expectedValue(std::move(expected));
  }
  Error readError() {
    const int number = archive_errno(reader_.get());
    if (number == ENOENT) {
      return makeError(ErrorCode::kNotFound, "the files that the job brought along are gone")
          .at(path_)
          .withHint("submit the job again");
    }
    const char* text = archive_error_string(reader_.get());
    return makeError(ErrorCode::kCorrupt, "the archive that the job brought along cannot be read")
        .at(path_)
        .foundValue(text ? text : "unknown")
        .withHint("submit the job again");
  }
  Error writeError(const std::string& path) {
    const int number = archive_errno(writer_.get());
    if (number > 0) return systemError(number, "cannot unpack what the job brought along", path);
    return refused(path, archive_error_string(writer_.get()));
  }

  std::string path_;
  std::string directory_;
  std::optional<Owner> owner_;
  const UploadLimits& limits_;
  const std::atomic<bool>& cancelled_;
  std::unique_ptr<archive, CloseReader> reader_;
  std::unique_ptr<archive, CloseWriter> writer_;
  std::unordered_set<std::string> files_;  // regular ones so far: what a hard link may name
  std::unordered_set<std::string> known_;  // every path so far
  std::uint64_t entries_ = 0;
  std::int64_t bytes_ = 0;
};

}  // namespace

Result<void> unpackUpload(const std::string& archive, const std::string& directory,
                          const std::optional<Owner>& owner, const UploadLimits& limits,
                          const std::atomic<bool>& cancelled) {
  // libarchive refuses every link on the way, those above the directory too: they are the host's
  // and fine.
  std::error_code error;
  const auto real = std::filesystem::canonical(directory, error);
  if (error) return fail(systemError(error.value(), "cannot unpack into the directory", directory));
  return Unpacker(archive, real.string(), owner, limits, cancelled).run();
}

}  // namespace bole::engine
