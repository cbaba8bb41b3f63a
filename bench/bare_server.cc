// The least that a JSON server on Beast can do: parses the body, answers with a number, keeps
// nothing. An upper bound.
//
//   bare_server SOCKET
#include <boost/asio.hpp>
#include <boost/beast.hpp>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using Socket = asio::local::stream_protocol::socket;

class Session : public std::enable_shared_from_this<Session> {
 public:
  explicit Session(Socket socket) : socket_(std::move(socket)) {}

  void read() {
    request_ = {};
    http::async_read(socket_, buffer_, request_,
                     [self = shared_from_this()](beast::error_code error, std::size_t) {
                       if (!error) self->answer();
                     });
  }

 private:
  void answer() {
    static std::uint64_t number = 0;
    const auto body = nlohmann::json::parse(request_.body(), nullptr, false);
    response_ = {body.is_discarded() ? http::status::bad_request : http::status::created, 11};
    response_.set(http::field::content_type, "application/json");
    response_.body() = nlohmann::json{{"jobs", {{{"id", ++number}, {"name", "bench"}}}}}.dump();
    response_.keep_alive(true);
    response_.prepare_payload();
    http::async_write(socket_, response_,
                      [self = shared_from_this()](beast::error_code error, std::size_t) {
                        if (!error) self->read();
                      });
  }

  Socket socket_;
  beast::flat_buffer buffer_;
  http::request<http::string_body> request_;
  http::response<http::string_body> response_;
};

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  asio::io_context context(1);
  asio::local::stream_protocol::acceptor acceptor(context,
                                                  asio::local::stream_protocol::endpoint(argv[1]));
  std::function<void()> accept = [&] {
    acceptor.async_accept([&](beast::error_code error, Socket socket) {
      if (!error) std::make_shared<Session>(std::move(socket))->read();
      accept();
    });
  };
  accept();
  context.run();
}
