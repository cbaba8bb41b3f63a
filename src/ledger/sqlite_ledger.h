// The Ledger on SQLite, and what is done to a whole ledger: verify, backup, restore. The door of
// this room.
//
// A home (one directory) holds: ledger.db (with -wal and -shm while open), ledger.key (the secret
// that signs, 0600), ledger.pub (its public half), ledger.lock (held by the one writer), reserve
// (space for a full disk). Durable means: WAL with synchronous=FULL, one fsync an append. Readers
// (OpenMode::kReadOnly, verifyLedger, backupLedger) work at any time, in any process, and never
// hold up the writer.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "ports/ledger.h"

namespace bole::ledger {

enum class OpenMode {
  kReadWrite,  // makes the ledger if the home has none; one at a time
  kReadOnly,   // for fsck and listings, also while a server runs; appends are refused
};

struct LedgerOptions {
  std::string directory;  // must exist
  Rng& random;            // for salts and the key; must outlive the ledger
  OpenMode mode = OpenMode::kReadWrite;
  // The version of the events' vocabulary that the caller writes. A ledger of a higher one is
  // refused; one of a lower one is raised to it by kReadWrite, after which older programs refuse
  // it.
  std::uint32_t applicationVersion = 1;
  Bytes reserve = kMiB * 64;  // 0: none
  // The write-ahead log is moved into the database when it has this many pages of 4 KiB.
  int checkpointFrames = 2000;
  std::string vfs =
      {};  // a registered SQLite VFS, for tests that break the disk; empty: the system's
};

class SqliteLedger final : public ports::Ledger {
 public:
  ~SqliteLedger() override;

  // One exception to "as before the call": when the disk does not confirm a write (fsync fails),
  // only the next start can tell whether the events were kept; until then status() says not
  // writable. kInvalid for a value over 16 MiB. While the reserve is gone, append is kUnavailable
  // until restoreReserve (which it tries itself) succeeds.
  [[nodiscard]] Result<void> append(std::span<const ports::NewEvent> events) override;
  [[nodiscard]] Result<void> appendUrgent(std::span<const ports::NewEvent> events) override;

  // Checks every event against the chain while it reads; kCorrupt names the first that does not
  // fit.
  [[nodiscard]] Result<void> read(
      std::uint64_t from,
      const std::function<Result<void>(const ports::StoredEvent&)>& visit) override;
  [[nodiscard]] Result<std::string> side(SideId id) override;

  // After success the value is in none of the home's files, also after a power loss. kUnavailable
  // if it was erased but a reader (a backup, an fsck) still needs the old page in the log: call
  // again later; closing the ledger does it too. Blocks that the file system freed, and backups,
  // are out of reach.
  [[nodiscard]] Result<void> eraseSide(SideId id) override;

  // At a sequence that is sealed already it replaces the snapshot (a newer program's form of the
  // same state).
  [[nodiscard]] Result<void> seal(std::uint64_t sequence, std::string_view state) override;
  [[nodiscard]] Result<std::optional<ports::StoredSnapshot>> newestSnapshot() override;
  // For kReadOnly: as it was when opened.
  [[nodiscard]] ports::LedgerStatus status() const override;

  [[nodiscard]] Result<void> restoreReserve();
  [[nodiscard]] bool reserveHeld() const;
  // What people should know about this opening, one sentence each: a new key, no reserve.
  [[nodiscard]] const std::vector<std::string>& notices() const;

  struct Core;

 private:
  friend Result<std::unique_ptr<SqliteLedger>> openLedger(const LedgerOptions& options);
  explicit SqliteLedger(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

// Errors: kNotFound (no such directory; no ledger, for kReadOnly), kConflict (another server has
// this home), kPermission, kRefused (written by a newer Bole, not a Bole ledger, the ledger of this
// home is gone), kUnavailable, kCorrupt.
[[nodiscard]] Result<std::unique_ptr<SqliteLedger>> openLedger(const LedgerOptions& options);

// Reads a ledger, in use or not, and checks it. `path` is a home or a ledger file. First SQLite's
// own check of the file, then the keys, the chain, the side values, the segments, the signatures.
// `full`: from the first event; otherwise from the newest sealed segment on, trusting its
// signature, and without the side values before it. The counts are of what was checked. Anything
// wrong with the data is the report's firstFault; an Error means that it could not be examined.
// What no check can see: events cut from the end after the newest seal. `goOn` is asked now and
// then; once it says no, the check ends with kUnavailable.
[[nodiscard]] Result<ports::VerifyReport> verifyLedger(const std::string& path, bool full,
                                                       const std::function<bool()>& goOn = {});

enum class PrivateKey { kLeaveOut, kInclude };

// Copies the ledger of a home, in use or not, into one file that is consistent, flushed and fully
// verified, or makes nothing. Beside it `destination`.pub. kConflict if `destination` exists. All
// public keys that ever signed are in the ledger itself, so its signatures can be checked anywhere;
// the secret key goes along (`destination`.key, 0600) only if asked for: without it a restored
// ledger opens with a new key, and says so.
[[nodiscard]] Result<void> backupLedger(const std::string& directory,
                                        const std::string& destination,
                                        PrivateKey privateKey = PrivateKey::kLeaveOut);

// Puts a verified backup in the place of the ledger of a home that has none (kConflict otherwise).
[[nodiscard]] Result<void> restoreLedger(const std::string& backup, const std::string& directory);

}  // namespace bole::ledger
