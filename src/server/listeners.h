// The listening sockets, by the system's own calls: close-on-exec from the start, so that no rank
// inherits a door.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace bole::server {

// A listening Unix socket at `path`, mode 0666, non-blocking. A socket that nobody listens on is
// replaced. Errors: kInvalid (too long a path), kConflict (someone listens there, or it is no
// socket).
[[nodiscard]] Result<int> listenUnix(const std::string& path);

struct TcpListener {
  int fd = -1;
  std::uint16_t port = 0;
};
// On a loopback address, non-blocking. Errors: kInvalid (no address), kUnsupported (not loopback),
// kConflict (in use).
[[nodiscard]] Result<TcpListener> listenTcp(const std::string& host, std::uint16_t port);

}  // namespace bole::server
