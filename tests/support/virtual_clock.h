// A clock that moves when the test says so.
#pragma once

#include "base/clock.h"

namespace bole::test {

class VirtualClock final : public Clock {
 public:
  Timestamp wall() override { return wall_; }
  Duration monotonic() override { return monotonic_; }
  Duration boottime() override { return boottime_; }

  void advance(Duration d) {
    wall_ = wall_ + d;
    monotonic_ += d;
    boottime_ += d;
  }
  void jump(Duration d) { wall_ = wall_ + d; }
  void suspend(Duration d) {
    wall_ = wall_ + d;
    boottime_ += d;
  }

 private:
  Timestamp wall_{1'700'000'000'000'000};
  Duration monotonic_ = seconds(100);
  Duration boottime_ = seconds(100);
};

}  // namespace bole::test
