// The controller's mailbox and thread: messages from any thread, handled in batches in the order
// they came.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "controller/controller.h"

namespace bole::controller {

class ControllerThread {
 public:
  explicit ControllerThread(Controller& controller);
  ~ControllerThread();  // stops and joins
  ControllerThread(const ControllerThread&) = delete;
  ControllerThread& operator=(const ControllerThread&) = delete;

  void start();
  void stop();  // handles what is in the mailbox, then ends

  // Never blocks on a reader. False when the mailbox is full (commands are then refused with
  // kUnavailable by the door; reports of the engine are always taken, they are bounded by the live
  // attempts) or the thread is stopping.
  [[nodiscard]] bool post(Message message);

 private:
  void loop();

  Controller& controller_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Message> mailbox_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace bole::controller
