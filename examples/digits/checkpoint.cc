#include "checkpoint.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <type_traits>

#include "hash.h"
#include "model.h"
#include "output.h"
#include "wire.h"

namespace digits {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMagic = 0x3254504b43474944ULL;  // "DIGCKPT2" on a little-endian machine

// The file: this header, the weights, the velocity, the hash of all that.
struct Header {
  std::uint64_t magic;
  std::uint64_t seed;
  std::uint64_t epoch;
  double loss;
  std::uint64_t parameters;
};
static_assert(std::is_trivially_copyable_v<Header> && sizeof(Header) == 40);

std::string fileName(int epoch) {
  return format("epoch-%04d.ckpt", epoch);
}

tl::unexpected<Failure> systemFailure(const std::string& what, const std::string& path) {
  const int error = errno;
  return failed(what + " " + path + ": " + std::strerror(error));
}

std::string serialise(std::uint64_t seed, const TrainingState& state) {
  const Header header{kMagic, seed, static_cast<std::uint64_t>(state.epoch), state.loss,
                      state.weights.size()};
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof(header));
  bytes += bytesOf(state.weights);
  bytes += bytesOf(state.velocity);
  const std::uint64_t hash = hashBytes(bytes);
  return bytes.append(reinterpret_cast<const char*>(&hash), sizeof(hash));
}

Result<void> writeDurably(const std::string& path, const std::string& bytes) {
  const Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!file.isOpen()) return systemFailure("cannot write checkpoint", path);
  std::size_t written = 0;
  while (written < bytes.size()) {
    const auto n = ::write(file.get(), bytes.data() + written, bytes.size() - written);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return systemFailure("cannot write checkpoint", path);
    written += static_cast<std::size_t>(n);
  }
  if (::fsync(file.get()) != 0) return systemFailure("cannot flush checkpoint", path);
  return {};
}

Result<void> syncDirectory(const std::string& directory) {
  const Fd fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.isOpen() || ::fsync(fd.get()) != 0)
    return systemFailure("cannot flush directory", directory);
  return {};
}

struct Loaded {
  TrainingState state;
  std::uint64_t seed = 0;
  std::uint64_t parameters = 0;
};

// The reason, for people, when the file is not a whole checkpoint.
tl::expected<Loaded, std::string> load(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return tl::unexpected<std::string>(std::string("cannot be read: ") + std::strerror(errno));
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  Header header{};
  std::uint64_t hash = 0;
  if (bytes.size() < sizeof(header) + sizeof(hash)) {
    return tl::unexpected<std::string>("is cut short");
  }
  const std::size_t bodyEnd = bytes.size() - sizeof(hash);
  std::memcpy(&header, bytes.data(), sizeof(header));
  std::memcpy(&hash, bytes.data() + bodyEnd, sizeof(hash));
  if (header.magic != kMagic) return tl::unexpected<std::string>("is not a checkpoint of digits");
  if (hash != hashBytes(std::string_view(bytes).substr(0, bodyEnd))) {
    return tl::unexpected<std::string>("is torn or damaged (its checksum does not match)");
  }
  Loaded loaded;
  loaded.seed = header.seed;
  loaded.parameters = header.parameters;
  loaded.state.epoch = static_cast<int>(header.epoch);
  loaded.state.loss = header.loss;
  if (header.parameters != kParameters ||
      bodyEnd != sizeof(header) + 2 * kParameters * sizeof(float)) {
    return loaded;  // of another network; the caller says so
  }
  loaded.state.weights.resize(kParameters);
  loaded.state.velocity.resize(kParameters);
  const std::size_t size = kParameters * sizeof(float);
  std::memcpy(loaded.state.weights.data(), bytes.data() + sizeof(header), size);
  std::memcpy(loaded.state.velocity.data(), bytes.data() + sizeof(header) + size, size);
  return loaded;
}

// Newest first.
std::vector<std::pair<int, fs::path>> listCheckpoints(const std::string& directory) {
  std::vector<std::pair<int, fs::path>> found;
  std::error_code ignored;  // prepareDirectory has seen that it can be read
  for (fs::directory_iterator it(directory, ignored), end; it != end; it.increment(ignored)) {
    int epoch = 0;
    const std::string name = it->path().filename();
    if (std::sscanf(name.c_str(), "epoch-%9d.ckpt", &epoch) == 1 && name == fileName(epoch)) {
      found.emplace_back(epoch, it->path());
    }
  }
  std::sort(found.rbegin(), found.rend());
  return found;
}

}  // namespace

Result<void> prepareDirectory(const std::string& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) return failed("cannot make directory " + directory + ": " + error.message());
  std::vector<fs::path> leftovers;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename();
    if (name.starts_with("epoch-") && name.ends_with(".ckpt.tmp")) leftovers.push_back(it->path());
  }
  if (error) return failed("cannot read directory " + directory + ": " + error.message());
  for (const auto& path : leftovers) fs::remove(path, error);
  return {};
}

Result<std::string> writeCheckpoint(const std::string& directory, std::uint64_t seed,
                                    const TrainingState& state) {
  const std::string path = (fs::path(directory) / fileName(state.epoch)).string();
  const std::string temporary = path + ".tmp";
  if (auto written = writeDurably(temporary, serialise(seed, state)); !written) {
    ::unlink(temporary.c_str());
    return passOn(written.error());
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0)
    return systemFailure("cannot rename to", path);
  if (auto synced = syncDirectory(directory); !synced) return passOn(synced.error());
  return path;
}

Result<std::optional<TrainingState>> newestCheckpoint(const std::string& directory,
                                                      std::uint64_t seed) {
  for (const auto& [epoch, path] : listCheckpoints(directory)) {
    auto loaded = load(path);
    if (!loaded) {
      printErrorLine("rank 0: skipping checkpoint " + path.string() + ": it " + loaded.error());
      continue;
    }
    if (loaded->state.weights.empty()) {
      return failed(path.string() + ": is of a network with " + std::to_string(loaded->parameters) +
                    " parameters, this one has " + std::to_string(kParameters) +
                    "; use another --checkpoint-dir");
    }
    if (loaded->seed != seed) {
      return misused("--seed: found " + std::to_string(seed) + ", but " + path.string() +
                     " is of seed " + std::to_string(loaded->seed) +
                     "; use that seed or another --checkpoint-dir");
    }
    return std::move(loaded->state);
  }
  return std::nullopt;
}

void Keeper::keep(const TrainingState& state, bool saved) {
  const std::lock_guard lock(mutex_);
  kept_ = state;
  if (saved) savedEpoch_ = state.epoch;
}

Result<void> Keeper::save() {
  const std::lock_guard lock(mutex_);
  if (directory_.empty() || kept_.epoch == savedEpoch_) return {};
  const auto path = writeCheckpoint(directory_, seed_, kept_);
  if (!path) return passOn(path.error());
  savedEpoch_ = kept_.epoch;
  printLine("BOLE checkpoint path=" + *path + " epoch=" + std::to_string(kept_.epoch));
  return {};
}

}  // namespace digits
