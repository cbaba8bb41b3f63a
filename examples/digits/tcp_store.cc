#include "tcp_store.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <thread>

#include "store_server.h"

namespace digits {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;
using std::chrono::milliseconds;

int millisUntil(SteadyTime deadline) {
  const auto left = std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::max<std::int64_t>(0, left.count()));
}

// A client that tries again and again to reach a port of its own machine where no one listens can,
// by chance, be given that very port and so be connected to itself.
bool isConnectedToItself(int socket) {
  sockaddr_storage own{};
  sockaddr_storage peer{};
  socklen_t ownSize = sizeof(own);
  socklen_t peerSize = sizeof(peer);
  return ::getsockname(socket, reinterpret_cast<sockaddr*>(&own), &ownSize) == 0 &&
         ::getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &peerSize) == 0 &&
         ownSize == peerSize && std::memcmp(&own, &peer, ownSize) == 0;
}

// Gloo's keys are "rank_N" and "N".
std::string whoseKey(const std::string& key) {
  const auto digit = key.find_first_of("0123456789");
  return digit == std::string::npos ? "key " + key : "rank " + key.substr(digit);
}

// One try. On failure the socket is closed and `why` says what the matter was.
Fd tryConnect(const Place& place, SteadyTime deadline, std::string& why) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int code =
      ::getaddrinfo(place.masterAddr.c_str(), place.masterPort.c_str(), &hints, &found);
  if (code != 0) {
    why = ::gai_strerror(code);
    return {};
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  Fd fd(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  int error = 0;
  if (::connect(fd.get(), found->ai_addr, found->ai_addrlen) != 0) error = errno;
  if (error == EINPROGRESS) {
    pollfd polled{fd.get(), POLLOUT, 0};
    socklen_t size = sizeof(error);
    if (::poll(&polled, 1, millisUntil(deadline)) <= 0)
      error = ETIMEDOUT;
    else
      ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  }
  if (error == 0 && !isConnectedToItself(fd.get())) return fd;
  why = std::strerror(error == 0 ? ECONNREFUSED : error);
  return {};
}

// The next frame; nothing when the connection ends or the deadline passes (then `why` says which).
std::optional<Frame> receiveFrame(int socket, std::string& received, SteadyTime deadline,
                                  std::string& why) {
  Frame frame;
  for (;;) {
    const auto decoded = decode(received, frame);
    if (decoded == Decoded::kFrame) return frame;
    if (decoded == Decoded::kBad) {
      why = "the answer is not one of the digits example; does another program use this port?";
      return std::nullopt;
    }
    pollfd polled{socket, POLLIN, 0};
    const int ready = ::poll(&polled, 1, millisUntil(deadline));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) {
      why = "no answer in time";
      return std::nullopt;
    }
    char bytes[4096];
    const auto n = ::recv(socket, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (n <= 0) {
      why = "rank 0 has gone";
      return std::nullopt;
    }
    received.append(bytes, static_cast<std::size_t>(n));
  }
}

}  // namespace

Result<std::unique_ptr<TcpStore>> TcpStore::connect(const Place& place, std::uint64_t fingerprint,
                                                    std::chrono::seconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  std::string why;
  do {
    Fd fd = tryConnect(place, deadline, why);
    const std::string hello = encode({Tag::kHello, "", helloText(place, fingerprint)});
    if (fd.isOpen() && sendAll(fd.get(), hello)) {
      std::string received;
      const auto answer = receiveFrame(fd.get(), received, deadline, why);
      if (answer && answer->tag == Tag::kError) {
        return failed("rank 0 at " + place.masterAddr + ":" + place.masterPort +
                      " refuses this rank: " + answer->value);
      }
      if (answer) return std::unique_ptr<TcpStore>(new TcpStore(std::move(fd), timeout));
    }
    std::this_thread::sleep_for(milliseconds(20));
  } while (std::chrono::steady_clock::now() < deadline);
  return failed("rank 0 was not reached at " + place.masterAddr + ":" + place.masterPort +
                " within " + std::to_string(timeout.count()) + " s: " + why +
                "; is rank 0 running, with the same MASTER_ADDR and MASTER_PORT?");
}

std::string TcpStore::localAddress() const {
  sockaddr_storage own{};
  socklen_t size = sizeof(own);
  char host[NI_MAXHOST] = {};
  if (::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&own), &size) != 0 ||
      ::getnameinfo(reinterpret_cast<sockaddr*>(&own), size, host, sizeof(host), nullptr, 0,
                    NI_NUMERICHOST) != 0) {
    return {};
  }
  return host;
}

std::string TcpStore::ask(const Frame& frame, milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  if (!sendAll(socket_.get(), encode(frame))) throw std::runtime_error("rank 0 has gone");
  std::string why;
  auto answer = receiveFrame(socket_.get(), received_, deadline, why);
  if (!answer && frame.tag == Tag::kGet) why += "; missing: " + whoseKey(frame.key);
  if (!answer) throw std::runtime_error(why);
  if (answer->tag != Tag::kOk) throw std::runtime_error(answer->value);
  return std::move(answer->value);
}

void TcpStore::bye() {
  static_cast<void>(sendAll(socket_.get(), encode({Tag::kBye, "", ""})));
}

void TcpStore::set(const std::string& key, const std::vector<char>& data) {
  ask({Tag::kSet, key, std::string(data.begin(), data.end())}, timeout_);
}

std::vector<char> TcpStore::get(const std::string& key) {
  const std::string value = ask({Tag::kGet, key, ""}, timeout_);
  return {value.begin(), value.end()};
}

void TcpStore::wait(const std::vector<std::string>& keys) {
  wait(keys, timeout_);
}

void TcpStore::wait(const std::vector<std::string>& keys, const milliseconds& timeout) {
  for (const auto& key : keys) ask({Tag::kGet, key, ""}, timeout);
}

}  // namespace digits
