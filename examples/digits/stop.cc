#include "stop.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>

namespace digits {
namespace {

constexpr auto kAllowance = std::chrono::milliseconds(500);

sigset_t stopSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

}  // namespace

StopWatch::StopWatch(std::function<void()> beforeExit) : beforeExit_(std::move(beforeExit)) {
  const sigset_t set = stopSignals();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signals_ = Fd(::signalfd(-1, &set, SFD_CLOEXEC));
  end_ = Fd(::eventfd(0, EFD_CLOEXEC));
  thread_ = std::thread([this] { watch(); });
}

StopWatch::~StopWatch() {
  ::eventfd_write(end_.get(), 1);
  thread_.join();
}

void StopWatch::allowForStop() {
  std::this_thread::sleep_for(kAllowance);
}

void StopWatch::watch() {
  pollfd polled[] = {{end_.get(), POLLIN, 0}, {signals_.get(), POLLIN, 0}};
  while (::poll(polled, 2, -1) < 0 && errno == EINTR) {
  }
  signalfd_siginfo info{};
  if (polled[1].revents == 0 || ::read(signals_.get(), &info, sizeof(info)) != sizeof(info)) return;
  beforeExit_();
  ::_exit(128 + static_cast<int>(info.ssi_signo));
}

}  // namespace digits
