#include "app/real_world.h"

#include <sys/random.h>
#include <time.h>

#include <cerrno>

#include "base/result.h"

namespace bole::app {
namespace {

std::int64_t read(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000 + now.tv_nsec / 1000;
}

}  // namespace

Timestamp RealClock::wall() {
  return Timestamp{read(CLOCK_REALTIME)};
}
Duration RealClock::monotonic() {
  return Duration(read(CLOCK_MONOTONIC));
}
Duration RealClock::boottime() {
  return Duration(read(CLOCK_BOOTTIME));
}

void RealRng::fill(void* bytes, std::size_t size) {
  auto* at = static_cast<char*>(bytes);
  while (size > 0) {
    const auto got = getrandom(at, size, 0);
    if (got < 0 && errno == EINTR) continue;
    BOLE_ASSERT(got > 0);
    at += got;
    size -= static_cast<std::size_t>(got);
  }
}

}  // namespace bole::app
