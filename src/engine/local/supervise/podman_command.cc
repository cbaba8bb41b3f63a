#include "engine/local/supervise/podman_command.h"

#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "engine/local/supervise/posix.h"
#include "engine/local/supervise/processes.h"
#include "engine/local/supervise/sandbox.h"

namespace bole::supervise {
namespace {

constexpr std::int64_t kPeriodMicros = 100'000;
constexpr std::int64_t kLeastQuotaMicros = 1000;  // the kernel takes no less

// What every container has of its own, from Podman or from Bole.
constexpr const char* kOwn[] = {"/proc",        "/sys",      "/dev",
                                kReportsInside, kInitInside, "/run/.containerenv",
                                "/etc/passwd",  "/etc/group"};

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

bool isNormal(const std::string& path) {
  return !path.empty() && path.front() == '/' &&
         path == std::filesystem::path(path).lexically_normal() &&
         (path == "/" || path.back() != '/');
}

// Podman reads the parts of a --mount as one record of a CSV file.
std::string field(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

// A home directory of the image's on the way to `target`: 0700 as a rule, so that the rank could
// not pass through it.
std::string homeAbove(const std::string& target) {
  if (target.compare(0, 6, "/root/") == 0) return "/root";
  if (target.compare(0, 6, "/home/") != 0) return {};
  const auto end = target.find('/', 6);
  return end == std::string::npos ? std::string() : target.substr(0, end);
}

class Builder {
 public:
  Builder(const Launch& launch, const RankLaunch& rank, const ContainerPlace& place)
      : launch_(launch), rank_(rank), place_(place) {
    for (const auto& path : launch.maskPaths) masked_.push_back(real(path));
    for (const auto& path : processViews()) masked_.push_back(path);
  }

  Result<Container> build() {
    lifetime();
    confinement();
    limits();
    add(place_.devices);
    add({"--mount", "type=bind,src=" + field(place_.init) + ",dst=" + kInitInside + ",ro=true"});
    add({"--mount", "type=bind,src=" + field(place_.reportsDirectory) + ",dst=" + kReportsInside});
    for (const auto& mount : rank_.mounts) BOLE_TRY(bind(mount));
    // The working directory is Bole's own or one that the engine vouches for. What lies in a mount
    // of Bole's is there.
    const bool there = std::any_of(
        rank_.mounts.begin(), rank_.mounts.end(),
        [&](const Mount& mount) { return mount.fromBole && isBelow(rank_.cwd, mount.target); });
    if (!there) BOLE_TRY(bind({rank_.cwd, rank_.cwd, false, true}));
    privateFiles();
    passages();
    add({"--entrypoint", kInitInside, "--", rank_.image, place_.attemptDirectory,
         "rank " + std::to_string(rank_.rank)});
    return std::move(out_);
  }

 private:
  void add(const std::vector<std::string>& words) {
    out_.arguments.insert(out_.arguments.end(), words.begin(), words.end());
  }

  void lifetime() {
    add({"run", "--detach", "--rm", "--replace", "--pull", "never", "--name", place_.name});
    // The container's output is this process's own, without a copy by anyone; descriptors 3 to 5
    // are bole-init's.
    add({"--log-driver", "passthrough", "--preserve-fds", "3"});
    add({"--label", "bole.job=" + std::to_string(launch_.job), "--label",
         "bole.attempt=" + std::to_string(launch_.attempt), "--label",
         "bole.rank=" + std::to_string(rank_.rank)});
    add({"--env", std::string(kTagVariable) + "=" + place_.tag});
    // What images bring that would act on its own, or be left behind.
    add({"--no-healthcheck", "--systemd", "false", "--sdnotify", "ignore", "--image-volume",
         "tmpfs", "--http-proxy=false", "--workdir", "/"});
    const bool ownHosts =
        std::any_of(rank_.mounts.begin(), rank_.mounts.end(),
                    [](const Mount& mount) { return mount.target == "/etc/hosts"; });
    if (ownHosts) add({"--no-hosts"});
  }

  // The network is the one that the supervisor is in: the gang's own, or the machine's.
  void confinement() {
    add({"--network", "host", "--cap-drop", "all", "--security-opt", "no-new-privileges",
         "--read-only", "--read-only-tmpfs=false"});
    if (!place_.root) return add({"--userns", "keep-id"});
    const auto uid = std::to_string(rank_.uid);
    const auto gid = std::to_string(rank_.gid);
    add({"--user", uid + ":" + gid, "--passwd-entry",
         "job:x:" + uid + ":" + gid + ":Bole job:" + kHomeInside + ":/bin/sh"});
  }

  void limits() {
    add(place_.ulimits);
    // conmon stays in the group that Podman was started in: the attempt's too.
    if (!place_.cgroupParent.empty()) {
      add({"--cgroups", "no-conmon", "--cgroup-parent", "/" + place_.cgroupParent});
    }
    if (place_.processes > 0) add({"--pids-limit", std::to_string(place_.processes)});
    if (rank_.memory.value > 0) {
      const auto amount = std::to_string(rank_.memory.value) + "b";
      add({"--memory", amount, "--memory-swap", amount});
    }
    if (rank_.cpu.value > 0) {
      const auto quota = std::max(rank_.cpu.value * kPeriodMicros / 1000, kLeastQuotaMicros);
      add({"--cpu-period", std::to_string(kPeriodMicros), "--cpu-quota", std::to_string(quota)});
    }
    const auto shm = rank_.shm.value > 0 ? rank_.shm.value : place_.machineMemory.value / 2;
    add({"--shm-size", std::to_string(std::max<std::int64_t>(shm, kMiB.value)) + "b"});
  }

  // Mounts that lie in each other: runc would make the inner one's place in the outer one, as root,
  // in a directory that is a user's.
  Result<void> checkTarget(const Mount& mount) {
    const auto refuse = [&](const std::string& what) {
      return fail(
          makeError(ErrorCode::kInvalid, "a mount cannot be here: " + what).at(mount.target));
    };
    if (!isNormal(mount.target)) return refuse("the path is not absolute and plain");
    for (const std::string own : kOwn) {
      if (isBelow(mount.target, own) || isBelow(own, mount.target))
        return refuse("the container has its own " + own);
    }
    for (const auto& other : targets_) {
      if (isBelow(mount.target, other) || isBelow(other, mount.target)) {
        return refuse("mounts do not lie in each other or in the job's directory, and " + other +
                      " is one");
      }
    }
    targets_.insert(mount.target);
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
    if (!seen) {
      return fail(makeError(ErrorCode::kInvalid, "a mount's source changes").at(mount.source));
    }
    out_.mounts.push_back({mount.target, seen->device, seen->inode});
    add({"--mount", "type=bind,src=" + field(source) + ",dst=" + field(mount.target) +
                        ",nosuid,nodev" + (mount.readOnly ? ",ro=true" : "")});
    if (!mount.fromBole) mask(source, mount.target);
    return {};
  }

  // What is hidden and lies below `source` is hidden below `target` too.
  void mask(const std::string& source, const std::string& target) {
    for (const auto& masked : masked_) {
      if (masked == source || !isBelow(masked, source)) continue;
      const auto rest = masked.substr(source == "/" ? 0 : source.size());
      tmpfs((target == "/" ? "" : target) + rest, "ro=true,tmpfs-mode=0755,tmpfs-size=4096");
    }
  }

  void privateFiles() {
    const auto quarter =
        std::to_string(std::max<std::int64_t>(place_.machineMemory.value / 4, kMiB.value * 64));
    const auto mine = "exec,tmpfs-mode=1777,tmpfs-size=" + quarter;
    for (const auto* path : {"/tmp", "/var/tmp", kHomeInside}) {
      if (targets_.count(path) == 0) tmpfs(path, mine);
    }
  }

  // Instead of a tmpfs, which runc gives the mode of the directory below it. Mount points are made
  // in it.
  void passages() {
    std::set<std::string> homes;
    for (const auto& target : targets_) homes.insert(homeAbove(target));
    homes.erase("");
    homes.erase(kHomeInside);
    for (const auto& path : homes) {
      if (targets_.count(path) > 0) continue;
      out_.directories.push_back(place_.passages + "/" + std::to_string(out_.directories.size()));
      add({"--mount", "type=bind,src=" + field(out_.directories.back()) + ",dst=" + field(path) +
                          ",nosuid,nodev"});
    }
  }

  // Without a copy of what the image has there.
  void tmpfs(const std::string& path, const std::string& options) {
    add({"--mount", "type=tmpfs,dst=" + field(path) + ",notmpcopyup,nosuid,nodev," + options});
  }

  const Launch& launch_;
  const RankLaunch& rank_;
  const ContainerPlace& place_;
  std::vector<std::string> masked_;
  std::set<std::string> targets_;
  Container out_;
};

}  // namespace

Result<Container> buildContainer(const Launch& launch, const RankLaunch& rank,
                                 const ContainerPlace& place) {
  if (rank.image.empty()) return fail(makeError(ErrorCode::kInvalid, "the rank has no image"));
  return Builder(launch, rank, place).build();
}

}  // namespace bole::supervise
