// How a rank is shut in: the arguments of bubblewrap for the process runtime.
//
// The rank sees an empty root with the system read-only (/usr and its links, /etc, /opt), a private
// /tmp, /home, /var and /dev/shm of bounded size, its own /proc, a /dev with nothing but what it
// was given, its working directory and its mounts. bole-init is the first process of its PID
// namespace, as root where the supervisor is root, and its command runs as the project's uid with
// no capability and no new privileges.
//
// bubblewrap makes these mounts as root and follows links on its way. So nothing is ever mounted at
// a path that leads through a directory of a user's: mounts do not lie in each other, and none
// covers what the sandbox itself needs.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/local/supervise/attempt_files.h"
#include "engine/local/supervise/mount_reach.h"
#include "engine/local/supervise/posix.h"

namespace bole::supervise {

inline constexpr char kInitInside[] = "/run/bole-init";
inline constexpr char kReportsInside[] = "/run/bole";  // the directory of BOLE_PROGRESS_FILE
inline constexpr char kHomeInside[] = "/home/job";

// A mount as it was when it was allowed.
struct MountSeen {
  std::string target;
  dev_t device = 0;
  ino_t inode = 0;
};

struct Sandbox {
  std::vector<std::string> arguments;  // of bwrap, without the command
  std::vector<Fd> files;               // which the arguments name, from SandboxPlace::firstFile on
  std::vector<MountSeen> mounts;
};

struct SandboxPlace {
  std::string init;              // bole-init on the host
  std::string reportsDirectory;  // on the host: bound at kReportsInside
  std::string systemFiles;  // a sysfs that shows only the rank's own network; empty: the machine's
  bool root = false;        // the supervisor is root
  Bytes machineMemory;
  std::map<std::string, Reached> reached;  // mounts' sources as who wants them was shown them
  int firstFile = 3;  // the number that the first of Sandbox::files will have in bwrap
};

// Errors: kInvalid and kPermission, for people: a mount that is not there, that would uncover what
// is masked, or that is where none may be.
[[nodiscard]] Result<Sandbox> buildSandbox(const Launch& launch, const RankLaunch& rank,
                                           const SandboxPlace& place);

// Where the kernel shows processes: the environment and the memory of other jobs of the same user
// among them.
[[nodiscard]] std::vector<std::string> processViews();

// What is at that path now (`target` is the path itself); empty: nothing, or a link is on the way.
[[nodiscard]] std::optional<MountSeen> seeMount(const std::string& source);

// That these very things are mounted where that process is. For root; errors as above.
[[nodiscard]] Result<void> checkMounted(pid_t process, const std::vector<MountSeen>& mounts);

}  // namespace bole::supervise
