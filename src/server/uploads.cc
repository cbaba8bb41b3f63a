#include "server/uploads.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <vector>

namespace bole::server {
namespace {

constexpr std::string_view kSuffix = ".tar";
constexpr std::string_view kPartPrefix = ".part-";
constexpr Duration kFresh =
    hours(1);  // as long an archive waits for the job that it was brought for

std::string shown(std::uint64_t bytes) {
  return formatBytes(Bytes(static_cast<std::int64_t>(bytes)));
}

// The names in a directory, without . and ..
std::vector<std::string> namesIn(const std::string& directory) {
  std::vector<std::string> names;
  DIR* handle = opendir(directory.c_str());
  if (!handle) return names;
  while (const auto* entry = readdir(handle)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  closedir(handle);
  return names;
}

Result<void> syncDirectory(const std::string& directory) {
  const int fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return fail(systemError(errno, "cannot open the uploads' directory", directory));
  const int done = fsync(fd);
  const int error = errno;
  ::close(fd);
  if (done != 0) return fail(systemError(error, "cannot flush the uploads' directory", directory));
  return {};
}

}  // namespace

bool isSha256(std::string_view text) {
  return text.size() == 64 && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

struct Upload::Hash {
  Hash() : context(EVP_MD_CTX_new()) { EVP_DigestInit_ex(context, EVP_sha256(), nullptr); }
  ~Hash() { EVP_MD_CTX_free(context); }
  Hash(const Hash&) = delete;
  Hash& operator=(const Hash&) = delete;

  void add(std::string_view bytes) { EVP_DigestUpdate(context, bytes.data(), bytes.size()); }

  [[nodiscard]] std::string hex() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
    unsigned size = 0;
    EVP_DigestFinal_ex(context, digest.data(), &size);
    std::string text;
    for (unsigned i = 0; i < size; ++i) text += fmt::format("{:02x}", digest[i]);
    return text;
  }

  EVP_MD_CTX* context;
};

Upload::Upload(Uploads& owner, std::string sha256)
    : owner_(owner), sha256_(std::move(sha256)), hash_(std::make_unique<Hash>()) {}

Upload::~Upload() {
  if (fd_ >= 0) ::close(fd_);
  if (!part_.empty()) {
    ::unlink(part_.c_str());
    owner_.giveBack(size_);
  }
  owner_.ended();
}

Result<void> Upload::write(std::string_view piece) {
  if (size_ + piece.size() > owner_.limits().oneBytes) {
    return fail(owner_.tooLarge(size_ + piece.size()));
  }
  hash_->add(piece);
  if (part_.empty()) {
    size_ += piece.size();
    return {};
  }
  BOLE_TRY(owner_.reserve(piece.size()));
  size_ += piece.size();
  while (!piece.empty()) {
    const auto written = ::write(fd_, piece.data(), piece.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return fail(systemError(errno, "cannot keep the upload", part_));
    piece.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

Result<bool> Upload::finish() {
  const auto found = hash_->hex();
  if (found != sha256_) {
    return fail(makeError(ErrorCode::kInvalid, "the archive has another hash than its name says")
                    .foundValue(found)
                    .expectedValue(sha256_)
                    .withHint("it was changed on the way, or while it was being sent"));
  }
  if (part_.empty()) return true;
  if (fsync(fd_) != 0) return fail(systemError(errno, "cannot flush the upload", part_));
  const auto path = owner_.pathOf(sha256_);
  const bool existed = ::access(path.c_str(), F_OK) == 0;  // someone sent the same meanwhile
  if (::rename(part_.c_str(), path.c_str()) != 0) {
    return fail(systemError(errno, "cannot name the upload", path));
  }
  part_.clear();
  if (existed) owner_.giveBack(size_);
  BOLE_TRY(syncDirectory(owner_.directory_));
  return existed;
}

Uploads::Uploads(std::string directory, UploadLimits limits,
                 std::function<std::set<std::string>()> inUse, std::function<Timestamp()> wall)
    : directory_(std::move(directory)),
      limits_(limits),
      inUse_(std::move(inUse)),
      wall_(std::move(wall)) {}

Result<void> Uploads::open() {
  if (directory_.empty()) return {};
  if (::mkdir(directory_.c_str(), 0700) != 0 && errno != EEXIST) {
    return fail(systemError(errno, "cannot make the uploads' directory", directory_));
  }
  if (::chmod(directory_.c_str(), 0700) != 0) {
    return fail(systemError(errno, "cannot close the uploads' directory to others", directory_));
  }
  for (const auto& name : namesIn(directory_)) {
    const auto path = directory_ + "/" + name;
    struct stat info {};
    if (name.starts_with(kPartPrefix))
      ::unlink(path.c_str());
    else if (::stat(path.c_str(), &info) == 0)
      kept_ += static_cast<std::uint64_t>(info.st_size);
  }
  return {};
}

Result<std::shared_ptr<Upload>> Uploads::begin(const std::string& sha256) {
  if (directory_.empty()) return fail(ErrorCode::kUnsupported, "this server takes no uploads");
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    if (running_ >= limits_.atOnce) {
      return fail(makeError(ErrorCode::kUnavailable, "too many uploads at once")
                      .expectedValue(fmt::format("at most {}", limits_.atOnce))
                      .withHint("try again when one has ended"));
    }
    ++running_;
    number = ++parts_;
  }
  std::shared_ptr<Upload> upload(new Upload(*this, sha256));
  if (has(sha256)) return upload;
  const auto part = fmt::format("{}/{}{}-{}", directory_, kPartPrefix, number, sha256);
  upload->fd_ = ::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (upload->fd_ < 0) return fail(systemError(errno, "cannot begin the upload", part));
  upload->part_ = part;
  return upload;
}

bool Uploads::has(const std::string& sha256) const {
  return !directory_.empty() && ::utimensat(AT_FDCWD, pathOf(sha256).c_str(), nullptr, 0) == 0;
}

Error Uploads::tooLarge(std::uint64_t size) const {
  return makeError(ErrorCode::kRefused, "the upload is too large")
      .foundValue(fmt::format("{} ({} bytes)", shown(size), size))
      .expectedValue(
          fmt::format("at most {} ({} bytes)", shown(limits_.oneBytes), limits_.oneBytes))
      .withHint("mount large data instead of bringing it along, or leave it out by .gitignore");
}

std::string Uploads::pathOf(const std::string& sha256) const {
  return fmt::format("{}/{}{}", directory_, sha256, kSuffix);
}

Result<void> Uploads::reserve(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (kept_ + bytes > limits_.allBytes) removeOldest();
  if (kept_ + bytes > limits_.allBytes) {
    return fail(
        makeError(ErrorCode::kUnavailable, "too much is kept of earlier uploads")
            .at(directory_)
            .foundValue(shown(kept_))
            .expectedValue("at most " + shown(limits_.allBytes))
            .withHint("what jobs that have ended brought is removed when it is an hour old"));
  }
  kept_ += bytes;
  return {};
}

void Uploads::giveBack(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  kept_ -= std::min(bytes, kept_);
}

void Uploads::ended() {
  const std::lock_guard lock(mutex_);
  --running_;
}

// The oldest first, until a quarter of what is allowed is free: with the lock held.
void Uploads::removeOldest() {
  struct Entry {
    std::int64_t usedAt;  // seconds
    std::string path;
    std::uint64_t size;
  };
  const auto used = inUse_();
  const auto fresh = (wall_() - kFresh).micros / 1'000'000;
  std::vector<Entry> entries;
  for (const auto& name : namesIn(directory_)) {
    struct stat info {};
    const auto path = directory_ + "/" + name;
    if (!name.ends_with(kSuffix) || used.contains(name.substr(0, name.size() - kSuffix.size()))) {
      continue;
    }
    if (::stat(path.c_str(), &info) != 0 || info.st_mtim.tv_sec > fresh) continue;
    entries.push_back({info.st_mtim.tv_sec, path, static_cast<std::uint64_t>(info.st_size)});
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.usedAt < b.usedAt; });
  for (const auto& entry : entries) {
    if (kept_ <= limits_.allBytes / 4 * 3) return;
    if (::unlink(entry.path.c_str()) == 0) kept_ -= std::min(entry.size, kept_);
  }
}

}  // namespace bole::server
