#include "server/connection.h"

#include <openssl/crypto.h>
#include <pwd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <boost/asio/post.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>

#include "codec/codec.h"

namespace bole::server {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using ErrorCodeOfSystem = boost::system::error_code;

namespace {

constexpr std::size_t kPiece = 128 * 1024;                // of an upload, and of one write
constexpr std::size_t kLargeAnswer = 256 * 1024;          // from here on answers are counted
constexpr std::size_t kLargeAnswers = 64 * 1024 * 1024;   // that may wait for one user's readers
constexpr std::uint64_t kLargeBody = 64 * 1024;           // from here on bodies are counted
constexpr std::uint64_t kLargeBodies = 32 * 1024 * 1024;  // of one user's requests at once
constexpr std::size_t kDrain = 16 * 1024;                 // read at once of what nobody wants
constexpr Duration kLinger = seconds(5);
constexpr Duration kUserKept = seconds(60);
constexpr std::size_t kMaxKnownUsers = 4096;
constexpr Duration kHourOfUploads = hours(1);

// A name that no user can have, for a colon ends a name in /etc/passwd.
std::string namelessUser(uid_t uid) {
  return "uid:" + std::to_string(uid);
}

std::string lookUpUser(uid_t uid) {
  std::array<char, 16 * 1024> buffer{};
  passwd entry{};
  passwd* found = nullptr;
  if (getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found) != 0 || !found) {
    return namelessUser(uid);
  }
  return found->pw_name;
}

bool equalIgnoringCase(std::string_view a, std::string_view b) {
  return boost::beast::iequals(a, b);
}

std::string_view view(boost::beast::string_view text) {
  return {text.data(), text.size()};
}

// Takes as long whatever is wrong about it.
bool isToken(std::string_view header, const std::string& token) {
  constexpr std::string_view kScheme = "Bearer ";
  if (header.size() != kScheme.size() + token.size() ||
      !equalIgnoringCase(header.substr(0, kScheme.size()), kScheme)) {
    return false;
  }
  return CRYPTO_memcmp(header.data() + kScheme.size(), token.data(), token.size()) == 0;
}

// A page from elsewhere can make a browser call here under its own name (DNS rebinding): only
// loopback's names are taken.
bool isLoopbackHost(std::string_view host, const std::string& configured) {
  const auto bracket = host.rfind(']');
  const auto colon = host.rfind(':');
  if (colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket)) {
    host = host.substr(0, colon);
  }
  return equalIgnoringCase(host, "localhost") || host == "127.0.0.1" || host == "[::1]" ||
         host == configured || host == "[" + configured + "]";
}

Answer notAllowedIn(unsigned status, std::string what, std::string where, std::string found,
                    std::string hint) {
  return errorAnswer(
      makeError(status == 400 ? ErrorCode::kInvalid : ErrorCode::kPermission, std::move(what))
          .at(std::move(where))
          .foundValue(std::move(found))
          .withHint(std::move(hint)),
      status);
}

std::chrono::microseconds chrono(Duration duration) {
  return std::chrono::microseconds(duration.value);
}

std::string chunkHead(std::size_t size) {
  std::array<char, 20> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), size, 16).ptr;
  return std::string(digits.data(), end) + "\r\n";
}

}  // namespace

void Hub::closed(const std::shared_ptr<Connection>& connection, const Peer& peer) {
  connections.erase(connection);
  const auto count = connectionsOf.find(peer.key);
  if (count != connectionsOf.end() && --count->second == 0) connectionsOf.erase(count);
  if (connections.empty() && emptied) emptied();
}

struct Connection::Parts {
  explicit Parts(std::size_t headerBytes) : buffer(headerBytes + kPiece) {}

  boost::beast::flat_buffer
      buffer;  // what was read and not yet used: the next request may begin here
  std::optional<http::request_parser<http::empty_body>> head;
  std::optional<http::request_parser<http::string_body>> whole;
  std::optional<http::request_parser<http::buffer_body>> pieces;
  std::string piece;
};

Connection::Connection(Hub& hub, Socket socket, Peer peer)
    : hub_(hub),
      socket_(std::move(socket)),
      peer_(std::move(peer)),
      parts_(std::make_unique<Parts>(hub.options.limits.headerBytes)),
      timer_(*hub.io) {}

Connection::~Connection() = default;

void Connection::start() {
  awaitRequest(hub_.options.limits.headerTime);
}

void Connection::refuse(const Error& error, unsigned status) {
  keepAlive_ = false;
  send(errorAnswer(error, status));
}

void Connection::enter(Phase phase, Duration patience) {
  phase_ = phase;
  deadline_ = patience.value > 0 ? hub_.now() + patience : Duration(0);
}

template <class Task, class Use>
void Connection::onPool(Task task, Use use) {
  hub_.pool.post(user_.empty() ? peer_.key : user_,
                 [io = hub_.io, weak = weak_from_this(), task = std::move(task), use]() mutable {
                   // What the task holds (an upload, say) is let go before its outcome is told.
                   auto made = [&] { return Task(std::move(task))(); }();
                   asio::post(*io, [weak, use, made = std::move(made)]() mutable {
                     if (auto self = weak.lock()) use(*self, std::move(made));
                   });
                 });
}

// ---- Reading a request

void Connection::awaitRequest(Duration patience) {
  if (hub_.stopping) return close();
  request_ = Request();
  route_ = nullptr;
  headOnly_ = false;
  ++serial_;
  if (parts_->buffer.size() > 0) return readHead();
  parts_->buffer.shrink_to_fit();  // a quiet connection costs little
  enter(Phase::kIdle, patience);
  socket_.async_wait(Socket::wait_read, [self = shared_from_this()](ErrorCodeOfSystem error) {
    if (self->phase_ != Phase::kIdle) return;
    if (error) return self->close();
    self->readHead();
  });
}

void Connection::readHead() {
  enter(Phase::kHead, hub_.options.limits.headerTime);
  auto& head = parts_->head.emplace();
  head.header_limit(static_cast<std::uint32_t>(hub_.options.limits.headerBytes));
  head.body_limit(boost::none);  // judged by the route
  http::async_read_header(socket_, parts_->buffer, head,
                          [self = shared_from_this()](ErrorCodeOfSystem error, std::size_t) {
                            if (self->phase_ != Phase::kHead) return;
                            if (error) return self->readFailed(error);
                            self->headRead();
                          });
}

void Connection::readFailed(const ErrorCodeOfSystem& error) {
  const auto& limits = hub_.options.limits;
  keepAlive_ = false;
  if (timedOut_) {
    return send(
        errorAnswer(makeError(ErrorCode::kUnavailable, "the request took too long to arrive")
                        .expectedValue("its header within " + formatDuration(limits.headerTime) +
                                       " and its body within " + formatDuration(limits.bodyTime)),
                    408));
  }
  if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    return send(
        errorAnswer(makeError(ErrorCode::kInvalid, "the request's header is too large")
                        .expectedValue("at most " + std::to_string(limits.headerBytes) + " bytes"),
                    431));
  }
  if (error == http::error::body_limit) {
    if (upload_) return send(errorAnswer(hub_.uploads.tooLarge(limits.uploadBytes + 1), 413));
    return send(
        errorAnswer(makeError(ErrorCode::kInvalid, "the request's body is too large")
                        .expectedValue("at most " + std::to_string(limits.jsonBytes) + " bytes"),
                    413));
  }
  const bool gone = error == http::error::end_of_stream || error == http::error::partial_message;
  if (gone || error.category() != make_error_code(http::error::bad_method).category()) {
    return close();
  }
  send(errorAnswer(
      makeError(ErrorCode::kInvalid, "this is no HTTP/1.1 request").foundValue(error.message())));
}

bool Connection::hasBody() const {
  return !parts_->head->is_done();
}

void Connection::headRead() {
  const auto& head = parts_->head->get();
  keepAlive_ = head.keep_alive();
  http10_ = head.version() < 11;
  headOnly_ = head.method() == http::verb::head;
  if (auto refusal = refusalOfHead()) return refuseRequest(std::move(*refusal));
  const auto accept = head[http::field::accept];
  request_.wantsEvents = view(accept).find("text/event-stream") != std::string_view::npos;
  request_.lastEventId = std::string(view(head["Last-Event-ID"]));
  nameCaller();
}

std::optional<Answer> Connection::refusalOfHead() const {
  const auto& head = parts_->head->get();
  if (head.version() != 10 && head.version() != 11) {
    return notAllowedIn(400, "only HTTP/1.1 is spoken here", "", std::to_string(head.version()),
                        "");
  }
  if (head.count(http::field::origin) > 0) {
    return notAllowedIn(403, "web pages may not call this", "Origin",
                        std::string(view(head[http::field::origin]).substr(0, 100)),
                        "use the command line or a program of your own");
  }
  if (!peer_.tcp) return std::nullopt;
  const auto host = view(head[http::field::host]);
  if (head.count(http::field::host) != 1 || !isLoopbackHost(host, hub_.options.tcpHost)) {
    return notAllowedIn(403, "this host is not served here", "Host",
                        std::string(host.substr(0, 100)), "call it by localhost or 127.0.0.1");
  }
  if (isToken(view(head[http::field::authorization]), hub_.options.token)) return std::nullopt;
  auto answer = notAllowedIn(401, "the token is missing or wrong", "Authorization", "",
                             "send `Authorization: Bearer TOKEN`, or use the Unix socket");
  answer.headers.emplace_back("WWW-Authenticate", "Bearer realm=\"bole\"");
  return answer;
}

void Connection::nameCaller() {
  const auto& options = hub_.options;
  enter(Phase::kWorking, Duration(0));
  request_.caller.onSocket = !peer_.tcp;
  request_.caller.admin = peer_.tcp || peer_.uid == 0 || peer_.uid == options.ownerUid;
  const auto known = hub_.users.find(peer_.uid);
  if (peer_.tcp || peer_.uid == options.ownerUid) {
    request_.caller.user = options.ownerName;
  } else if (known != hub_.users.end() && hub_.now() < known->second.until) {
    request_.caller.user = known->second.name;
  } else {
    return onPool([uid = peer_.uid] { return lookUpUser(uid); },
                  [](Connection& self, std::string name) {
                    if (self.phase_ != Phase::kWorking) return;
                    auto& users = self.hub_.users;
                    if (users.size() >= kMaxKnownUsers) users.clear();
                    users[self.peer_.uid] = {name, self.hub_.now() + kUserKept};
                    self.request_.caller.user = std::move(name);
                    self.admit();
                  });
  }
  admit();
}

void Connection::admit() {
  user_ = request_.caller.user;
  const auto& head = parts_->head->get();
  auto choice = hub_.api.choose(view(head.method_string()), view(head.target()));
  if (auto* refusal = std::get_if<Answer>(&choice)) return refuseRequest(std::move(*refusal));
  auto& chosen = std::get<Api::Choice>(choice);
  route_ = chosen.route;
  request_.target = std::move(chosen.target);
  if (route_->body == BodyKind::kNone && hasBody()) {
    return refuseRequest(errorAnswer(
        makeError(ErrorCode::kInvalid, "this takes no body").at(std::string(route_->path))));
  }
  const auto limit = route_->body == BodyKind::kUpload ? hub_.options.limits.uploadBytes
                                                       : hub_.options.limits.jsonBytes;
  const auto length = parts_->head->content_length();
  if (length && *length > limit) {
    const auto error = route_->body == BodyKind::kUpload
                           ? hub_.uploads.tooLarge(*length)
                           : makeError(ErrorCode::kInvalid, "the request's body is too large")
                                 .foundValue(std::to_string(*length) + " bytes")
                                 .expectedValue("at most " + std::to_string(limit) + " bytes");
    return refuseRequest(errorAnswer(error, 413));
  }
  if (auto refusal = countBody(length.value_or(limit))) return refuseRequest(std::move(*refusal));
  Then next = [this] { route_->body == BodyKind::kUpload ? beginUpload() : readBody(); };
  const auto expect = view(head[http::field::expect]);
  if (expect.empty()) return next();
  if (!equalIgnoringCase(expect, "100-continue")) {
    return refuseRequest(errorAnswer(makeError(ErrorCode::kInvalid, "this cannot be expected here")
                                         .at("Expect")
                                         .foundValue(std::string(expect.substr(0, 100))),
                                     417));
  }
  enter(Phase::kWriting, hub_.options.limits.stallTime);
  write("HTTP/1.1 100 Continue\r\n\r\n", std::move(next));
}

// Bodies are kept until they are answered. Uploads are not: they go to the disk piece by piece.
std::optional<Answer> Connection::countBody(std::uint64_t size) {
  if (route_->body != BodyKind::kJson || !hasBody() || size < kLargeBody) return std::nullopt;
  auto& waiting = hub_.bodyBytesOf[user_];
  if (waiting + size > kLargeBodies) {
    return errorAnswer(
        makeError(ErrorCode::kUnavailable, "too many large requests of one user at once")
            .expectedValue("at most 32 MiB of them")
            .withHint("try again when some are answered"),
        429);
  }
  waiting += size;
  bodyBytes_ = size;
  return std::nullopt;
}

// What was counted of a request and its answer, once both are done with.
void Connection::uncount() {
  const auto giveBack = [this](auto& table, auto& bytes) {
    if (bytes == 0) return;
    const auto entry = table.find(user_);
    entry->second -= std::exchange(bytes, 0);
    if (entry->second == 0) table.erase(entry);
  };
  giveBack(hub_.bodyBytesOf, bodyBytes_);
  giveBack(hub_.answerBytesOf, answerBytes_);
  uncountUpload();
}

// What is left of the request is not read: the connection cannot be used for another one.
void Connection::refuseRequest(Answer answer) {
  if (hasBody()) keepAlive_ = false;
  send(std::move(answer));
}

void Connection::readBody() {
  if (!hasBody()) return work();
  enter(Phase::kBody, hub_.options.limits.bodyTime);
  auto& whole = parts_->whole.emplace(std::move(*parts_->head));
  whole.body_limit(hub_.options.limits.jsonBytes);
  http::async_read(socket_, parts_->buffer, whole,
                   [self = shared_from_this()](ErrorCodeOfSystem error, std::size_t) {
                     if (self->phase_ != Phase::kBody) return;
                     if (error) return self->readFailed(error);
                     self->request_.body = std::move(self->parts_->whole->get().body());
                     self->parts_->whole.reset();
                     self->work();
                   });
}

// ---- An upload

void Connection::beginUpload() {
  const auto& name = request_.target.path[2];
  if (!isSha256(name)) {
    return refuseRequest(errorAnswer(makeError(ErrorCode::kInvalid, "this is no SHA-256")
                                         .at("path")
                                         .foundValue("'" + name.substr(0, 100) + "'")
                                         .expectedValue("64 lower case hex digits")));
  }
  if (auto refusal = countUpload()) return refuseRequest(std::move(*refusal));
  enter(Phase::kWorking, Duration(0));
  onPool([&uploads = hub_.uploads, name] { return uploads.begin(name); },
         [](Connection& self, Result<std::shared_ptr<Upload>> begun) {
           if (self.phase_ != Phase::kWorking) return;
           if (!begun) return self.refuseRequest(errorAnswer(begun.error()));
           self.upload_ = std::move(*begun);
           auto& pieces = self.parts_->pieces.emplace(std::move(*self.parts_->head));
           pieces.body_limit(self.hub_.options.limits.uploadBytes);
           if (pieces.is_done()) return self.pieceRead(true);
           self.readPiece();
         });
}

void Connection::readPiece() {
  enter(Phase::kBody, hub_.options.limits.bodyTime);
  auto& parts = *parts_;
  parts.piece.resize(kPiece);
  auto& body = parts.pieces->get().body();
  body.data = parts.piece.data();
  body.size = parts.piece.size();
  body.more = true;
  http::async_read_some(socket_, parts.buffer, *parts.pieces,
                        [self = shared_from_this()](ErrorCodeOfSystem error, std::size_t) {
                          if (self->phase_ != Phase::kBody) return;
                          if (error == http::error::need_buffer) error = {};
                          if (error) {
                            self->readFailed(error);
                            return self->upload_.reset();
                          }
                          auto& read = *self->parts_;
                          read.piece.resize(kPiece - read.pieces->get().body().size);
                          self->pieceRead(read.pieces->is_done());
                        });
}

void Connection::pieceRead(bool last) {
  uploadRead_ += parts_->piece.size();
  if (auto refusal = refusalOfUpload()) {
    upload_.reset();
    keepAlive_ = false;
    return send(std::move(*refusal));
  }
  enter(Phase::kWorking, Duration(0));
  onPool([upload = upload_, piece = std::move(parts_->piece)] { return upload->write(piece); },
         [last](Connection& self, Result<void> written) {
           self.pieceWritten(std::move(written), last);
         });
}

// So that nobody takes all the places: others than the owner get half of them.
std::optional<Answer> Connection::countUpload() {
  const auto& limits = hub_.options.limits;
  const auto most = request_.caller.admin ? limits.uploadsAtOnce
                                          : std::max<std::size_t>(limits.uploadsAtOnce / 2, 1);
  auto& running = hub_.uploadsOf[user_];
  if (running >= most) {
    return errorAnswer(makeError(ErrorCode::kUnavailable, "too many uploads of one user at once")
                           .expectedValue("at most " + std::to_string(most))
                           .withHint("try again when one has ended"),
                       429);
  }
  ++running;
  uploading_ = true;
  uploadBegan_ = hub_.now();
  uploadRead_ = 0;
  return std::nullopt;
}

void Connection::uncountUpload() {
  if (!std::exchange(uploading_, false)) return;
  if (--hub_.uploadsOf[user_] == 0) hub_.uploadsOf.erase(user_);
}

// One that trickles holds a place that others need; one who brings too much, the disk.
std::optional<Answer> Connection::refusalOfUpload() {
  const auto& limits = hub_.options.limits;
  const auto took = hub_.now() - uploadBegan_;
  const auto seconds = static_cast<std::uint64_t>(took.value / 1'000'000);
  if (took > limits.bodyTime && uploadRead_ < seconds * limits.uploadBytesPerSecond) {
    return errorAnswer(
        makeError(ErrorCode::kUnavailable, "the upload is too slow")
            .foundValue(std::to_string(uploadRead_) + " bytes in " + formatDuration(took))
            .expectedValue("at least " + std::to_string(limits.uploadBytesPerSecond) +
                           " bytes a second"),
        408);
  }
  if (request_.caller.admin) return std::nullopt;
  auto& brought = hub_.broughtBy[user_];
  if (hub_.now() - brought.since > kHourOfUploads) brought = {hub_.now(), 0};
  brought.bytes += parts_->piece.size();
  if (brought.bytes <= limits.uploadsBytes / 4) return std::nullopt;
  return errorAnswer(
      makeError(ErrorCode::kUnavailable, "too much was uploaded by one user within an hour")
          .expectedValue("at most " + std::to_string(limits.uploadsBytes / 4) + " bytes")
          .withHint("mount large data instead of bringing it along"),
      429);
}

void Connection::pieceWritten(Result<void> written, bool last) {
  if (phase_ != Phase::kWorking) return;
  if (!written) {
    upload_.reset();
    if (!last) keepAlive_ = false;
    return send(errorAnswer(written.error(), written.error().code == ErrorCode::kRefused
                                                 ? 413
                                                 : httpStatus(written.error().code)));
  }
  if (!last) return readPiece();
  onPool([upload = std::exchange(upload_, nullptr)] { return upload->finish(); },
         [](Connection& self, Result<bool> finished) { self.uploaded(std::move(finished)); });
}

void Connection::uploaded(Result<bool> finished) {
  if (phase_ != Phase::kWorking) return;
  parts_->pieces.reset();
  if (!finished) return send(errorAnswer(finished.error()));
  send({*finished ? 200U : 201U, "", {}});
}

// ---- Answering

void Connection::work() {
  enter(Phase::kWorking, Duration(0));
  hub_.pool.post(user_, [&api = hub_.api, route = route_, respond = responder(),
                         request = std::make_shared<Request>(std::move(request_))] {
    api.handle(*route, *request, respond);
  });
}

Respond Connection::responder() {
  return [io = hub_.io, weak = weak_from_this(), serial = serial_](Reply reply) {
    asio::post(*io, [weak, serial, reply = std::move(reply)]() mutable {
      if (auto self = weak.lock()) self->replied(serial, std::move(reply));
    });
  };
}

void Connection::replied(std::uint64_t serial, Reply reply) {
  if (phase_ != Phase::kWorking || serial != serial_) return;
  whenAnswered_ = std::move(reply.whenAnswered);
  if (reply.stream && !headOnly_) return startStream(std::move(reply.stream));
  send(reply.make ? reply.make() : std::move(reply.answer));
}

// False where readers of this user's have too much left to take already.
bool Connection::countAnswer(std::size_t size) {
  if (size < kLargeAnswer || headOnly_) return true;
  auto& waiting = hub_.answerBytesOf[user_];
  if (waiting > 0 && waiting + size > kLargeAnswers) return false;
  waiting += size;
  answerBytes_ = size;
  return true;
}

std::string Connection::headOf(const Answer& answer) const {
  const auto reason = http::obsolete_reason(http::int_to_status(answer.status));
  std::string head = "HTTP/1.1 " + std::to_string(answer.status) + " " + std::string(view(reason)) +
                     "\r\nContent-Length: " + std::to_string(answer.body.size()) + "\r\n";
  if (!answer.body.empty()) head += "Content-Type: application/json\r\n";
  head += "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n";
  for (const auto& [name, value] : answer.headers) head += name + ": " + value + "\r\n";
  if (!keepAlive_)
    head += "Connection: close\r\n";
  else if (http10_)
    head += "Connection: keep-alive\r\n";
  return head + "\r\n";
}

void Connection::send(Answer answer) {
  if (hub_.stopping) keepAlive_ = false;
  if (!countAnswer(answer.body.size())) {
    answer = errorAnswer(
        makeError(ErrorCode::kUnavailable, "too many large answers wait to be read")
            .expectedValue("at most 64 MiB of them for one user")
            .withHint("read those that were asked for, or ask for less by `limit` or `tail`"),
        429);
  }
  auto bytes = headOf(answer);
  if (!headOnly_) bytes += answer.body;
  enter(Phase::kWriting, hub_.options.limits.stallTime);
  write(std::move(bytes), [this] { answered(); });
}

void Connection::answered() {
  uncount();
  if (auto done = std::exchange(whenAnswered_, nullptr)) done();
  if (!keepAlive_ || hub_.stopping) return linger();
  awaitRequest(hub_.options.limits.idleTime);
}

void Connection::write(std::string bytes, Then then) {
  out_ = std::move(bytes);
  written_ = 0;
  afterWrite_ = std::move(then);
  writeSome();
}

void Connection::writeSome() {
  deadline_ = hub_.now() + hub_.options.limits.stallTime;  // counted from the last piece taken
  const auto size = std::min(out_.size() - written_, kPiece);
  socket_.async_write_some(asio::buffer(out_.data() + written_, size),
                           [self = shared_from_this()](ErrorCodeOfSystem error, std::size_t took) {
                             if (self->phase_ == Phase::kClosed) return;
                             if (error) return self->close();
                             self->written_ += took;
                             if (self->written_ < self->out_.size()) return self->writeSome();
                             self->out_ = std::string();
                             std::exchange(self->afterWrite_, nullptr)();
                           });
}

// ---- A stream

void Connection::startStream(std::shared_ptr<Stream> stream) {
  auto& open = hub_.streamsOf[user_];
  if (open >= hub_.options.limits.streamsPerUser) {
    return send(errorAnswer(
        makeError(ErrorCode::kUnavailable, "too many streams of events at once")
            .foundValue(std::to_string(open))
            .expectedValue("at most " + std::to_string(hub_.options.limits.streamsPerUser) +
                           " for one user")
            .withHint("end some of them"),
        429));
  }
  ++open;
  ++hub_.streams;
  stream_ = std::move(stream);
  keepAlive_ = false;
  busy_ = true;
  toldAt_ = hub_.now();
  enter(Phase::kStreaming, Duration(0));
  watchReader();
  write(std::string("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                    "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
                    "Connection: close\r\n") +
            (http10_ ? "\r\n" : "Transfer-Encoding: chunked\r\n\r\n"),
        [this] {
          busy_ = false;
          pull();
        });
}

void Connection::lookAgain() {
  if (phase_ == Phase::kStreaming) pull();
}

void Connection::pull() {
  again_ = busy_;
  if (busy_) return;
  busy_ = true;
  timer_.cancel();
  deadline_ = Duration(0);
  onPool(
      [stream = stream_, most = hub_.options.limits.streamBuffer / 4]() -> Portion {
        try {
          return stream->pull(most);
        } catch (const std::exception&) {  // out of memory: the reader may come back
          Portion last;
          last.end = true;
          return last;
        }
      },
      [](Connection& self, const Portion& portion) { self.pulled(portion); });
}

void Connection::pulled(const Portion& portion) {
  if (phase_ != Phase::kStreaming) return;
  Then next = [this, more = portion.more, end = portion.end, look = portion.lookAgain] {
    deadline_ = Duration(0);
    if (end) return endStream();
    busy_ = false;
    if (more || again_) return pull();
    waitForMore(look);
  };
  if (portion.text.empty()) return next();
  sendPortion(portion.text, std::move(next));
}

void Connection::sendPortion(const std::string& text, Then then) {
  toldAt_ = hub_.now();
  if (http10_) return write(text, std::move(then));
  write(chunkHead(text.size()) + text + "\r\n", std::move(then));
}

void Connection::waitForMore(Duration look) {
  if (look.value <= 0) return;
  timer_.expires_after(chrono(look));
  timer_.async_wait([weak = weak_from_this()](ErrorCodeOfSystem error) {
    if (auto self = weak.lock(); self && !error) self->lookAgain();
  });
}

void Connection::endStream() {
  if (http10_) return linger();
  write("0\r\n\r\n", [this] { linger(); });
}

// A reader that goes away is noticed at once and not with the next event.
void Connection::watchReader() {
  socket_.async_wait(Socket::wait_read, [self = shared_from_this()](ErrorCodeOfSystem error) {
    if (self->phase_ != Phase::kStreaming) return;
    char byte = 0;
    const auto peeked = ::recv(self->socket_.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (error || peeked <= 0) self->close();
  });
}

// ---- The end

void Connection::linger() {
  ErrorCodeOfSystem ignored;
  socket_.shutdown(Socket::shutdown_send, ignored);
  if (hub_.stopping) return close();
  enter(Phase::kLingering, kLinger);
  parts_->piece.resize(kDrain);
  drainInput();
}

// A socket closed with input unread loses what was written to it.
void Connection::drainInput() {
  socket_.async_read_some(asio::buffer(parts_->piece),
                          [self = shared_from_this()](ErrorCodeOfSystem error, std::size_t) {
                            if (self->phase_ != Phase::kLingering) return;
                            if (error) return self->close();
                            self->drainInput();
                          });
}

void Connection::close() {
  if (phase_ == Phase::kClosed) return;
  phase_ = Phase::kClosed;
  const auto self = shared_from_this();
  ErrorCodeOfSystem ignored;
  socket_.close(ignored);
  timer_.cancel();
  if (stream_) {
    stream_.reset();
    --hub_.streams;
    if (--hub_.streamsOf[user_] == 0) hub_.streamsOf.erase(user_);
  }
  uncount();
  upload_.reset();
  afterWrite_ = nullptr;
  if (auto done = std::exchange(whenAnswered_, nullptr)) done();
  hub_.closed(self, peer_);
}

void Connection::sweep(Duration now) {
  if (phase_ == Phase::kStreaming && !busy_ && now - toldAt_ >= hub_.options.limits.heartbeat) {
    busy_ = true;
    return sendPortion(":\n\n", [this] {
      deadline_ = Duration(0);
      busy_ = false;
      if (again_) pull();
    });
  }
  if (deadline_.value == 0 || now < deadline_) return;
  if (phase_ == Phase::kHead || phase_ == Phase::kBody) {
    timedOut_ = true;
    ErrorCodeOfSystem ignored;
    socket_.cancel(ignored);
    return;
  }
  close();
}

void Connection::stopServing() {
  switch (phase_) {
    case Phase::kWorking:
    case Phase::kWriting:
      keepAlive_ = false;
      return;
    case Phase::kClosed:
      return;
    default:
      close();
  }
}

}  // namespace bole::server
