// A request and its answer as plain values, so that only connection.cc and server.cc know Beast.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace bole::server {

// Who asks, as the door has established it.
struct Caller {
  std::string user;
  bool admin = false;     // root, or who runs the server: may do and see everything
  bool onSocket = false;  // over the Unix socket: the home's path means something where he is
};

// "`bole ps --home /srv/bole`", as a shell takes it.
[[nodiscard]] std::string commandFor(std::string_view command, const std::string& home);

using Fields = std::vector<std::pair<std::string, std::string>>;

// A request target, taken apart and decoded.
struct Target {
  std::vector<std::string> path;  // "/v1/jobs/7" is {"v1", "jobs", "7"}
  Fields query;                   // in the order written

  // The value of the first of this name, or null.
  [[nodiscard]] const std::string* find(std::string_view name) const;
};

// Origin form only ("/path?query"). Errors: kInvalid (bad percent-encoding, a control character, a
// query over 64 fields).
[[nodiscard]] Result<Target> parseTarget(std::string_view text);

struct Request {
  Target target;
  std::string body;
  std::string lastEventId;   // of a reader of events that comes back
  bool wantsEvents = false;  // Accept: text/event-stream
  Caller caller;
};

struct Answer {
  unsigned status = 200;
  std::string body;  // JSON, or nothing
  Fields headers;    // beside Content-Type, Content-Length and Connection
};

[[nodiscard]] unsigned httpStatus(ErrorCode code);
[[nodiscard]] Answer errorAnswer(const Error& error);
[[nodiscard]] Answer errorAnswer(const Error& error, unsigned status);

// The next piece of a stream of server-sent events.
struct Portion {
  std::string text;   // whole events, ready to be sent; may be empty
  bool more = false;  // there is more to be had at once
  bool end = false;   // this was the last
  Duration
      lookAgain;  // when nothing more is there: look again after this; 0: when a snapshot is out
};

// What a reader of events is told. It is asked for more only when he has taken what came before, so
// that a slow reader costs one portion. One thread at a time; may block on files.
class Stream {
 public:
  virtual ~Stream() = default;
  // At most about `maxBytes`.
  [[nodiscard]] virtual Portion pull(std::size_t maxBytes) = 0;
};

// One of the three, and what is to be done after.
struct Reply {
  Answer answer;
  std::function<Answer()> make{};    // where set: called on the IO thread for the answer; quick
  std::shared_ptr<Stream> stream{};  // where set: the answer is 200 and these events
  std::function<void()>
      whenAnswered{};  // on the IO thread, once the answer is written or the reader is gone
};

using Respond = std::function<void(Reply)>;  // once, from any thread

// Appends one server-sent event. `data` has no line ends (JSON has none).
void appendEvent(std::string& out, std::string_view name, std::string_view data,
                 std::string_view id = {});

}  // namespace bole::server
