// backupLedger and restoreLedger.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <vector>

#include "ledger/advice.h"
#include "ledger/files.h"
#include "ledger/home_lock.h"
#include "ledger/opening.h"
#include "ledger/schema.h"

namespace bole::ledger {

namespace {

// Files that go again at the end of the scope unless kept.
class Unfinished {
 public:
  Unfinished() = default;
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;
  ~Unfinished() {
    for (const auto& path : paths_) ::unlink(path.c_str());
  }
  void add(std::string path) { paths_.push_back(std::move(path)); }
  void keep() { paths_.clear(); }

 private:
  std::vector<std::string> paths_;
};

Error exists(const std::string& path, const char* hint) {
  return makeError(ErrorCode::kConflict, "the file exists already").at(path).withHint(hint);
}

// `source`: what the file is a copy of, or the file itself.
Result<void> checkSound(const std::string& path, const std::string& source,
                        const char* consequence) {
  BOLE_ASSIGN(auto report, verifyLedger(path, true));
  if (!report.firstFault) return {};
  auto error = std::move(*report.firstFault);
  if (error.hint == damageAdvice(path)) error.hint = damageAdvice(source);
  error.what += fmt::format(" ({})", consequence);
  return fail(std::move(error));
}

// A verified copy at `target`, which `unfinished` removes again unless told otherwise.
Result<void> copyLedger(const std::string& source, const std::string& target,
                        Unfinished& unfinished, const char* consequence) {
  unfinished.add(target);
  unfinished.add(target + "-journal");
  BOLE_TRY(openFile(target, O_RDWR | O_CREAT | O_EXCL, 0600, "cannot make the copy"));
  {
    BOLE_ASSIGN(const auto database, openToRead(source, ""));
    BOLE_TRY(database->copyTo(target));
  }
  return checkSound(target, source, consequence);
}

// Never over a file that is there.
Result<void> moveInPlace(const std::string& from, const std::string& to, Unfinished& unfinished) {
  int failed = ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE);
  // A file system without that flag (a USB stick's).
  if (failed != 0 && errno == EINVAL) failed = ::rename(from.c_str(), to.c_str());
  if (failed != 0) return fail(systemError(errno, "cannot rename to its place", to));
  unfinished.add(to);
  BOLE_TRY(syncDirectory(directoryOf(to)));
  unfinished.keep();
  return {};
}

Result<PublicKey> newestKeyOf(const std::string& path) {
  BOLE_ASSIGN(const auto database, openToRead(path, ""));
  BOLE_ASSIGN(const auto ring, loadKeyRing(*database));
  return ring.rbegin()->second.key;
}

}  // namespace

Result<void> backupLedger(const std::string& directory, const std::string& destination,
                          PrivateKey privateKey) {
  for (const auto* end : {"", ".pub", ".key"}) {
    if (fileExists(destination + end)) {
      return fail(exists(destination + end, "choose another name for the backup"));
    }
  }
  Unfinished unfinished;
  const auto temporary = fmt::format("{}.new-{}", destination, ::getpid());
  BOLE_TRY(copyLedger(ledgerPath(directory), temporary, unfinished, "no backup was made"));
  BOLE_ASSIGN(const auto key, newestKeyOf(temporary));
  unfinished.add(destination + ".pub");
  BOLE_TRY(writeFileDurably(destination + ".pub", publicKeyText(key), 0644));
  if (privateKey == PrivateKey::kInclude) {
    BOLE_ASSIGN(const auto secret, SigningKey::load(secretKeyPath(directory)));
    unfinished.add(destination + ".key");
    BOLE_TRY(secret.save(destination + ".key"));
  }
  return moveInPlace(temporary, destination, unfinished);
}

Result<void> restoreLedger(const std::string& backup, const std::string& directory) {
  BOLE_ASSIGN(const auto lock, HomeLock::take(directory));
  const auto place = ledgerPath(directory);
  // A log that was left behind would be played into the restored file.
  for (const auto* end : {"", "-wal", "-journal"}) {
    if (fileExists(place + end)) {
      return fail(exists(place + end,
                         "move the whole home away (keep it until the restored one is known to be "
                         "good), then restore again"));
    }
  }
  BOLE_TRY(checkSound(backup, backup, "nothing was restored"));
  const auto temporary = place + ".new";
  ::unlink(temporary.c_str());
  Unfinished unfinished;
  BOLE_TRY(copyLedger(backup, temporary, unfinished, "nothing was restored"));
  if (fileExists(backup + ".key") && !fileExists(secretKeyPath(directory))) {
    BOLE_ASSIGN(const auto secret, SigningKey::load(backup + ".key"));
    unfinished.add(secretKeyPath(directory));
    BOLE_TRY(secret.save(secretKeyPath(directory)));
  }
  return moveInPlace(temporary, place, unfinished);
}

}  // namespace bole::ledger
