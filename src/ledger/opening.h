// What happens before a home's ledger can be used: take the lock, find or make the ledger and the
// key, refuse what is another's, newer, damaged or gone, and bring an older one to this version.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "ledger/database.h"
#include "ledger/home_lock.h"
#include "ledger/reserve.h"
#include "ledger/rows.h"
#include "ledger/signing.h"
#include "ledger/sqlite_ledger.h"

namespace bole::ledger {

// The files of a home.
[[nodiscard]] std::string ledgerPath(const std::string& directory);
[[nodiscard]] std::string secretKeyPath(const std::string& directory);
[[nodiscard]] std::string publicKeyPath(const std::string& directory);

struct OpenHome {
  HomeLock lock;
  std::unique_ptr<Database> database;
  KeyRing ring;
  std::optional<SigningKey> key;  // only for kReadWrite
  std::int64_t keyId = 0;
  Tip tip;
  std::vector<std::string> notices;
};

// On a full disk the reserve is given up first, so that a server can start and record what ended.
[[nodiscard]] Result<OpenHome> openHome(const LedgerOptions& options, Reserve& reserve,
                                        Chain& chain);
// Opens a ledger file to read, wherever it lies, and checks its identity.
[[nodiscard]] Result<std::unique_ptr<Database>> openToRead(const std::string& path,
                                                           const std::string& vfs);

}  // namespace bole::ledger
