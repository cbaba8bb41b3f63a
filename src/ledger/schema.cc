#include "ledger/schema.h"

#include <fmt/format.h>

#include <algorithm>

#include "ledger/advice.h"

namespace bole::ledger {

namespace {

// STRICT: a value of another type is damage that SQLite itself finds. body comes last, so that the
// small columns of an event with a large body are read without it. side: rows are only ever added
// at the end (pos ascends, whatever the ids do) and an erasure overwrites a row with one of the
// same size. So SQLite never moves a value to another page, where balancing would leave a copy
// behind. snapshots: only the newest few keep their state; the others keep its hash and the
// signature.
constexpr const char* kTables = R"sql(
CREATE TABLE meta(name TEXT PRIMARY KEY, value INTEGER NOT NULL, key INTEGER NOT NULL,
  signature BLOB NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE keys(id INTEGER PRIMARY KEY, public BLOB NOT NULL, first_seq INTEGER NOT NULL,
  signature BLOB NOT NULL) STRICT;
CREATE TABLE events(seq INTEGER PRIMARY KEY, time INTEGER NOT NULL, kind TEXT NOT NULL,
  version INTEGER NOT NULL, actor INTEGER NOT NULL, project INTEGER NOT NULL,
  request_id TEXT NOT NULL, source TEXT NOT NULL, side_refs BLOB NOT NULL, hash BLOB NOT NULL,
  body TEXT NOT NULL) STRICT;
CREATE TABLE side(pos INTEGER PRIMARY KEY, id INTEGER NOT NULL, seq INTEGER NOT NULL,
  erased INTEGER NOT NULL, salt BLOB NOT NULL, value BLOB NOT NULL) STRICT;
CREATE UNIQUE INDEX side_id ON side(id);
CREATE TABLE segments(first_seq INTEGER PRIMARY KEY, last_seq INTEGER NOT NULL,
  hash BLOB NOT NULL, key INTEGER NOT NULL, signature BLOB NOT NULL) STRICT;
CREATE TABLE snapshots(seq INTEGER PRIMARY KEY, sha256 BLOB NOT NULL, key INTEGER NOT NULL,
  signature BLOB NOT NULL, state BLOB) STRICT;
)sql";
constexpr std::string_view kNames =
    "index side_id,table events,table keys,table meta,table segments,table side,table snapshots";

Error otherProgram(const std::string& path) {
  return makeError(ErrorCode::kRefused, "this is another program's database, not a Bole ledger")
      .at(path)
      .withHint("choose another home with --home");
}

Error newerBole(const std::string& path, std::int64_t found) {
  return makeError(ErrorCode::kRefused, "this ledger was written by a newer Bole")
      .at(path)
      .foundValue(fmt::format("storage version {}", found))
      .expectedValue(fmt::format("at most {}", kStorageVersion))
      .withHint("install that version again, or restore a backup made before the upgrade");
}

Error damaged(Database& database, std::string what) {
  return makeError(ErrorCode::kCorrupt, std::move(what))
      .at(database.path())
      .withHint(damageAdvice(database.path()));
}

}  // namespace

Result<bool> isBlank(Database& database) {
  BOLE_ASSIGN(const auto objects,
              database.integer("SELECT count(*) FROM sqlite_schema", "read the ledger"));
  BOLE_ASSIGN(const auto id, database.integer("PRAGMA application_id", "read the ledger"));
  return objects == 0 && id == 0;
}

Result<void> checkIdentity(Database& database) {
  constexpr const char* kPurpose = "read the ledger's version";
  BOLE_ASSIGN(const auto id, database.integer("PRAGMA application_id", kPurpose));
  if (id != kApplicationId) return fail(otherProgram(database.path()));
  BOLE_ASSIGN(const auto version, database.integer("PRAGMA user_version", kPurpose));
  if (version > kStorageVersion) return fail(newerBole(database.path(), version));
  if (version < 1) {
    return fail(damaged(database, fmt::format("storage version {} does not exist", version)));
  }
  BOLE_ASSIGN(auto names,
              database.prepare(
                  "SELECT group_concat(object) FROM (SELECT type || ' ' "
                  "|| name AS object FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%' ORDER BY 1)",
                  "read the ledger's tables"));
  BOLE_ASSIGN(const bool row, names.step());
  if (!row || (version == kStorageVersion && names.bytes(0) != kNames)) {
    auto error = damaged(database, "the ledger has not the tables that it should have");
    error.found = row ? std::string(names.bytes(0)) : "";
    error.expected = kNames;
    return fail(std::move(error));
  }
  return {};
}

Result<void> createTables(Database& database) {
  BOLE_TRY(database.execute(kTables, "make the ledger's tables"));
  const auto marks = fmt::format("PRAGMA application_id={}; PRAGMA user_version={}", kApplicationId,
                                 kStorageVersion);
  return database.execute(marks.c_str(), "mark the ledger as Bole's");
}

Result<void> migrate(Database& database, std::span<const Migration> steps, std::int64_t target) {
  constexpr const char* kPurpose = "bring the ledger to this version of Bole";
  BOLE_ASSIGN(auto version, database.integer("PRAGMA user_version", kPurpose));
  for (; version < target; ++version) {
    const auto step = std::find_if(steps.begin(), steps.end(),
                                   [&](const Migration& s) { return s.from == version; });
    BOLE_ASSERT(step != steps.end());
    BOLE_TRY(database.execute(step->sql, kPurpose));
    const auto mark = fmt::format("PRAGMA user_version={}", version + 1);
    BOLE_TRY(database.execute(mark.c_str(), kPurpose));
  }
  return {};
}

std::span<const Migration> migrations() {
  return {};
}  // version 1 is the first

Result<KeyRing> loadKeyRing(Database& database) {
  BOLE_ASSIGN(auto rows, database.prepare("SELECT id, public, first_seq, signature FROM keys "
                                          "ORDER BY id",
                                          "read the ledger's keys"));
  KeyRing ring;
  while (true) {
    BOLE_ASSIGN(const bool row, rows.step());
    if (!row) break;
    ListedKey listed;
    listed.firstSequence = rows.natural(2);
    const auto bytes = rows.bytes(1);
    const auto id = static_cast<std::int64_t>(ring.size()) + 1;
    const auto earliest = ring.empty() ? 1 : ring.rbegin()->second.firstSequence;
    bool holds =
        rows.integer(0) == id && bytes.size() == kPublicKeySize && listed.firstSequence >= earliest;
    if (holds) {
      std::copy(bytes.begin(), bytes.end(), listed.key.begin());
      const auto message = keyMessage(rows.natural(0), listed.firstSequence, listed.key);
      holds = signatureHolds(listed.key, message, rows.bytes(3));
    }
    if (!holds) return fail(damaged(database, fmt::format("key {}: the entry was changed", id)));
    ring.emplace(id, listed);
  }
  if (ring.empty()) return fail(damaged(database, "the ledger lists no key"));
  return ring;
}

Result<std::int64_t> addKey(Database& database, const SigningKey& key,
                            std::uint64_t firstSequence) {
  constexpr const char* kPurpose = "enter the key into the ledger";
  BOLE_ASSIGN(const auto newest, database.integer("SELECT max(id) FROM keys", kPurpose));
  const auto id = newest + 1;
  const auto& bytes = key.publicKey();
  const auto signature = key.sign(keyMessage(static_cast<std::uint64_t>(id), firstSequence, bytes));
  BOLE_ASSIGN(auto insert, database.prepare("INSERT INTO keys VALUES(?,?,?,?)", kPurpose));
  insert.bind(1, id).bindBlob(2, {bytes.data(), bytes.size()}).bind(3, firstSequence);
  BOLE_TRY(insert.bindBlob(4, view(signature)).run());
  return id;
}

Result<std::int64_t> loadFact(Database& database, const KeyRing& ring, const std::string& name) {
  BOLE_ASSIGN(auto select, database.prepare("SELECT value, key, signature FROM meta WHERE name=?",
                                            "read the ledger's facts"));
  BOLE_ASSIGN(const bool row, select.bindText(1, name).step());
  if (!row) return fail(damaged(database, fmt::format("the fact '{}' is missing", name)));
  const auto key = ring.find(select.integer(1));
  const auto value = select.integer(0);
  if (key == ring.end() ||
      !signatureHolds(key->second.key, factMessage(name, value), select.bytes(2))) {
    return fail(damaged(database, fmt::format("the fact '{}' was changed", name)));
  }
  return value;
}

Result<void> storeFact(Database& database, const std::string& name, std::int64_t value,
                       std::int64_t keyId, const SigningKey& key) {
  const auto signature = key.sign(factMessage(name, value));
  BOLE_ASSIGN(auto insert, database.prepare("INSERT OR REPLACE INTO meta VALUES(?,?,?,?)",
                                            "write the ledger's facts"));
  return insert.bindText(1, name).bind(2, value).bind(3, keyId).bindBlob(4, view(signature)).run();
}

Result<void> checkFacts(Database& database, const KeyRing& ring) {
  BOLE_TRY(loadFact(database, ring, kApplicationVersionFact));
  BOLE_ASSIGN(const auto count,
              database.integer("SELECT count(*) FROM meta", "read the ledger's facts"));
  if (count != 1) return fail(damaged(database, "the ledger has facts that nobody wrote"));
  return {};
}

}  // namespace bole::ledger
