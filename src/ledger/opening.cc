#include "ledger/opening.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include "ledger/advice.h"
#include "ledger/files.h"
#include "ledger/log_check.h"
#include "ledger/schema.h"

namespace bole::ledger {

namespace {

// For the write-ahead log and its index, which SQLite makes anew at each start.
constexpr std::uint64_t kRoomToOpen = 1024 * 1024;

Result<void> checkDirectory(const std::string& directory) {
  struct stat facts {};
  if (::stat(directory.c_str(), &facts) != 0) {
    return fail(systemError(errno, "cannot open the home", directory));
  }
  if (!S_ISDIR(facts.st_mode)) {
    return fail(makeError(ErrorCode::kNotFound, "the home is not a directory").at(directory));
  }
  return {};
}

Error ledgerIsGone(const std::string& directory, const std::string& witness) {
  return makeError(ErrorCode::kRefused, "the ledger of this home is gone")
      .at(ledgerPath(directory))
      .foundValue("no events, but " + witness)
      .withHint("bring the file back, or move the home away and restore a backup with " +
                commandFor("restore BACKUP", directory) +
                "; to begin anew, choose an empty home with --home");
}

// A home that once had a ledger must not get an empty one by a mistake (a forgotten mount, a
// deleted file). ledger.pub is the last file that the making of a ledger writes.
Result<void> checkNeverHadOne(const std::string& directory) {
  for (const auto& path : {publicKeyPath(directory), ledgerPath(directory) + "-wal"}) {
    if (fileExists(path)) return fail(ledgerIsGone(directory, path));
  }
  return {};
}

Error noLedger(const std::string& path) {
  return makeError(ErrorCode::kNotFound, "there is no ledger here")
      .at(path)
      .withHint(absenceAdvice(path));
}

Result<void> checkApplicationVersion(const Database& database, std::int64_t found,
                                     std::uint32_t ours) {
  if (found <= static_cast<std::int64_t>(ours)) return {};
  return fail(makeError(ErrorCode::kRefused, "this ledger holds events of a newer Bole")
                  .at(database.path())
                  .foundValue(fmt::format("events of version {}", found))
                  .expectedValue(fmt::format("at most version {}", ours))
                  .withHint("install that version again, or restore a backup made before the "
                            "upgrade"));
}

class Opening {
 public:
  Opening(const LedgerOptions& options, Chain& chain) : options_(options), chain_(chain) {}

  Result<OpenHome> toWrite(HomeLock lock) {
    home_.lock = std::move(lock);
    BOLE_TRY(openFileOrMakeIt());
    BOLE_TRY(home_.database->useWal());
    BOLE_ASSIGN(const bool blank, isBlank(*home_.database));
    if (blank)
      BOLE_TRY(make());
    else
      BOLE_TRY(adopt());
    BOLE_TRY(publish());
    BOLE_ASSIGN(home_.tip, loadTip(*home_.database, chain_, home_.ring));
    return std::move(home_);
  }

  Result<OpenHome> toRead() {
    const auto path = ledgerPath(options_.directory);
    if (!fileExists(path)) return fail(noLedger(path));
    BOLE_ASSIGN(home_.database, openToRead(path, options_.vfs));
    BOLE_ASSIGN(auto view, Transaction::beginRead(*home_.database));
    BOLE_ASSIGN(home_.ring, loadKeyRing(*home_.database));
    BOLE_ASSIGN(const auto version, loadFact(*home_.database, home_.ring, kApplicationVersionFact));
    BOLE_TRY(checkApplicationVersion(*home_.database, version, options_.applicationVersion));
    BOLE_ASSIGN(home_.tip, loadTip(*home_.database, chain_, home_.ring));
    return std::move(home_);
  }

 private:
  Result<void> openFileOrMakeIt() {
    const auto path = ledgerPath(options_.directory);
    if (!fileExists(path)) {
      BOLE_TRY(checkNeverHadOne(options_.directory));
      BOLE_TRY(openFile(path, O_RDWR | O_CREAT, 0600, "cannot make the ledger"));
      BOLE_TRY(syncDirectory(options_.directory));
    }
    BOLE_TRY(checkLog(path));
    BOLE_ASSIGN(home_.database, Database::open(path, Access::kReadWrite, options_.vfs));
    return {};
  }

  Result<void> make() {
    if (fileExists(publicKeyPath(options_.directory))) {
      return fail(ledgerIsGone(options_.directory, publicKeyPath(options_.directory)));
    }
    BOLE_TRY(loadOrMakeKey());
    BOLE_ASSIGN(auto transaction, Transaction::beginWrite(*home_.database));
    BOLE_TRY(createTables(*home_.database));
    BOLE_ASSIGN(home_.keyId, addKey(*home_.database, *home_.key, 1));
    BOLE_TRY(storeVersion());
    BOLE_TRY(transaction.commit());
    BOLE_ASSIGN(home_.ring, loadKeyRing(*home_.database));
    return {};
  }

  Result<void> adopt() {
    BOLE_TRY(checkIdentity(*home_.database));
    BOLE_ASSIGN(auto transaction, Transaction::beginWrite(*home_.database));
    BOLE_TRY(migrate(*home_.database, migrations(), kStorageVersion));
    BOLE_ASSIGN(home_.ring, loadKeyRing(*home_.database));
    BOLE_ASSIGN(const auto version, loadFact(*home_.database, home_.ring, kApplicationVersionFact));
    BOLE_TRY(checkApplicationVersion(*home_.database, version, options_.applicationVersion));
    BOLE_ASSIGN(const bool made, loadOrMakeKey());
    BOLE_TRY(enterKey(made));
    if (version < static_cast<std::int64_t>(options_.applicationVersion)) BOLE_TRY(storeVersion());
    BOLE_TRY(transaction.commit());
    return {};
  }

  // True: there was no key, and a new one was made.
  Result<bool> loadOrMakeKey() {
    const auto path = secretKeyPath(options_.directory);
    if (fileExists(path)) {
      BOLE_ASSIGN(home_.key, SigningKey::load(path));
      return false;
    }
    home_.key = SigningKey::make(options_.random);
    BOLE_TRY(home_.key->save(path));
    return true;
  }

  // The home's key must be the newest that the ledger lists.
  Result<void> enterKey(bool made) {
    const auto& [newest, listed] = *home_.ring.rbegin();
    if (listed.key == home_.key->publicKey()) {
      home_.keyId = newest;
      return {};
    }
    BOLE_ASSIGN(const auto last, home_.database->integer("SELECT max(seq) FROM events",
                                                         "read the last event's number"));
    const auto first = static_cast<std::uint64_t>(last) + 1;
    BOLE_ASSIGN(home_.keyId, addKey(*home_.database, *home_.key, first));
    home_.ring.emplace(home_.keyId, ListedKey{home_.key->publicKey(), first});
    home_.notices.push_back(fmt::format(
        "{} From event {} on the ledger is signed with key {}; older signatures stay valid.",
        made ? "The key that signed this ledger is not in this home: a new one was made."
             : "The key of this home is not the one that signed this ledger last.",
        first, home_.keyId));
    return {};
  }

  Result<void> storeVersion() {
    return storeFact(*home_.database, kApplicationVersionFact, options_.applicationVersion,
                     home_.keyId, *home_.key);
  }

  // Not being able to write the public half again (a full disk) is no reason to stand still.
  Result<void> publish() {
    const auto path = publicKeyPath(options_.directory);
    const auto text = publicKeyText(home_.key->publicKey());
    const auto stored = readSmallFile(path, 4096);
    if (stored && *stored == text) return {};
    const auto written = writeFileDurably(path, text, 0644);
    if (!written) home_.notices.push_back(written.error().message());
    return {};
  }

  const LedgerOptions& options_;
  Chain& chain_;
  OpenHome home_;
};

}  // namespace

std::string ledgerPath(const std::string& directory) {
  return directory + "/ledger.db";
}
std::string secretKeyPath(const std::string& directory) {
  return directory + "/ledger.key";
}
std::string publicKeyPath(const std::string& directory) {
  return directory + "/ledger.pub";
}

Result<OpenHome> openHome(const LedgerOptions& options, Reserve& reserve, Chain& chain) {
  BOLE_TRY(checkDirectory(options.directory));
  if (options.mode == OpenMode::kReadOnly) return Opening(options, chain).toRead();
  BOLE_ASSIGN(auto lock, HomeLock::take(options.directory));
  if (freeBytes(options.directory) < kRoomToOpen && reserve.canGiveUp()) BOLE_TRY(reserve.giveUp());
  return Opening(options, chain).toWrite(std::move(lock));
}

Result<std::unique_ptr<Database>> openToRead(const std::string& path, const std::string& vfs) {
  BOLE_TRY(checkLog(path));
  BOLE_ASSIGN(auto database, Database::open(path, Access::kReadOnly, vfs));
  BOLE_ASSIGN(const bool blank, isBlank(*database));
  if (blank) return fail(noLedger(path));
  BOLE_TRY(checkIdentity(*database));
  return database;
}

}  // namespace bole::ledger
