// What a program starts with: every signal at its default, none blocked.
#pragma once

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace bole {

/** Safe between fork and exec. By the kernel's own call: signal(2) of the C library refuses the two
 * that it keeps for its threads, which would stay ignored where whoever started the server had them
 * so, and an ignored signal stays so in every program below. */
inline void defaultSignals() {
  constexpr unsigned long kMaskBytes = 8;  // the kernel's mask: one bit for each of 64 signals
  constexpr int kSignals = 64;
  const unsigned long byDefault[4] = {};  // handler, flags, restorer, mask
  for (int number = 1; number <= kSignals; ++number)
    ::syscall(SYS_rt_sigaction, number, byDefault, nullptr, kMaskBytes);
  const unsigned long none = 0;
  ::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, nullptr, kMaskBytes);
}

}  // namespace bole
