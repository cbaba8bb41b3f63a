// verifyLedger: everything that the file says, held to itself and to the keys.
#include <fmt/format.h>

#include <filesystem>
#include <vector>

#include "ledger/advice.h"
#include "ledger/files.h"
#include "ledger/opening.h"
#include "ledger/rows.h"
#include "ledger/schema.h"

namespace bole::ledger {

namespace {

class Verifier {
 public:
  Verifier(Database& database, bool full, std::string publicKey)
      : database_(database), full_(full), publicKey_(std::move(publicKey)) {}

  [[nodiscard]] Result<void> run();
  [[nodiscard]] const ports::VerifyReport& report() const { return report_; }

 private:
  // What SQLite itself says of the file; empty if it finds nothing.
  [[nodiscard]] Result<std::string> askSqlite();
  [[nodiscard]] Result<void> checkPublicKey() const;
  [[nodiscard]] Result<void> loadSegments();
  [[nodiscard]] Result<void> checkSegmentFollows(const SegmentFacts& segment) const;
  [[nodiscard]] Result<void> walk();
  [[nodiscard]] Result<void> checkEvent(const ChainReader& reader);
  [[nodiscard]] Result<void> checkSideOf(const ChainReader& reader);
  [[nodiscard]] Result<void> checkEndOfSegment(const ChainReader& reader);
  [[nodiscard]] Result<void> checkNothingIsLeftOver();
  [[nodiscard]] Result<void> nameUnclaimedSide();
  [[nodiscard]] Result<std::int64_t> count(const char* sql);

  Database& database_;
  bool full_;
  std::string publicKey_;  // a path
  Chain chain_;
  KeyRing ring_;
  std::vector<SegmentFacts> segments_;
  std::size_t nextSegment_ = 0;
  std::uint64_t start_ = 0;  // the events after this one are checked
  std::uint64_t last_ = 0;
  Statement findSide_;
  ports::VerifyReport report_;
};

Result<void> Verifier::run() {
  BOLE_ASSIGN(auto view, Transaction::beginRead(database_));
  BOLE_ASSIGN(const auto complaint, askSqlite());
  BOLE_ASSIGN(ring_, loadKeyRing(database_));
  BOLE_TRY(checkPublicKey());
  BOLE_TRY(checkFacts(database_, ring_));
  BOLE_TRY(loadSegments());
  BOLE_TRY(walk());
  BOLE_TRY(checkNothingIsLeftOver());
  if (!segments_.empty()) BOLE_TRY(loadNewestSnapshot(database_, chain_, ring_));
  // Last, since a record by its name says more than a page by its number.
  if (complaint.empty()) return {};
  return fail(damagedAt(database_.path(), "SQLite finds the file damaged").foundValue(complaint));
}

Result<std::string> Verifier::askSqlite() {
  BOLE_ASSIGN(auto check,
              database_.prepare(full_ ? "PRAGMA integrity_check(1)" : "PRAGMA quick_check(1)",
                                "check the file"));
  auto row = check.step();
  if (!row && row.error().code == ErrorCode::kCorrupt) return row.error().message();
  if (!row) return fail(std::move(row).error());
  const std::string answer(*row ? check.bytes(0) : "no answer");
  return answer == "ok" ? "" : answer;
}

// The key that people keep elsewhere must be the one in force: no one has added a later one.
Result<void> Verifier::checkPublicKey() const {
  if (!fileExists(publicKey_)) return {};
  BOLE_ASSIGN(const auto key, loadPublicKey(publicKey_));
  if (ring_.rbegin()->second.key == key) return {};
  return fail(
      damagedAt(database_.path(), "the newest key of the ledger is not the one of its owner")
          .expectedValue("the key in " + publicKey_));
}

Result<void> Verifier::checkSegmentFollows(const SegmentFacts& segment) const {
  const auto first = segments_.empty() ? 1 : segments_.back().last + 1;
  if (segment.first == first && segment.last >= first) return {};
  return fail(damagedAt(fmt::format("segment {}-{}", segment.first, segment.last),
                        fmt::format("the segment that begins at {} is missing", eventName(first))));
}

Result<void> Verifier::loadSegments() {
  const auto sql = fmt::format("SELECT {} FROM segments ORDER BY first_seq", kSegmentColumns);
  BOLE_ASSIGN(auto rows, database_.prepare(sql, "read the segments"));
  while (true) {
    BOLE_ASSIGN(const bool row, rows.step());
    if (!row) break;
    BOLE_ASSIGN(const auto segment, checkSegment(rows, ring_));
    BOLE_TRY(checkSegmentFollows(segment));
    segments_.push_back(segment);
  }
  if (full_ || segments_.empty()) return {};
  start_ = segments_.back().last;
  nextSegment_ = segments_.size();
  BOLE_ASSIGN(const auto stored, storedHash(database_, start_));
  if (!stored) return fail(damagedAt(eventName(start_), "the event is missing"));
  if (*stored == segments_.back().hash) return {};
  return fail(damagedAt(eventName(start_), "its hash is not the one that was signed"));
}

Result<void> Verifier::walk() {
  BOLE_ASSIGN(findSide_,
              database_.prepare(fmt::format("SELECT {} FROM side WHERE id=?", SideRow::kColumns),
                                "read a side value"));
  const auto sql =
      fmt::format("SELECT {} FROM events WHERE seq>=? ORDER BY seq", ChainReader::kColumns);
  BOLE_ASSIGN(auto rows, database_.prepare(sql, "read the events"));
  ChainReader reader(chain_, start_, start_ == 0 ? Hash{} : segments_.back().hash);
  // From the very beginning there must be nothing before event 1 either.
  rows.bind(1, full_ || segments_.empty() ? INT64_MIN : static_cast<std::int64_t>(start_) + 1);
  while (true) {
    auto row = rows.step();
    if (!row) return fail(unreadable(eventName(reader.sequence() + 1), std::move(row).error()));
    if (!*row) break;
    BOLE_TRY(reader.accept(rows));
    BOLE_TRY(checkEvent(reader));
  }
  last_ = reader.sequence();
  ++report_.segments;  // the open one
  if (nextSegment_ == segments_.size()) return {};
  return fail(damagedAt(eventName(last_ + 1), "the event is missing")
                  .expectedValue(fmt::format("the rest of the segment that ends at {}",
                                             eventName(segments_[nextSegment_].last))));
}

Result<void> Verifier::checkEvent(const ChainReader& reader) {
  ++report_.events;
  if (!reader.sideRefs().empty()) BOLE_TRY(checkSideOf(reader));
  const bool ends =
      nextSegment_ < segments_.size() && segments_[nextSegment_].last == reader.sequence();
  return ends ? checkEndOfSegment(reader) : Result<void>();
}

Result<void> Verifier::checkSideOf(const ChainReader& reader) {
  const auto refs = parseSideRefs(reader.sideRefs());
  BOLE_ASSERT(refs);  // the reader has looked at the length
  for (const auto& ref : *refs) {
    const auto where =
        fmt::format("side value {} of {}", ref.id.value, eventName(reader.sequence()));
    ResetAtEnd reset(findSide_);
    auto found = findSide_.bind(1, ref.id.value).step();
    if (!found) return fail(unreadable(where, std::move(found).error()));
    if (!*found) return fail(damagedAt(where, "the value is missing"));
    const SideRow row(findSide_);
    if (row.sequence != reader.sequence()) {
      return fail(damagedAt(where, "the value says that it belongs to another event")
                      .foundValue(eventName(row.sequence)));
    }
    BOLE_TRY(checkSide(chain_, ref, row));
    ++report_.sideValues;
    if (row.erased) ++report_.erased;
  }
  return {};
}

Result<void> Verifier::checkEndOfSegment(const ChainReader& reader) {
  const auto& segment = segments_[nextSegment_++];
  if (segment.hash != reader.hash()) {
    return fail(damagedAt(eventName(reader.sequence()), "its hash is not the one that was signed"));
  }
  ++report_.segments;
  return checkSnapshot(database_, chain_, ring_, reader.sequence());
}

Result<std::int64_t> Verifier::count(const char* sql) {
  BOLE_ASSIGN(auto select, database_.prepare(sql, "count what belongs to the events"));
  BOLE_ASSIGN(const bool row, select.bind(1, start_).step());
  return row ? select.integer(0) : 0;
}

Result<void> Verifier::checkNothingIsLeftOver() {
  BOLE_ASSIGN(const auto side, count("SELECT count(*) FROM side WHERE seq>?"));
  if (static_cast<std::uint64_t>(side) != report_.sideValues) BOLE_TRY(nameUnclaimedSide());
  BOLE_ASSIGN(const auto snapshots, count("SELECT count(*) FROM snapshots WHERE seq>?"));
  const auto expected = full_ ? segments_.size() : 0;
  if (static_cast<std::uint64_t>(snapshots) == expected) return {};
  return fail(damagedAt(database_.path(), "the ledger has snapshots that end no segment"));
}

Result<void> Verifier::nameUnclaimedSide() {
  BOLE_ASSIGN(auto rows,
              database_.prepare("SELECT side.id, side.seq, side_refs FROM side LEFT JOIN "
                                "events ON events.seq=side.seq WHERE side.seq>?",
                                "read the side values"));
  rows.bind(1, start_);
  while (true) {
    BOLE_ASSIGN(const bool row, rows.step());
    if (!row) return {};
    const SideId id(rows.natural(0));
    bool claimed = false;
    for (const auto& ref : parseSideRefs(rows.bytes(2)).value_or(std::vector<SideRef>())) {
      claimed = claimed || ref.id == id;
    }
    if (claimed) continue;
    return fail(damagedAt(fmt::format("side value {}", id.value),
                          fmt::format("{} does not claim it", eventName(rows.natural(1)))));
  }
}

}  // namespace

Result<ports::VerifyReport> verifyLedger(const std::string& path, bool full,
                                         const std::function<bool()>& goOn) {
  std::error_code ignored;
  const bool home = std::filesystem::is_directory(path, ignored);
  const auto file = home ? ledgerPath(path) : path;
  const auto faultOf = [&file](Error error) -> Result<ports::VerifyReport> {
    if (error.code != ErrorCode::kCorrupt) return fail(std::move(error));
    ports::VerifyReport report;
    report.firstFault = advised(std::move(error), file);
    return report;
  };
  auto database = openToRead(file, "");
  if (!database) return faultOf(std::move(database).error());
  if (goOn) (*database)->goOnWhile(goOn);
  Verifier verifier(**database, full, home ? publicKeyPath(path) : path + ".pub");
  auto checked = verifier.run();
  if (goOn && !goOn()) {
    return fail(makeError(ErrorCode::kUnavailable, "the check was broken off").at(path));
  }
  auto report = verifier.report();
  if (checked) return report;
  auto faulty = faultOf(std::move(checked).error());
  if (faulty)
    report.firstFault = std::move(faulty->firstFault);
  else
    return faulty;
  return report;
}

}  // namespace bole::ledger
