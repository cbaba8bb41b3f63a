// A job's own directory: made once, before its first attempt, and left to the job from then on.
//
// It appears complete or not at all, so that a crash in between starts over. Later attempts find
// what the earlier ones left in it: that is what checkpoints are for. Blocks on the disk.
#pragma once

#include <string>

#include "engine/local/upload_archive.h"

namespace bole::engine {

struct WorkRequest {
  std::string directory;       // absolute; its parent is the server's own
  std::string archive;         // what the job brought along; empty: nothing
  std::string checkpoints;     // a path below the directory to make, for checkpoints; empty: none
  std::optional<Owner> owner;  // none: the server's own user
  UploadLimits limits;
};

// True if the directory is there: complete, then.
[[nodiscard]] bool hasWorkDirectory(const std::string& directory);

[[nodiscard]] Result<void> makeWorkDirectory(const WorkRequest& request,
                                             const std::atomic<bool>& cancelled);

// Before every attempt: `relative` below the directory is a directory of its owner's, reached
// without a link. A job may have put a link there to be shown what is not its own.
[[nodiscard]] Result<void> checkStartDirectory(const std::string& directory,
                                               const std::string& relative,
                                               const std::optional<Owner>& owner);

}  // namespace bole::engine
