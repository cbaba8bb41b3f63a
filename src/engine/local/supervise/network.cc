#include "engine/local/supervise/network.h"

#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "engine/local/supervise/posix.h"

namespace bole::supervise {

Result<void> enterOwnNetwork() {
  if (::unshare(CLONE_NEWNET) != 0) {
    return fail(systemError(errno, "cannot make a network namespace", ""));
  }
  const Fd any(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  if (!any.isOpen() || ::ioctl(any.get(), SIOCSIFFLAGS, &request) != 0) {
    return fail(systemError(errno, "cannot bring up the loopback", "lo"));
  }
  return {};
}

}  // namespace bole::supervise
