#include "server/pool.h"

#include <algorithm>
#include <exception>
#include <utility>

namespace bole::server {

Pool::Pool(std::size_t threads) : most_(std::max<std::size_t>(threads, 2) - 1) {
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

// The oldest task of the next user who has not all the threads that he may have, or none. With the
// lock held.
Pool::Task Pool::take(std::string& who) {
  auto turn = queues_.upper_bound(last_);
  for (std::size_t i = 0; i < queues_.size(); ++i, ++turn) {
    if (turn == queues_.end()) turn = queues_.begin();
    const auto busy = running_.find(turn->first);
    if (busy != running_.end() && busy->second >= most_) continue;
    who = last_ = turn->first;
    ++running_[who];
    Task task = std::move(turn->second.front());
    turn->second.pop_front();
    if (turn->second.empty()) queues_.erase(turn);
    return task;
  }
  return nullptr;
}

void Pool::loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    std::string who;
    Task task;
    wake_.wait(lock, [&] { return stopping_ || (task = take(who)); });
    if (stopping_) return;
    lock.unlock();
    try {
      task();
    } catch (const std::exception&) {  // out of memory: this request has no answer, others have
    }
    task = nullptr;  // what it holds is let go without the lock
    lock.lock();
    if (--running_[who] == 0) running_.erase(who);
    if (!queues_.empty()) wake_.notify_one();  // his next one may be taken now
  }
}

}  // namespace bole::server
