#include "cli/pack.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>

namespace bole::cli {
namespace {

struct FreeArchive {
  void operator()(archive* writer) const { archive_write_free(writer); }
};
struct FreeEntry {
  void operator()(archive_entry* entry) const { archive_entry_free(entry); }
};
struct FreeHash {
  void operator()(EVP_MD_CTX* hash) const { EVP_MD_CTX_free(hash); }
};

Result<Descriptor> openTemporary(const std::string& directory) {
  Descriptor file(::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (file.isOpen()) return file;
  auto name = directory + "/bole-upload-XXXXXX";  // a file system without O_TMPFILE
  file = Descriptor(::mkostemp(name.data(), O_CLOEXEC));
  if (!file.isOpen()) return fail(systemError(errno, "cannot make a temporary file", directory));
  ::unlink(name.c_str());
  return file;
}

class Packer {
 public:
  Packer(const PackRequest& request, const Listing& listing, Descriptor file)
      : request_(request),
        listing_(listing),
        file_(std::move(file)),
        hash_(EVP_MD_CTX_new()),
        writer_(archive_write_new()) {
    EVP_DigestInit_ex(hash_.get(), EVP_sha256(), nullptr);
    archive_write_set_format_gnutar(writer_.get());  // names are bytes there, whatever the locale
    archive_write_add_filter_none(writer_.get());
  }

  Result<Archive> pack() {
    if (archive_write_open(writer_.get(), this, nullptr, &Packer::onWrite, nullptr) != ARCHIVE_OK) {
      return fail(writeError());
    }
    for (const auto& entry : listing_.entries) BOLE_TRY(add(entry));
    if (archive_write_close(writer_.get()) != ARCHIVE_OK) return fail(writeError());
    Archive made;
    made.sha256 = hex();
    made.size = size_;
    made.entries = listing_.entries.size();
    made.warnings = listing_.warnings;
    made.file = std::move(file_);
    return made;
  }

 private:
  static la_ssize_t onWrite(archive* writer, void* self, const void* data, std::size_t size) {
    auto& packer = *static_cast<Packer*>(self);
    const std::string_view bytes(static_cast<const char*>(data), size);
    std::size_t done = 0;
    while (done < size) {
      const auto written = ::write(packer.file_.get(), bytes.data() + done, size - done);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) {
        archive_set_error(writer, errno, "cannot write the archive");
        return -1;
      }
      done += static_cast<std::size_t>(written);
    }
    EVP_DigestUpdate(packer.hash_.get(), data, size);
    packer.size_ += size;
    return static_cast<la_ssize_t>(size);
  }

  Result<void> add(const Entry& entry) {
    const std::unique_ptr<archive_entry, FreeEntry> header(archive_entry_new());
    archive_entry_set_pathname(header.get(), entry.path.c_str());
    archive_entry_set_mode(header.get(), entry.mode & (static_cast<unsigned>(S_IFMT) | 0777U));
    archive_entry_set_mtime(header.get(), entry.modified, 0);
    archive_entry_set_size(header.get(), static_cast<la_int64_t>(entry.size));
    if (!entry.target.empty()) archive_entry_set_symlink(header.get(), entry.target.c_str());
    if (archive_write_header(writer_.get(), header.get()) < ARCHIVE_WARN) return fail(writeError());
    return S_ISREG(entry.mode) ? addContent(entry) : Result<void>();
  }

  Result<void> addContent(const Entry& entry) {
    const auto path = request_.directory + "/" + entry.path;
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!file.isOpen()) {
      return fail(systemError(errno, "cannot read a file that is to come along", path));
    }
    std::array<char, 64 * 1024> buffer;
    std::uint64_t left = entry.size;
    while (left > 0) {
      const auto want = static_cast<std::size_t>(std::min<std::uint64_t>(left, buffer.size()));
      const auto got = ::read(file.get(), buffer.data(), want);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0)
        return fail(systemError(errno, "cannot read a file that is to come along", path));
      if (got == 0) {
        return fail(
            makeError(ErrorCode::kConflict, "a file became shorter while it was read")
                .at(path)
                .withHint("submit again when nothing writes to it, or leave it out by .gitignore"));
      }
      if (archive_write_data(writer_.get(), buffer.data(), static_cast<std::size_t>(got)) < 0) {
        return fail(writeError());
      }
      left -= static_cast<std::uint64_t>(got);
    }
    return {};
  }

  [[nodiscard]] Error writeError() const {
    const int number = archive_errno(writer_.get());
    if (number > 0) return systemError(number, "cannot pack the job's files", request_.temporary);
    const char* text = archive_error_string(writer_.get());
    return makeError(ErrorCode::kInternal, "cannot pack the job's files")
        .at(request_.directory)
        .foundValue(text ? text : "unknown");
  }

  [[nodiscard]] std::string hex() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
    unsigned size = 0;
    EVP_DigestFinal_ex(hash_.get(), digest.data(), &size);
    std::string text;
    for (unsigned i = 0; i < size; ++i) text += fmt::format("{:02x}", digest[i]);
    return text;
  }

  const PackRequest& request_;
  const Listing& listing_;
  Descriptor file_;
  std::unique_ptr<EVP_MD_CTX, FreeHash> hash_;
  std::unique_ptr<archive, FreeArchive> writer_;
  std::uint64_t size_ = 0;
};

}  // namespace

Result<Archive> pack(const PackRequest& request) {
  BOLE_ASSIGN(const auto listing, listFiles(request));
  BOLE_ASSIGN(auto file, openTemporary(request.temporary));
  BOLE_ASSIGN(auto made, Packer(request, listing, std::move(file)).pack());
  if (made.size <= static_cast<std::uint64_t>(request.limit.value)) return made;
  return fail(makeError(ErrorCode::kRefused, "the archive of the job's files is too large")
                  .at(request.directory)
                  .foundValue(formatBytes(Bytes(static_cast<std::int64_t>(made.size))))
                  .expectedValue("at most " + formatBytes(request.limit)));
}

}  // namespace bole::cli
