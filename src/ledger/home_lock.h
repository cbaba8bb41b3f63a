// One writer a home: a lock on HOME/ledger.lock, held for as long as the object lives. The kernel
// gives it back when the process ends, however it ends. The file names the process that holds it;
// the lock, not the file, is what counts. (SQLite's own exclusive locking would also shut out
// readers, fsck and the online backup.)
#pragma once

#include <string>

#include "base/result.h"
#include "ledger/files.h"

namespace bole::ledger {

class HomeLock {
 public:
  HomeLock() = default;

  // kConflict, with the holder's pid, if another process (or another ledger of this one) has it.
  // What a killed holder was just starting may have it a moment longer: that is waited for, 10 s at
  // most.
  [[nodiscard]] static Result<HomeLock> take(const std::string& directory);

 private:
  explicit HomeLock(FileDescriptor file) : file_(std::move(file)) {}
  FileDescriptor file_;
};

}  // namespace bole::ledger
