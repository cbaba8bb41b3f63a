#include "engine/local/supervise/sandbox.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

namespace bole::supervise {
namespace {

namespace fs = std::filesystem;

// Of the machine's own tree, read-only. /etc holds secrets too, but none that a stranger's uid may read.
constexpr const char* kSystem[] = {"/usr", "/etc", "/opt", "/bin", "/sbin", "/lib",
                                   "/lib32", "/lib64", "/libx32", "/sys", "/nix"};

std::string real(const std::string& path) {
  char* found = ::realpath(path.c_str(), nullptr);
  std::string out = found ? found : path;
  ::free(found);
  return out;
}

bool isBelow(const std::string& path, const std::string& top) {
  if (top == "/") return true;
  return path == top || (path.size() > top.size() && path.compare(0, top.size(), top) == 0 &&
                         path[top.size()] == '/');
}

class Builder {
 public:
  Builder(const Launch& launch, const RankLaunch& rank, const SandboxPlace& place)
      : launch_(launch), rank_(rank), place_(place) {
    for (const auto& path : launch.maskPaths) masked_.push_back(real(path));
  }

  Result<Sandbox> build() {
    namespaces();
    system();
    privateFiles();
    devices();
    BOLE_TRY(identity());
    add({"--ro-bind", place_.init, kInitInside});
    add({"--bind", place_.reportsDirectory, kReportsInside});
    for (const auto& mount : rank_.mounts) BOLE_TRY(bind(mount));
    // The working directory is Bole's own or one that the engine vouches for.
    BOLE_TRY(bind({rank_.cwd, rank_.cwd, false, true}));
    return std::move(out_);
  }

 private:
  void add(std::vector<std::string> words) {
    for (auto& word : words) out_.arguments.push_back(std::move(word));
  }

  void namespaces() {
    add({"--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--die-with-parent",
         "--as-pid-1"});
    if (!place_.root) add({"--unshare-user"});
  }

  void system() {
    for (const std::string path : kSystem) {
      struct stat facts {};
      if (::lstat(path.c_str(), &facts) != 0) continue;
      if (S_ISLNK(facts.st_mode)) {
        std::error_code lost;
        add({"--symlink", fs::read_symlink(path, lost).string(), path});
      } else {
        add({"--ro-bind", path, path});
        mask(path, path);
      }
    }
    add({"--proc", "/proc"});
  }

  void privateFiles() {
    const auto quarter = std::to_string(std::max<std::int64_t>(place_.machineMemory.value / 4, kMiB.value * 64));
    for (const auto* path : {"/tmp", "/home", "/var"}) {
      add({"--perms", "1777", "--size", quarter, "--tmpfs", path});
    }
    add({"--perms", "0755", "--tmpfs", "/run"});
    add({"--perms", "1777", "--dir", "/var/tmp", "--symlink", "/run", "/var/run"});
    add({"--perms", "0777", "--dir", kHomeInside});
  }

  void devices() {
    add({"--dev", "/dev"});
    const auto shm = rank_.shm.value > 0 ? rank_.shm.value : place_.machineMemory.value / 2;
    add({"--perms", "1777", "--size", std::to_string(std::max<std::int64_t>(shm, kMiB.value)),
         "--tmpfs", "/dev/shm"});
    for (const auto& device : rank_.devices) add({"--dev-bind", device, device});
  }

  // A name for the rank's uid, since many programs ask for it.
  Result<void> identity() {
    const auto uid = std::to_string(place_.root ? rank_.uid : ::getuid());
    const auto gid = std::to_string(place_.root ? rank_.gid : ::getgid());
    BOLE_TRY(name("/etc/passwd", "job:x:" + uid + ":" + gid + ":Bole job:" + kHomeInside + ":/bin/sh\n"));
    return name("/etc/group", "job:x:" + gid + ":\n");
  }

  Result<void> name(const std::string& path, const std::string& line) {
    const auto known = readFile(path, 16u << 20);
    // First of its number: the host may know the same one by another name.
    BOLE_ASSIGN(auto file, memoryFile(line + (known ? *known : ""), "names"));
    out_.data.push_back({std::move(file), path});
    return {};
  }

  Result<void> bind(const Mount& mount) {
    const auto source = real(mount.source);
    if (!pathExists(source)) {
      return fail(makeError(ErrorCode::kInvalid, "a mount's source is not there").at(mount.source));
    }
    for (const auto& masked : masked_) {
      if (!mount.fromBole && isBelow(source, masked)) {
        return fail(makeError(ErrorCode::kPermission, "this directory is the server's own and is not mounted into jobs")
                        .at(mount.source));
      }
    }
    makeParents(mount.target);
    add({mount.readOnly ? "--ro-bind" : "--bind", source, mount.target});
    if (!mount.fromBole) mask(source, mount.target);
    return {};
  }

  // bubblewrap makes what is missing above a target for root alone; the rank has to pass through.
  void makeParents(const std::string& target) {
    for (auto slash = target.find('/', 1); slash != std::string::npos; slash = target.find('/', slash + 1)) {
      const auto parent = target.substr(0, slash);
      const bool system = std::any_of(std::begin(kSystem), std::end(kSystem), [&](const char* path) {
        return isBelow(parent, path);
      });
      if (!system) add({"--perms", "0755", "--dir", parent});
    }
  }

  // What is hidden and lies below `source` is hidden below `target` too.
  void mask(const std::string& source, const std::string& target) {
    for (const auto& masked : masked_) {
      if (masked == source || !isBelow(masked, source)) continue;
      const auto rest = masked.substr(source == "/" ? 0 : source.size());
      add({"--perms", "0755", "--tmpfs", (target == "/" ? "" : target) + rest});
    }
  }

  const Launch& launch_;
  const RankLaunch& rank_;
  const SandboxPlace& place_;
  std::vector<std::string> masked_;
  Sandbox out_;
};

}  // namespace

Result<Sandbox> buildSandbox(const Launch& launch, const RankLaunch& rank,
                             const SandboxPlace& place) {
  return Builder(launch, rank, place).build();
}

}  // namespace bole::supervise
