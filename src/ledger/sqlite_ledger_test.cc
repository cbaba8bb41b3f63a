#include "ledger/sqlite_ledger.h"

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <fstream>

#include "ledger/test_support.h"

namespace bole::ledger {
namespace {

using namespace test;

class SqliteLedgerTest : public ::testing::Test {
 protected:
  std::unique_ptr<SqliteLedger> open() {
    auto ledger = openLedger(optionsFor(home_.path(), random_));
    EXPECT_TRUE(ledger) << ledger.error().message();
    return ledger ? std::move(*ledger) : nullptr;
  }
  Error openError(LedgerOptions options) {
    auto ledger = openLedger(options);
    EXPECT_FALSE(ledger);
    return ledger ? Error{} : ledger.error();
  }

  // Changes the file behind the ledger's back.
  void alter(const char* sql) {
    sqlite3* handle = nullptr;
    ASSERT_EQ(sqlite3_open(home_.file("ledger.db").c_str(), &handle), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(handle, sql, nullptr, nullptr, nullptr), SQLITE_OK)
        << sqlite3_errmsg(handle);
    sqlite3_close(handle);
  }

  TempHome home_;
  TestRng random_;
};

TEST_F(SqliteLedgerTest, ANewHomeGetsAnEmptyLedger) {
  const auto ledger = open();
  ASSERT_TRUE(ledger);
  const auto status = ledger->status();
  EXPECT_EQ(status.lastSequence, 0u);
  EXPECT_EQ(status.lastHash, std::string(32, '\0'));
  EXPECT_EQ(status.segments, 1u);
  EXPECT_TRUE(status.writable);
  EXPECT_TRUE(ledger->notices().empty());
  EXPECT_TRUE(readAll(*ledger).empty());
  const auto snapshot = ledger->newestSnapshot();
  ASSERT_GOOD(snapshot);
  EXPECT_FALSE(*snapshot);
  struct stat facts {};
  ASSERT_EQ(::stat(home_.file("ledger.key").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600u);
  ASSERT_EQ(::stat(home_.file("ledger.db").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600u);
}

TEST_F(SqliteLedgerTest, EventsComeBackAsTheyWentInAfterAReopening) {
  auto event = withSide(withSide(makeEvent(1, "{\"a\":1}"), 9, "alice"), 4, std::string("a\0b", 3));
  event.envelope.version = 4'000'000'000;
  event.envelope.actor = UserId(UINT64_MAX);
  event.envelope.project = ProjectId(0);
  event.envelope.requestId = "";
  event.envelope.kind = std::string("k\0\xff", 3);
  std::string hash;
  {
    const auto ledger = open();
    ASSERT_GOOD(ledger->append(std::vector{event, makeEvent(2, "")}));
    hash = ledger->status().lastHash;
  }
  const auto ledger = open();
  const auto events = readAll(*ledger);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].envelope.kind, event.envelope.kind);
  EXPECT_EQ(events[0].envelope.time, event.envelope.time);
  EXPECT_EQ(events[0].envelope.version, event.envelope.version);
  EXPECT_EQ(events[0].envelope.actor, event.envelope.actor);
  EXPECT_EQ(events[0].envelope.project, event.envelope.project);
  EXPECT_EQ(events[0].envelope.requestId, "");
  EXPECT_EQ(events[0].envelope.source, "api");
  EXPECT_EQ(events[0].body, "{\"a\":1}");
  EXPECT_EQ(events[1].body, "");
  EXPECT_EQ(events[1].hash, hash);
  EXPECT_EQ(ledger->status().lastHash, hash);
  EXPECT_EQ(ledger->status().lastTime, events[1].envelope.time);
  EXPECT_EQ(ledger->side(SideId(9)).value(), "alice");
  EXPECT_EQ(ledger->side(SideId(4)).value(), std::string("a\0b", 3));
  EXPECT_EQ(readAll(*ledger, 2).size(), 1u);
  EXPECT_EQ(readAll(*ledger, 3).size(), 0u);
  EXPECT_EQ(readAll(*ledger, 1000).size(), 0u);
  EXPECT_EQ(readAll(*ledger, 0).size(), 2u);
}

TEST_F(SqliteLedgerTest, ASealGivesTheSnapshotBack) {
  {
    const auto ledger = open();
    EXPECT_EQ(ledger->seal(0, "").error().code, ErrorCode::kInvalid);
    ASSERT_GOOD(appendMore(*ledger, 5));
    EXPECT_EQ(ledger->seal(4, "four").error().code, ErrorCode::kInvalid);
    ASSERT_GOOD(ledger->seal(5, "five"));
    EXPECT_EQ(ledger->status().segments, 2u);
    ASSERT_GOOD(appendMore(*ledger, 2));
    ASSERT_GOOD(ledger->seal(7, "seven"));
    ASSERT_GOOD(ledger->seal(7, "seven, said anew"));
    EXPECT_EQ(ledger->status().segments, 3u);
    ASSERT_GOOD(appendMore(*ledger, 1));
  }
  const auto ledger = open();
  EXPECT_EQ(ledger->status().segments, 3u);
  const auto snapshot = ledger->newestSnapshot();
  ASSERT_GOOD(snapshot);
  ASSERT_TRUE(*snapshot);
  EXPECT_EQ((*snapshot)->sequence, 7u);
  EXPECT_EQ((*snapshot)->state, "seven, said anew");
}

TEST_F(SqliteLedgerTest, ASecondServerIsRefusedAndToldWhoHasTheHome) {
  const auto ledger = open();
  const auto error = openError(optionsFor(home_.path(), random_));
  EXPECT_EQ(error.code, ErrorCode::kConflict);
  EXPECT_NE(error.message().find(std::to_string(::getpid())), std::string::npos) << error.message();
}

TEST_F(SqliteLedgerTest, AnotherProcessOnTheSameHomeIsRefused) {
  int said[2];
  int go[2];
  ASSERT_EQ(::pipe(said), 0);
  ASSERT_EQ(::pipe(go), 0);
  const auto child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::close(go[1]);
    auto ledger = openLedger(optionsFor(home_.path(), random_));
    char byte = ledger ? 'y' : 'n';
    if (::write(said[1], &byte, 1) != 1 || ::read(go[0], &byte, 1) != 0) ::_exit(1);
    ::_exit(0);
  }
  ::close(go[0]);
  char answer = 0;
  ASSERT_EQ(::read(said[0], &answer, 1), 1);
  EXPECT_EQ(answer, 'y');
  const auto error = openError(optionsFor(home_.path(), random_));
  EXPECT_EQ(error.code, ErrorCode::kConflict);
  EXPECT_NE(error.found.find(std::to_string(child)), std::string::npos) << error.message();
  // Readers are welcome.
  auto options = optionsFor(home_.path(), random_);
  options.mode = OpenMode::kReadOnly;
  EXPECT_GOOD(openLedger(options));
  ::close(go[1]);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ::close(said[0]);
  ::close(said[1]);
  EXPECT_TRUE(open());
}

TEST_F(SqliteLedgerTest, WhatIsNotTheNextEventIsRefusedWhole) {
  const auto ledger = open();
  ASSERT_GOOD(appendMore(*ledger, 2));
  const auto refused = [&](std::vector<ports::NewEvent> events, ErrorCode code) {
    for (const auto& result : {ledger->append(events), ledger->appendUrgent(events)}) {
      EXPECT_FALSE(result);
      if (!result) {
        EXPECT_EQ(result.error().code, code) << result.error().message();
      }
    }
    EXPECT_EQ(ledger->status().lastSequence, 2u);
    EXPECT_TRUE(ledger->status().writable);
  };
  refused({makeEvent(2)}, ErrorCode::kInternal);
  refused({makeEvent(4)}, ErrorCode::kInternal);
  refused({makeEvent(3), makeEvent(5)}, ErrorCode::kInternal);
  refused({withSide(makeEvent(3), 0, "no id")}, ErrorCode::kInternal);
  refused({withSide(makeEvent(3), 1, "a"), withSide(makeEvent(4), 1, "b")}, ErrorCode::kInternal);
  refused({makeEvent(3, std::string((16 << 20) + 1, 'b'))}, ErrorCode::kInvalid);
  refused({withSide(makeEvent(3), 1, std::string((16 << 20) + 1, 'b'))}, ErrorCode::kInvalid);
  auto early = makeEvent(3);
  early.envelope.time = makeEvent(1).envelope.time;
  refused({early}, ErrorCode::kInternal);
  ASSERT_GOOD(ledger->append({}));
  ASSERT_GOOD(ledger->append(std::vector{
      withSide(makeEvent(3, std::string(16 << 20, 'b')), 1, std::string(16 << 20, 's'))}));
  EXPECT_EQ(ledger->side(SideId(1))->size(), 16u << 20);
  EXPECT_EQ(readAll(*ledger).back().body.size(), 16u << 20);
}

TEST_F(SqliteLedgerTest, TheVisitorsErrorEndsTheReadingAndComesBack) {
  const auto ledger = open();
  ASSERT_GOOD(appendMore(*ledger, 5));
  std::uint64_t seen = 0;
  const auto read = ledger->read(2, [&](const ports::StoredEvent& event) -> Result<void> {
    seen = event.envelope.sequence;
    if (seen == 3) return fail(ErrorCode::kConflict, "enough");
    return {};
  });
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().what, "enough");
  EXPECT_EQ(seen, 3u);
  ASSERT_GOOD(appendMore(*ledger, 1));
}

// Many values, ids in no order, large ones among them: a table keyed by the ids left 9 in 1000
// behind in pages that SQLite had split.
TEST_F(SqliteLedgerTest, AnErasedValueIsGoneFromEveryFileAndTheChainHolds) {
  constexpr std::uint64_t kValues = 1000;
  const auto idOf = [](std::uint64_t i) { return i * 377 % 1009; };
  const auto valueOf = [](std::uint64_t i) {
    return "<person " + std::to_string(i) + ">" +
           std::string(i % 50 == 0 ? 20'000 : i * 71 % 600, 'v');
  };
  const auto ledger = open();
  for (std::uint64_t i = 1; i <= kValues; ++i) {
    ASSERT_GOOD(ledger->append(std::vector{withSide(makeEvent(i), idOf(i), valueOf(i))}));
  }
  for (std::uint64_t i = 1; i <= kValues; ++i) {
    if (i % 3 != 0) ASSERT_GOOD(ledger->eraseSide(SideId(idOf(i))));
  }
  std::string all;
  for (const auto& entry : std::filesystem::directory_iterator(home_.path())) {
    all += slurp(entry.path());
  }
  for (std::uint64_t i = 1; i <= kValues; ++i) {
    const bool erased = i % 3 != 0;
    EXPECT_EQ(all.find("<person " + std::to_string(i) + ">") == std::string::npos, erased) << i;
    if (!erased) {
      EXPECT_EQ(ledger->side(SideId(idOf(i))).value(), valueOf(i));
    }
  }
  const auto report = verifyLedger(home_.path(), true);
  ASSERT_GOOD(report);
  EXPECT_FALSE(report->firstFault) << report->firstFault->message();
  EXPECT_EQ(report->sideValues, kValues);
  EXPECT_EQ(report->erased, 667u);
}

TEST_F(SqliteLedgerTest, EventsThatVanishWhileItIsOpenAreMissed) {
  const auto ledger = open();
  ASSERT_GOOD(appendMore(*ledger, 5));
  alter("DELETE FROM events WHERE seq=5");
  const auto read = ledger->read(1, [](const auto&) { return Result<void>(); });
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(read.error().where, "event 5");
}

TEST_F(SqliteLedgerTest, AnErasedValueAndOneThatNeverWasAreToldApart) {
  const auto ledger = open();
  ASSERT_GOOD(ledger->append(std::vector{withSide(makeEvent(1), 37, "alice")}));
  ASSERT_GOOD(ledger->eraseSide(SideId(37)));
  const auto gone = ledger->side(SideId(37));
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code, ErrorCode::kNotFound);
  EXPECT_NE(gone.error().message().find("erased"), std::string::npos);
  EXPECT_GOOD(ledger->eraseSide(SideId(37)));
  EXPECT_EQ(ledger->side(SideId(1000)).error().code, ErrorCode::kNotFound);
  EXPECT_NE(ledger->side(SideId(1000)).error().message().find("never"), std::string::npos);
  EXPECT_EQ(ledger->eraseSide(SideId(1000)).error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(ledger->status().writable);
}

TEST_F(SqliteLedgerTest, AnotherProgramsWriteLockIsNamedAndWaitedForNotLong) {
  const auto ledger = open();
  ASSERT_GOOD(appendMore(*ledger, 1));
  sqlite3* other = nullptr;
  ASSERT_EQ(sqlite3_open(home_.file("ledger.db").c_str(), &other), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(other, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr), SQLITE_OK);
  const auto held = appendMore(*ledger, 1);
  ASSERT_FALSE(held);
  EXPECT_EQ(held.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(held.error().message().find("lock"), std::string::npos) << held.error().message();
  EXPECT_TRUE(ledger->status().writable);
  sqlite3_close(other);
  ASSERT_GOOD(appendMore(*ledger, 1));
  EXPECT_EQ(readAll(*ledger).size(), 2u);
}

TEST_F(SqliteLedgerTest, AReaderDuringTheMakingOfALedgerIsToldThatThereIsNone) {
  std::ofstream(home_.file("ledger.db")).close();
  auto options = optionsFor(home_.path(), random_);
  options.mode = OpenMode::kReadOnly;
  EXPECT_EQ(openError(options).code, ErrorCode::kNotFound);
  EXPECT_EQ(verifyLedger(home_.path(), true).error().code, ErrorCode::kNotFound);
}

TEST_F(SqliteLedgerTest, AnErasureThatAReaderHoldsUpSaysSoAndSucceedsLater) {
  const auto ledger = open();
  ASSERT_GOOD(ledger->append(std::vector{withSide(makeEvent(1), 1, "the-secret-of-a-person")}));
  {
    sqlite3* reader = nullptr;
    ASSERT_EQ(sqlite3_open(home_.file("ledger.db").c_str(), &reader), SQLITE_OK);
    ASSERT_EQ(sqlite3_exec(reader, "BEGIN; SELECT * FROM events", nullptr, nullptr, nullptr),
              SQLITE_OK);
    const auto held = ledger->eraseSide(SideId(1));
    ASSERT_FALSE(held);
    EXPECT_EQ(held.error().code, ErrorCode::kUnavailable);
    EXPECT_EQ(ledger->side(SideId(1)).error().code, ErrorCode::kNotFound);
    ASSERT_GOOD(appendMore(*ledger, 1));
    sqlite3_close(reader);
  }
  ASSERT_GOOD(ledger->eraseSide(SideId(1)));
  EXPECT_EQ(slurp(home_.file("ledger.db")).find("the-secret"), std::string::npos);
  EXPECT_EQ(slurp(home_.file("ledger.db-wal")).find("the-secret"), std::string::npos);
}

TEST_F(SqliteLedgerTest, AnOlderProgramIsRefusedByItsVersionsName) {
  auto options = optionsFor(home_.path(), random_);
  options.applicationVersion = 3;
  ASSERT_GOOD(openLedger(options));
  options.applicationVersion = 2;
  for (const auto mode : {OpenMode::kReadWrite, OpenMode::kReadOnly}) {
    options.mode = mode;
    const auto error = openError(options);
    EXPECT_EQ(error.code, ErrorCode::kRefused);
    EXPECT_NE(error.found.find("3"), std::string::npos) << error.message();
    EXPECT_NE(error.expected.find("2"), std::string::npos) << error.message();
  }
  options.mode = OpenMode::kReadWrite;
  options.applicationVersion = 4;
  ASSERT_GOOD(openLedger(options));
  options.applicationVersion = 3;
  EXPECT_EQ(openError(options).code, ErrorCode::kRefused);
}

TEST_F(SqliteLedgerTest, ANewerStorageVersionIsRefused) {
  open();
  alter("PRAGMA user_version=2");
  const auto error = openError(optionsFor(home_.path(), random_));
  EXPECT_EQ(error.code, ErrorCode::kRefused);
  EXPECT_NE(error.message().find("newer Bole"), std::string::npos) << error.message();
}

TEST_F(SqliteLedgerTest, WhatIsNotALedgerIsRefused) {
  const auto refuse = [&](ErrorCode code) {
    const auto error = openError(optionsFor(home_.path(), random_));
    EXPECT_EQ(error.code, code) << error.message();
    EXPECT_FALSE(error.hint.empty());
  };
  alter("CREATE TABLE other(a); PRAGMA application_id=5");
  refuse(ErrorCode::kRefused);
  std::filesystem::remove(home_.file("ledger.db"));
  std::ofstream(home_.file("ledger.db")) << std::string(10'000, 'x');
  refuse(ErrorCode::kCorrupt);
  std::filesystem::remove(home_.file("ledger.db"));
  std::filesystem::create_directory(home_.file("ledger.db"));
  EXPECT_EQ(openError(optionsFor(home_.path(), random_)).code, ErrorCode::kCorrupt);
  EXPECT_EQ(openError(optionsFor(home_.file("none"), random_)).code, ErrorCode::kNotFound);
  auto options = optionsFor(TempHome().path(), random_);
  EXPECT_EQ(openError(options).code, ErrorCode::kNotFound);
  TempHome empty;
  auto reading = optionsFor(empty.path(), random_);
  reading.mode = OpenMode::kReadOnly;
  EXPECT_EQ(openError(reading).code, ErrorCode::kNotFound);
  EXPECT_FALSE(std::filesystem::exists(empty.file("ledger.db")));
}

TEST_F(SqliteLedgerTest, ALedgerThatIsGoneIsNotReplacedByAnEmptyOne) {
  ASSERT_GOOD(appendMore(*open(), 1));
  std::filesystem::rename(home_.file("ledger.db"), home_.file("elsewhere"));
  auto error = openError(optionsFor(home_.path(), random_));
  EXPECT_EQ(error.code, ErrorCode::kRefused) << error.message();
  EXPECT_FALSE(std::filesystem::exists(home_.file("ledger.db")));
  std::ofstream(home_.file("ledger.db")).close();
  error = openError(optionsFor(home_.path(), random_));
  EXPECT_EQ(error.code, ErrorCode::kRefused) << error.message();
  std::filesystem::rename(home_.file("elsewhere"), home_.file("ledger.db"));
  EXPECT_EQ(open()->status().lastSequence, 1u);
}

TEST_F(SqliteLedgerTest, ALostKeyIsReplacedAndSaidSoAndOldSealsStayValid) {
  {
    const auto ledger = open();
    ASSERT_GOOD(appendMore(*ledger, 3));
    ASSERT_GOOD(ledger->seal(3, "three"));
    ASSERT_GOOD(appendMore(*ledger, 1));
  }
  std::filesystem::remove(home_.file("ledger.key"));
  {
    const auto ledger = open();
    ASSERT_EQ(ledger->notices().size(), 1u);
    EXPECT_NE(ledger->notices()[0].find("new one"), std::string::npos);
    EXPECT_EQ((*ledger->newestSnapshot())->state, "three");
    ASSERT_GOOD(appendMore(*ledger, 1));
    ASSERT_GOOD(ledger->seal(5, "five"));
  }
  const auto ledger = open();
  EXPECT_TRUE(ledger->notices().empty());
  EXPECT_EQ((*ledger->newestSnapshot())->state, "five");
  const auto report = verifyLedger(home_.path(), true);
  ASSERT_GOOD(report);
  EXPECT_FALSE(report->firstFault) << report->firstFault->message();
}

TEST_F(SqliteLedgerTest, AKeyThatOthersMayReadIsRefused) {
  open();
  ASSERT_EQ(::chmod(home_.file("ledger.key").c_str(), 0640), 0);
  const auto error = openError(optionsFor(home_.path(), random_));
  EXPECT_EQ(error.code, ErrorCode::kPermission);
  EXPECT_NE(error.hint.find("chmod 600"), std::string::npos);
  ASSERT_EQ(::chmod(home_.file("ledger.key").c_str(), 0600), 0);
  std::ofstream(home_.file("ledger.key")) << "rubbish\n";
  EXPECT_EQ(openError(optionsFor(home_.path(), random_)).code, ErrorCode::kCorrupt);
}

TEST_F(SqliteLedgerTest, OnlyTheNewestSnapshotsKeepTheirState) {
  const auto ledger = open();
  for (int i = 0; i < 10; ++i) {
    ASSERT_GOOD(appendMore(*ledger, 1));
    const auto last = ledger->status().lastSequence;
    ASSERT_GOOD(ledger->seal(last, std::string(1'000'000, 'a')));
  }
  EXPECT_LT(std::filesystem::file_size(home_.file("ledger.db")), 7'000'000u);
  const auto report = verifyLedger(home_.path(), true);
  ASSERT_GOOD(report);
  EXPECT_FALSE(report->firstFault) << report->firstFault->message();
  EXPECT_EQ(report->segments, 11u);
}

TEST_F(SqliteLedgerTest, TheLogStaysShortAlsoWhenAReaderHeldItUpForAWhile) {
  auto options = optionsFor(home_.path(), random_);
  options.checkpointFrames = 50;
  const auto opened = openLedger(options);
  ASSERT_GOOD(opened);
  auto& ledger = **opened;
  for (int i = 0; i < 500; ++i) ASSERT_GOOD(appendMore(ledger, 10));
  const auto usual = std::filesystem::file_size(home_.file("ledger.db-wal"));
  EXPECT_LT(usual, 100u * 4096);
  sqlite3* reader = nullptr;
  ASSERT_EQ(sqlite3_open(home_.file("ledger.db").c_str(), &reader), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(reader, "BEGIN; SELECT * FROM events LIMIT 1", nullptr, nullptr, nullptr),
            SQLITE_OK);
  for (int i = 0; i < 500; ++i) ASSERT_GOOD(appendMore(ledger, 10));
  sqlite3_close(reader);
  const auto held = std::filesystem::file_size(home_.file("ledger.db-wal"));
  EXPECT_GT(held, 4 * usual);
  for (int i = 0; i < 500; ++i) ASSERT_GOOD(appendMore(ledger, 10));
  EXPECT_LT(std::filesystem::file_size(home_.file("ledger.db-wal")), held + usual);
}

TEST_F(SqliteLedgerTest, OpeningALongLedgerCostsOnlyItsTail) {
  {
    const auto ledger = open();
    for (int i = 0; i < 100; ++i) ASSERT_GOOD(appendMore(*ledger, 1000));
    ASSERT_GOOD(ledger->seal(100'000, std::string(1'000'000, 's')));
    ASSERT_GOOD(appendMore(*ledger, 10));
  }
  // The processor's time: what the disk's flushes take depends on who else uses it.
  const auto begin = std::clock();
  const auto ledger = open();
  const auto snapshot = ledger->newestSnapshot();
  ASSERT_GOOD(snapshot);
  EXPECT_EQ(readAll(*ledger, (*snapshot)->sequence + 1).size(), 10u);
  const auto opened = std::clock();
  EXPECT_EQ(readAll(*ledger, 1).size(), 100'010u);
  EXPECT_LT(opened - begin, (std::clock() - opened) / 4) << "against all of it read";
}

}  // namespace
}  // namespace bole::ledger
