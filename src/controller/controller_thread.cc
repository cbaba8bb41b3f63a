#include "controller/controller_thread.h"

#include <chrono>

namespace bole::controller {
namespace {
constexpr std::size_t kMailbox = 65'536;
}

ControllerThread::ControllerThread(Controller& controller) : controller_(controller) {}

ControllerThread::~ControllerThread() {
  stop();
}

void ControllerThread::start() {
  thread_ = std::thread([this] { loop(); });
}

void ControllerThread::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

bool ControllerThread::post(Message message) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return false;
    const bool report = std::holds_alternative<ports::EngineReport>(message);
    if (!report && mailbox_.size() >= kMailbox) return false;
    mailbox_.push_back(std::move(message));
    if (mailbox_.size() > 1) return true;  // the thread has been woken for the first one
  }
  wake_.notify_one();
  return true;
}

void ControllerThread::loop() {
  while (true) {
    const auto patience = controller_.untilNextTick();
    std::vector<Message> batch;
    {
      std::unique_lock lock(mutex_);
      const auto ready = [this] { return stopping_ || !mailbox_.empty(); };
      if (patience.value < 0)
        wake_.wait(lock, ready);
      else
        wake_.wait_for(lock, std::chrono::microseconds(patience.value), ready);
      batch.swap(mailbox_);
      if (batch.empty() && stopping_) return;
    }
    if (batch.empty()) batch.emplace_back(Tick{});
    controller_.process(std::move(batch));
  }
}

}  // namespace bole::controller
