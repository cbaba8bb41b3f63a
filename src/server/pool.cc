#include "server/pool.h"

#include <utility>

namespace bole::server {

Pool::Pool(std::size_t threads) {
  for (std::size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { loop(); });
}

Pool::~Pool() {
  stop();
}

void Pool::post(const std::string& who, Task task) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    queues_[who].push_back(std::move(task));
  }
  wake_.notify_one();
}

void Pool::stop() {
  std::map<std::string, std::deque<Task>> dropped;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    dropped.swap(queues_);
  }
  wake_.notify_all();
  for (auto& thread : threads_) thread.join();
  threads_.clear();
}

// The next user's oldest task. With the lock held and something queued.
Pool::Task Pool::take() {
  auto turn = queues_.upper_bound(last_);
  if (turn == queues_.end()) turn = queues_.begin();
  last_ = turn->first;
  Task task = std::move(turn->second.front());
  turn->second.pop_front();
  if (turn->second.empty()) queues_.erase(turn);
  return task;
}

void Pool::loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stopping_ || !queues_.empty(); });
    if (stopping_) return;
    Task task = take();
    lock.unlock();
    task();
    task = nullptr;  // what it holds is let go without the lock
    lock.lock();
  }
}

}  // namespace bole::server
