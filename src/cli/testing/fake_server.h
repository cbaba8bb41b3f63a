// A small HTTP server on a Unix socket, or on loopback TCP, that answers as the test says. One
// thread a connection; every answer closes it.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace bole::cli::testing {

struct FakeRequest {
  std::string method;
  std::string target;                          // with its query
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;

  [[nodiscard]] std::string line() const { return method + " " + target; }
};

struct FakeReply {
  int status = 200;
  std::string body{};
  std::string type = "application/json";
  // Where set: an answer without a length, which goes on until this returns. `write` is false when
  // the reader is gone.
  std::function<void(const std::function<bool(const std::string&)>& write)> stream{};
  bool drop = false;  // close without an answer
};

using FakeHandler = std::function<FakeReply(const FakeRequest&)>;

class FakeServer {
 public:
  FakeServer(std::string socketPath, FakeHandler handler)
      : path_(std::move(socketPath)), handler_(std::move(handler)) {
    listener_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path_.c_str(), sizeof address.sun_path - 1);
    ::unlink(path_.c_str());
    begin(reinterpret_cast<const sockaddr*>(&address), sizeof address);
  }

  explicit FakeServer(FakeHandler handler) : handler_(std::move(handler)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    begin(reinterpret_cast<const sockaddr*>(&address), sizeof address);
    socklen_t size = sizeof address;
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
  }

  ~FakeServer() {
    stopping_ = true;
    ::shutdown(listener_, SHUT_RDWR);
    acceptor_.join();
    {
      const std::lock_guard lock(mutex_);
      for (const int fd : open_) ::shutdown(fd, SHUT_RDWR);
    }
    for (auto& worker : workers_) worker.join();
    ::close(listener_);
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  FakeServer(const FakeServer&) = delete;
  FakeServer& operator=(const FakeServer&) = delete;

  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] std::vector<FakeRequest> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }
  [[nodiscard]] bool ready() const { return ready_; }

 private:
  void begin(const sockaddr* address, socklen_t size) {
    ready_ = ::bind(listener_, address, size) == 0 && ::listen(listener_, 16) == 0;
    acceptor_ = std::thread([this] { acceptAll(); });
  }

  void acceptAll() {
    while (!stopping_) {
      const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) return;
      const std::lock_guard lock(mutex_);
      open_.push_back(fd);
      workers_.emplace_back([this, fd] { serve(fd); });
    }
  }

  void serve(int fd) {
    FakeRequest request;
    if (readRequest(fd, request)) {
      {
        const std::lock_guard lock(mutex_);
        requests_.push_back(request);
      }
      answer(fd, request);
    }
    const std::lock_guard lock(mutex_);
    std::erase(open_, fd);
    ::close(fd);
  }

  static bool writeAll(int fd, const std::string& text) {
    std::size_t done = 0;
    while (done < text.size()) {
      const auto sent = ::send(fd, text.data() + done, text.size() - done, MSG_NOSIGNAL);
      if (sent <= 0) return false;
      done += static_cast<std::size_t>(sent);
    }
    return true;
  }

  void answer(int fd, const FakeRequest& request) {
    const auto reply = handler_(request);
    if (reply.drop) return;
    std::string head = "HTTP/1.1 " + std::to_string(reply.status) + " X\r\nConnection: close\r\n";
    if (reply.stream) {
      head += "Content-Type: text/event-stream\r\n\r\n";
      if (!writeAll(fd, head)) return;
      reply.stream([fd](const std::string& text) { return writeAll(fd, text); });
      return;
    }
    head += "Content-Type: " + reply.type +
            "\r\nContent-Length: " + std::to_string(reply.body.size()) + "\r\n\r\n";
    writeAll(fd, request.method == "HEAD" ? head : head + reply.body);
  }

  static bool readRequest(int fd, FakeRequest& request) {
    std::string text;
    char buffer[64 * 1024];
    std::size_t headEnd = std::string::npos;
    while ((headEnd = text.find("\r\n\r\n")) == std::string::npos) {
      const auto got = ::recv(fd, buffer, sizeof buffer, 0);
      if (got <= 0) return false;
      text.append(buffer, static_cast<std::size_t>(got));
    }
    readHead(text.substr(0, headEnd), request);
    const auto length = request.headers.find("content-length");
    const std::size_t size = length == request.headers.end() ? 0 : std::stoul(length->second);
    request.body = text.substr(headEnd + 4);
    while (request.body.size() < size) {
      const auto got = ::recv(fd, buffer, sizeof buffer, 0);
      if (got <= 0) return false;
      request.body.append(buffer, static_cast<std::size_t>(got));
    }
    return true;
  }

  static void readHead(const std::string& head, FakeRequest& request) {
    const auto first = head.substr(0, head.find("\r\n"));
    request.method = first.substr(0, first.find(' '));
    request.target = first.substr(request.method.size() + 1);
    request.target.resize(request.target.find(' '));
    for (std::size_t at = first.size(); at < head.size();) {
      at += 2;
      const auto end = std::min(head.find("\r\n", at), head.size());
      const auto line = head.substr(at, end - at);
      const auto colon = std::min(line.find(':'), line.size());
      auto name = line.substr(0, colon);
      for (auto& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      auto value = colon < line.size() ? line.substr(colon + 1) : std::string();
      while (value.starts_with(' ')) value.erase(0, 1);
      request.headers[name] = value;
      at = end;
    }
  }

  std::string path_;
  FakeHandler handler_;
  int listener_ = -1;
  std::uint16_t port_ = 0;
  bool ready_ = false;
  std::atomic<bool> stopping_ = false;
  mutable std::mutex mutex_;
  std::vector<FakeRequest> requests_;
  std::vector<int> open_;
  std::vector<std::thread> workers_;
  std::thread acceptor_;
};

}  // namespace bole::cli::testing
