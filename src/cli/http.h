// HTTP as the command line needs it: one server, one request at a time, over a Unix socket or
// loopback TCP.
//
// Errors are the caller's to print: kUnavailable where no server answers, kPermission where the
// socket may not be used, and what the server itself answered (ErrorView) with its own code.
// Nothing here retries.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace bole::cli {

struct Address {
  std::string socketPath;  // where set, the rest is not used
  std::string url;         // "http://127.0.0.1:8470", without a path
  std::string token;
  std::string startCommand = "bole up";  // what starts a server there, for errors
};

struct Request {
  std::string method = "GET";
  std::string path;  // with its query, from "/v1/..." on
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
  int bodyFile = -1;  // a descriptor to send `bodySize` bytes of instead of `body`
  std::uint64_t bodySize = 0;
};

struct Response {
  long status = 0;  // 0: the transfer was ended by the interrupt before an answer came
  std::string body;
  bool interrupted = false;
};

class Client {
 public:
  // `silence`: a transfer in which nothing moves for longer ends as kUnavailable. The server sends
  // a heartbeat every 15 s on a quiet stream and answers everything else well within a minute.
  explicit Client(Address address, Duration silence = seconds(60));
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // From now on a transfer ends (interrupted) as soon as this descriptor is readable.
  void watch(int interruptDescriptor) { interrupt_ = interruptDescriptor; }

  // Any answer of the server's is a Response, whatever its status.
  [[nodiscard]] Result<Response> send(const Request& request);

  // The body of a 2xx answer goes to `take` as it comes (false: enough); anything else becomes an
  // error as below. A broken connection is kUnavailable.
  [[nodiscard]] Result<Response> stream(const Request& request,
                                        const std::function<bool(std::string_view)>& take);

  // send(), with everything but a 2xx answer turned into an Error.
  [[nodiscard]] Result<std::string> get(const std::string& path);
  [[nodiscard]] Result<std::string> post(const std::string& path, std::string body);
  [[nodiscard]] Result<std::string> put(const std::string& path, std::string body);

  [[nodiscard]] const Address& address() const { return address_; }

 private:
  struct Transfer;
  [[nodiscard]] Result<std::string> bodyOf(const Request& request);
  [[nodiscard]] Result<Response> perform(Transfer& transfer);
  [[nodiscard]] Error failure(Transfer& transfer, int curlCode) const;

  Address address_;
  void* multi_;
  void* easy_;
  int interrupt_ = -1;
  Duration silence_;
};

// How the error of a connection that broke in the middle begins: whether the request was heard is
// not known.
inline constexpr std::string_view kConnectionBroke = "the connection to the server broke";

// What an answer that is not 2xx says.
[[nodiscard]] Error errorOf(const Response& response, const std::string& path);

// Checks what people write into BOLE_SERVER: http://HOST[:PORT] with a loopback host.
[[nodiscard]] Result<std::string> checkedServerUrl(const std::string& text);

// Percent-encoded for a path segment or a query value.
[[nodiscard]] std::string urlEncoded(std::string_view text);

}  // namespace bole::cli
