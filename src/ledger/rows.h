// Rows of the tables as values, with their checks; shared by reading, sealing and verifying.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "ledger/chain.h"
#include "ledger/database.h"
#include "ledger/signing.h"
#include "ports/ledger.h"

namespace bole::ledger {

// "event 12": how a fault names its record.
[[nodiscard]] std::string eventName(std::uint64_t sequence);
[[nodiscard]] Error damagedAt(std::string where, std::string what);

// The error of a row that SQLite could not read, naming the record if the file is damaged.
[[nodiscard]] Error unreadable(std::string where, Error error);

// Reads events in order and holds each to the chain.
class ChainReader {
 public:
  // From the event after `sequence`, whose hash is `hash`.
  ChainReader(Chain& chain, std::uint64_t sequence, const Hash& hash)
      : chain_(chain), sequence_(sequence), hash_(hash) {}

  // The columns that accept() expects.
  static constexpr std::string_view kColumns =
      "seq, time, kind, version, actor, project, request_id, source, side_refs, hash, body";

  // The row is the next event, its hash right, its time not less; otherwise kCorrupt.
  [[nodiscard]] Result<void> accept(const Statement& row);

  [[nodiscard]] const ports::StoredEvent& event() const { return event_; }
  // Of the row last accepted; holds as long as the row.
  [[nodiscard]] std::string_view sideRefs() const { return sideRefs_; }
  [[nodiscard]] std::uint64_t sequence() const { return sequence_; }
  [[nodiscard]] const Hash& hash() const { return hash_; }

 private:
  [[nodiscard]] Result<void> decode(const Statement& row);

  Chain& chain_;
  std::uint64_t sequence_;
  Hash hash_;
  std::optional<Timestamp> time_;
  ports::StoredEvent event_;
  std::string_view sideRefs_;
};

// The stored hash of an event; none if there is no such event.
[[nodiscard]] Result<std::optional<Hash>> storedHash(Database& database, std::uint64_t sequence);

// A row of the side table, in the order of kColumns; views hold as long as the row.
struct SideRow {
  static constexpr std::string_view kColumns = "id, seq, erased, salt, value";
  explicit SideRow(const Statement& row);
  SideId id;
  std::uint64_t sequence;  // of the event that claims it
  bool erased;
  std::string_view salt;
  std::string_view value;
};
// Holds a side value to the event's claim on it. Erased ones (all zero) hold; kCorrupt otherwise.
[[nodiscard]] Result<void> checkSide(Chain& chain, const SideRef& ref, const SideRow& row);

// A row of the segments table, in the order of kColumns, held to its signature.
inline constexpr std::string_view kSegmentColumns = "first_seq, last_seq, hash, key, signature";
[[nodiscard]] Result<SegmentFacts> checkSegment(const Statement& row, const KeyRing& ring);

// Where the ledger ends.
struct Tip {
  std::uint64_t sequence = 0;
  Timestamp time;
  Hash hash{};
  std::uint64_t segments = 1;  // the open one included
  std::uint64_t sealed = 0;    // the last event of the newest sealed segment
};
// Reads the last event and the newest seal, and holds both to the chain: what an opening can check
// in constant time.
[[nodiscard]] Result<Tip> loadTip(Database& database, Chain& chain, const KeyRing& ring);

// The newest snapshot, checked against its signature, its state and the chain; none if there is
// none.
[[nodiscard]] Result<std::optional<ports::StoredSnapshot>> loadNewestSnapshot(Database& database,
                                                                              Chain& chain,
                                                                              const KeyRing& ring);
// As that, of the snapshot after `sequence`, without keeping the state, which an older snapshot may
// have given up. kCorrupt if there is no such snapshot.
[[nodiscard]] Result<void> checkSnapshot(Database& database, Chain& chain, const KeyRing& ring,
                                         std::uint64_t sequence);

}  // namespace bole::ledger
