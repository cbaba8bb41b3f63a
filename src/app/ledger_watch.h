// Reads the whole ledger now and then beside the server that writes it: what lies in sealed
// segments is not read by a start, and a disk may have lost it.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "base/units.h"

namespace bole::app {

struct WatchTimes {
  Duration first = seconds(5);  // after the start
  Duration every = hours(24);
};

class LedgerWatch {
 public:
  // `log` is told of a fault once, from the watch's own thread, and outlives it.
  LedgerWatch(std::string home, std::function<void(const std::string&)> log, WatchTimes times = {});
  LedgerWatch(const LedgerWatch&) = delete;
  LedgerWatch& operator=(const LedgerWatch&) = delete;
  ~LedgerWatch();  // breaks a check off

  // A line for people, "" while nothing is wrong; from any thread.
  [[nodiscard]] std::string fault() const;

 private:
  void run();
  void look();

  std::string home_;
  std::function<void(const std::string&)> log_;
  WatchTimes times_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool ending_ = false;
  std::string fault_;
  std::thread thread_;
};

}  // namespace bole::app
