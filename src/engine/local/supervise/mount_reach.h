// Whether a user can reach what he wants mounted into his job.
//
// The supervisor is root, and mounts whatever it is told to: without a look at the way there, a job
// would see what lies behind a directory that is closed to whoever submitted it.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "base/result.h"

namespace bole::supervise {

struct Reached {
  dev_t device = 0;
  ino_t inode = 0;
};

// `user`: a name of this machine's, or "uid:NUMBER" of one who has none. For root alone; whoever
// may do all is not looked at, and nothing is returned for him. Links are followed as he would.
// Errors: kPermission, kInvalid (it is not there), kNotFound (no such user).
[[nodiscard]] Result<std::map<std::string, Reached>> reachedBy(
    const std::string& user, const std::vector<std::string>& paths);

}  // namespace bole::supervise
