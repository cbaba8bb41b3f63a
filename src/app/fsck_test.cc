#include "app/fsck.h"

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <stdexcept>

#include "codec/codec.h"
#include "ledger/test_support.h"
#include "state/state.h"

namespace bole::app {
namespace {

using ledger::test::optionsFor;

model::JobSubmitted jobOf(std::uint64_t id, std::uint64_t project) {
  model::JobSubmitted event{JobId(id), ProjectId(project), UserId(1), {}, SideId(id)};
  event.shape.tasks.emplace_back();
  event.shape.minAvailable = 1;
  return event;
}

// A ledger whose events are what a test says, also such as no server would write.
class Book {
 public:
  Book() {
    auto opened = ledger::openLedger(optionsFor(home_.path(), random_));
    if (!opened) throw std::runtime_error(opened.error().message());
    ledger_ = std::move(*opened);
    add(model::ProjectCreated{ProjectId(1), SideId(1)});
    add(jobOf(1, 1));
    add(model::ServerStarted{"0", "boot"});
  }

  void add(const model::Event& event) {
    add(model::kindOf(event), codec::encodeBody(event));
    static_cast<void>(state_.apply(event, next_ - 1, Timestamp{static_cast<std::int64_t>(next_)}));
  }

  void add(const std::string& kind, std::string body) {
    ports::NewEvent event;
    event.envelope.sequence = next_++;
    event.envelope.time = Timestamp{static_cast<std::int64_t>(next_)};
    event.envelope.kind = kind;
    event.body = std::move(body);
    events_.push_back(std::move(event));
  }

  // Events that change next to nothing, until the last one has this number.
  void fillTo(std::uint64_t sequence) {
    while (next_ <= sequence) add(model::ClockAdjusted{});
  }

  void write() {
    const auto done = ledger_->append(events_);
    ASSERT_TRUE(done) << done.error().message();
    events_.clear();
  }

  void seal(const std::string& state) {
    write();
    const auto done = ledger_->seal(next_ - 1, state);
    ASSERT_TRUE(done) << done.error().message();
  }

  [[nodiscard]] std::string stateNow() const { return codec::encodeTables(state_.tables()); }

  Result<FsckReport> examine(bool full) {
    if (!events_.empty()) write();
    return fsck(home_.path(), full, random_);
  }

  FsckReport check(bool full) {
    auto report = examine(full);
    EXPECT_TRUE(report) << report.error().message();
    return report.value_or(FsckReport());
  }

  void expectClean(bool full) {
    const auto report = check(full);
    EXPECT_FALSE(report.fault) << report.fault->message();
  }

  void expectFault(bool full, const std::string& place, const std::string& what) {
    const auto report = check(full);
    ASSERT_TRUE(report.fault) << (full ? "full" : "from the newest seal");
    EXPECT_EQ(report.fault->where, home_.file("ledger.db") + ", " + place);
    EXPECT_NE(report.fault->what.find(what), std::string::npos) << report.fault->message();
    EXPECT_NE(report.fault->hint.find("'bole support --home " + home_.path() + "'"),
              std::string::npos)
        << report.fault->message();
  }

  [[nodiscard]] const state::State& state() const { return state_; }
  [[nodiscard]] std::string file() const { return home_.file("ledger.db"); }
  [[nodiscard]] const std::string& home() const { return home_.path(); }

  // Behind the program's back, as a failing disk does it.
  void damage(std::uint64_t sequence) {
    if (!events_.empty()) write();
    ledger_.reset();
    sqlite3* handle = nullptr;
    ASSERT_EQ(sqlite3_open(file().c_str(), &handle), SQLITE_OK);
    const auto sql = "UPDATE events SET body='{\"x\":1}' WHERE seq=" + std::to_string(sequence);
    EXPECT_EQ(sqlite3_exec(handle, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK)
        << sqlite3_errmsg(handle);
    sqlite3_close(handle);
  }

 private:
  ledger::test::TempHome home_{ledger::test::Medium::kMemory};
  ledger::test::TestRng random_;
  std::unique_ptr<ledger::SqliteLedger> ledger_;
  state::State state_;
  std::uint64_t next_ = 1;
  std::vector<ports::NewEvent> events_;  // not written yet
};

TEST(Fsck, ACleanLedgerIsCounted) {
  Book book;
  book.fillTo(2500);
  for (const bool full : {false, true}) {
    const auto report = book.check(full);
    EXPECT_FALSE(report.fault) << report.fault->message();
    EXPECT_EQ(report.events, 2500u);
    EXPECT_EQ(report.ledger.events, 2500u);
    EXPECT_EQ(report.ledger.segments, 1u);
    EXPECT_EQ(report.jobs, 1u);
    EXPECT_EQ(report.live, 0u);
  }
}

TEST(Fsck, WhatASealVouchesForIsNotReadUnlessFull) {
  Book book;
  book.fillTo(1500);
  book.seal(book.stateNow());
  book.fillTo(1510);
  const auto part = book.check(false);
  EXPECT_FALSE(part.fault) << part.fault->message();
  EXPECT_EQ(part.ledger.events, 10u);
  EXPECT_EQ(part.events, 1510u);
  EXPECT_EQ(part.jobs, 1u) << "the state is whole";
  const auto whole = book.check(true);
  EXPECT_FALSE(whole.fault) << whole.fault->message();
  EXPECT_EQ(whole.ledger.events, 1510u);
  EXPECT_EQ(whole.events, 1510u);
}

// Where a look is due, right before and after, in the middle and at the very end.
TEST(Fsck, TheFirstEventToBreakAnInvariantIsNamed) {
  for (const std::uint64_t breach : {4U, 500U, 999U, 1000U, 1001U, 1400U, 2000U, 2499U, 2500U}) {
    SCOPED_TRACE(breach);
    Book each;
    each.fillTo(breach - 1);
    each.add(jobOf(2, 77));
    each.fillTo(breach + 40 < 2500 ? breach + 40 : breach);
    if (breach + 40 < 2500) each.add(jobOf(3, 78));  // the second breach
    each.fillTo(2500);
    for (const bool full : {false, true}) {
      each.expectFault(full, "event " + std::to_string(breach), "job 2 belongs to no project");
    }
    EXPECT_EQ(each.check(true).events, 2500u);
  }
}

TEST(Fsck, OneThatHoldsAgainInTheEndIsStillNamed) {
  Book book;
  book.fillTo(1499);
  book.add(jobOf(2, 77));
  book.fillTo(2099);
  book.add(model::ProjectCreated{ProjectId(77), SideId(3)});
  book.fillTo(2500);
  for (const bool full : {false, true}) {
    book.expectFault(full, "event 1500", "job 2 belongs to no project");
  }
}

TEST(Fsck, BehindASealTheSearchBeginsAtItsSnapshot) {
  Book book;
  book.fillTo(1500);
  book.seal(book.stateNow());
  book.fillTo(1699);
  book.add(jobOf(2, 77));
  book.fillTo(3200);
  book.expectFault(false, "event 1700", "job 2 belongs to no project");
  book.expectFault(true, "event 1700", "job 2 belongs to no project");
}

TEST(Fsck, AnEventThatCannotBeIsNamed) {
  Book book;
  book.fillTo(1299);
  book.add(jobOf(1, 1));
  book.fillTo(2100);
  for (const bool full : {false, true})
    book.expectFault(full, "event 1300", "job 1 exists already");
}

TEST(Fsck, AnInvariantThatWasBrokenBeforeItComesFirst) {
  Book book;
  book.fillTo(1199);
  book.add(jobOf(2, 77));
  book.fillTo(1299);
  book.add(jobOf(1, 1));
  book.fillTo(2100);
  for (const bool full : {false, true}) {
    book.expectFault(full, "event 1200", "job 2 belongs to no project");
  }
}

TEST(Fsck, AnEventThatCannotBeReadIsNamedWithItsField) {
  Book book;
  book.fillTo(1299);
  book.add("job.submitted", "{\"job\":\"x\"}");
  book.fillTo(1400);
  const auto report = book.check(true);
  ASSERT_TRUE(report.fault);
  EXPECT_TRUE(report.fault->where.starts_with(book.file() + ", event 1300"))
      << report.fault->message();
  EXPECT_NE(report.fault->message().find("job"), std::string::npos) << report.fault->message();
}

TEST(Fsck, WhatANewerBoleWroteIsNoDamage) {
  Book book;
  book.fillTo(1299);
  book.add("job.teleported", "{}");
  const auto report = book.examine(true);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(report.error().where, book.file() + ", event 1300");
  EXPECT_NE(report.error().hint.find("newer Bole"), std::string::npos) << report.error().message();
}

TEST(Fsck, ASnapshotThatIsNotWhatTheEventsFoldTo) {
  Book book;
  book.fillTo(1500);
  auto other = book.state().tables();
  other.bootId = "another";
  book.seal(codec::encodeTables(other));
  book.fillTo(2600);
  book.expectFault(true, "snapshot at event 1500", "not what the events before it fold to");
  book.expectClean(false);  // it begins there
}

TEST(Fsck, BeforeSuchASnapshotABrokenInvariantComesFirst) {
  Book book;
  book.fillTo(1299);
  book.add(jobOf(2, 77));
  book.fillTo(1500);
  auto other = book.state().tables();
  other.bootId = "another";
  book.seal(codec::encodeTables(other));
  book.fillTo(1600);
  book.expectFault(true, "event 1300", "job 2 belongs to no project");
  book.expectFault(false, "snapshot at event 1500", "job 2 belongs to no project");
}

TEST(Fsck, BehindSuchASnapshotNothingIsLookedFor) {
  Book book;
  book.fillTo(1500);
  auto other = book.state().tables();
  other.bootId = "another";
  book.seal(codec::encodeTables(other));
  book.fillTo(1549);
  book.add(jobOf(2, 77));
  book.fillTo(1600);
  book.expectFault(true, "snapshot at event 1500", "not what the events before it fold to");
}

TEST(Fsck, AnotherFormOfTheSameSnapshotIsNoFault) {
  Book book;
  book.fillTo(1500);
  auto spaced = book.stateNow();
  spaced.insert(1, " ");
  book.seal(spaced);
  book.expectClean(true);
  book.expectClean(false);
}

TEST(Fsck, ASnapshotOfAnotherEventOrThatCannotBeRead) {
  Book book;
  const auto early = book.stateNow();
  book.fillTo(20);
  book.seal(early);
  book.expectFault(false, "snapshot at event 20", "the snapshot is of another event");
  book.seal("{");
  const auto report = book.check(false);
  ASSERT_TRUE(report.fault);
  EXPECT_TRUE(report.fault->where.starts_with(book.file() + ", snapshot at event 20"))
      << report.fault->message();
}

TEST(Fsck, ARecordThatWasChangedIsNamedWithTheFileAndWhatToDo) {
  Book book;
  book.fillTo(1500);
  book.damage(1000);
  const auto report = book.check(true);
  ASSERT_TRUE(report.fault);
  EXPECT_EQ(report.fault->where, book.file() + ", event 1000");
  EXPECT_NE(report.fault->hint.find("'bole restore BACKUP --home " + book.home() + "'"),
            std::string::npos)
      << report.fault->message();
  EXPECT_FALSE(report.events) << "who can say";
  EXPECT_EQ(report.ledger.events, 999u);
}

TEST(Fsck, WithoutALedgerThereIsNothingToCheck) {
  const ledger::test::TempHome empty;
  ledger::test::TestRng random;
  const auto report = fsck(empty.path(), true, random);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, ErrorCode::kNotFound);
  EXPECT_NE(report.error().hint.find("'bole up --home " + empty.path() + "'"), std::string::npos)
      << report.error().message();
  const auto nowhere = fsck(empty.file("nowhere"), false, random);
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(nowhere.error().where, empty.file("nowhere"));
  EXPECT_NE(nowhere.error().hint.find("bole up --home"), std::string::npos);
}

}  // namespace
}  // namespace bole::app
