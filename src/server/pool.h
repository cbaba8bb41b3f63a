// A small pool of threads for what may block. Each user has his own queue and the queues take
// turns, and one thread is left for others than who keeps all the others busy, so that one who asks
// for much delays himself. Bounded by its callers: a connection has at most one task here.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace bole::server {

class Pool {
 public:
  using Task = std::function<void()>;

  explicit Pool(std::size_t threads);
  ~Pool();  // stop()
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // From any thread. After stop() tasks are dropped unrun.
  void post(const std::string& who, Task task);

  // Drops what waits, finishes what runs, joins.
  void stop();

 private:
  void loop();
  [[nodiscard]] Task take(std::string& who);

  std::mutex mutex_;
  std::condition_variable wake_;
  std::map<std::string, std::deque<Task>> queues_;  // none is empty
  std::string last_;                                // whose turn it was
  std::map<std::string, std::size_t> running_;      // tasks of each user; none is 0
  std::size_t most_ = 1;                            // of these for one user
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace bole::server
