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

// Folds from `state` on; the invariants are looked at after the last event, and with `full` after
// each hundredth.
Result<void> fold(ledger::SqliteLedger& ledger, state::State& state, bool full,
                  const std::optional<ports::StoredSnapshot>& snapshot) {
  const auto visit = [&](const ports::StoredEvent& stored) -> Result<void> {
    const auto sequence = stored.envelope.sequence;
    auto event = codec::decodeEvent(stored.envelope.kind, stored.envelope.version, stored.body);
    if (!event) return fail(at(sequence, event.error()));
    if (auto done = state.apply(*event, sequence, stored.envelope.time); !done) {
      return fail(at(sequence, done.error()));
    }
    if (full && sequence % 100 == 0) {
      if (auto sound = state::checkInvariants(state.tables()); !sound) {
        return fail(at(sequence, sound.error()));
      }
    }
    if (full && snapshot && sequence == snapshot->sequence &&
        codec::encodeTables(state.tables()) != snapshot->state) {
      return fail(
          makeError(ErrorCode::kCorrupt, "the snapshot is not what the events before it fold to")
              .at(fmt::format("snapshot at event {}", sequence)));
    }
    return {};
  };
  BOLE_TRY(ledger.read(state.tables().sequence + 1, visit));
  return state::checkInvariants(state.tables());
}

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
  if (auto done = fold(*ledger, state, full, snapshot); !done) report.fault = done.error();
  report.jobs = state.tables().jobs.size();
  report.live = state.liveAttempts().size();
  return report;
}

}  // namespace bole::app
