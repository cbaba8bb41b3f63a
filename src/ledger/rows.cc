#include "ledger/rows.h"

#include <fmt/format.h>

namespace bole::ledger {

namespace {

constexpr const char* kReadSnapshot = "read a snapshot";
constexpr const char* kSelectSnapshot =
    "SELECT s.seq, s.sha256, s.key, s.signature, s.state, e.hash FROM snapshots s "
    "LEFT JOIN events e ON e.seq = s.seq ";

// Holds the row of kSelectSnapshot to its signature.
Result<void> checkSnapshotRow(const Statement& row, Chain& chain, const KeyRing& ring) {
  const auto sequence = row.natural(0);
  const auto where = fmt::format("snapshot {}", sequence);
  const auto stateHash = hashFrom(row.bytes(1));
  const auto chainHash = hashFrom(row.bytes(5));
  if (!chainHash) return fail(damagedAt(where, "there is no event of that number"));
  if (!stateHash || !ringVouches(ring, row.integer(2), sequence,
                                 snapshotMessage(sequence, *chainHash, *stateHash), row.bytes(3))) {
    return fail(damagedAt(where, "its signature does not hold"));
  }
  if (!row.isNull(4) && chain.plain(row.bytes(4)) != *stateHash) {
    return fail(damagedAt(where, "the stored state was changed"));
  }
  return {};
}

}  // namespace

std::string eventName(std::uint64_t sequence) {
  return fmt::format("event {}", sequence);
}

Error damagedAt(std::string where, std::string what) {
  return makeError(ErrorCode::kCorrupt, std::move(what)).at(std::move(where));
}

Error unreadable(std::string where, Error error) {
  if (error.code != ErrorCode::kCorrupt) return error;
  error.what = fmt::format("cannot be read from {}: the file is damaged", error.where);
  error.where = std::move(where);
  return error;
}

Result<void> ChainReader::decode(const Statement& row) {
  auto& envelope = event_.envelope;
  const auto sequence = sequence_ + 1;
  const bool typed = row.isInteger(1) && row.isText(2) && row.isInteger(3) && row.isInteger(4) &&
                     row.isInteger(5) && row.isText(6) && row.isText(7) && row.isBlob(8) &&
                     row.isBlob(9) && row.isText(10);
  const auto version = row.natural(3);
  if (!typed || version > UINT32_MAX || row.bytes(8).size() % kSideRefSize != 0) {
    return fail(damagedAt(eventName(sequence), "a field is not of its form"));
  }
  envelope.sequence = sequence;
  envelope.time = Timestamp{row.integer(1)};
  envelope.kind = row.bytes(2);
  envelope.version = static_cast<std::uint32_t>(version);
  envelope.actor = UserId(row.natural(4));
  envelope.project = ProjectId(row.natural(5));
  envelope.requestId = row.bytes(6);
  envelope.source = row.bytes(7);
  sideRefs_ = row.bytes(8);
  event_.hash = row.bytes(9);
  event_.body = row.bytes(10);
  return {};
}

Result<void> ChainReader::accept(const Statement& row) {
  const auto expected = sequence_ + 1;
  if (!row.isInteger(0) || row.natural(0) != expected) {
    return fail(damagedAt(eventName(expected), "the event is missing")
                    .foundValue(fmt::format("event {} in its place", row.integer(0))));
  }
  BOLE_TRY(decode(row));
  const auto hash = chain_.next(hash_, event_.envelope, event_.body, sideRefs_);
  if (event_.hash != view(hash)) {
    return fail(damagedAt(eventName(expected),
                          "its hash does not follow from its content and the event before"));
  }
  if (time_ && event_.envelope.time < *time_) {
    return fail(damagedAt(eventName(expected), "its time is less than that of the event before"));
  }
  sequence_ = expected;
  hash_ = hash;
  time_ = event_.envelope.time;
  return {};
}

Result<std::optional<Hash>> storedHash(Database& database, std::uint64_t sequence) {
  BOLE_ASSIGN(auto select,
              database.prepare("SELECT hash FROM events WHERE seq=?", "read an event's hash"));
  BOLE_ASSIGN(const bool row, select.bind(1, sequence).step());
  if (!row) return std::optional<Hash>();
  const auto hash = hashFrom(select.bytes(0));
  if (!hash) return fail(damagedAt(eventName(sequence), "its hash has not 32 bytes"));
  return hash;
}

SideRow::SideRow(const Statement& row)
    : id(row.natural(0)),
      sequence(row.natural(1)),
      erased(row.integer(2) != 0),
      salt(row.bytes(3)),
      value(row.bytes(4)) {}

Result<void> checkSide(Chain& chain, const SideRef& ref, const SideRow& row) {
  const auto where = fmt::format("side value {}", ref.id.value);
  if (row.erased) {
    const auto isZero = [](std::string_view bytes) {
      return bytes.find_first_not_of('\0') == std::string_view::npos;
    };
    if (isZero(row.salt) && isZero(row.value)) return {};
    return fail(damagedAt(where, "it is half erased"));
  }
  if (row.salt.size() != kSaltSize || chain.sideHash(row.salt, row.value) != ref.hash) {
    return fail(damagedAt(where, "the value was changed"));
  }
  return {};
}

Result<SegmentFacts> checkSegment(const Statement& row, const KeyRing& ring) {
  SegmentFacts segment{row.natural(0), row.natural(1), {}};
  const auto hash = hashFrom(row.bytes(2));
  if (hash) segment.hash = *hash;
  if (!hash ||
      !ringVouches(ring, row.integer(3), segment.last, segmentMessage(segment), row.bytes(4))) {
    return fail(damagedAt(fmt::format("segment {}-{}", segment.first, segment.last),
                          "its signature does not hold"));
  }
  return segment;
}

namespace {

Result<void> loadLastEvent(Database& database, Chain& chain, Tip& tip) {
  const auto sql =
      fmt::format("SELECT {} FROM events ORDER BY seq DESC LIMIT 1", ChainReader::kColumns);
  BOLE_ASSIGN(auto last, database.prepare(sql, "read the last event"));
  BOLE_ASSIGN(const bool row, last.step());
  if (!row) return {};
  const auto before = last.natural(0) - 1;
  Hash hash{};
  if (before > 0) {
    BOLE_ASSIGN(const auto stored, storedHash(database, before));
    if (!stored) return fail(damagedAt(eventName(before), "the event is missing"));
    hash = *stored;
  }
  ChainReader reader(chain, before, hash);
  BOLE_TRY(reader.accept(last));
  tip.sequence = reader.sequence();
  tip.time = reader.event().envelope.time;
  tip.hash = reader.hash();
  return {};
}

}  // namespace

Result<Tip> loadTip(Database& database, Chain& chain, const KeyRing& ring) {
  Tip tip;
  BOLE_TRY(loadLastEvent(database, chain, tip));
  BOLE_ASSIGN(const auto sealed,
              database.integer("SELECT count(*) FROM segments", "count the segments"));
  tip.segments = static_cast<std::uint64_t>(sealed) + 1;
  const auto sql =
      fmt::format("SELECT {} FROM segments ORDER BY first_seq DESC LIMIT 1", kSegmentColumns);
  BOLE_ASSIGN(auto newest, database.prepare(sql, "read the newest segment"));
  BOLE_ASSIGN(const bool row, newest.step());
  if (!row) return tip;
  BOLE_ASSIGN(const auto segment, checkSegment(newest, ring));
  BOLE_ASSIGN(const auto stored, storedHash(database, segment.last));
  if (!stored) return fail(damagedAt(eventName(segment.last), "the event is missing"));
  if (*stored != segment.hash) {
    return fail(damagedAt(eventName(segment.last), "its hash is not the one that was signed"));
  }
  tip.sealed = segment.last;
  return tip;
}

Result<std::optional<ports::StoredSnapshot>> loadNewestSnapshot(Database& database, Chain& chain,
                                                                const KeyRing& ring) {
  BOLE_ASSIGN(auto select,
              database.prepare(std::string(kSelectSnapshot) + "ORDER BY s.seq DESC LIMIT 1",
                               kReadSnapshot));
  BOLE_ASSIGN(const bool row, select.step());
  if (!row) return std::optional<ports::StoredSnapshot>();
  BOLE_TRY(checkSnapshotRow(select, chain, ring));
  if (select.isNull(4)) {
    return fail(damagedAt(fmt::format("snapshot {}", select.natural(0)), "its state is missing"));
  }
  return ports::StoredSnapshot{select.natural(0), std::string(select.bytes(4))};
}

Result<void> checkSnapshot(Database& database, Chain& chain, const KeyRing& ring,
                           std::uint64_t sequence) {
  BOLE_ASSIGN(auto select,
              database.prepare(std::string(kSelectSnapshot) + "WHERE s.seq=?", kReadSnapshot));
  BOLE_ASSIGN(const bool row, select.bind(1, sequence).step());
  if (!row) {
    return fail(damagedAt(fmt::format("snapshot {}", sequence),
                          "the snapshot of a sealed segment is missing"));
  }
  return checkSnapshotRow(select, chain, ring);
}

}  // namespace bole::ledger
