// Watching a job: its output as it comes, across restarts of the server, until it ends or Ctrl-C.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/context.h"

namespace bole::cli {

enum class Manner {
  kLogs,   // lines, and on a terminal a bar below them
  kWatch,  // with a bar on a terminal, what it waits for, and how it ended
};

struct FollowRequest {
  std::string job;  // number or name
  Manner manner = Manner::kWatch;
  std::optional<std::uint32_t> rank;
  std::optional<std::uint64_t> tail;
  std::optional<std::uint32_t> attempt;
  std::optional<Timestamp> since;
  bool timestamps = false;
  bool raw = false;  // on a terminal: the lines that the bar is made of too
};

// The query of GET /v1/jobs/{job}/logs: "" or "?rank=1&tail=10".
[[nodiscard]] std::string logsQuery(const FollowRequest& request);

// The job's own exit code once it has ended, or one of cli.h. With --json: kLogs prints the lines'
// JSON, one a line; kWatch sends the output to standard error and prints the job's JSON at the end.
[[nodiscard]] int follow(Context& context, const FollowRequest& request);

}  // namespace bole::cli
