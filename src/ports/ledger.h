// The append-only event log: the one place where Bole's truth is kept.
//
// A Ledger stores events in order, each chained to the one before by SHA-256, in sealed segments
// that open with a signed snapshot of the state. It knows nothing of what the bodies mean. Values
// that belong to people (names, commands, environments) lie in a side table; the chain covers
// SHA-256(salt || value), so that they can be erased later. One thread uses a Ledger at a time
// unless a function says otherwise.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace bole::ports {

// The envelope, from version 1.
struct Envelope {
  std::uint64_t sequence = 0;  // 1, 2, 3, ... without a gap
  Timestamp time;              // ledger time: never less than the event before
  std::string kind;            // for example "job.submitted"
  std::uint32_t version = 1;   // of the body's form
  UserId actor;                // who; 0 is Bole itself
  ProjectId project;           // whose; 0 where none
  std::string requestId;       // the client's, for idempotence and tracing; may be empty
  std::string source;          // which door: "api", "engine", "scheduler", "server"
};

// A value of a person's, on its way into the side table. Ids are the caller's, given once.
struct SideValue {
  SideId id;
  std::string value;  // at most 16 MiB
};

struct NewEvent {
  Envelope envelope;  // sequence as the caller expects it: the last one + 1, + 2, ...
  std::string body;   // JSON, at most 16 MiB
  std::vector<SideValue> side;
};

struct StoredEvent {
  Envelope envelope;
  std::string body;
  std::string hash;  // 32 bytes: the chain up to and with this event
};

struct StoredSnapshot {
  std::uint64_t sequence = 0;  // the state after this event
  std::string state;
};

struct LedgerStatus {
  std::uint64_t lastSequence = 0;
  Timestamp lastTime;
  std::string lastHash;        // 32 bytes; all zero for an empty ledger
  std::uint64_t segments = 0;  // the open one included
  bool writable = true;        // false after a failure that a retry cannot mend; the reason then:
  std::string reason;
};

struct VerifyReport {
  std::uint64_t events = 0;
  std::uint64_t segments = 0;
  std::uint64_t sideValues = 0;
  std::uint64_t erased = 0;  // side values that were erased: their hash still stands in the chain
  // The first thing that is wrong, if any: which record and what is wrong with it.
  std::optional<Error> firstFault;
};

class Ledger {
 public:
  virtual ~Ledger() = default;

  // Makes all of `events` durable in one transaction, or none. After it returns they survive a
  // power loss. Errors: kUnavailable (disk full, read-only), kCorrupt, kInternal (a sequence that
  // is not the next: our bug). After an error the ledger is as before the call.
  [[nodiscard]] virtual Result<void> append(std::span<const NewEvent> events) = 0;

  // As append, for what must be recorded even on a full disk (stops, exits): gives up the reserve
  // to make room.
  [[nodiscard]] virtual Result<void> appendUrgent(std::span<const NewEvent> events) = 0;

  // Visits the events with sequence >= from in order, until the end or until `visit` returns an
  // error, which is returned.
  [[nodiscard]] virtual Result<void> read(
      std::uint64_t from, const std::function<Result<void>(const StoredEvent&)>& visit) = 0;

  // The side value; kNotFound if there never was one or it was erased (the error says which).
  [[nodiscard]] virtual Result<std::string> side(SideId id) = 0;
  [[nodiscard]] virtual Result<void> eraseSide(SideId id) = 0;

  // Seals the open segment at its last event and opens the next with `state`, signed. kInvalid if
  // `sequence` is not the last one.
  [[nodiscard]] virtual Result<void> seal(std::uint64_t sequence, std::string_view state) = 0;

  // The newest snapshot whose signature and hash hold; none for a young ledger. A damaged newest
  // one is kCorrupt.
  [[nodiscard]] virtual Result<std::optional<StoredSnapshot>> newestSnapshot() = 0;

  [[nodiscard]] virtual LedgerStatus status() const = 0;
};

}  // namespace bole::ports
