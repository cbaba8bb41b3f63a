// The tables, their version, and the way from an older version to this one.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"
#include "ledger/database.h"
#include "ledger/signing.h"

namespace bole::ledger {

inline constexpr std::int64_t kApplicationId = 0x426f6c65;  // "Bole", in the file's header
inline constexpr std::int64_t kStorageVersion = 1;          // PRAGMA user_version

// The step from version `from` to `from` + 1. Events are never rewritten by one: their hashes are
// for ever.
struct Migration {
  std::int64_t from;
  const char* sql;
};

// A database with nothing in it: just made, or its making was cut short.
[[nodiscard]] Result<bool> isBlank(Database& database);

// kRefused if this is another program's database or a newer Bole's; kCorrupt if tables are missing
// or there are others.
[[nodiscard]] Result<void> checkIdentity(Database& database);

// To be called inside a transaction.
[[nodiscard]] Result<void> createTables(Database& database);
[[nodiscard]] Result<void> migrate(Database& database, std::span<const Migration> steps,
                                   std::int64_t target);
[[nodiscard]] std::span<const Migration> migrations();

// The keys that the ledger lists; kCorrupt if one of them does not vouch for its own row.
[[nodiscard]] Result<KeyRing> loadKeyRing(Database& database);
[[nodiscard]] Result<std::int64_t> addKey(Database& database, const SigningKey& key,
                                          std::uint64_t firstSequence);

// Small signed facts about the whole ledger. kCorrupt if the fact is missing or its signature does
// not hold.
inline constexpr const char* kApplicationVersionFact = "application_version";
[[nodiscard]] Result<std::int64_t> loadFact(Database& database, const KeyRing& ring,
                                            const std::string& name);
[[nodiscard]] Result<void> storeFact(Database& database, const std::string& name,
                                     std::int64_t value, std::int64_t keyId, const SigningKey& key);
// Facts other than those that this version knows are a fault.
[[nodiscard]] Result<void> checkFacts(Database& database, const KeyRing& ring);

}  // namespace bole::ledger
