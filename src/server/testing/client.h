// A client of the API that speaks HTTP byte by byte, so that a test can also speak it badly.
//
// Blocks, with a limit of 30 s for each read. Throws std::runtime_error when the server breaks the
// protocol, closes early or is silent: the test then fails.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace bole::server::testing {

using Headers = std::vector<std::pair<std::string, std::string>>;

struct Response {
  unsigned status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;

  [[nodiscard]] nlohmann::json json() const;
  [[nodiscard]] std::string header(const std::string& name) const;  // empty: there is none
};

struct Event {
  std::string id;
  std::string name;
  std::string data;

  [[nodiscard]] nlohmann::json json() const;
};

class Client {
 public:
  // Called with every answer and event: method, target, and the answer or the event.
  struct Watcher {
    std::function<void(const std::string&, const std::string&, const Response&)> answer;
    std::function<void(const std::string&, const std::string&, const Event&)> event;
  };

  static Client overUnix(const std::string& path, Watcher watcher = {});
  // As `uid`: another process of his connects and hands the connection on. Only for root.
  static Client overUnixAs(uid_t uid, const std::string& path, Watcher watcher = {});
  static Client overTcp(std::uint16_t port, Watcher watcher = {});
  ~Client();
  Client(Client&& other) noexcept;
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Sent with every request from now on.
  void always(std::string name, std::string value);

  Response request(const std::string& method, const std::string& target, std::string_view body = {},
                   const Headers& headers = {});
  Response get(const std::string& target, const Headers& headers = {}) {
    return request("GET", target, {}, headers);
  }
  Response post(const std::string& target, std::string_view body = {},
                const Headers& headers = {}) {
    return request("POST", target, body, headers);
  }

  // A stream of server-sent events: asks, and reads the head of the answer, which is to be 200.
  void follow(const std::string& target, const Headers& headers = {});
  Event nextEvent();                         // comments are passed over
  Event nextEvent(const std::string& name);  // others are passed over
  std::string nextBytes();                   // of a stream, comments too: whatever comes next
  std::string nextLine() { return line(); }
  std::string everything();          // until the server closes
  [[nodiscard]] bool streamEnded();  // waits for the end of the stream; false: an event came

  void send(std::string_view bytes);
  [[nodiscard]] bool trySend(std::string_view bytes);  // false: the server took no more
  Response read(const std::string& method = "GET", const std::string& target = {});
  [[nodiscard]] bool closed();  // waits until the server has closed; false: bytes came
  void awaitHangup();           // until the server has closed; what it sent is left unread
  void finishSending();         // half-close
  [[nodiscard]] int fd() const { return fd_; }

 private:
  explicit Client(int fd, Watcher watcher) : fd_(fd), watcher_(std::move(watcher)) {}

  [[nodiscard]] std::string head(const std::string& method, const std::string& target,
                                 const Headers& headers) const;
  void fill();  // reads some more
  std::string line();
  std::string bytes(std::size_t count);
  Response readHead();
  [[nodiscard]] bool readChunk();  // into events_; false: that was the last

  int fd_;
  Watcher watcher_;
  Headers always_;
  std::string in_;
  std::string events_;  // of a stream, unchunked
  bool over_ = false;   // the last chunk was read
  std::string following_;
};

}  // namespace bole::server::testing
