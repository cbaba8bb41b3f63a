// Podman as a child of this process that does one thing and ends: looks for an image, pulls one,
// removes containers.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.h"
#include "engine/local/supervise/posix.h"

namespace bole::supervise {

struct PodmanChild {
  std::vector<std::string> argv;       // the program first
  std::string output;                  // stdout and stderr go into this file, made anew
  std::vector<std::string> entrances;  // cgroup.procs files to join first
  int network = -1;                    // a network namespace to be in
};

// Errors: kUnavailable and the like where no process can be made; whatever goes wrong later is its
// exit code.
[[nodiscard]] Result<pid_t> startPodman(const PodmanChild& child);

// The last line that says something, without Podman's "Error: ".
[[nodiscard]] std::string lastError(const std::string& text);

// "PATH=..." of this process as Podman wants it: HOME where it is not set, and the attempt's tag,
// so that whatever it starts is found by it.
void preparePodmanEnvironment(const std::string& tag);

}  // namespace bole::supervise
