#include "engine/local/supervise/podman_host.h"

#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "engine/local/supervise/posix.h"

namespace bole::supervise {
namespace {

constexpr long kCgroup2Magic = 0x63677270;
constexpr rlim_t kFiles =
    1048576;  // Podman's own default where it may, and the kernel's fs.nr_open
constexpr const char* kPlaces[] = {"/usr/bin/",        "/usr/local/bin/", "/usr/sbin/",
                                   "/usr/local/sbin/", "/bin/",           "/sbin/"};

std::string findProgram(const std::string& name) {
  for (const auto* place : kPlaces) {
    auto path = place + name;
    if (::access(path.c_str(), X_OK) == 0) return path;
  }
  return {};
}

bool isCgroup2(const std::string& path) {
  struct statfs facts {};
  return ::statfs(path.c_str(), &facts) == 0 && facts.f_type == kCgroup2Magic;
}

CgroupTree treeAt(const std::string& root) {
  if (isCgroup2(root)) return CgroupTree::kV2;
  if (!pathExists(root + "/memory") && !pathExists(root + "/cpu")) return CgroupTree::kNone;
  return isCgroup2(root + "/unified") ? CgroupTree::kHybrid : CgroupTree::kV1;
}

// Tried, since a capability may be there and count for nothing in a container.
HardLimit hardLimit(__rlimit_resource resource) {
  HardLimit limit;
  rlimit now{};
  if (::getrlimit(resource, &now) != 0) return limit;
  limit.value = now.rlim_max;
  if (now.rlim_max == RLIM_INFINITY) return limit;
  const rlimit more{now.rlim_cur, now.rlim_max + 1};
  limit.raisable = ::setrlimit(resource, &more) == 0;
  if (limit.raisable) ::setrlimit(resource, &now);
  return limit;
}

std::string ulimit(const char* name, rlim_t value) {
  const auto text = value == RLIM_INFINITY ? std::string("-1") : std::to_string(value);
  return std::string(name) + "=" + text + ":" + text;
}

}  // namespace

PodmanFacts lookAtPodman(const std::string& cgroupRoot) {
  PodmanFacts facts;
  facts.program = findProgram("podman");
  facts.root = ::geteuid() == 0;
  facts.hasRunc = !findProgram("runc").empty();
  facts.cgroups = treeAt(cgroupRoot);
  facts.files = hardLimit(RLIMIT_NOFILE);
  facts.processes = hardLimit(RLIMIT_NPROC);
  if (const auto text = readFile("/proc/sys/kernel/pid_max", 64)) {
    facts.processNumbers = std::strtoull(text->c_str(), nullptr, 10);
  }
  facts.lockedMemory = hardLimit(RLIMIT_MEMLOCK);
  return facts;
}

Result<void> checkPodman(const PodmanFacts& facts) {
  if (!facts.program.empty()) return {};
  return fail(
      makeError(ErrorCode::kUnsupported,
                "Podman is not installed, and a job with an image needs it")
          .expectedValue("/usr/bin/podman")
          .withHint(
              "apt-get install podman, or leave out `image` to run on the machine's own system"));
}

std::vector<std::string> globalOptions(const PodmanFacts& facts) {
  // Warnings would stand in the job's own log. Nobody reads the events.
  std::vector<std::string> options = {"--log-level", "error", "--events-backend", "none"};
  // The containers of an attempt are below its own group, which systemd would not allow.
  if (facts.root) options.insert(options.end(), {"--cgroup-manager", "cgroupfs"});
  if (facts.cgroups != CgroupTree::kV2 && facts.hasRunc) {
    options.insert(options.end(), {"--runtime", "runc"});
  }
  return options;
}

std::vector<std::string> ulimitOptions(const PodmanFacts& facts) {
  std::vector<std::string> options;
  const auto add = [&](const char* name, rlim_t value) {
    options.insert(options.end(), {"--ulimit", ulimit(name, value)});
  };
  const auto& files = facts.files;
  add("nofile", files.raisable ? std::max(files.value, kFiles) : std::min(files.value, kFiles));
  // Where it may, Podman takes the most there is; how many there are is bounded by the container's
  // group. Where it may not, it has cut its own limit to the machine's process numbers, and a
  // container's cannot be above that.
  if (!facts.processes.raisable)
    add("nproc", std::min(facts.processes.value, facts.processNumbers));
  // Pinned host memory and RDMA.
  add("memlock", facts.lockedMemory.raisable ? RLIM_INFINITY : facts.lockedMemory.value);
  return options;
}

}  // namespace bole::supervise
