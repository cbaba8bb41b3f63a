#include "engine/local/supervise/sandbox.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <sstream>

namespace bole::supervise {
namespace {

namespace fs = std::filesystem;

// Of the machine's own tree, read-only. /etc holds secrets too, but none that a stranger's uid may
// read.
constexpr const char* kSystem[] = {"/usr", "/etc",   "/opt",   "/bin",    "/sbin",
                                   "/lib", "/lib32", "/lib64", "/libx32", "/nix"};
constexpr char kSysfs[] = "/sys";
// Made by bubblewrap or by Bole for every rank.
constexpr const char* kOwn[] = {"/proc", kSysfs, "/dev", kReportsInside, kInitInside, "/var/run"};

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

}  // namespace

std::vector<std::string> processViews() {
  std::vector<std::string> found;
  const auto text = readFile("/proc/self/mountinfo", 16u << 20);
  std::istringstream lines(text ? *text : std::string());
  for (std::string line; std::getline(lines, line);) {
    if (line.find(" - proc ") == std::string::npos) continue;
    std::istringstream words(line);
    std::string path;
    for (int i = 0; i < 5; ++i) words >> path;
    found.push_back(path);
  }
  return found;
}

namespace {

// Absolute and without "." and "..".
bool isNormal(const std::string& path) {
  return !path.empty() && path.front() == '/' && path == fs::path(path).lexically_normal() &&
         (path == "/" || path.back() != '/');
}

std::optional<MountSeen> lookAt(int top, const std::string& path, std::uint64_t resolve) {
  open_how how{};
  how.flags = O_PATH | O_CLOEXEC;
  how.resolve = resolve;
  const Fd found(static_cast<int>(::syscall(SYS_openat2, top, path.c_str(), &how, sizeof how)));
  struct stat facts {};
  if (!found.isOpen() || ::fstat(found.get(), &facts) != 0) return std::nullopt;
  return MountSeen{path, facts.st_dev, facts.st_ino};
}

class Builder {
 public:
  Builder(const Launch& launch, const RankLaunch& rank, const SandboxPlace& place)
      : launch_(launch), rank_(rank), place_(place) {
    for (const auto& path : launch.maskPaths) masked_.push_back(real(path));
    for (const auto& path : processViews()) masked_.push_back(path);
  }

  Result<Sandbox> build() {
    namespaces();
    system();
    privateFiles();
    devices();
    BOLE_TRY(identity());
    for (const auto& mount : rank_.mounts) BOLE_TRY(bind(mount));
    // The working directory is Bole's own or one that the engine vouches for. What lies in a mount
    // of Bole's is there.
    const bool there = std::any_of(
        rank_.mounts.begin(), rank_.mounts.end(),
        [&](const Mount& mount) { return mount.fromBole && isBelow(rank_.cwd, mount.target); });
    if (!there) BOLE_TRY(bind({rank_.cwd, rank_.cwd, false, true}));
    add({"--ro-bind", place_.init, kInitInside});
    add({"--bind", place_.reportsDirectory, kReportsInside});
    // What is left of the root and of these is memory without a bound.
    for (const auto* path : {"/run", "/dev", "/"}) add({"--remount-ro", path});
    return std::move(out_);
  }

 private:
  void add(std::vector<std::string> words) {
    for (auto& word : words) out_.arguments.push_back(std::move(word));
  }

  void namespaces() {
    add({"--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try",
         "--die-with-parent", "--as-pid-1"});
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
    add({"--ro-bind", place_.systemFiles.empty() ? kSysfs : place_.systemFiles, kSysfs});
    add({"--proc", "/proc"});
  }

  // Of memory: all ranks of the attempt together leave a part of the machine's to others, whatever
  // they fill. Where the rank has a limit, and it is enforced, what lies in these counts.
  [[nodiscard]] std::string partOfMemory(std::int64_t part) const {
    const auto ranks = static_cast<std::int64_t>(std::max<std::size_t>(launch_.ranks.size(), 1));
    const auto share = place_.machineMemory.value / ranks;
    const auto all =
        rank_.memory.value > 0 ? std::min(rank_.memory.value, place_.machineMemory.value) : share;
    return std::to_string(std::max(all / part, kMiB.value * 16));
  }

  void privateFiles() {
    add({"--perms", "1777", "--size", partOfMemory(8), "--tmpfs", "/tmp"});
    for (const auto* path : {"/home", "/var"}) {
      add({"--perms", "0755", "--size", partOfMemory(16), "--tmpfs", path});
    }
    add({"--perms", "0755", "--size", std::to_string(kMiB.value), "--tmpfs", "/run"});
    add({"--perms", "1777", "--dir", "/var/tmp", "--symlink", "/run", "/var/run"});
    add({"--perms", "0777", "--dir", kHomeInside});
  }

  void devices() {
    add({"--dev", "/dev"});
    const auto shm = rank_.shm.value > 0 ? std::to_string(rank_.shm.value) : partOfMemory(2);
    add({"--perms", "1777", "--size", shm, "--tmpfs", "/dev/shm"});
    for (const auto& device : rank_.devices) add({"--dev-bind", device, device});
  }

  // A name for the rank's uid, since many programs ask for it.
  Result<void> identity() {
    const auto uid = std::to_string(place_.root ? rank_.uid : ::getuid());
    const auto gid = std::to_string(place_.root ? rank_.gid : ::getgid());
    BOLE_TRY(name("/etc/passwd",
                  "job:x:" + uid + ":" + gid + ":Bole job:" + kHomeInside + ":/bin/sh\n"));
    return name("/etc/group", "job:x:" + gid + ":\n");
  }

  Result<void> name(const std::string& path, const std::string& line) {
    const auto known = readFile(path, 16u << 20);
    // First of its number: the host may know the same one by another name.
    BOLE_ASSIGN(auto file, memoryFile(line + (known ? *known : ""), "names"));
    const auto number = place_.firstFile + static_cast<int>(out_.files.size());
    add({"--perms", "0644", "--ro-bind-data", std::to_string(number), path});
    out_.files.push_back(std::move(file));
    return {};
  }

  // Mounts that lie in each other: bubblewrap would make the inner one's place in the outer one, as
  // root, through whatever links a job has put there.
  Result<void> checkTarget(const Mount& mount) {
    const auto refuse = [&](const std::string& what) {
      return fail(
          makeError(ErrorCode::kInvalid, "a mount cannot be here: " + what).at(mount.target));
    };
    if (!isNormal(mount.target)) return refuse("the path is not absolute and plain");
    for (const std::string own : kOwn) {
      if (isBelow(mount.target, own) || isBelow(own, mount.target))
        return refuse("the sandbox has its own " + own);
    }
    for (const std::string system : kSystem) {
      if (isBelow(system, mount.target)) return refuse("every job has the machine's own " + system);
    }
    for (const auto& other : targets_) {
      if (isBelow(mount.target, other) || isBelow(other, mount.target)) {
        return refuse("mounts do not lie in each other or in the job's directory, and " + other +
                      " is one");
      }
    }
    targets_.push_back(mount.target);
    return {};
  }

  Result<void> bind(const Mount& mount) {
    BOLE_TRY(checkTarget(mount));
    const auto source = real(mount.source);
    if (!pathExists(source)) {
      return fail(makeError(ErrorCode::kInvalid, "a mount's source is not there").at(mount.source));
    }
    for (const auto& masked : masked_) {
      if (!mount.fromBole && isBelow(source, masked)) {
        return fail(makeError(ErrorCode::kPermission,
                              "this directory shows the server's files or other people's "
                              "processes and is not mounted into jobs")
                        .at(mount.source));
      }
    }
    const auto seen = seeMount(source);
    if (!seen)
      return fail(makeError(ErrorCode::kInvalid, "a mount's source changes").at(mount.source));
    const auto reached = place_.reached.find(mount.source);
    if (!mount.fromBole && reached != place_.reached.end() &&
        (reached->second.device != seen->device || reached->second.inode != seen->inode)) {
      return fail(makeError(ErrorCode::kInvalid, "a mount's source changes").at(mount.source));
    }
    out_.mounts.push_back({mount.target, seen->device, seen->inode});
    makeParents(mount.target);
    add({mount.readOnly ? "--ro-bind" : "--bind", source, mount.target});
    if (!mount.fromBole) mask(source, mount.target);
    return {};
  }

  // bubblewrap makes what is missing above a target for root alone; the rank has to pass through.
  void makeParents(const std::string& target) {
    for (auto slash = target.find('/', 1); slash != std::string::npos;
         slash = target.find('/', slash + 1)) {
      const auto parent = target.substr(0, slash);
      if (!isBelowSystem(parent)) add({"--perms", "0755", "--dir", parent});
    }
  }

  // There the machine's own directories are, but for what is masked.
  [[nodiscard]] bool isBelowSystem(const std::string& path) const {
    const bool hidden = std::any_of(masked_.begin(), masked_.end(), [&](const std::string& masked) {
      return isBelow(path, masked);
    });
    return !hidden && std::any_of(std::begin(kSystem), std::end(kSystem),
                                  [&](const char* system) { return isBelow(path, system); });
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
  std::vector<std::string> targets_;
  Sandbox out_;
};

}  // namespace

std::optional<MountSeen> seeMount(const std::string& source) {
  return lookAt(AT_FDCWD, source, RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
}

Result<void> checkMounted(pid_t process, const std::vector<MountSeen>& mounts) {
  BOLE_ASSIGN(const auto root, openFile("/proc/" + std::to_string(process) + "/root",
                                        O_PATH | O_DIRECTORY, 0, "cannot look into the sandbox"));
  for (const auto& mount : mounts) {
    const auto found = lookAt(root.get(), mount.target, RESOLVE_IN_ROOT);
    if (found && found->device == mount.device && found->inode == mount.inode) continue;
    return fail(
        makeError(ErrorCode::kPermission, "a mount's source was exchanged while it was mounted")
            .at(mount.target));
  }
  return {};
}

Result<Sandbox> buildSandbox(const Launch& launch, const RankLaunch& rank,
                             const SandboxPlace& place) {
  return Builder(launch, rank, place).build();
}

}  // namespace bole::supervise
