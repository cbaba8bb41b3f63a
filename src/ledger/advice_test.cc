// Whoever does what an error tells him must hit the home that it is about.
#include "ledger/advice.h"

#include <gtest/gtest.h>
#include <sqlite3.h>

#include "ledger/opening.h"
#include "ledger/test_support.h"

namespace bole::ledger::test {
namespace {

namespace fs = std::filesystem;

class AdviceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directory(home_);
    auto ledger = openLedger(optionsFor(home_, random_));
    ASSERT_GOOD(ledger);
    ASSERT_GOOD(appendMore(**ledger, 50));
  }

  void execute(const std::string& sql) const {
    sqlite3* handle = nullptr;
    ASSERT_EQ(sqlite3_open(ledgerPath(home_).c_str(), &handle), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(handle, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK)
        << sqlite3_errmsg(handle);
    sqlite3_close(handle);
  }
  void overwrite(std::size_t at, std::string_view bytes) const {
    std::fstream file(ledgerPath(home_), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(at));
    file << bytes;
  }

  void expectAdvice(const Error& error, const std::string& command) const {
    const auto typed = "'bole " + command + " --home " + home_ + "'";
    EXPECT_NE(error.hint.find(typed), std::string::npos) << error.message();
  }
  [[nodiscard]] Error openError(OpenMode mode = OpenMode::kReadWrite) {
    auto options = optionsFor(home_, random_);
    options.mode = mode;
    const auto opened = openLedger(options);
    return opened ? Error() : opened.error();
  }
  [[nodiscard]] Error fault() const {
    const auto report = verifyLedger(home_, true);
    return report && report->firstFault ? *report->firstFault : Error();
  }

  TempHome shelf_;
  std::string home_ = shelf_.file("home");
  TestRng random_;
};

TEST_F(AdviceTest, AHomeIsNamedAsAShellTakesIt) {
  EXPECT_EQ(commandFor("up", "/srv/bole"), "'bole up --home /srv/bole'");
  EXPECT_EQ(commandFor("up", "/srv/my bole"), "'bole up --home '/srv/my bole''");
  EXPECT_EQ(homeOf("/srv/bole/ledger.db"), "/srv/bole");
  EXPECT_EQ(homeOf("/mnt/monday.db"), "");
}

TEST_F(AdviceTest, WhereThereIsNone) {
  fs::remove(ledgerPath(home_));
  expectAdvice(openError(OpenMode::kReadOnly), "up");
  expectAdvice(verifyLedger(home_, false).error(), "up");
  expectAdvice(backupLedger(home_, shelf_.file("copy")).error(), "up");
  expectAdvice(openError(), "restore BACKUP");  // there was one
}

TEST_F(AdviceTest, WhereAnotherServerHoldsIt) {
  const auto ledger = openLedger(optionsFor(home_, random_));
  ASSERT_GOOD(ledger);
  expectAdvice(openError(), "down");
}

TEST_F(AdviceTest, WhereARecordIsDamaged) {
  {
    const auto ledger = openLedger(optionsFor(home_, random_));
    ASSERT_GOOD(ledger);
    execute("UPDATE events SET body='x' WHERE seq=20");
    const auto read = (*ledger)->read(1, [](const ports::StoredEvent&) { return Result<void>(); });
    expectAdvice(read.error(), "restore BACKUP");
  }
  expectAdvice(fault(), "restore BACKUP");
  const auto copied = backupLedger(home_, shelf_.file("copy"));
  expectAdvice(copied.error(), "restore BACKUP");
  execute("UPDATE events SET body='x' WHERE seq=50");
  expectAdvice(openError(), "restore BACKUP");
}

TEST_F(AdviceTest, WhatAVisitorSaysIsHisOwn) {
  const auto ledger = openLedger(optionsFor(home_, random_));
  ASSERT_GOOD(ledger);
  const auto read = (*ledger)->read(1, [](const ports::StoredEvent&) -> Result<void> {
    return fail(ErrorCode::kCorrupt, "it makes no sense");
  });
  EXPECT_EQ(read.error().hint, "");
}

TEST_F(AdviceTest, WhereATableIsMissing) {
  execute("DROP TABLE side");
  expectAdvice(openError(), "restore BACKUP");
  expectAdvice(fault(), "restore BACKUP");
}

TEST_F(AdviceTest, WhereTheFileIsNone) {
  overwrite(0, "not a database at all");
  expectAdvice(openError(), "restore BACKUP");
  expectAdvice(fault(), "restore BACKUP");
}

TEST_F(AdviceTest, WhereTheLogIsDamaged) {
  const auto ledger = openLedger(optionsFor(home_, random_));
  ASSERT_GOOD(ledger);
  for (int i = 0; i < 5; ++i) ASSERT_GOOD(appendMore(**ledger, 5));
  std::fstream log(ledgerPath(home_) + "-wal", std::ios::in | std::ios::out | std::ios::binary);
  log.seekp(5000);
  log << "damage";
  log.close();
  expectAdvice(fault(), "restore BACKUP");
  expectAdvice(fault(), "backup BACKUP");
}

TEST_F(AdviceTest, ADamagedCopyIsNoReasonToTouchAHome) {
  const auto copy = shelf_.file("copy.db");
  ASSERT_GOOD(backupLedger(home_, copy));
  sqlite3* handle = nullptr;
  ASSERT_EQ(sqlite3_open(copy.c_str(), &handle), SQLITE_OK);
  EXPECT_EQ(
      sqlite3_exec(handle, "UPDATE events SET body='x' WHERE seq=20", nullptr, nullptr, nullptr),
      SQLITE_OK);
  sqlite3_close(handle);
  const TempHome fresh;
  const auto restored = restoreLedger(copy, fresh.path());
  ASSERT_FALSE(restored);
  EXPECT_EQ(restored.error().hint, "this copy is not as it was written: use another one");
}

}  // namespace
}  // namespace bole::ledger::test
