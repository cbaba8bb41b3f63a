#include "ledger/log_check.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "ledger/database.h"
#include "ledger/sqlite_ledger.h"
#include "ledger/test_support.h"

namespace bole::ledger {
namespace {

using namespace test;
namespace fs = std::filesystem;

constexpr std::size_t kFrame = 24 + 4096;

std::string contentOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void put(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
}

// The files of a home as a server leaves them that is killed after `appends` acknowledged batches.
struct KilledHome {
  explicit KilledHome(int appends) {
    TempHome living;
    TestRng random(1);
    auto ledger = openLedger(optionsFor(living.path(), random));
    EXPECT_TRUE(ledger.has_value());
    for (int i = 0; i < appends; ++i) EXPECT_TRUE(appendMore(**ledger, 1).has_value());
    for (const auto& entry : fs::directory_iterator(living.path())) {
      if (entry.path().filename() != "ledger.db-shm" && entry.path().filename() != "reserve") {
        fs::copy_file(entry.path(), home.path() + "/" + entry.path().filename().string());
      }
    }
    log = contentOf(logPath());
  }
  [[nodiscard]] std::string logPath() const { return home.file("ledger.db-wal"); }
  [[nodiscard]] Result<std::uint64_t> lastAfterOpening() const {
    TestRng random(2);
    BOLE_ASSIGN(const auto ledger, openLedger(optionsFor(home.path(), random)));
    return ledger->status().lastSequence;
  }

  TempHome home;
  std::string log;
};

TEST(LogCheck, AWholeLogPassesAndSoDoesNone) {
  const KilledHome killed(10);
  EXPECT_GT(killed.log.size(), 10 * kFrame);
  EXPECT_GOOD(checkLog(killed.home.file("ledger.db")));
  fs::remove(killed.logPath());
  EXPECT_GOOD(checkLog(killed.home.file("ledger.db")));
}

// Whatever the last write left: a part of it, none of it, or its blocks in any order.
TEST(LogCheck, AWriteThatWasCutOffIsNoDamage) {
  const KilledHome killed(10);
  for (std::size_t size = killed.log.size(); size > killed.log.size() - 2 * kFrame; size -= 100) {
    put(killed.logPath(), killed.log.substr(0, size));
    EXPECT_GOOD(checkLog(killed.home.file("ledger.db")));
  }
  auto torn = killed.log;
  torn[torn.size() - kFrame + 100] ^= 1;  // in the last frame, or the last but one
  put(killed.logPath(), torn);
  EXPECT_GOOD(checkLog(killed.home.file("ledger.db")));
  EXPECT_GOOD(killed.lastAfterOpening());
}

TEST(LogCheck, DamageBeforeWholeCommitsIsToldAndNothingIsDropped) {
  const KilledHome killed(20);
  const auto whole = killed.log.size() / kFrame;
  for (std::size_t frame = 0; frame + 8 < whole; ++frame) {
    // In the page, in the page's number, in the sum itself.
    for (const std::size_t inside : {24UL + 1000, 2UL, 17UL}) {
      auto damaged = killed.log;
      damaged[32 + frame * kFrame + inside] ^= 0x10;
      put(killed.logPath(), damaged);
      const auto checked = checkLog(killed.home.file("ledger.db"));
      ASSERT_FALSE(checked.has_value()) << frame << " " << inside;
      EXPECT_EQ(checked.error().code, ErrorCode::kCorrupt);
      EXPECT_EQ(checked.error().where, killed.logPath());
      EXPECT_NE(checked.error().found.find(fmt::format("frame {} of", frame + 1)),
                std::string::npos)
          << checked.error().message();
    }
  }
  const auto opened = killed.lastAfterOpening();
  ASSERT_FALSE(opened.has_value()) << "a ledger with lost events was opened";
  EXPECT_EQ(opened.error().code, ErrorCode::kCorrupt);
  const auto report = verifyLedger(killed.home.path(), false);
  ASSERT_GOOD(report);
  ASSERT_TRUE(report->firstFault.has_value());
  EXPECT_EQ(report->firstFault->where, killed.logPath());
  // The refusal has changed nothing: with the log as it was, all is there.
  put(killed.logPath(), killed.log);
  const auto last = killed.lastAfterOpening();
  ASSERT_GOOD(last);
  EXPECT_EQ(*last, 20u);
}

TEST(LogCheck, ADamagedHeaderIsToldToo) {
  const KilledHome killed(10);
  for (const std::size_t at : {0UL, 3UL, 9UL, 17UL, 25UL}) {
    auto damaged = killed.log;
    damaged[at] ^= 0x40;
    put(killed.logPath(), damaged);
    const auto checked = checkLog(killed.home.file("ledger.db"));
    ASSERT_FALSE(checked.has_value()) << at;
    EXPECT_NE(checked.error().found.find("the header"), std::string::npos);
  }
}

}  // namespace
}  // namespace bole::ledger
