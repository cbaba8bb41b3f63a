// Ledgers that older versions wrote, kept for ever: testdata/v1.db was made by
// LedgerFixture.DISABLED_MakeVersion1 with the first version. To add the next one, add its maker
// and run it once with --gtest_also_run_disabled_tests.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "ledger/sqlite_ledger.h"
#include "ledger/test_support.h"

namespace bole::ledger {
namespace {

using namespace test;
namespace fs = std::filesystem;

constexpr const char* kLastHashOfVersion1 =
    "588ad6d9702c72f4e5d2126390d7f2c2dfce0de2aee8d15734765311250c6b81";

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return text;
}

// Ten events, two seals, a change of the key between them, side values of which one is erased.
TEST(LedgerFixture, DISABLED_MakeVersion1) {
  TempHome home;
  TestRng random(1);
  for (int half = 0; half < 2; ++half) {
    auto ledger = openLedger(optionsFor(home.path(), random));
    ASSERT_GOOD(ledger);
    for (int i = 0; i < 4; ++i) {
      const auto next = (*ledger)->status().lastSequence + 1;
      ASSERT_GOOD((*ledger)->append(std::vector{withSide(
          makeEvent(next, fmt::format("{{\"job\":{}}}", next)), 10 * next, "name of a person")}));
    }
    ASSERT_GOOD((*ledger)->seal((*ledger)->status().lastSequence, fmt::format("state {}", half)));
    fs::remove(home.file("ledger.key"));
  }
  {
    auto ledger = openLedger(optionsFor(home.path(), random));
    ASSERT_GOOD(ledger);
    ASSERT_GOOD(appendMore(**ledger, 2));
    ASSERT_GOOD((*ledger)->eraseSide(SideId(20)));
  }
  ASSERT_GOOD(backupLedger(home.path(), LEDGER_TESTDATA "/v1.db"));
}

TEST(LedgerFixture, ALedgerOfTheFirstVersionIsReadVerifiedAndContinued) {
  TempHome home;
  TestRng random(2);
  ASSERT_GOOD(restoreLedger(LEDGER_TESTDATA "/v1.db", home.path()));
  auto ledger = openLedger(optionsFor(home.path(), random));
  ASSERT_GOOD(ledger);
  EXPECT_EQ((*ledger)->notices().size(), 1u);  // its key is not at hand
  const auto events = readAll(**ledger);
  ASSERT_EQ(events.size(), 10u);
  EXPECT_EQ(hex(events.back().hash), kLastHashOfVersion1);
  EXPECT_EQ(events[6].body, "{\"job\":7}");
  EXPECT_EQ(events[6].envelope.requestId, "request-7");
  EXPECT_EQ(events[9].envelope.time, makeEvent(10).envelope.time);
  const auto snapshot = (*ledger)->newestSnapshot();
  ASSERT_GOOD(snapshot);
  ASSERT_TRUE(*snapshot);
  EXPECT_EQ((*snapshot)->sequence, 8u);
  EXPECT_EQ((*snapshot)->state, "state 1");
  EXPECT_EQ((*ledger)->side(SideId(70)).value(), "name of a person");
  EXPECT_EQ((*ledger)->side(SideId(20)).error().code, ErrorCode::kNotFound);
  ASSERT_GOOD((*ledger)->append(std::vector{withSide(makeEvent(11), 110, "another")}));
  ASSERT_GOOD((*ledger)->seal(11, "state 2"));
  const auto report = verifyLedger(home.path(), true);
  ASSERT_GOOD(report);
  EXPECT_FALSE(report->firstFault) << report->firstFault->message();
  EXPECT_EQ(report->events, 11u);
  EXPECT_EQ(report->segments, 4u);
  EXPECT_EQ(report->erased, 1u);
}

}  // namespace
}  // namespace bole::ledger
