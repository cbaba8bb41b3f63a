// A load of HTTP requests over a Unix socket: `clients` connections, each with one request in
// flight.
//
//   http_load SOCKET CLIENTS REQUESTS BODY-FILE     POST /v1/jobs; "@N@" in the body becomes a
//   number of its own
//
// Prints one JSON line:
// {"requests":..,"errors":..,"seconds":..,"per_second":..,"p50_us":..,"p99_us":..}
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

struct Connection {
  int socket = -1;
  std::string in;
  Clock::time_point sent;
};

int connectTo(const char* path) {
  const int file = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path, sizeof address.sun_path - 1);
  if (connect(file, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    std::perror(path);
    std::exit(1);
  }
  return file;
}

// The length of the whole answer at the front of `text`, 0 while it is not complete.
std::size_t answerLength(const std::string& text) {
  const auto end = text.find("\r\n\r\n");
  if (end == std::string::npos) return 0;
  auto at = text.find("Content-Length: ");
  if (at == std::string::npos) at = text.find("content-length: ");
  const std::size_t body = at < end ? std::strtoull(text.c_str() + at + 16, nullptr, 10) : 0;
  return text.size() >= end + 4 + body ? end + 4 + body : 0;
}

class Load {
 public:
  Load(const char* path, std::size_t clients, std::uint64_t requests, std::string body)
      : requests_(requests),
        body_(std::move(body)),
        connections_(clients),
        epoll_(epoll_create1(0)) {
    for (std::size_t i = 0; i < clients; ++i) {
      connections_[i].socket = connectTo(path);
      epoll_event event{};
      event.events = EPOLLIN;
      event.data.u64 = i;
      epoll_ctl(epoll_, EPOLL_CTL_ADD, connections_[i].socket, &event);
    }
  }

  void run() {
    const auto begin = Clock::now();
    for (auto& connection : connections_) send(connection);
    epoll_event events[64];
    while (done_ < requests_) {
      const int count = epoll_wait(epoll_, events, 64, 10'000);
      if (count <= 0) break;
      for (int i = 0; i < count; ++i) receive(connections_[events[i].data.u64]);
    }
    report(std::chrono::duration<double>(Clock::now() - begin).count());
  }

 private:
  void send(Connection& connection) {
    if (sent_ >= requests_) return;
    ++sent_;
    auto body = body_;
    if (const auto at = body.find("@N@"); at != std::string::npos) {
      body.replace(at, 3, std::to_string(sent_));
    }
    const auto text = fmt::format(
        "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        "Content-Length: {}\r\n\r\n{}",
        body.size(), body);
    connection.sent = Clock::now();
    if (write(connection.socket, text.data(), text.size()) < 0) std::perror("write");
  }

  void receive(Connection& connection) {
    char buffer[65536];
    const auto size = read(connection.socket, buffer, sizeof buffer);
    if (size <= 0) {
      std::cerr << "the server closed a connection\n";
      std::exit(1);
    }
    connection.in.append(buffer, static_cast<std::size_t>(size));
    while (const auto length = answerLength(connection.in)) {
      if (connection.in.compare(9, 1, "2") != 0) {
        if (errors_++ == 0) std::cerr << connection.in.substr(0, length) << "\n";
      }
      connection.in.erase(0, length);
      ++done_;
      micros_.push_back(
          std::chrono::duration<double, std::micro>(Clock::now() - connection.sent).count());
      send(connection);
    }
  }

  void report(double seconds) {
    std::sort(micros_.begin(), micros_.end());
    const auto at = [&](double part) {
      return micros_.empty() ? 0.0
                             : micros_[static_cast<std::size_t>(
                                   part * static_cast<double>(micros_.size() - 1))];
    };
    fmt::print(
        "{{\"requests\":{},\"errors\":{},\"seconds\":{:.3f},\"per_second\":{:.0f},\"p50_us\":{:.0f}"
        ",\"p99_us\":{:.0f}}}\n",
        done_, errors_, seconds, static_cast<double>(done_) / seconds, at(0.5), at(0.99));
  }

  std::uint64_t requests_;
  std::string body_;
  std::vector<Connection> connections_;
  int epoll_;
  std::uint64_t sent_ = 0;
  std::uint64_t done_ = 0;
  std::uint64_t errors_ = 0;
  std::vector<double> micros_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::cerr << "usage: http_load SOCKET CLIENTS REQUESTS BODY-FILE\n";
    return 2;
  }
  std::ifstream file(argv[4]);
  std::stringstream body;
  body << file.rdbuf();
  Load(argv[1], std::strtoul(argv[2], nullptr, 10), std::strtoull(argv[3], nullptr, 10), body.str())
      .run();
}
