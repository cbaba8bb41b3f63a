#include "app/fsck.h"

#include <fmt/format.h>

#include <filesystem>

#include "codec/codec.h"
#include "ledger/advice.h"
#include "ledger/sqlite_ledger.h"
#include "state/state.h"

namespace bole::app {
namespace {

constexpr std::uint64_t kEvery = 1000;  // events between two looks at the invariants

Error at(std::string place, Error error) {
  if (error.where.starts_with(place)) return error;
  error.where = error.where.empty() ? std::move(place) : std::move(place) + ", " + error.where;
  return error;
}

std::string eventAt(std::uint64_t sequence) {
  return fmt::format("event {}", sequence);
}

std::string snapshotAt(std::uint64_t sequence) {
  return fmt::format("snapshot at event {}", sequence);
}

// What says that nothing was found out, rather than that something is wrong.
bool isNoFinding(ErrorCode code) {
  return code == ErrorCode::kUnavailable || code == ErrorCode::kPermission ||
         code == ErrorCode::kUnsupported;
}

// The tables of a snapshot that a start would go on from.
Result<model::Tables> tablesOf(const ports::StoredSnapshot& snapshot) {
  auto tables = codec::decodeTables(snapshot.state);
  if (!tables) return fail(at(snapshotAt(snapshot.sequence), std::move(tables).error()));
  if (tables->sequence != snapshot.sequence) {
    return fail(makeError(ErrorCode::kCorrupt, "the snapshot is of another event")
                    .at(snapshotAt(snapshot.sequence))
                    .foundValue(eventAt(tables->sequence)));
  }
  if (auto sound = state::checkInvariants(*tables); !sound) {
    return fail(at(snapshotAt(snapshot.sequence), std::move(sound).error()));
  }
  return tables;
}

// Folds the events behind a sound state into it. The invariants are looked at now and then, for
// they cost a look at everything: after a fault the events since the last look are folded once
// more, with a look after each, so that the first to break one is named.
class Fold {
 public:
  Fold(ledger::SqliteLedger& ledger, state::State& state) : ledger_(ledger), state_(state) {}

  // `snapshot`: what the events up to it must fold to; none: not held against anything.
  Result<void> run(const std::optional<ports::StoredSnapshot>& snapshot) {
    sound_ = state_;
    auto done = ledger_.read(state_.tables().sequence + 1, [&](const ports::StoredEvent& stored) {
      return fold(stored, snapshot);
    });
    if (done) done = look();
    return done ? done : fail(firstBreach(std::move(done).error()));
  }

 private:
  Result<void> fold(const ports::StoredEvent& stored,
                    const std::optional<ports::StoredSnapshot>& snapshot) {
    const auto sequence = stored.envelope.sequence;
    BOLE_TRY(apply(state_, stored));
    if (snapshot && sequence == snapshot->sequence) BOLE_TRY(compare(*snapshot));
    if (sequence % kEvery != 0) return {};
    return look();
  }

  static Result<void> apply(state::State& state, const ports::StoredEvent& stored) {
    const auto sequence = stored.envelope.sequence;
    auto event = codec::decodeEvent(stored.envelope.kind, stored.envelope.version, stored.body);
    if (!event) return fail(at(eventAt(sequence), std::move(event).error()));
    if (auto done = state.apply(*event, sequence, stored.envelope.time); !done) {
      return fail(at(eventAt(sequence), std::move(done).error()));
    }
    return {};
  }

  Result<void> compare(const ports::StoredSnapshot& snapshot) const {
    const auto folded = codec::encodeTables(state_.tables());
    if (folded == snapshot.state) return {};
    BOLE_ASSIGN(const auto tables, tablesOf(snapshot));
    // An older program wrote the same in another form.
    if (codec::encodeTables(tables) == folded) return {};
    return fail(
        makeError(ErrorCode::kCorrupt, "the snapshot is not what the events before it fold to")
            .at(snapshotAt(snapshot.sequence)));
  }

  Result<void> look() {
    auto done = state::checkInvariants(state_.tables());
    if (done) sound_ = state_;
    return done;
  }

  // Of an invariant, among the events that were folded since the last look; none: `otherwise`.
  Error firstBreach(Error otherwise) {
    const auto last = state_.tables().sequence;
    auto done = ledger_.read(sound_.tables().sequence + 1,
                             [&](const ports::StoredEvent& stored) -> Result<void> {
                               const auto sequence = stored.envelope.sequence;
                               if (sequence > last) return fail(otherwise);
                               BOLE_TRY(apply(sound_, stored));
                               if (auto sound = state::checkInvariants(sound_.tables()); !sound)
                                 return fail(at(eventAt(sequence), std::move(sound).error()));
                               return {};
                             });
    return done ? otherwise : std::move(done).error();
  }

  ledger::SqliteLedger& ledger_;
  state::State& state_;
  state::State sound_;  // as of the last look that found nothing
};

Result<void> foldInto(state::State& state, ledger::SqliteLedger& ledger, bool full) {
  BOLE_ASSIGN(const auto snapshot, ledger.newestSnapshot());
  if (full) return Fold(ledger, state).run(snapshot);
  if (snapshot) {
    BOLE_ASSIGN(auto tables, tablesOf(*snapshot));
    state = state::State(std::move(tables));
  }
  return Fold(ledger, state).run(std::nullopt);
}

// The records are as they were written: another copy of them would be no better.
Error ofBolesOwn(Error error, const std::string& home) {
  if (error.hint.empty()) {
    error.hint =
        "its records are as they were written, so this is a fault of Bole's: please "
        "report it with the archive that " +
        ledger::commandFor("support", home) + " makes; a backup from before it is sound";
  }
  return error;
}

Error noHome(const std::string& home) {
  return makeError(ErrorCode::kNotFound, "there is no such home")
      .at(home)
      .withHint("start a server with " + ledger::commandFor("up", home) +
                ", or choose another home with --home");
}

// A record is known by its number; whoever reads that at night also needs the file.
Error inLedgerOf(const std::string& home, Error error) {
  if (error.where.find('/') != std::string::npos) return error;
  return at(home + "/ledger.db", std::move(error));
}

}  // namespace

Result<FsckReport> fsck(const std::string& home, bool full, Rng& rng) {
  FsckReport report;
  std::error_code none;
  if (!std::filesystem::is_directory(home, none)) return fail(noHome(home));
  BOLE_ASSIGN(report.ledger, ledger::verifyLedger(home, full));
  if (report.ledger.firstFault) {
    report.fault = inLedgerOf(home, *report.ledger.firstFault);
    return report;
  }
  ledger::LedgerOptions options{home, rng};
  options.mode = ledger::OpenMode::kReadOnly;
  BOLE_ASSIGN(const auto ledger, ledger::openLedger(options));
  // The whole was examined, or what follows the newest seal. A server may have written more since.
  const bool whole = full || ledger->status().segments == 1;
  report.events = whole ? report.ledger.events : ledger->status().lastSequence;
  state::State state;
  auto done = foldInto(state, *ledger, full);
  if (!done) {
    auto error = inLedgerOf(home, std::move(done).error());
    if (isNoFinding(error.code)) return fail(std::move(error));
    report.fault = ofBolesOwn(std::move(error), home);
  }
  report.jobs = state.tables().jobs.size();
  report.live = state.liveAttempts().size();
  return report;
}

}  // namespace bole::app
