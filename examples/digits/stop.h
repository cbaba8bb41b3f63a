// SIGTERM and SIGINT mean: save what there is, then exit with 143 or 130, as a shell counts
// signals. A thread of its own does it, for the main one may be waiting for other ranks.
#pragma once

#include <functional>
#include <thread>

#include "wire.h"

namespace digits {

class StopWatch {
 public:
  // Make it before any other thread: the signals are blocked here and in all threads started later.
  explicit StopWatch(std::function<void()> beforeExit);
  ~StopWatch();
  StopWatch(const StopWatch&) = delete;
  StopWatch& operator=(const StopWatch&) = delete;

  // Once an exchange has failed: when a whole gang is stopped, other ranks may be gone before this
  // one's own signal has arrived. Gives that signal a moment, so that a stop is not reported as a
  // failure.
  static void allowForStop();

 private:
  void watch();

  std::function<void()> beforeExit_;
  Fd signals_;  // a signalfd
  Fd end_;      // an eventfd
  std::thread thread_;
};

}  // namespace digits
