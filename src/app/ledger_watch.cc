#include "app/ledger_watch.h"

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>

#include "ledger/sqlite_ledger.h"

namespace bole::app {

LedgerWatch::LedgerWatch(std::string home, std::function<void(const std::string&)> log,
                         WatchTimes times)
    : home_(std::move(home)), log_(std::move(log)), times_(times), thread_([this] { run(); }) {}

LedgerWatch::~LedgerWatch() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

std::string LedgerWatch::fault() const {
  const std::lock_guard lock(mutex_);
  return fault_;
}

void LedgerWatch::run() {
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), 19);  // this thread: jobs come first
  auto wait = times_.first;
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, std::chrono::microseconds(wait.value), [this] { return ending_; })) {
    lock.unlock();
    look();
    lock.lock();
    wait = times_.every;
  }
}

void LedgerWatch::look() {
  const auto report = ledger::verifyLedger(home_, true, [this] {
    const std::lock_guard lock(mutex_);
    return !ending_;
  });
  // What could not be examined (no memory, no files left) is looked at again the next time.
  std::string found;
  if (report && report->firstFault) {
    found = "the ledger is damaged: " + report->firstFault->message() +
            "; restore a backup (docs/operators.md)";
  }
  {
    const std::lock_guard lock(mutex_);
    if (!report || found == fault_) return;
    fault_ = found;
  }
  if (!found.empty()) log_(found);
}

}  // namespace bole::app
