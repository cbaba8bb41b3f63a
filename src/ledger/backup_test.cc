#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "ledger/sqlite_ledger.h"
#include "ledger/test_support.h"

namespace bole::ledger {
namespace {

using namespace test;
namespace fs = std::filesystem;

class BackupTest : public ::testing::Test {
 protected:
  std::unique_ptr<SqliteLedger> open(const TempHome& home) {
    auto ledger = openLedger(optionsFor(home.path(), random_));
    EXPECT_TRUE(ledger) << ledger.error().message();
    return ledger ? std::move(*ledger) : nullptr;
  }
  std::unique_ptr<SqliteLedger> openFilled() {
    auto ledger = open(home_);
    EXPECT_GOOD(appendMore(*ledger, 5));
    EXPECT_GOOD(ledger->seal(5, "five"));
    EXPECT_GOOD(ledger->append(std::vector{withSide(makeEvent(6), 1, "alice")}));
    return ledger;
  }
  std::vector<std::string> filesBeside() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(shelf_.path())) {
      names.push_back(entry.path().filename());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  TempHome home_;
  TempHome shelf_;
  TempHome other_;
  TestRng random_;
  std::string backup_ = shelf_.file("b.db");
};

TEST_F(BackupTest, ABackupOfALedgerInUseIsOneVerifiedFileAndItsPublicKey) {
  const auto ledger = openFilled();
  ASSERT_GOOD(backupLedger(home_.path(), backup_));
  EXPECT_EQ(filesBeside(), (std::vector<std::string>{"b.db", "b.db.pub"}));
  EXPECT_EQ(slurp(backup_ + ".pub"), slurp(home_.file("ledger.pub")));
  struct stat facts {};
  ASSERT_EQ(::stat(backup_.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600u);
  ASSERT_GOOD(appendMore(*ledger, 1));
  const auto report = verifyLedger(backup_, true);
  ASSERT_GOOD(report);
  EXPECT_FALSE(report->firstFault) << report->firstFault->message();
  EXPECT_EQ(report->events, 6u);
  EXPECT_EQ(filesBeside().size(), 2u);
}

TEST_F(BackupTest, NothingIsOverwritten) {
  const auto ledger = openFilled();
  for (const auto* name : {"b.db", "b.db.pub", "b.db.key"}) {
    std::ofstream(shelf_.file(name)) << "precious";
    const auto result = backupLedger(home_.path(), backup_, PrivateKey::kInclude);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ErrorCode::kConflict);
    EXPECT_EQ(slurp(shelf_.file(name)), "precious");
    EXPECT_EQ(filesBeside().size(), 1u);
    fs::remove(shelf_.file(name));
  }
}

TEST_F(BackupTest, ADamagedLedgerMakesNoBackup) {
  openFilled().reset();
  auto bytes = slurp(home_.file("ledger.db"));
  const auto at = bytes.find("request-3");
  ASSERT_NE(at, std::string::npos);
  bytes[at] = 'R';
  std::ofstream(home_.file("ledger.db"), std::ios::binary) << bytes;
  const auto result = backupLedger(home_.path(), backup_);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(result.error().where, "event 3");
  EXPECT_TRUE(filesBeside().empty());
  EXPECT_EQ(backupLedger(other_.path(), backup_).error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(filesBeside().empty());
}

TEST_F(BackupTest, ARestoredLedgerGoesOnWithANewKeyAndSaysSo) {
  openFilled();
  ASSERT_GOOD(backupLedger(home_.path(), backup_));
  ASSERT_GOOD(restoreLedger(backup_, other_.path()));
  const auto ledger = open(other_);
  EXPECT_EQ(ledger->notices().size(), 1u);
  EXPECT_EQ(readAll(*ledger).size(), 6u);
  EXPECT_EQ(ledger->side(SideId(1)).value(), "alice");
  EXPECT_EQ((*ledger->newestSnapshot())->state, "five");
  ASSERT_GOOD(appendMore(*ledger, 1));
  ASSERT_GOOD(ledger->seal(7, "seven"));
  const auto report = verifyLedger(other_.path(), true);
  ASSERT_GOOD(report);
  EXPECT_FALSE(report->firstFault) << report->firstFault->message();
}

TEST_F(BackupTest, WithItsKeyARestoredLedgerGoesOnAsBefore) {
  openFilled();
  ASSERT_GOOD(backupLedger(home_.path(), backup_, PrivateKey::kInclude));
  struct stat facts {};
  ASSERT_EQ(::stat((backup_ + ".key").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600u);
  ASSERT_GOOD(restoreLedger(backup_, other_.path()));
  const auto ledger = open(other_);
  EXPECT_TRUE(ledger->notices().empty());
  EXPECT_EQ(slurp(other_.file("ledger.key")), slurp(home_.file("ledger.key")));
}

TEST_F(BackupTest, RestoringNeverReplacesALedger) {
  auto ledger = openFilled();
  ASSERT_GOOD(backupLedger(home_.path(), backup_));
  const auto inUse = restoreLedger(backup_, home_.path());
  ASSERT_FALSE(inUse);
  EXPECT_EQ(inUse.error().code, ErrorCode::kConflict);
  EXPECT_EQ(inUse.error().found, "process " + std::to_string(::getpid()));
  ledger.reset();
  EXPECT_EQ(restoreLedger(backup_, home_.path()).error().code, ErrorCode::kConflict);
  // A log that was left behind would be played into the restored file.
  fs::remove(home_.file("ledger.db"));
  std::ofstream(home_.file("ledger.db-wal")) << "left behind";
  EXPECT_EQ(restoreLedger(backup_, home_.path()).error().code, ErrorCode::kConflict);
  fs::remove(home_.file("ledger.db-wal"));
  ASSERT_GOOD(restoreLedger(backup_, home_.path()));
  EXPECT_TRUE(open(home_)->notices().empty());
}

TEST_F(BackupTest, ADamagedOrForeignBackupIsNotRestored) {
  openFilled();
  ASSERT_GOOD(backupLedger(home_.path(), backup_));
  open(other_).reset();
  fs::remove(backup_ + ".pub");
  fs::copy(other_.file("ledger.pub"), backup_ + ".pub");
  TempHome fresh;
  EXPECT_EQ(restoreLedger(backup_, fresh.path()).error().code, ErrorCode::kCorrupt);
  fs::remove(backup_ + ".pub");
  auto bytes = slurp(backup_);
  std::ofstream(backup_, std::ios::binary) << bytes.substr(0, bytes.size() / 2);
  EXPECT_EQ(restoreLedger(backup_, fresh.path()).error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(restoreLedger(shelf_.file("none"), fresh.path()).error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(fs::exists(fresh.file("ledger.db")));
  EXPECT_FALSE(fs::exists(fresh.file("ledger.db.new")));
}

// While one thread appends without a pause, backups are taken: each is a whole number of batches,
// and none is refused.
TEST_F(BackupTest, BackupsDuringAppendsAreConsistent) {
  auto ledger = openFilled();
  std::atomic<bool> enough = false;
  std::atomic<std::uint64_t> durable = 6;
  std::thread writer([&] {
    while (!enough) {
      EXPECT_GOOD(appendMore(*ledger, 7));
      durable = ledger->status().lastSequence;
    }
  });
  for (int i = 0; i < 10; ++i) {
    const auto before = durable.load();
    const auto destination = shelf_.file("b" + std::to_string(i));
    EXPECT_GOOD(backupLedger(home_.path(), destination));
    const auto report = verifyLedger(destination, true);
    EXPECT_GOOD(report);
    EXPECT_GE(report->events, before);
    EXPECT_EQ((report->events - 6) % 7, 0u);
  }
  enough = true;
  writer.join();
  EXPECT_GT(durable.load(), 6u);
}

}  // namespace
}  // namespace bole::ledger
