// Where the local engine keeps what, below the server's home. Names only: nothing is read or made
// here.
#pragma once

#include <string>

#include "base/units.h"

namespace bole::engine {

struct Layout {
  std::string home;     // absolute
  std::string uploads;  // absolute: HOME/uploads

  [[nodiscard]] std::string attempts() const { return home + "/attempts"; }
  // One attempt's files (docs/design/process-protocol.md).
  [[nodiscard]] std::string attempt(AttemptId id) const {
    return attempts() + "/" + std::to_string(id.value);
  }
  [[nodiscard]] std::string logs(AttemptId id) const { return attempt(id) + "/log"; }
  [[nodiscard]] std::string work() const { return home + "/work"; }
  // A job's own directory: what it brought along, where it starts, where its checkpoints lie. It
  // outlives attempts.
  [[nodiscard]] std::string work(JobId id) const { return work() + "/" + std::to_string(id.value); }
  [[nodiscard]] std::string upload(const std::string& sha256) const {
    return uploads + "/" + sha256 + ".tar";
  }
};

}  // namespace bole::engine
