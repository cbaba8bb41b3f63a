// One client's connection: reads requests, has them answered, writes answers and events. Only for
// connection.cc and server.cc.
//
// Everything here runs on the IO thread. At any time a connection waits for one thing (Phase) and
// knows until when; sweep() drops the ones that wait too long, so that there are no timers but one.
// What it keeps in memory is bounded: one request, one answer or one portion of a stream.
#pragma once

#include <atomic>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "server/api.h"
#include "server/pool.h"
#include "server/uploads.h"

namespace bole::server {

// Who is at the other end, as far as the kernel says.
struct Peer {
  bool tcp = false;
  uid_t uid = 0;    // Unix socket
  std::string key;  // whose limits count: "uid 1000" or "tcp"
};

class Connection;

// What all connections share.
struct Hub {
  Hub(ServerOptions& itsOptions, Api& itsApi, Uploads& itsUploads, Pool& itsPool,
      std::shared_ptr<boost::asio::io_context> itsIo)
      : options(itsOptions),
        api(itsApi),
        uploads(itsUploads),
        pool(itsPool),
        io(std::move(itsIo)) {}

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
  std::map<std::string, std::uint64_t> bodyBytesOf;  // by user: large requests not yet answered
  std::map<std::string, std::size_t> uploadsOf;      // by user: on their way
  struct Brought {
    Duration since;  // monotonic
    std::uint64_t bytes = 0;
  };
  std::map<std::string, Brought> broughtBy;  // by user: uploaded within an hour or so
  std::atomic<std::size_t> streams{0};       // of all users; read by the controller's thread
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
  void sweep(Duration now);    // drops what takes too long; keeps quiet streams alive
  void lookAgain();            // a stream: a snapshot is out, or the time to look has come
  void stopServing();          // no further requests; streams end
  void abandon() { close(); }  // whatever it waits for

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
  using Then = std::function<void()>;

  void enter(Phase phase, Duration patience);  // patience 0: for ever

  // Reading a request.
  void awaitRequest(Duration patience);
  void readHead();
  void headRead();
  void readFailed(const boost::system::error_code& error);
  [[nodiscard]] std::optional<Answer> refusalOfHead() const;  // what a door does not let in
  [[nodiscard]] bool hasBody() const;
  void nameCaller();
  void admit();
  [[nodiscard]] std::optional<Answer> countBody(std::uint64_t size);
  void readBody();
  void refuseRequest(Answer answer);

  // An upload.
  void beginUpload();
  [[nodiscard]] std::optional<Answer> countUpload();
  void uncountUpload();
  [[nodiscard]] std::optional<Answer> refusalOfUpload();
  void readPiece();
  void pieceRead(bool last);
  void pieceWritten(Result<void> written, bool last);
  void uploaded(Result<bool> finished);

  // Answering.
  void work();
  [[nodiscard]] Respond responder();
  void replied(std::uint64_t serial, Reply reply);
  void send(Answer answer);
  [[nodiscard]] std::string headOf(const Answer& answer) const;
  [[nodiscard]] bool countAnswer(std::size_t size);
  void uncount();
  void answered();
  void write(std::string bytes, Then then);
  void writeSome();

  // A stream.
  void startStream(std::shared_ptr<Stream> stream);
  void pull();
  void pulled(const Portion& portion);
  void sendPortion(const std::string& text, Then then);
  void waitForMore(Duration lookAgain);
  void endStream();
  void watchReader();

  void linger();
  void drainInput();
  void close();

  // Runs `task` on the pool and `then`, with what it returns, here; unless the connection is closed
  // meanwhile.
  template <class Task, class Use>
  void onPool(Task task, Use use);

  Hub& hub_;
  Socket socket_;
  const Peer peer_;
  std::unique_ptr<Parts> parts_;
  Phase phase_ = Phase::kIdle;
  Duration deadline_;  // monotonic; 0: none
  bool timedOut_ = false;

  const Route* route_ = nullptr;
  Request request_;
  std::string user_;          // who asks
  std::uint64_t serial_ = 0;  // of the request; a reply to an older one is dropped
  bool keepAlive_ = false;
  bool http10_ = false;
  bool headOnly_ = false;
  std::shared_ptr<Upload> upload_;
  bool uploading_ = false;        // counted in Hub::uploadsOf
  Duration uploadBegan_;          // monotonic
  std::uint64_t uploadRead_ = 0;  // bytes

  std::string out_;  // being written
  std::size_t written_ = 0;
  std::function<void()> afterWrite_;
  std::function<void()> whenAnswered_;
  std::size_t answerBytes_ = 0;  // counted in Hub::answerBytesOf
  std::uint64_t bodyBytes_ = 0;  // counted in Hub::bodyBytesOf

  std::shared_ptr<Stream> stream_;
  boost::asio::steady_timer timer_;  // of a stream: when to look again
  bool busy_ = false;                // a stream: pulling or writing
  bool again_ = false;               // a stream: something happened meanwhile
  Duration toldAt_;                  // a stream: monotonic, for the heartbeat
};

}  // namespace bole::server
