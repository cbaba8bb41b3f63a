#include "ledger/sqlite_ledger.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

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

}  // namespace
}  // namespace bole::ledger
