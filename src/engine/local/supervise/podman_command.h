// One rank's container: the arguments of `podman run`.
//
// The container is as shut in as a rank under bubblewrap: the project's uid, whatever USER the
// image names, no capability, no new privileges, own PID, IPC and mount namespaces, the image
// read-only with a private /tmp, /var/tmp and home, only the given device nodes. bole-init is its
// first process and brings the command, the environment and the exit status through inherited
// descriptors, so that neither `ps` nor `podman inspect` shows what a job was given.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/local/supervise/attempt_files.h"
#include "engine/local/supervise/sandbox.h"

namespace bole::supervise {

struct ContainerPlace {
  std::string name;              // of the container
  std::string tag;               // of the attempt
  std::string attemptDirectory;  // shown in bole-init's arguments
  std::string init;              // bole-init on the host
  std::string reportsDirectory;  // on the host
  std::string passages;          // on the host: a directory for Container::directories
  std::string cgroupParent;      // the attempt's group, without the root; empty: Podman's own
  bool root = false;             // the supervisor is root
  Bytes machineMemory;
  std::uint32_t processes = 0;       // of the rank, at most
  std::vector<std::string> devices;  // options: --device ...
  std::vector<std::string> ulimits;  // options: --ulimit ...
};

struct Container {
  std::vector<std::string> arguments;  // "run" and all that follows
  std::vector<MountSeen> mounts;       // as they were looked at: see checkMounted
  std::vector<std::string>
      directories;  // to be made first, 0755: mounted where the image's own would bar the way
};

// Errors: kInvalid and kPermission, for people: a mount that is not there, or that would uncover
// what is hidden from jobs.
[[nodiscard]] Result<Container> buildContainer(const Launch& launch, const RankLaunch& rank,
                                               const ContainerPlace& place);

}  // namespace bole::supervise
