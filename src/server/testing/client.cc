#include "server/testing/client.h"

#include <arpa/inet.h>
#include <grp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace bole::server::testing {
namespace {

constexpr int kPatience = 30;  // seconds

[[noreturn]] void broken(const std::string& what) {
  throw std::runtime_error("client: " + what);
}

int made(int fd) {
  if (fd < 0) broken(std::string("no socket: ") + std::strerror(errno));
  const timeval patience{kPatience, 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  return fd;
}

template <class Address>
void connectTo(int fd, const Address& address) {
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) return;
  const int error = errno;
  close(fd);
  broken(std::string("cannot connect: ") + std::strerror(error));
}

sockaddr_un unixAddress(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), std::min(path.size(), sizeof(address.sun_path) - 1));
  return address;
}

// A message of one byte that carries one descriptor.
struct Parcel {
  explicit Parcel() : piece{&byte, 1} {
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
  }
  char byte = 0;
  iovec piece;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
};

// In a child of a process with threads: nothing but system calls. Returns an errno.
int connectAs(uid_t uid, const sockaddr_un& address, int to) {
  if (setgroups(0, nullptr) != 0 || setgid(uid) != 0 || setuid(uid) != 0) return errno;
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  if (fd < 0) return errno;
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) return errno;
  Parcel parcel;
  auto* header = CMSG_FIRSTHDR(&parcel.message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &fd, sizeof(int));
  return sendmsg(to, &parcel.message, 0) == 1 ? 0 : errno;
}

int receiveDescriptor(int from) {
  Parcel parcel;
  if (recvmsg(from, &parcel.message, MSG_CMSG_CLOEXEC) != 1) return -1;
  const auto* header = CMSG_FIRSTHDR(&parcel.message);
  int fd = -1;
  if (header) std::memcpy(&fd, CMSG_DATA(header), sizeof(int));
  return fd;
}

std::string lowerCase(std::string text) {
  for (auto& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

}  // namespace

nlohmann::json Response::json() const {
  return nlohmann::json::parse(body);
}

std::string Response::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? std::string() : found->second;
}

nlohmann::json Event::json() const {
  return nlohmann::json::parse(data);
}

Client Client::overUnix(const std::string& path, Watcher watcher) {
  const int fd = made(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  connectTo(fd, unixAddress(path));
  return Client(fd, std::move(watcher));
}

Client Client::overUnixAs(uid_t uid, const std::string& path, Watcher watcher) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) broken("no socket pair");
  const auto address = unixAddress(path);
  const pid_t child = fork();
  if (child == 0) _exit(connectAs(uid, address, pair[1]));
  close(pair[1]);
  const int fd = receiveDescriptor(pair[0]);
  close(pair[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (fd < 0) broken("he could not connect: error " + std::to_string(WEXITSTATUS(status)));
  return Client(made(fd), std::move(watcher));
}

Client Client::overTcp(std::uint16_t port, Watcher watcher) {
  const int fd = made(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  connectTo(fd, address);
  return Client(fd, std::move(watcher));
}

Client::Client(Client&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      watcher_(std::move(other.watcher_)),
      always_(std::move(other.always_)),
      in_(std::move(other.in_)),
      events_(std::move(other.events_)),
      over_(other.over_),
      following_(std::move(other.following_)) {}

Client::~Client() {
  if (fd_ >= 0) close(fd_);
}

void Client::always(std::string name, std::string value) {
  always_.emplace_back(std::move(name), std::move(value));
}

std::string Client::head(const std::string& method, const std::string& target,
                         const Headers& headers) const {
  std::string text = method + " " + target + " HTTP/1.1\r\n";
  const auto given = [&](const std::string& name) {
    const auto is = [&](const auto& field) { return lowerCase(field.first) == name; };
    return std::any_of(headers.begin(), headers.end(), is) ||
           std::any_of(always_.begin(), always_.end(), is);
  };
  if (!given("host")) text += "Host: localhost\r\n";
  for (const auto* fields : {&always_, &headers}) {
    for (const auto& [name, value] : *fields) text += name + ": " + value + "\r\n";
  }
  return text;
}

Response Client::request(const std::string& method, const std::string& target,
                         std::string_view body, const Headers& headers) {
  auto text = head(method, target, headers);
  if (!body.empty()) text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  // What the server refuses by its head it does not read to the end.
  static_cast<void>(trySend(text + "\r\n" + std::string(body)));
  return read(method, target);
}

void Client::follow(const std::string& target, const Headers& headers) {
  auto fields = headers;
  fields.emplace_back("Accept", "text/event-stream");
  send(head("GET", target, fields) + "\r\n");
  const auto answer = readHead();
  if (answer.status != 200) {
    broken("no stream but " + std::to_string(answer.status) + ": " +
           bytes(std::stoul(answer.header("content-length"))));
  }
  if (answer.header("content-type") != "text/event-stream") broken("not a stream of events");
  following_ = target;
}

Event Client::nextEvent() {
  while (true) {
    const auto end = events_.find("\n\n");
    if (end == std::string::npos) {
      if (over_ || !readChunk()) broken("the stream ended");
      continue;
    }
    Event event;
    std::string_view text(events_.data(), end + 1);
    while (!text.empty()) {
      const auto newline = text.find('\n');
      const auto field = text.substr(0, newline);
      text.remove_prefix(newline + 1);
      if (field.starts_with("id: ")) event.id = field.substr(4);
      if (field.starts_with("event: ")) event.name = field.substr(7);
      if (field.starts_with("data: ")) event.data = field.substr(6);
    }
    events_.erase(0, end + 2);
    if (event.name.empty()) continue;  // a comment
    if (watcher_.event) watcher_.event("GET", following_, event);
    return event;
  }
}

Event Client::nextEvent(const std::string& name) {
  while (true) {
    auto event = nextEvent();
    if (event.name == name) return event;
  }
}

std::string Client::nextBytes() {
  events_.clear();
  if (!readChunk()) broken("the stream ended");
  return events_;
}

std::string Client::everything() {
  while (!closed()) continue;
  return in_;
}

bool Client::streamEnded() {
  while (!over_ && events_.find("event:") == std::string::npos) {
    if (!readChunk()) break;
  }
  return over_ && events_.find("event:") == std::string::npos;
}

bool Client::readChunk() {
  const auto size = std::stoul(line(), nullptr, 16);
  events_ += bytes(size);
  if (!line().empty()) broken("a chunk does not end where it should");
  over_ = size == 0;
  return !over_;
}

bool Client::trySend(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

void Client::send(std::string_view bytes) {
  if (!trySend(bytes)) broken("the server takes no more");
}

void Client::fill() {
  char some[64 * 1024];
  const auto got = recv(fd_, some, sizeof(some), 0);
  if (got == 0) broken("the server closed");
  if (got < 0) broken(std::string("nothing came: ") + std::strerror(errno));
  in_.append(some, static_cast<std::size_t>(got));
}

std::string Client::line() {
  std::size_t end = 0;
  while ((end = in_.find("\r\n")) == std::string::npos) fill();
  auto text = in_.substr(0, end);
  in_.erase(0, end + 2);
  return text;
}

std::string Client::bytes(std::size_t count) {
  while (in_.size() < count) fill();
  auto text = in_.substr(0, count);
  in_.erase(0, count);
  return text;
}

Response Client::readHead() {
  Response response;
  const auto status = line();
  if (!status.starts_with("HTTP/1.1 ") || status.size() < 12) broken("no status line: " + status);
  response.status = static_cast<unsigned>(std::stoul(status.substr(9, 3)));
  for (auto field = line(); !field.empty(); field = line()) {
    const auto colon = field.find(": ");
    if (colon == std::string::npos) broken("no header field: " + field);
    response.headers[lowerCase(field.substr(0, colon))] = field.substr(colon + 2);
  }
  return response;
}

Response Client::read(const std::string& method, const std::string& target) {
  auto response = readHead();
  if (response.status == 100) return response;
  const auto length = response.header("content-length");
  if (length.empty()) broken("an answer without a length");
  if (method != "HEAD") response.body = bytes(std::stoul(length));
  if (watcher_.answer && !target.empty()) watcher_.answer(method, target, response);
  return response;
}

bool Client::closed() {
  char byte = 0;
  const auto got = recv(fd_, &byte, 1, 0);
  if (got > 0) in_ += byte;
  if (got < 0 && errno != ECONNRESET) broken("the server does not close");
  return got <= 0;
}

void Client::awaitHangup() {
  pollfd waiting{fd_, POLLRDHUP, 0};
  if (poll(&waiting, 1, kPatience * 1000) != 1) broken("the server does not close");
}

void Client::finishSending() {
  shutdown(fd_, SHUT_WR);
}

}  // namespace bole::server::testing
