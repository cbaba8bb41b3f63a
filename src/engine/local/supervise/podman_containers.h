// The containers of an attempt, from before the first is made until the last is gone.
//
// `DIR/containers` holds their names, one a line. It is written before Podman is asked for any, and
// removed when none is left: whoever finds it and no supervisor removes them.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/local/supervise/attempt_files.h"

namespace bole::supervise {

// The same for whoever asks, different for all others on the machine: made of the attempt's tag.
[[nodiscard]] std::string containerName(const std::string& tag, std::uint32_t rank);

[[nodiscard]] Result<void> recordContainers(const std::string& dir,
                                            const std::vector<std::string>& names);
// Empty: none were ever made, or none is left.
[[nodiscard]] std::vector<std::string> recordedContainers(const std::string& dir);

// Removes the recorded ones and the record; waits for it. `podman`: the program and its global
// options. kUnavailable: Podman would not; the record stays then. Their processes must be gone.
[[nodiscard]] Result<void> removeContainers(const std::string& dir,
                                            const std::vector<std::string>& podman);

// The groups that runc made in v1 hierarchies (it does not remove those above a container's own,
// nor any if conmon died).
void removeContainerGroups(const std::string& relative, const std::string& root = "/sys/fs/cgroup");

// What a supervisor that died left: kills what still runs of the recorded containers and of the
// Podman that was making them, and has them removed. Does not wait: how much is left; call it again
// until that is 0. Where Podman cannot remove them after several tries the dead containers are left
// (`DIR/containers.kept` names them): nothing of them runs.
[[nodiscard]] std::uint32_t killContainers(const std::string& dir, const Launch& launch);

}  // namespace bole::supervise
