// How a rank is shut in: the arguments of bubblewrap for the process runtime.
//
// The rank sees an empty root with the system read-only (/usr and its links, /etc, /opt), a private /tmp, /home and
// /dev/shm, its own /proc, a /dev with nothing but what it was given, its working directory and its mounts. bole-init is the
// first process of its PID namespace, as root where the supervisor is root, and its command runs as the project's uid
// with no capability and no new privileges.
#pragma once

#include <string>
#include <vector>

#include "engine/local/supervise/attempt_files.h"
#include "engine/local/supervise/posix.h"

namespace bole::supervise {

inline constexpr char kInitInside[] = "/run/bole-init";
inline constexpr char kReportsInside[] = "/run/bole";  // the directory of BOLE_PROGRESS_FILE
inline constexpr char kHomeInside[] = "/home/job";

// A file's content that bubblewrap takes from a descriptor, for `--ro-bind-data`.
struct BoundData {
  Fd file;
  std::string target;
};

struct Sandbox {
  std::vector<std::string> arguments;  // of bwrap, without the data below and without the command
  std::vector<BoundData> data;
};

struct SandboxPlace {
  std::string init;              // bole-init on the host
  std::string reportsDirectory;  // on the host: bound at kReportsInside
  bool root = false;             // the supervisor is root
  Bytes machineMemory;
};

// Errors: kInvalid and kPermission, for people: a mount that is not there, or that would uncover what is masked.
[[nodiscard]] Result<Sandbox> buildSandbox(const Launch& launch, const RankLaunch& rank,
                                           const SandboxPlace& place);

}  // namespace bole::supervise
