#include "wire.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>

namespace digits {
namespace {

constexpr std::size_t kLongestKey = 256;
constexpr std::size_t kLongestValue = 64 * 1024;

void appendLength(std::string& bytes, std::size_t length) {
  const std::uint32_t big = htonl(static_cast<std::uint32_t>(length));
  bytes.append(reinterpret_cast<const char*>(&big), sizeof(big));
}

std::optional<std::size_t> lengthAt(const std::string& bytes, std::size_t offset) {
  std::uint32_t big = 0;
  if (bytes.size() < offset + sizeof(big)) return std::nullopt;
  std::memcpy(&big, bytes.data() + offset, sizeof(big));
  return ntohl(big);
}

}  // namespace

Fd::~Fd() {
  if (fd_ >= 0) ::close(fd_);
}

std::string encode(const Frame& frame) {
  std::string bytes(1, static_cast<char>(frame.tag));
  appendLength(bytes, frame.key.size());
  bytes += frame.key;
  appendLength(bytes, frame.value.size());
  return bytes + frame.value;
}

Decoded decode(std::string& buffer, Frame& frame) {
  if (buffer.empty()) return Decoded::kMore;
  if (std::string("HSGBoe").find(buffer[0]) == std::string::npos) return Decoded::kBad;
  const auto keySize = lengthAt(buffer, 1);
  if (!keySize) return Decoded::kMore;
  if (*keySize > kLongestKey) return Decoded::kBad;
  const std::size_t keyEnd = 1 + sizeof(std::uint32_t) + *keySize;
  const auto valueSize = lengthAt(buffer, keyEnd);
  if (!valueSize) return Decoded::kMore;
  if (*valueSize > kLongestValue) return Decoded::kBad;
  const std::size_t valueStart = keyEnd + sizeof(std::uint32_t);
  if (buffer.size() < valueStart + *valueSize) return Decoded::kMore;
  frame.tag = static_cast<Tag>(buffer[0]);
  frame.key = buffer.substr(1 + sizeof(std::uint32_t), *keySize);
  frame.value = buffer.substr(valueStart, *valueSize);
  buffer.erase(0, valueStart + *valueSize);
  return Decoded::kFrame;
}

bool sendAll(int socket, const std::string& bytes) {
  std::size_t sent = 0;
  while (sent < bytes.size()) {
    const auto n = ::send(socket, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    sent += static_cast<std::size_t>(n);
  }
  return true;
}

}  // namespace digits
