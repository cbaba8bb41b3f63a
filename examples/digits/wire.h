// What the key-value store and its clients send each other: frames over TCP.
//
//   frame = tag (1 byte) | length of key (4 bytes, big endian) | key | length of value (4 bytes) |
//   value
//
// Sizes are bounded, so that a stranger who connects to the port costs nothing.
#pragma once

#include <string>

#include "result.h"

namespace digits {

// A file descriptor that is closed with its owner.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd();

  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] bool isOpen() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

enum class Tag : char {
  kHello = 'H',  // value: who is calling (see store_server.h)
  kSet = 'S',    // key and value
  kGet = 'G',    // key; answered when it has been set
  kBye = 'B',    // all keys that the rank needs were read
  kOk = 'o',     // answer; value: what was asked for
  kError = 'e',  // answer; value: text for people
};

struct Frame {
  Tag tag = Tag::kOk;
  std::string key;
  std::string value;
};

[[nodiscard]] std::string encode(const Frame& frame);

enum class Decoded { kFrame, kMore, kBad };
// Takes one frame off the front of `buffer`; kMore: not all of it is there yet; kBad: not a frame.
[[nodiscard]] Decoded decode(std::string& buffer, Frame& frame);

// Sends all or fails; waits at most as long as the socket's SO_SNDTIMEO.
[[nodiscard]] bool sendAll(int socket, const std::string& bytes);

}  // namespace digits
