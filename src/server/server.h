// The doors of Bole: HTTP and JSON under /v1 on a Unix socket and on loopback TCP (docs/api.md).
//
// One IO thread parses, checks and answers; what may block (logs, events, uploads, long listings)
// runs on a small pool. A reader that is slow costs a bounded buffer and nobody else's time. The
// room knows no thread of the controller's and no engine: all it needs comes in through
// ServerOptions, so that a test brings its own.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "controller/controller.h"
#include "model/views.h"
#include "server/log_source.h"

namespace bole::server {

// The controller as the doors see it. Called on the IO thread and on the pool; must not block. What
// a reply tells of stands in the snapshot by the time it is called, so that a client reads what it
// wrote.
class Commands {
 public:
  virtual ~Commands() = default;
  // False: not taken (the mailbox is full), and `reply` will never be called.
  [[nodiscard]] virtual bool submit(controller::SubmitJobs command) = 0;
  [[nodiscard]] virtual bool stop(controller::StopJob command) = 0;
  [[nodiscard]] virtual bool setPolicy(controller::SetPolicy command) = 0;
  [[nodiscard]] virtual bool setHealth(controller::SetHealth command) = 0;
  [[nodiscard]] virtual bool setLabels(controller::SetLabels command) = 0;
  [[nodiscard]] virtual std::shared_ptr<const controller::Snapshot> snapshot() const = 0;
};

// What the text of a spec came to.
struct ParsedSpec {
  std::vector<model::JobSpec> jobs;                // in the order written
  std::vector<std::vector<std::string>> warnings;  // of each job
  std::string project;                             // as the spec names it; empty: not named
  // Bare names in the spec whose values the request does not give. Where there are any, `jobs` is
  // not looked at and the request is answered with 400 and these names.
  std::vector<std::string> missingEnv;
};

// `user` is the caller; the server writes it into the jobs again, whatever the parser made of it.
using SpecParser =
    std::function<Result<ParsedSpec>(const model::SubmitRequest& request, const std::string& user)>;

// At most `limit` events with sequence >= from, in order. May block; from several threads at once.
using EventReader = std::function<Result<model::EventList>(std::uint64_t from, std::size_t limit)>;

struct Limits {
  std::size_t headerBytes = 16 * 1024;
  std::uint64_t jsonBytes = 2 * 1024 * 1024;
  std::uint64_t uploadBytes = 256ULL * 1024 * 1024;         // of one upload
  std::uint64_t uploadsBytes = 16ULL * 1024 * 1024 * 1024;  // of all that are kept
  std::size_t uploadsAtOnce = 4;   // half of them for one user who is not the owner
  std::size_t connections = 1024;  // but never over half of the descriptors there may be
  std::size_t connectionsPerUser = 256;
  std::size_t streamsPerUser = 64;        // server-sent events
  std::size_t streamBuffer = 256 * 1024;  // what may wait for one slow reader
  Duration headerTime = seconds(30);  // from the first byte (or the connection) to the header's end
  Duration bodyTime = seconds(60);    // a JSON body; an upload: between two pieces
  std::uint64_t uploadBytesPerSecond = 16 * 1024;  // an upload slower than this is ended
  Duration idleTime = seconds(60);                 // between two requests
  Duration stallTime = seconds(60);                // a reader that takes nothing is dropped
  Duration heartbeat = seconds(15);                // a comment on a quiet stream
  Duration sweep = seconds(1);                     // how finely the times above are kept
  Duration logPoll = milliseconds(100);            // how often a followed log is looked at
};

// What GET /v1/status says beside the state.
struct ServerFacts {
  std::string version;
  std::string home;
  std::int64_t pid = 0;
  Timestamp startedAt;
  std::vector<std::string> notes;
  std::function<std::vector<std::string>()> moreNotes;  // found out since; from any thread
  std::string sandbox;
};

struct ServerOptions {
  // The Unix socket: made anew with mode 0666, for the kernel tells who is at the other end. Others
  // can reach it only where they may enter its directory. Empty: no such door.
  std::string socketPath;
  std::string tcpHost = "127.0.0.1";     // a loopback address; anything else is refused
  std::optional<std::uint16_t> tcpPort;  // 0: any free one, see Server::tcpPort(); none: no TCP
  std::string token;                     // what TCP callers bear; needed where there is a tcpPort

  uid_t ownerUid = 0;            // who runs the server; he and root may do everything
  std::string ownerName;         // his name; that of every TCP caller
  std::string uploadsDirectory;  // made with mode 0700 where it is missing

  ServerFacts facts;
  Limits limits;

  Commands* commands = nullptr;  // these two outlive the server
  Clock* clock = nullptr;
  SpecParser parseSpec;
  LogSource* logs = nullptr;  // outlives the server; without one, logs are answered with 501
  EventReader readEvents;
  // In memory, from any thread: must not block. Any of these may be left empty.
  std::function<std::optional<model::ProgressView>(AttemptId)> progress;
  std::function<std::string(JobId)> workDirectory;
  std::function<std::string(AttemptId)> logDirectory;
  // POST /v1/shutdown was allowed and answered. On the IO thread: must not block, and must not call
  // stop() itself.
  std::function<void(bool stopJobs)> onShutdown;
};

class Server {
 public:
  // Opens the doors and serves. Errors: kInvalid and kUnsupported (an address that is not
  // loopback), kConflict (someone listens there already), the system's.
  [[nodiscard]] static Result<std::unique_ptr<Server>> start(ServerOptions options);

  ~Server();  // stop()
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // A new snapshot is out: streams look for what changed. From any thread; cheap; never blocks.
  void published();

  // Closes the doors, gives answers in the making up to `patience`, and returns with every thread
  // ended. Replies of the controller's that come later are dropped.
  void stop(Duration patience = seconds(2));

  [[nodiscard]] std::uint16_t tcpPort() const;  // 0: no TCP door

 private:
  struct Parts;
  explicit Server(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace bole::server
