// Server-sent events, cut out of a stream of bytes
// (https://html.spec.whatwg.org/multipage/server-sent-events.html).
//
// Bytes come in any pieces; an event is handed on when it is complete. Comments (the server's
// heartbeat) are dropped.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace bole::cli {

struct ServerEvent {
  std::string name;  // "message" where none was given
  std::string data;
  std::string id;  // of the newest `id:` field, for Last-Event-ID
};

class EventParser {
 public:
  static constexpr std::size_t kMaxEvent = 16 * 1024 * 1024;

  // Calls `take` for each event that the bytes complete; `take` returns false to stop. Errors:
  // kInvalid, an event over kMaxEvent bytes.
  [[nodiscard]] Result<bool> feed(std::string_view bytes,
                                  const std::function<bool(const ServerEvent&)>& take);

 private:
  bool takeLine(std::string_view line, const std::function<bool(const ServerEvent&)>& take);

  std::string buffer_;
  ServerEvent event_;
  bool hasData_ = false;
};

}  // namespace bole::cli
