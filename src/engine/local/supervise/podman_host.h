// What this machine allows of Podman, and the options that follow from it.
//
// An ordinary host gets Podman's own defaults. Others are known by what they refuse: crun wants
// cgroup v2 where both kinds are mounted, and a hard limit above the present one is an error for
// who may not raise it.
#pragma once

#include <sys/resource.h>

#include <string>
#include <vector>

#include "base/result.h"

namespace bole::supervise {

enum class CgroupTree {
  kNone,
  kV1,      // only v1 hierarchies
  kHybrid,  // v1 hierarchies, and a v2 tree without controllers beside them
  kV2,
};

struct HardLimit {
  rlim_t value = RLIM_INFINITY;
  bool raisable = false;  // this process may set more
};

struct PodmanFacts {
  std::string program;  // empty: Podman is not installed
  bool root = false;
  bool hasRunc = false;
  CgroupTree cgroups = CgroupTree::kV2;
  HardLimit files;
  HardLimit processes;
  rlim_t processNumbers = RLIM_INFINITY;  // of the machine: kernel.pid_max
  HardLimit lockedMemory;
};

// Looks at the machine; changes nothing that outlives the call. `cgroupRoot`: where control groups
// are mounted.
[[nodiscard]] PodmanFacts lookAtPodman(const std::string& cgroupRoot = "/sys/fs/cgroup");

// kUnsupported, for people: Podman is not there.
[[nodiscard]] Result<void> checkPodman(const PodmanFacts& facts);

// Options before Podman's command.
[[nodiscard]] std::vector<std::string> globalOptions(const PodmanFacts& facts);
// Options of `podman run`: resource limits of a process, as high as the machine allows.
[[nodiscard]] std::vector<std::string> ulimitOptions(const PodmanFacts& facts);

}  // namespace bole::supervise
