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

// Holds a side value to the event's claim on it. Erased ones (both NULL) hold; kCorrupt otherwise.
[[nodiscard]] Result<void> checkSide(Chain& chain, const SideRef& ref, const Statement& row,
                                     int saltColumn);

// The newest snapshot, checked against its signature, its state and the chain; none if there is none.
struct Snapshot {
  std::uint64_t sequence = 0;
  std::string state;
};
[[nodiscard]] Result<std::optional<Snapshot>> loadNewestSnapshot(Database& database, Chain& chain,
                                                                 const KeyRing& ring);
// As that, of the snapshot after `sequence`, without keeping the state. kCorrupt if there is none.
[[nodiscard]] Result<void> checkSnapshot(Database& database, Chain& chain, const KeyRing& ring,
                                         std::uint64_t sequence);

}  // namespace bole::ledger
