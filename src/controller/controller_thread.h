// The controller's mailbox and thread: messages from any thread, handled in batches in the order they came.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "controller/controller.h"

namespace bole::controller {

class ControllerThread {
 public:
  ControllerThread(Controller& controller, Clock& clock);
  ~ControllerThread();  // stops and joins
  ControllerThread(const ControllerThread&) = delete;
  ControllerThread& operator=(const ControllerThread&) = delete;

  void start();
  void stop();  // handles what is in the mailbox, then ends

  // Never blocks on a reader. False when the mailbox is full (commands are then refused with kUnavailable by the door; reports
  // of the engine are always taken, they are bounded by the live attempts).
  [[nodiscard]] bool post(Message message);

 private:
  void loop();

  Controller& controller_;
  Clock& clock_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Message> mailbox_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace bole::controller
