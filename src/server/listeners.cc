#include "server/listeners.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "server/http.h"

namespace bole::server {
namespace {

constexpr int kBacklog = 1024;
constexpr mode_t kForAll = 0666;

// A descriptor that is closed unless it is let go.
class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() {
    if (fd_ >= 0) ::close(fd_);
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

template <class Address>
const sockaddr* generic(const Address& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

Result<sockaddr_un> unixAddress(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return fail(makeError(ErrorCode::kInvalid, "the path of the socket is too long")
                    .at(path)
                    .foundValue(std::to_string(path.size()) + " bytes")
                    .expectedValue("at most " + std::to_string(sizeof(address.sun_path) - 1))
                    .withHint("choose a shorter home"));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

// The home, of its socket.
std::string directoryOf(const std::string& path) {
  return path.substr(0, std::max<std::size_t>(path.find_last_of('/'), 1));
}

// Nothing is there, or a socket that nobody listens on.
Result<void> mayReplace(const std::string& path, const sockaddr_un& address) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) return {};
  if (!S_ISSOCK(info.st_mode)) {
    return fail(makeError(ErrorCode::kConflict, "there is something that is no socket")
                    .at(path)
                    .withHint("move it away"));
  }
  const Fd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (probe.get() < 0) return fail(systemError(errno, "cannot make a socket", path));
  if (::connect(probe.get(), generic(address), sizeof(address)) == 0 || errno == EAGAIN) {
    return fail(makeError(ErrorCode::kConflict, "another server listens there already")
                    .at(path)
                    .withHint(commandFor("status", directoryOf(path)) + " asks it, " +
                              commandFor("down", directoryOf(path)) + " stops it"));
  }
  return {};
}

struct TcpAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
};

Result<TcpAddress> loopbackAddress(const std::string& host, std::uint16_t port) {
  TcpAddress address;
  const auto& text = host == "localhost" ? std::string("127.0.0.1") : host;
  sockaddr_in v4{};
  sockaddr_in6 v6{};
  bool loopback = false;
  if (::inet_pton(AF_INET, text.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    loopback = (ntohl(v4.sin_addr.s_addr) >> 24) == 127;
    std::memcpy(&address.storage, &v4, sizeof(v4));
    address.size = sizeof(v4);
  } else if (::inet_pton(AF_INET6, text.c_str(), &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    loopback = IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr);
    std::memcpy(&address.storage, &v6, sizeof(v6));
    address.size = sizeof(v6);
  } else {
    return fail(makeError(ErrorCode::kInvalid, "this is no address")
                    .foundValue("'" + host + "'")
                    .expectedValue("127.0.0.1 or ::1"));
  }
  if (loopback) return address;
  return fail(makeError(ErrorCode::kUnsupported, "only loopback addresses are served")
                  .foundValue(host)
                  .expectedValue("127.0.0.1 or ::1")
                  .withHint("from other machines use an ssh tunnel: ssh -L 8470:127.0.0.1:8470"));
}

std::uint16_t boundPort(int fd) {
  sockaddr_storage bound{};
  socklen_t size = sizeof(bound);
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size) != 0) return 0;
  if (bound.ss_family == AF_INET) return ntohs(reinterpret_cast<sockaddr_in&>(bound).sin_port);
  return ntohs(reinterpret_cast<sockaddr_in6&>(bound).sin6_port);
}

}  // namespace

Result<int> listenUnix(const std::string& path) {
  // Made under another name and renamed, so that it is never there with another mode or deaf.
  const auto made = path + ".new";
  BOLE_ASSIGN(const auto address, unixAddress(path));
  BOLE_ASSIGN(const auto madeAddress, unixAddress(made));
  BOLE_TRY(mayReplace(path, address));
  Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd.get() < 0) return fail(systemError(errno, "cannot make a socket", path));
  ::unlink(made.c_str());
  if (::bind(fd.get(), generic(madeAddress), sizeof(madeAddress)) != 0) {
    return fail(systemError(errno, "cannot make the socket", made));
  }
  if (::chmod(made.c_str(), kForAll) != 0 || ::listen(fd.get(), kBacklog) != 0 ||
      ::rename(made.c_str(), path.c_str()) != 0) {
    const int error = errno;
    ::unlink(made.c_str());
    return fail(systemError(error, "cannot open the socket", path));
  }
  return fd.release();
}

Result<TcpListener> listenTcp(const std::string& host, std::uint16_t port) {
  BOLE_ASSIGN(const auto address, loopbackAddress(host, port));
  const auto where = host + ":" + std::to_string(port);
  Fd fd(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd.get() < 0) return fail(systemError(errno, "cannot make a socket", where));
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));  // after a restart, at once
  if (::bind(fd.get(), generic(address.storage), address.size) != 0 ||
      ::listen(fd.get(), kBacklog) != 0) {
    if (errno == EADDRINUSE) {
      return fail(makeError(ErrorCode::kConflict, "another program listens there already")
                      .at(where)
                      .withHint("choose another port, or stop that program"));
    }
    return fail(systemError(errno, "cannot listen", where));
  }
  const auto bound = boundPort(fd.get());
  return TcpListener{fd.release(), bound};
}

}  // namespace bole::server
