#include "server/server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <future>
#include <thread>

#include "server/connection.h"
#include "server/listeners.h"

namespace bole::server {

namespace asio = boost::asio;
using ErrorCodeOfSystem = boost::system::error_code;

namespace {

constexpr std::size_t kPoolThreads = 4;
constexpr int kAcceptsAtOnce = 64;
constexpr std::size_t kRefusedAtOnce = 64;  // that are still being told why
constexpr std::size_t kKeptForTheOwner =
    32;  // connections beyond the limit: stopping is always possible
constexpr Duration kAcceptPause = milliseconds(100);  // when there are no descriptors left
constexpr Duration kWakePause = milliseconds(20);     // between two looks of all streams
constexpr const char* kRefused = "refused";

std::chrono::microseconds chrono(Duration duration) {
  return std::chrono::microseconds(duration.value);
}

std::set<std::string> uploadsInUse(const ServerOptions& options) {
  std::set<std::string> used;
  const auto snapshot = options.commands->snapshot();
  snapshot->tables.jobs.forEach([&](JobId, const model::JobRecord& job) {
    const auto text = model::isTerminal(job.state) ? nullptr : snapshot->text(job);
    if (text && !text->upload.empty()) used.insert(text->upload);
    return true;
  });
  return used;
}

Result<void> checkOptions(const ServerOptions& options) {
  if (!options.commands || !options.clock) {
    return fail(ErrorCode::kInternal, "a server without a controller or a clock");
  }
  if (options.tcpPort && options.token.size() < 16) {
    return fail(makeError(ErrorCode::kInvalid, "TCP needs a token")
                    .expectedValue("at least 16 characters that nobody can guess"));
  }
  return {};
}

}  // namespace

struct Server::Parts {
  explicit Parts(ServerOptions given)
      : options(std::move(given)),
        uploads(
            options.uploadsDirectory,
            {options.limits.uploadBytes, options.limits.uploadsBytes, options.limits.uploadsAtOnce},
            [this] { return uploadsInUse(options); }, [this] { return options.clock->wall(); }),
        api(options, uploads),
        pool(kPoolThreads),
        io(std::make_shared<asio::io_context>(1)),
        work(io->get_executor()),
        hub(options, api, uploads, pool, io) {}

  // A door that is open.
  struct Door {
    Door(asio::io_context& io, int fd, bool isTcp) : socket(io, fd), pause(io), tcp(isTcp) {}
    asio::posix::stream_descriptor socket;
    asio::steady_timer pause;
    bool tcp;
  };

  Result<void> open();
  void leaveDescriptors();
  void drain();
  void run();
  void accept(Door& door);
  void acceptSome(Door& door);
  void accepted(int fd, bool tcp);
  void sweepLater();
  void wakeStreams();
  void beginStop(std::shared_ptr<std::promise<void>> emptied);
  void removeSocket();

  ServerOptions options;
  Uploads uploads;
  Api api;
  Pool pool;
  std::shared_ptr<asio::io_context> io;
  asio::executor_work_guard<asio::io_context::executor_type> work;
  Hub hub;
  asio::steady_timer sweepTimer{*io};
  bool sweeping = false;
  asio::steady_timer wakeTimer{*io};
  bool wakePlanned = false;
  Duration wokenAt;  // monotonic
  std::atomic<bool> wakePosted{false};
  std::vector<std::unique_ptr<Door>> doors;
  struct stat socketFile {};  // ours, so that another server's is never removed
  std::uint16_t tcpPort = 0;
  std::thread thread;
};

// The ledger and the engine need descriptors too.
void Server::Parts::leaveDescriptors() {
  rlimit most{};
  if (::getrlimit(RLIMIT_NOFILE, &most) != 0 || most.rlim_cur == RLIM_INFINITY) return;
  auto& connections = options.limits.connections;
  connections = std::min(connections, static_cast<std::size_t>(most.rlim_cur / 2));
}

Result<void> Server::Parts::open() {
  leaveDescriptors();
  BOLE_TRY(uploads.open());
  if (!options.socketPath.empty()) {
    BOLE_ASSIGN(const int fd, listenUnix(options.socketPath));
    doors.push_back(std::make_unique<Door>(*io, fd, false));
    ::lstat(options.socketPath.c_str(), &socketFile);
  }
  if (options.tcpPort) {
    auto listener = listenTcp(options.tcpHost, *options.tcpPort);
    if (!listener) {
      removeSocket();
      return fail(std::move(listener).error());
    }
    tcpPort = listener->port;
    doors.push_back(std::make_unique<Door>(*io, listener->fd, true));
  }
  for (auto& door : doors) accept(*door);
  thread = std::thread([this] { run(); });
  return {};
}

void Server::Parts::run() {
  while (true) {
    try {
      io->run();
      return;
    } catch (const std::exception&) {  // out of memory in one handler: the others go on
    }
  }
}

void Server::Parts::accept(Door& door) {
  door.socket.async_wait(asio::posix::stream_descriptor::wait_read,
                         [this, &door](ErrorCodeOfSystem error) {
                           if (!error && !hub.stopping) acceptSome(door);
                         });
}

void Server::Parts::acceptSome(Door& door) {
  for (int i = 0; i < kAcceptsAtOnce; ++i) {
    const int fd =
        ::accept4(door.socket.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) {
      accepted(fd, door.tcp);
      continue;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) break;
    if (errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM) continue;
    door.pause.expires_after(chrono(kAcceptPause));
    return door.pause.async_wait([this, &door](ErrorCodeOfSystem error) {
      if (!error && !hub.stopping) accept(door);
    });
  }
  accept(door);
}

void Server::Parts::accepted(int fd, bool tcp) {
  Peer peer;
  peer.tcp = tcp;
  peer.key = "tcp";
  int family = tcp && options.tcpHost.find(':') != std::string::npos ? AF_INET6 : AF_INET;
  if (tcp) {
    const int on = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  } else {
    family = AF_UNIX;
    ucred who{};
    socklen_t size = sizeof(who);
    if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0) {
      ::close(fd);
      return;
    }
    peer.uid = who.uid;
    peer.key = "uid " + std::to_string(who.uid);
  }
  const auto& limits = options.limits;
  const bool own = !tcp && (peer.uid == 0 || peer.uid == options.ownerUid);
  const auto refused = hub.connectionsOf.contains(kRefused) ? hub.connectionsOf[kRefused] : 0;
  const auto served = hub.connections.size() - refused;
  const bool full = served >= limits.connections + (own ? kKeptForTheOwner : 0);
  const auto ofUser = hub.connectionsOf.find(peer.key);
  const bool tooMany =
      ofUser != hub.connectionsOf.end() && ofUser->second >= limits.connectionsPerUser;
  if ((full || tooMany) && refused >= kRefusedAtOnce) {
    ::close(fd);
    return;
  }
  if (full || tooMany) peer.key = kRefused;
  Connection::Socket socket(*io, asio::generic::stream_protocol(family, tcp ? IPPROTO_TCP : 0), fd);
  ++hub.connectionsOf[peer.key];
  auto connection = std::make_shared<Connection>(hub, std::move(socket), std::move(peer));
  hub.connections.insert(connection);
  sweepLater();
  if (!full && !tooMany) return connection->start();
  connection->refuse(
      makeError(ErrorCode::kUnavailable,
                full ? "too many connections" : "too many connections of one user")
          .expectedValue("at most " +
                         std::to_string(full ? limits.connections : limits.connectionsPerUser))
          .withHint("close some, or use one for several requests"),
      full ? 503 : 429);
}

// As long as there are connections.
void Server::Parts::sweepLater() {
  if (sweeping) return;
  sweeping = true;
  sweepTimer.expires_after(chrono(options.limits.sweep));
  sweepTimer.async_wait([this](ErrorCodeOfSystem error) {
    sweeping = false;
    if (error) return;
    const auto now = hub.now();
    const auto connections = hub.connections;  // closing takes one out
    for (const auto& connection : connections) connection->sweep(now);
    if (!hub.connections.empty()) sweepLater();
  });
}

void Server::Parts::wakeStreams() {
  if (wakePlanned) return;
  const auto now = hub.now();
  if (now - wokenAt >= kWakePause) {
    wokenAt = now;
    for (const auto& connection : hub.connections) connection->lookAgain();
    return;
  }
  wakePlanned = true;
  wakeTimer.expires_after(chrono(kWakePause));
  wakeTimer.async_wait([this](ErrorCodeOfSystem error) {
    wakePlanned = false;
    if (error) return;
    wokenAt = hub.now();
    for (const auto& connection : hub.connections) connection->lookAgain();
  });
}

void Server::Parts::beginStop(std::shared_ptr<std::promise<void>> emptied) {
  hub.stopping = true;
  for (auto& door : doors) {
    ErrorCodeOfSystem ignored;
    door->socket.close(ignored);
    door->pause.cancel();
  }
  const auto connections = hub.connections;
  for (const auto& connection : connections) connection->stopServing();
  if (hub.connections.empty()) return emptied->set_value();
  hub.emptied = [emptied = std::move(emptied), done = false]() mutable {
    if (!std::exchange(done, true)) emptied->set_value();
  };
}

// With no thread left: nothing may stay in the context that refers to this server, for a reply of
// the controller's can keep the context alive.
void Server::Parts::drain() {
  hub.stopping = true;
  hub.emptied = nullptr;
  const auto connections = hub.connections;
  for (const auto& connection : connections) connection->abandon();
  sweepTimer.cancel();
  wakeTimer.cancel();
  io->restart();
  io->poll();
}

void Server::Parts::removeSocket() {
  struct stat now {};
  if (options.socketPath.empty() || ::lstat(options.socketPath.c_str(), &now) != 0) return;
  if (now.st_ino == socketFile.st_ino && now.st_dev == socketFile.st_dev) {
    ::unlink(options.socketPath.c_str());
  }
}

Server::Server(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

Server::~Server() {
  stop();
}

Result<std::unique_ptr<Server>> Server::start(ServerOptions options) {
  BOLE_TRY(checkOptions(options));
  auto parts = std::make_unique<Parts>(std::move(options));
  BOLE_TRY(parts->open());
  return std::unique_ptr<Server>(new Server(std::move(parts)));
}

void Server::published() {
  auto& parts = *parts_;
  if (parts.hub.streams.load() == 0 || parts.wakePosted.exchange(true)) return;
  asio::post(*parts.io, [&parts] {
    parts.wakePosted.store(false);
    parts.wakeStreams();
  });
}

void Server::stop(Duration patience) {
  auto& parts = *parts_;
  if (!parts.thread.joinable()) return;
  parts.removeSocket();
  const auto emptied = std::make_shared<std::promise<void>>();
  auto done = emptied->get_future();
  asio::post(*parts.io, [&parts, emptied] { parts.beginStop(emptied); });
  done.wait_for(chrono(patience));
  parts.io->stop();
  parts.thread.join();
  parts.pool.stop();
  parts.drain();
}

std::uint16_t Server::tcpPort() const {
  return parts_->tcpPort;
}

}  // namespace bole::server
