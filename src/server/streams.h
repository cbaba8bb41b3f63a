// What followers of a job and of the ledger are told, as server-sent events.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "server/http.h"
#include "server/log_source.h"
#include "server/server.h"

namespace bole::server {

struct LogFollow {
  JobId job;
  std::uint32_t attempt = 0;  // only this one; 0: from the newest on, over retries
  std::optional<std::uint32_t> rank;
  Timestamp since;
  std::optional<std::size_t> tail;
  std::string lastEventId;  // where a reader that comes back stood; empty: from the start
  Caller caller;
};

// `line`, `progress`, `state`, `lost`, and `end` when the job has ended for good and all its lines
// were told. The id of a line names the place behind it, for exactly the lines after it, also over
// a restart of the server. kInvalid: no such id.
[[nodiscard]] Result<std::shared_ptr<Stream>> followLogs(const ServerOptions& options,
                                                         LogFollow follow);

// `event` for each of the ledger from `from` on, of `kind` only where it is not empty. Its id is
// its sequence number.
[[nodiscard]] std::shared_ptr<Stream> followEvents(const ServerOptions& options, std::uint64_t from,
                                                   std::string kind);

}  // namespace bole::server
