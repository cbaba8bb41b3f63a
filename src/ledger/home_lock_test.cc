#include "ledger/home_lock.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <string>

#include "ledger/test_support.h"

namespace bole::ledger {
namespace {

using test::TempHome;

// One byte through a pipe: to let another process go on.
class Gate {
 public:
  Gate() {
    if (::pipe(ends_.data()) != 0) ::abort();
  }
  void open() const {
    if (::write(ends_[1], "x", 1) != 1) ::abort();
  }
  void pass() const {
    char byte = 0;
    if (::read(ends_[0], &byte, 1) != 1) ::abort();
  }

 private:
  std::array<int, 2> ends_{};
};

class HomeLockTest : public ::testing::Test {
 protected:
  TempHome home_;
};

TEST_F(HomeLockTest, ALivingHolderIsNamedAtOnce) {
  const auto first = HomeLock::take(home_.path());
  ASSERT_TRUE(first);
  const auto second = HomeLock::take(home_.path());
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().found, "process " + std::to_string(::getpid()));
}

TEST_F(HomeLockTest, WhatAKilledHolderWasJustStartingIsWaitedFor) {
  const Gate taken;
  const Gate goOn;
  const auto holder = ::fork();
  if (holder == 0) {
    const auto lock = HomeLock::take(home_.path());
    const auto child =
        ::fork();  // it has the lock's descriptor too, as long as it is not another program
    if (child == 0) {
      taken.open();
      goOn.pass();
      ::poll(nullptr, 0, 200);
      ::_exit(0);
    }
    ::_exit(lock ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(holder, &status, 0), holder);
  ASSERT_EQ(status, 0);
  taken.pass();
  goOn.open();
  EXPECT_TRUE(HomeLock::take(home_.path()));
}

}  // namespace
}  // namespace bole::ledger
