// One client's connection: reads requests, has them answered, writes answers and events. Only for connection.cc and server.cc.
//
// Everything here runs on the IO thread. At any time a connection waits for one thing (Phase) and knows until when; sweep()
// drops the ones that wait too long, so that there are no timers but one. What it keeps in memory is bounded: one request,
// one answer or one portion of a stream.
#pragma once

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "server/api.h"
#include "server/pool.h"
#include "server/uploads.h"

namespace bole::server {

// Who is at the other end, as far as the kernel says.
struct Peer {
  bool tcp = false;
  uid_t uid = 0;   // Unix socket
  std::string key;  // whose limits count: "uid 1000" or "tcp"
};

class Connection;

// What all connections share.
struct Hub {
  ServerOptions& options;
  Api& api;
  Uploads& uploads;
  Pool& pool;
  // Shared, for a reply of the controller's may outlive the server: it is then posted to nobody.
  std::shared_ptr<boost::asio::io_context> io;

  std::set<std::shared_ptr<Connection>> connections;
  std::map<std::string, std::size_t> connectionsOf;  // by Peer::key
  std::map<std::string, std::size_t> streamsOf;      // by user
  std::map<std::string, std::size_t> answerBytesOf;  // by user: large answers not yet taken
  std::set<Connection*> streams;                     // those that wait for something to tell
  bool stopping = false;
  std::function<void()> emptied;  // the last connection is gone

  struct KnownUser {
    std::string name;
    Duration until;  // monotonic
  };
  std::map<uid_t, KnownUser> users;

  [[nodiscard]] Duration now() const { return options.clock->monotonic(); }
  void closed(const std::shared_ptr<Connection>& connection, const Peer& peer);
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Socket = boost::asio::generic::stream_protocol::socket;

  Connection(Hub& hub, Socket socket, Peer peer);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void start();
  void refuse(const Error& error, unsigned status);  // says why and closes
  void sweep(Duration now);   // drops or warns off what takes too long; keeps quiet streams alive
  void lookAgain();           // a snapshot is out, or the time to look has come
  void stopServing();         // no further requests; streams end

 private:
  struct Parts;  // Beast's

  enum class Phase {
    kIdle,       // for the first byte of a request
    kHead,       // for the rest of its header
    kBody,       // for its body
    kWorking,    // for the pool or the controller
    kWriting,    // for the reader to take an answer
    kStreaming,  // a stream: for the reader, the pool, or something to tell
    kLingering,  // the last answer is written: for the reader to take it and go
    kClosed
  };

  void enter(Phase phase, Duration patience);  // patience 0: for ever
  void awaitRequest();
  void readHead();
  void headRead();
  void nameCaller(std::function<void()> then);
  [[nodiscard]] std::optional<Answer> refusalOfHead() const;
  void admit();
  void readBody();
  void bodyRead();
  void beginUpload();
  void readPiece();
  void pieceWritten(Result<void> written, bool last);
  void uploaded(Result<bool> finished);
  void work();
  void refuseRequest(const Answer& answer);
  void readFailed(const boost::system::error_code& error);

  [[nodiscard]] Respond responder();
  void replied(std::uint64_t serial, Reply reply);
  void send(Answer answer);
  void write(std::string bytes, std::function<void()> then);
  void writeSome();
  void answered();

  void startStream(std::shared_ptr<Stream> stream);
  void pull();
  void pulled(Portion portion);
  void sendPortion(std::string text, std::function<void()> then);
  void waitForMore(Duration lookAgain);
  void endStream();
  void watchReader();

  void linger();
  void drainInput();
  void close();

  Hub& hub_;
  Socket socket_;
  const Peer peer_;
  std::unique_ptr<Parts> parts_;
  Phase phase_ = Phase::kIdle;
  Duration deadline_;  // monotonic; 0: none
  bool timedOut_ = false;

  const Route* route_ = nullptr;
  Request request_;
  std::uint64_t serial_ = 0;  // of the request; a reply to an older one is dropped
  bool keepAlive_ = false;
  bool http10_ = false;
  bool headOnly_ = false;
  std::shared_ptr<Upload> upload_;

  std::string out_;  // being written
  std::size_t written_ = 0;
  std::function<void()> afterWrite_;
  std::function<void()> whenAnswered_;
  std::size_t answerBytes_ = 0;  // counted in Hub::answerBytesOf

  std::shared_ptr<Stream> stream_;
  boost::asio::steady_timer timer_;  // of a stream: when to look again
  bool busy_ = false;                // a stream: pulling or writing
  bool again_ = false;               // a stream: something happened meanwhile
  Duration toldAt_;                  // a stream: monotonic, for the heartbeat
};

}  // namespace bole::server
