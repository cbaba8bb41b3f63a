#include "app/ledger_watch.h"

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <atomic>
#include <chrono>

#include "ledger/test_support.h"

namespace bole::app {
namespace {

using ledger::test::appendMore;
using ledger::test::makeEvents;
using ledger::test::optionsFor;

// A ledger of 2,000 events, all but one in a sealed segment: a start trusts the seal.
class LedgerWatchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto opened = ledger::openLedger(optionsFor(home_.path(), random_));
    ASSERT_TRUE(opened);
    ledger_ = std::move(*opened);
    ASSERT_TRUE(ledger_->append(makeEvents(1, 1999)));
    ASSERT_TRUE(ledger_->seal(1999, "state"));
    ASSERT_TRUE(appendMore(*ledger_, 1));
  }

  void damage() {
    sqlite3* handle = nullptr;
    ASSERT_EQ(sqlite3_open(home_.file("ledger.db").c_str(), &handle), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(handle, "UPDATE events SET body='{\"x\":1}' WHERE seq=1000", nullptr,
                           nullptr, nullptr),
              SQLITE_OK)
        << sqlite3_errmsg(handle);
    sqlite3_close(handle);
  }

  static bool within(Duration time, const std::function<bool()>& condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(time.value);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return true;
  }

  ledger::test::TempHome home_;
  ledger::test::TestRng random_;
  std::unique_ptr<ledger::SqliteLedger> ledger_;
  std::atomic<int> told_{0};
};

TEST_F(LedgerWatchTest, WhatASealedSegmentLostIsFoundBesideTheWriter) {
  LedgerWatch watch(home_.path(), [this](const std::string&) { ++told_; },
                    {milliseconds(1), milliseconds(1)});
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(watch.fault(), "");
  damage();
  EXPECT_TRUE(within(seconds(30), [&] { return !watch.fault().empty(); }));
  EXPECT_NE(watch.fault().find("event 1000"), std::string::npos) << watch.fault();
  EXPECT_TRUE(appendMore(*ledger_, 1)) << "the writer goes on meanwhile";
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(told_, 1) << "the same fault is told once";
}

TEST_F(LedgerWatchTest, ItEndsAtOnceWhileItWaits) {
  damage();
  {
    const LedgerWatch watch(home_.path(), [this](const std::string&) { ++told_; });
  }
  EXPECT_EQ(told_, 0);
}

TEST_F(LedgerWatchTest, ACheckIsBrokenOffWhenItIsToldTo) {
  const auto report = ledger::verifyLedger(home_.path(), true, [] { return false; });
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace bole::app
