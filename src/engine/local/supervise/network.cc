#include "engine/local/supervise/network.h"

#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "engine/local/supervise/posix.h"

namespace bole::supervise {

namespace {

// A user's own may have a network namespace in a user namespace, where it stays who it is.
Result<void> enterNetworkAsUser(bool& entered) {
  const auto uid = std::to_string(::geteuid());
  const auto gid = std::to_string(::getegid());
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) {
    return fail(systemError(errno, "cannot make a network namespace", ""));
  }
  entered = true;
  static_cast<void>(writeControl("/proc/self/setgroups", "deny"));
  for (const auto& [file, map] : {std::pair("/proc/self/uid_map", uid + " " + uid + " 1"),
                                  std::pair("/proc/self/gid_map", gid + " " + gid + " 1")}) {
    if (const int error = writeControl(file, map))
      return fail(systemError(error, "cannot keep its user", file));
  }
  return {};
}

}  // namespace

Result<void> enterOwnNetwork(bool& entered) {
  if (::geteuid() != 0) {
    BOLE_TRY(enterNetworkAsUser(entered));
  } else if (::unshare(CLONE_NEWNET) != 0) {
    return fail(systemError(errno, "cannot make a network namespace", ""));
  }
  entered = true;
  const Fd any(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  if (!any.isOpen() || ::ioctl(any.get(), SIOCSIFFLAGS, &request) != 0) {
    return fail(systemError(errno, "cannot bring up the loopback", "lo"));
  }
  return {};
}

Result<std::string> mountOwnSysfs(const std::string& at) {
  if (::unshare(CLONE_NEWNS) != 0 ||
      ::mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0) {
    return fail(systemError(errno, "cannot make a mount namespace", ""));
  }
  BOLE_TRY(makeDirectory(at, 0755));
  constexpr auto kFlags = MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC;
  if (::mount("sysfs", at.c_str(), "sysfs", kFlags, nullptr) != 0) {
    return fail(systemError(errno, "cannot mount", "sysfs"));
  }
  return at;
}

}  // namespace bole::supervise
