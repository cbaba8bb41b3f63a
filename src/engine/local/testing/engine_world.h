// A home with an engine in it, which can be taken away and made anew, and all that it reports.
//
// Supervisors of the engines are children of the test program; what outlives them comes to it as
// well. So a test can tell that nothing is left, and nothing ever is.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/local/claims.h"
#include "engine/local/files.h"
#include "engine/local/host.h"
#include "engine/local/local_engine.h"
#include "engine/local/supervise/attempt_files.h"
#include "engine/local/supervise/processes.h"
#include "engine/local/testing/test_support.h"

namespace bole::engine::testing {

constexpr std::chrono::seconds kPatience{30};

// What the engines of one home reported, in order.
class Reports {
 public:
  void add(ports::EngineReport report) {
    const std::lock_guard lock(mutex_);
    all_.push_back(std::move(report));
    more_.notify_all();
  }

  // The report number `which` (0, 1, ...) of this kind about the attempt; waits for it.
  template <class Report>
  std::optional<Report> wait(AttemptId attempt, std::size_t which = 0,
                             std::chrono::milliseconds patience = kPatience) {
    std::unique_lock lock(mutex_);
    std::optional<Report> found;
    more_.wait_for(lock, patience,
                   [&] { return (found = find<Report>(attempt, which)).has_value(); });
    return found;
  }

  template <class Report>
  std::size_t count(AttemptId attempt) {
    const std::lock_guard lock(mutex_);
    return static_cast<std::size_t>(
        std::count_if(all_.begin(), all_.end(), [&](const auto& report) {
          const auto* one = std::get_if<Report>(&report);
          return one && one->attempt == attempt;
        }));
  }

 private:
  template <class Report>
  std::optional<Report> find(AttemptId attempt, std::size_t which) {
    for (const auto& report : all_) {
      const auto* one = std::get_if<Report>(&report);
      if (one && one->attempt == attempt && which-- == 0) return *one;
    }
    return std::nullopt;
  }

  std::mutex mutex_;
  std::condition_variable more_;
  std::vector<ports::EngineReport> all_;
};

// A clock that is the machine's, but for leaps.
class LeapingClock final : public Clock {
 public:
  Timestamp wall() override { return real_.wall(); }
  Duration monotonic() override { return real_.monotonic() + Duration(leapt_.load()); }
  Duration boottime() override { return real_.boottime() + Duration(leapt_.load()); }
  void leap(Duration duration) { leapt_ += duration.value; }

 private:
  RealClock real_;
  std::atomic<std::int64_t> leapt_{0};
};

// Polls: what is waited for are other processes, and they tell nobody else. False where it does not
// come about in time.
template <class Condition>
bool eventually(Condition condition) {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > until) return false;
    ::usleep(1000);
  }
  return true;
}

// The writing end of a FIFO, once someone opens it for reading; none where no one does in time. A
// plain open(2) would wait for ever.
inline Fd openToReader(const std::string& fifo) {
  Fd opened;
  eventually([&] {
    opened = Fd(::open(fifo.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
    return opened.isOpen() || errno != ENXIO;
  });
  return opened;
}

// Keeps the stub at one of its stages (testing/stub_supervise.cc).
class Gate {
 public:
  Gate(const std::string& home, AttemptId attempt, const std::string& stage)
      : path_(home + "/gates/" + std::to_string(attempt.value) + "." + stage) {
    std::filesystem::create_directories(home + "/gates");
    EXPECT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  }
  ~Gate() { open(); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  // Until a supervisor stands before it; fails the test where none comes.
  void wait() {
    if (held_.isOpen()) return;
    held_ = openToReader(path_);
    EXPECT_TRUE(held_.isOpen()) << "no supervisor comes to the gate " << path_;
  }
  // For all that stand before it, and all that come.
  void open() {
    ::unlink(path_.c_str());
    held_.close();
  }

 private:
  std::string path_;
  Fd held_;
};

class EngineWorld : public ::testing::Test {
 protected:
  EngineWorld() {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    options.home = temp_.path() + "/home";
    options.plain = true;
    std::filesystem::create_directories(options.home);
  }
  ~EngineWorld() override {
    engine.reset();
    killAll();
  }

  void engineUp() {
    engine = std::make_unique<LocalEngine>(options, clock, rng_);
    const auto fine = engine->check();
    ASSERT_TRUE(fine) << fine.error().message();
    engine->open([this](ports::EngineReport report) { reports.add(std::move(report)); });
  }
  // Once all that it was told to do is done.
  void engineDown() {
    if (!engine) return;
    const AttemptId none(++lastAsked_);  // of which nothing is known: told at once to have ended
    engine->stop(none, model::StopReason::kCancelled, {});
    finished(none);
    std::error_code ignored;
    std::filesystem::remove_all(directory(none), ignored);
    engine.reset();
  }
  // As it is, whatever it was told to do.
  void engineDownAtOnce() { engine.reset(); }
  void engineAnew() {
    engineDown();
    engineUp();
  }

  [[nodiscard]] std::string directory(AttemptId id) const {
    return Layout{options.home, ""}.attempt(id);
  }

  // Its end as told; fails the test where there is none.
  ports::AttemptFinished finished(AttemptId id, std::size_t which = 0) {
    auto report = reports.wait<ports::AttemptFinished>(id, which);
    if (!report) ADD_FAILURE() << "attempt " << id.value << " was never told to have ended";
    return report.value_or(ports::AttemptFinished{});
  }
  bool running(AttemptId id, std::size_t which = 0) {
    return reports.wait<ports::AttemptRunning>(id, which).has_value();
  }

  // kill -9 of the attempt's supervisor.
  void killSupervisor(AttemptId id) const {
    const auto found = findClaim(directory(id));
    ASSERT_EQ(found.state, ClaimState::kAlive);
    ::kill(found.claim.process.pid, SIGKILL);
  }

  // What runs now for the attempts: all but the supervisors themselves, which go a moment after
  // they have told of the end.
  [[nodiscard]] std::vector<std::string> rankProcesses() const {
    std::vector<std::string> found;
    for (const auto& process : supervise::descendantsOf(::getpid())) {
      const auto proc = "/proc/" + std::to_string(process.pid);
      std::error_code gone;
      const auto program = std::filesystem::read_symlink(proc + "/exe", gone).string();
      if (gone || program == options.programs + "/bole-supervise") continue;
      found.push_back(std::to_string(process.pid) + " " + program);
    }
    return found;
  }

  // Waits until no child is left: whatever was started has ended by itself.
  void expectNoProcess() {
    engineDown();
    const auto until = std::chrono::steady_clock::now() + kPatience;
    for (;;) {
      const pid_t ended = ::waitpid(-1, nullptr, WNOHANG);
      if (ended < 0) return;  // there is none
      if (ended > 0) continue;
      if (std::chrono::steady_clock::now() > until) break;
      ::usleep(1000);
    }
    ADD_FAILURE() << "a process is left";
    killAll();
  }

  TempDir temp_;  // first: the others live in it
  LocalEngineOptions options;
  LeapingClock clock;
  CountingRng rng_{1};
  Reports reports;
  std::unique_ptr<LocalEngine> engine;

 private:
  std::uint64_t lastAsked_ = 1'000'000;

  static void killAll() {
    for (;;) {
      for (const auto& process : supervise::descendantsOf(::getpid())) {
        ::kill(process.pid, SIGKILL);
      }
      const pid_t ended = ::waitpid(-1, nullptr, WNOHANG);
      if (ended < 0) return;
      if (ended == 0) ::usleep(1000);
    }
  }
};

}  // namespace bole::engine::testing
