#include "ledger/sqlite_ledger.h"

#include <fmt/format.h>

#include <utility>

#include "ledger/advice.h"
#include "ledger/opening.h"

namespace bole::ledger {

namespace {

constexpr std::size_t kMaxValue = 16 * 1024 * 1024;
constexpr std::size_t kMaxState = 900 * 1000 * 1000;  // SQLite takes 1,000,000,000
constexpr int kSnapshotsWithState = 3;

Error notNext(std::uint64_t found, std::uint64_t expected) {
  return makeError(ErrorCode::kInternal, "an event's sequence is not the next")
      .foundValue(std::to_string(found))
      .expectedValue(std::to_string(expected))
      .withHint("this is a fault of Bole's: please report it");
}

Error tooLarge(const std::string& where, std::size_t size, std::size_t maximum) {
  return makeError(ErrorCode::kInvalid, "the value is too large for the ledger")
      .at(where)
      .foundValue(fmt::format("{} bytes", size))
      .expectedValue(fmt::format("at most {} bytes", maximum));
}

Result<void> checkEvent(const ports::NewEvent& event, std::uint64_t expected, Timestamp before) {
  const auto& envelope = event.envelope;
  if (envelope.sequence != expected) return fail(notNext(envelope.sequence, expected));
  const auto where = [&] { return eventName(expected); };
  if (envelope.time < before) {
    return fail(makeError(ErrorCode::kInternal, "the event's ledger time goes back")
                    .at(where())
                    .foundValue(std::to_string(envelope.time.micros))
                    .expectedValue(fmt::format("at least {}", before.micros)));
  }
  const auto largest = std::max(
      {event.body.size(), envelope.kind.size(), envelope.source.size(), envelope.requestId.size()});
  if (largest > kMaxValue) return fail(tooLarge(where(), largest, kMaxValue));
  for (const auto& side : event.side) {
    if (!side.id.isSet()) {
      return fail(makeError(ErrorCode::kInternal, "a side value has no id").at(where()));
    }
    if (side.value.size() > kMaxValue) {
      return fail(tooLarge(where(), side.value.size(), kMaxValue));
    }
  }
  return {};
}

}  // namespace

using Visitor = std::function<Result<void>(const ports::StoredEvent&)>;

struct SqliteLedger::Core {
  Core(const LedgerOptions& given, Reserve space)
      : options(given), reserve(std::move(space)), nextCheckpoint(given.checkpointFrames) {}

  [[nodiscard]] Result<void> prepare();
  [[nodiscard]] Result<void> mayWrite() const;
  [[nodiscard]] Result<void> check(std::span<const ports::NewEvent> events) const;
  [[nodiscard]] Result<void> write(std::span<const ports::NewEvent> events);
  [[nodiscard]] Result<Tip> insertAll(std::span<const ports::NewEvent> events);
  [[nodiscard]] Result<void> insert(const ports::NewEvent& event, Tip& end);
  [[nodiscard]] Result<void> insertSide(const ports::SideValue& side, std::uint64_t sequence);
  [[nodiscard]] Result<void> writeSeal(std::uint64_t sequence, std::string_view state);
  [[nodiscard]] Result<void> writeSegment(std::uint64_t last);
  [[nodiscard]] Result<void> writeSnapshot(std::uint64_t sequence, std::string_view state);
  [[nodiscard]] Result<void> read(std::uint64_t from, const Visitor& visit);
  [[nodiscard]] Result<std::string> side(SideId id);
  [[nodiscard]] Result<void> claimOf(SideId id, std::uint64_t sequence, SideRef& claim);
  void noteFailure(const Error& error);
  void moveLogIfLong();

  LedgerOptions options;
  Reserve reserve;
  Chain chain;
  OpenHome home;
  std::optional<Error> broken;  // why no write is tried any more
  Statement addEvent;
  Statement addSide;
  Statement findSide;
  std::string refs;  // kept for its memory
  int nextCheckpoint;
  int framesBefore = 0;
};

Result<void> SqliteLedger::Core::prepare() {
  auto& database = *home.database;
  BOLE_ASSIGN(findSide,
              database.prepare(fmt::format("SELECT {} FROM side WHERE id=?", SideRow::kColumns),
                               "read a side value"));
  if (options.mode == OpenMode::kReadOnly) return {};
  BOLE_ASSIGN(addEvent, database.prepare("INSERT INTO events VALUES(?,?,?,?,?,?,?,?,?,?,?)",
                                         "write an event"));
  BOLE_ASSIGN(addSide,
              database.prepare("INSERT INTO side VALUES(NULL,?,?,0,?,?)", "write a side value"));
  return {};
}

Result<void> SqliteLedger::Core::mayWrite() const {
  if (options.mode == OpenMode::kReadOnly) {
    return fail(makeError(ErrorCode::kUnavailable, "the ledger was opened for reading only")
                    .at(home.database->path()));
  }
  if (broken) return fail(*broken);
  return {};
}

Result<void> SqliteLedger::Core::check(std::span<const ports::NewEvent> events) const {
  auto expected = home.tip.sequence;
  auto time = home.tip.sequence == 0 ? Timestamp{INT64_MIN} : home.tip.time;
  for (const auto& event : events) {
    BOLE_TRY(checkEvent(event, ++expected, time));
    time = event.envelope.time;
  }
  return {};
}

Result<void> SqliteLedger::Core::write(std::span<const ports::NewEvent> events) {
  home.database->forgetTrouble();
  auto end = insertAll(events);
  if (!end) {
    noteFailure(end.error());
    return fail(std::move(end).error());
  }
  home.tip = *end;
  moveLogIfLong();
  return {};
}

Result<Tip> SqliteLedger::Core::insertAll(std::span<const ports::NewEvent> events) {
  BOLE_ASSIGN(auto transaction, Transaction::beginWrite(*home.database));
  Tip end = home.tip;
  for (const auto& event : events) BOLE_TRY(insert(event, end));
  BOLE_TRY(transaction.commit());
  return end;
}

Result<void> SqliteLedger::Core::insert(const ports::NewEvent& event, Tip& end) {
  const auto& envelope = event.envelope;
  refs.clear();
  for (const auto& side : event.side) BOLE_TRY(insertSide(side, envelope.sequence));
  end.hash = chain.next(end.hash, envelope, event.body, refs);
  end.sequence = envelope.sequence;
  end.time = envelope.time;
  return addEvent.bind(1, envelope.sequence)
      .bind(2, envelope.time.micros)
      .bindText(3, envelope.kind)
      .bind(4, static_cast<std::int64_t>(envelope.version))
      .bind(5, envelope.actor.value)
      .bind(6, envelope.project.value)
      .bindText(7, envelope.requestId)
      .bindText(8, envelope.source)
      .bindBlob(9, refs)
      .bindBlob(10, view(end.hash))
      .bindText(11, event.body)
      .run();
}

Result<void> SqliteLedger::Core::insertSide(const ports::SideValue& side, std::uint64_t sequence) {
  std::array<char, kSaltSize> bytes;
  options.random.fill(bytes.data(), bytes.size());
  const std::string_view salt(bytes.data(), bytes.size());
  appendSideRef(refs, {side.id, chain.sideHash(salt, side.value)});
  auto added = addSide.bind(1, side.id.value)
                   .bind(2, sequence)
                   .bindBlob(3, salt)
                   .bindBlob(4, side.value)
                   .run();
  if (!added && home.database->trouble() == Trouble::kCaller) {
    return fail(makeError(ErrorCode::kInternal, "a side value's id was given before")
                    .at(eventName(sequence))
                    .foundValue(std::to_string(side.id.value))
                    .withHint("this is a fault of Bole's: please report it"));
  }
  return added;
}

// What a retry cannot mend closes the ledger to writing: nothing may be built on a write of unknown
// fate.
void SqliteLedger::Core::noteFailure(const Error& error) {
  const bool stuck = home.database->insideTransaction();
  if (!stuck && retryMayMend(home.database->trouble())) return;
  broken = error;
}

// The events are durable whatever becomes of this; a full disk or a reader in the way is met again
// later.
void SqliteLedger::Core::moveLogIfLong() {
  const int frames = home.database->walFrames();
  if (frames < framesBefore) nextCheckpoint = options.checkpointFrames;
  framesBefore = frames;
  if (frames < nextCheckpoint) return;
  nextCheckpoint = frames + options.checkpointFrames;
  home.database->forgetTrouble();
  const auto moved = home.database->checkpoint(Checkpoint::kPassive);
  if (!moved) noteFailure(moved.error());
}

Result<void> SqliteLedger::Core::writeSeal(std::uint64_t sequence, std::string_view state) {
  BOLE_ASSIGN(auto transaction, Transaction::beginWrite(*home.database));
  if (home.tip.sealed != sequence) BOLE_TRY(writeSegment(sequence));
  BOLE_TRY(writeSnapshot(sequence, state));
  return transaction.commit();
}

Result<void> SqliteLedger::Core::writeSegment(std::uint64_t last) {
  const SegmentFacts segment{home.tip.sealed + 1, last, home.tip.hash};
  const auto signature = home.key->sign(segmentMessage(segment));
  BOLE_ASSIGN(auto add,
              home.database->prepare("INSERT INTO segments VALUES(?,?,?,?,?)", "seal the segment"));
  return add.bind(1, segment.first)
      .bind(2, segment.last)
      .bindBlob(3, view(segment.hash))
      .bind(4, home.keyId)
      .bindBlob(5, view(signature))
      .run();
}

Result<void> SqliteLedger::Core::writeSnapshot(std::uint64_t sequence, std::string_view state) {
  const auto hash = chain.plain(state);
  const auto signature = home.key->sign(snapshotMessage(sequence, home.tip.hash, hash));
  BOLE_ASSIGN(auto add, home.database->prepare("INSERT OR REPLACE INTO snapshots VALUES(?,?,?,?,?)",
                                               "write the snapshot"));
  add.bind(1, sequence).bindBlob(2, view(hash)).bind(3, home.keyId);
  BOLE_TRY(add.bindBlob(4, view(signature)).bindBlob(5, state).run());
  BOLE_ASSIGN(auto thin,
              home.database->prepare(
                  "UPDATE snapshots SET state=NULL WHERE state IS NOT NULL AND seq NOT IN "
                  "(SELECT seq FROM snapshots ORDER BY seq DESC LIMIT ?)",
                  "drop the state of old snapshots"));
  return thin.bind(1, std::int64_t{kSnapshotsWithState}).run();
}

SqliteLedger::SqliteLedger(std::unique_ptr<Core> core) : core_(std::move(core)) {}
SqliteLedger::~SqliteLedger() = default;

Result<void> SqliteLedger::append(std::span<const ports::NewEvent> events) {
  BOLE_TRY(core_->mayWrite());
  BOLE_TRY(core_->check(events));
  if (events.empty()) return {};
  BOLE_TRY(core_->reserve.restore());
  return core_->write(events);
}

Result<void> SqliteLedger::appendUrgent(std::span<const ports::NewEvent> events) {
  BOLE_TRY(core_->mayWrite());
  BOLE_TRY(core_->check(events));
  if (events.empty()) return {};
  auto written = core_->write(events);
  const bool full = !written && core_->home.database->trouble() == Trouble::kFull;
  if (!full || !core_->reserve.canGiveUp()) return written;
  BOLE_TRY(core_->reserve.giveUp());
  return core_->write(events);
}

Result<void> SqliteLedger::Core::read(std::uint64_t from, const Visitor& visit) {
  auto& database = *home.database;
  const auto start = from == 0 ? 0 : from - 1;
  const auto end = home.tip.sequence;
  if (start >= end) return {};
  Hash before{};
  if (start > 0) {
    BOLE_ASSIGN(const auto stored, storedHash(database, start));
    if (!stored) return fail(damagedAt(eventName(start), "the event is missing"));
    before = *stored;
  }
  BOLE_ASSIGN(auto rows, database.prepare(fmt::format("SELECT {} FROM events WHERE seq>? AND "
                                                      "seq<=? ORDER BY seq",
                                                      ChainReader::kColumns),
                                          "read the events"));
  rows.bind(1, start).bind(2, end);
  ChainReader reader(chain, start, before);
  while (true) {
    auto row = rows.step();
    if (!row) return fail(unreadable(eventName(reader.sequence() + 1), std::move(row).error()));
    if (!*row) break;
    BOLE_TRY(reader.accept(rows));
    BOLE_TRY(visit(reader.event()));
  }
  if (reader.sequence() < end) {
    return fail(damagedAt(eventName(reader.sequence() + 1), "the event is missing"));
  }
  return {};
}

Result<void> SqliteLedger::read(std::uint64_t from, const Visitor& visit) {
  bool refused = false;  // what the visitor says is not about the file
  auto done = core_->read(from, [&](const ports::StoredEvent& event) {
    auto seen = visit(event);
    refused = !seen;
    return seen;
  });
  return refused ? done : advised(std::move(done), core_->home.database->path());
}

// The claim of the event `sequence` on the side value.
Result<void> SqliteLedger::Core::claimOf(SideId id, std::uint64_t sequence, SideRef& claim) {
  BOLE_ASSIGN(auto select, home.database->prepare("SELECT side_refs FROM events WHERE seq=?",
                                                  "read an event's side values"));
  BOLE_ASSIGN(const bool row, select.bind(1, sequence).step());
  const auto refs_ = row ? parseSideRefs(select.bytes(0)) : std::nullopt;
  if (refs_) {
    for (const auto& ref : *refs_) {
      if (ref.id != id) continue;
      claim = ref;
      return {};
    }
  }
  return fail(damagedAt(fmt::format("side value {}", id.value),
                        fmt::format("event {} does not claim it", sequence)));
}

Result<std::string> SqliteLedger::Core::side(SideId id) {
  auto& find = findSide;
  ResetAtEnd reset(find);
  BOLE_ASSIGN(const bool found, find.bind(1, id.value).step());
  const auto where = fmt::format("side value {}", id.value);
  if (!found)
    return fail(makeError(ErrorCode::kNotFound, "there never was such a value").at(where));
  const SideRow row(find);
  SideRef claim;
  BOLE_TRY(claimOf(id, row.sequence, claim));
  BOLE_TRY(checkSide(chain, claim, row));
  if (row.erased) return fail(makeError(ErrorCode::kNotFound, "the value was erased").at(where));
  return std::string(row.value);
}

Result<std::string> SqliteLedger::side(SideId id) {
  return advised(core_->side(id), core_->home.database->path());
}

Result<void> SqliteLedger::eraseSide(SideId id) {
  BOLE_TRY(core_->mayWrite());
  auto& database = *core_->home.database;
  database.forgetTrouble();
  const auto erase = [&]() -> Result<bool> {
    BOLE_ASSIGN(auto update,
                database.prepare("UPDATE side SET erased=1, salt=zeroblob(length(salt))"
                                 ", value=zeroblob(length(value)) WHERE id=?",
                                 "erase a side value"));
    BOLE_TRY(update.bind(1, id.value).run());
    if (database.changes() == 0) {
      return fail(makeError(ErrorCode::kNotFound, "there never was such a value")
                      .at(fmt::format("side value {}", id.value)));
    }
    return database.checkpoint(Checkpoint::kTruncate);
  };
  auto gone = erase();
  if (!gone) {
    core_->noteFailure(gone.error());
    return fail(std::move(gone).error());
  }
  if (*gone) return {};
  return fail(makeError(ErrorCode::kUnavailable,
                        "the value was erased, but its old page is still in the write-ahead log")
                  .at(fmt::format("side value {}", id.value))
                  .withHint("a backup or a check is reading the ledger: erase again when it has "
                            "ended"));
}

Result<void> SqliteLedger::seal(std::uint64_t sequence, std::string_view state) {
  BOLE_TRY(core_->mayWrite());
  auto& tip = core_->home.tip;
  if (sequence != tip.sequence || sequence == 0) {
    return fail(makeError(ErrorCode::kInvalid, "a segment is sealed at its last event")
                    .at(core_->home.database->path())
                    .foundValue(eventName(sequence))
                    .expectedValue(eventName(tip.sequence)));
  }
  if (state.size() > kMaxState) return fail(tooLarge("snapshot", state.size(), kMaxState));
  BOLE_TRY(core_->reserve.restore());
  core_->home.database->forgetTrouble();
  auto sealed = core_->writeSeal(sequence, state);
  if (!sealed) {
    core_->noteFailure(sealed.error());
    return sealed;
  }
  if (std::exchange(tip.sealed, sequence) != sequence) ++tip.segments;
  core_->moveLogIfLong();
  return {};
}

Result<std::optional<ports::StoredSnapshot>> SqliteLedger::newestSnapshot() {
  const auto& database = core_->home.database;
  return advised(loadNewestSnapshot(*database, core_->chain, core_->home.ring), database->path());
}

ports::LedgerStatus SqliteLedger::status() const {
  const auto& tip = core_->home.tip;
  ports::LedgerStatus status;
  status.lastSequence = tip.sequence;
  status.lastTime = tip.time;
  status.lastHash = view(tip.hash);
  status.segments = tip.segments;
  const auto writable = core_->mayWrite();
  status.writable = writable.has_value();
  if (!writable) status.reason = writable.error().message();
  return status;
}

Result<void> SqliteLedger::restoreReserve() {
  BOLE_TRY(core_->mayWrite());
  return core_->reserve.restore();
}
bool SqliteLedger::reserveHeld() const {
  return core_->reserve.held();
}
const std::vector<std::string>& SqliteLedger::notices() const {
  return core_->home.notices;
}

Result<std::unique_ptr<SqliteLedger>> openLedger(const LedgerOptions& options) {
  auto core =
      std::make_unique<SqliteLedger::Core>(options, Reserve(options.directory, options.reserve));
  BOLE_ASSIGN(core->home, advised(openHome(options, core->reserve, core->chain),
                                  ledgerPath(options.directory)));
  BOLE_TRY(core->prepare());
  if (options.mode == OpenMode::kReadWrite) {
    // What an earlier server left in the log is written anew and flushed: after a failed fsync the
    // kernel may show data that never reached the disk.
    const auto moved = core->home.database->checkpoint(Checkpoint::kTruncate);
    if (!moved) {
      core->noteFailure(moved.error());
      core->home.notices.push_back(moved.error().message());
    }
    const auto reserved = core->reserve.restore();
    if (!reserved) core->home.notices.push_back(reserved.error().message());
  }
  return std::unique_ptr<SqliteLedger>(new SqliteLedger(std::move(core)));
}

}  // namespace bole::ledger
