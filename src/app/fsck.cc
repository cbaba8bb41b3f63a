#include "app/fsck.h"

#include <fmt/format.h>

#include "codec/codec.h"
#include "ledger/sqlite_ledger.h"
#include "state/state.h"

namespace bole::app {
namespace {

Error at(std::uint64_t sequence, Error error) {
  if (error.where.empty()) error.where = fmt::format("event {}", sequence);
  return error;
}

// Folds the events behind a state into it. The invariants are looked at now and then, for they cost
// a look at everything: where they do not hold, the events since the last look are folded once
// more, with a look after each, so that the first to break them is named.
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
    return broken_ ? firstBreach(done) : done;
  }

 private:
  static constexpr std::uint64_t kEvery = 1000;  // events between two looks

  Result<void> fold(const ports::StoredEvent& stored,
                    const std::optional<ports::StoredSnapshot>& snapshot) {
    const auto sequence = stored.envelope.sequence;
    BOLE_TRY(apply(state_, stored));
    if (snapshot && sequence == snapshot->sequence &&
        codec::encodeTables(state_.tables()) != snapshot->state) {
      return fail(
          makeError(ErrorCode::kCorrupt, "the snapshot is not what the events before it fold to")
              .at(fmt::format("snapshot at event {}", sequence)));
    }
    if (sequence % kEvery != 0) return {};
    return look();
  }

  static Result<void> apply(state::State& state, const ports::StoredEvent& stored) {
    const auto sequence = stored.envelope.sequence;
    auto event = codec::decodeEvent(stored.envelope.kind, stored.envelope.version, stored.body);
    if (!event) return fail(at(sequence, event.error()));
    if (auto done = state.apply(*event, sequence, stored.envelope.time); !done) {
      return fail(at(sequence, done.error()));
    }
    return {};
  }

  Result<void> look() {
    auto done = state::checkInvariants(state_.tables());
    broken_ = !done;
    if (done) sound_ = state_;
    return done;
  }

  Result<void> firstBreach(const Result<void>& otherwise) {
    auto done = ledger_.read(sound_.tables().sequence + 1,
                             [&](const ports::StoredEvent& stored) -> Result<void> {
                               BOLE_TRY(apply(sound_, stored));
                               if (auto sound = state::checkInvariants(sound_.tables()); !sound)
                                 return fail(at(stored.envelope.sequence, sound.error()));
                               return {};
                             });
    return done ? otherwise : done;
  }

  ledger::SqliteLedger& ledger_;
  state::State& state_;
  state::State sound_;  // as of the last look that found nothing
  bool broken_ = false;
};

}  // namespace

Result<FsckReport> fsck(const std::string& home, bool full, Rng& rng) {
  FsckReport report;
  BOLE_ASSIGN(report.ledger, ledger::verifyLedger(home, full));
  if (report.ledger.firstFault) {
    report.fault = report.ledger.firstFault;
    return report;
  }
  ledger::LedgerOptions options{home, rng};
  options.mode = ledger::OpenMode::kReadOnly;
  BOLE_ASSIGN(const auto ledger, ledger::openLedger(options));
  BOLE_ASSIGN(const auto snapshot, ledger->newestSnapshot());
  state::State state;
  if (snapshot && !full) {
    BOLE_ASSIGN(auto tables, codec::decodeTables(snapshot->state));
    state = state::State(std::move(tables));
  }
  auto done = Fold(*ledger, state).run(full ? snapshot : std::nullopt);
  if (!done) report.fault = std::move(done).error();
  report.jobs = state.tables().jobs.size();
  report.live = state.liveAttempts().size();
  return report;
}

}  // namespace bole::app
