#include "ledger/schema.h"

#include <gtest/gtest.h>

#include <fstream>

#include "ledger/test_support.h"

namespace bole::ledger {
namespace {

using namespace test;

class SchemaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::ofstream(home_.file("x.db")).close();
    auto database = Database::open(home_.file("x.db"), Access::kReadWrite);
    ASSERT_GOOD(database);
    database_ = std::move(*database);
    EXPECT_TRUE(isBlank(*database_).value());
    ASSERT_GOOD(createTables(*database_));
  }
  std::int64_t version() { return database_->integer("PRAGMA user_version", "test").value(); }

  TempHome home_;
  std::unique_ptr<Database> database_;
};

constexpr Migration kSteps[] = {{2, "INSERT INTO segments VALUES(2,2,x'',0,x'')"},
                                {1, "INSERT INTO segments VALUES(1,1,x'',0,x'')"},
                                {3, "INSERT INTO nowhere VALUES(1)"}};

TEST_F(SchemaTest, WhatWasMadeIsKnownAgain) {
  EXPECT_FALSE(isBlank(*database_).value());
  EXPECT_GOOD(checkIdentity(*database_));
  EXPECT_EQ(version(), kStorageVersion);
}

TEST_F(SchemaTest, MigrationsRunInOrderFromTheVersionThatIsThere) {
  {
    auto transaction = Transaction::beginWrite(*database_);
    ASSERT_GOOD(transaction);
    ASSERT_GOOD(migrate(*database_, kSteps, 3));
    ASSERT_GOOD(transaction->commit());
  }
  EXPECT_EQ(version(), 3);
  EXPECT_EQ(database_->integer("SELECT count(*) FROM segments", "test").value(), 2);
  ASSERT_GOOD(migrate(*database_, kSteps, 3));
  EXPECT_EQ(database_->integer("SELECT count(*) FROM segments", "test").value(), 2);
}

TEST_F(SchemaTest, AMigrationThatFailsLeavesTheOldVersion) {
  {
    auto transaction = Transaction::beginWrite(*database_);
    ASSERT_GOOD(transaction);
    EXPECT_FALSE(migrate(*database_, kSteps, 4));
  }
  EXPECT_EQ(version(), 1);
  EXPECT_EQ(database_->integer("SELECT count(*) FROM segments", "test").value(), 0);
}

TEST_F(SchemaTest, ForeignTablesAreAFault) {
  ASSERT_GOOD(database_->execute("CREATE TABLE other(a)", "test"));
  const auto identity = checkIdentity(*database_);
  ASSERT_FALSE(identity);
  EXPECT_EQ(identity.error().code, ErrorCode::kCorrupt);
}

TEST_F(SchemaTest, ATriggerNeverRunsAndIsAFault) {
  ASSERT_GOOD(
      database_->execute("CREATE TRIGGER t AFTER INSERT ON segments BEGIN DELETE FROM "
                         "segments; END; INSERT INTO segments VALUES(1,1,x'',0,x'')",
                         "test"));
  EXPECT_EQ(database_->integer("SELECT count(*) FROM segments", "test").value(), 1);
  EXPECT_FALSE(checkIdentity(*database_));
}

}  // namespace
}  // namespace bole::ledger
