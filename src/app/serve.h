// The server: opens the home, wires the rooms, serves until asked to end.
#pragma once

#include <functional>
#include <string>

#include "base/clock.h"
#include "cli/cli.h"

namespace bole::app {

// What became of a start, for whoever waits for it: one line each.
struct Ready {
  std::vector<std::string> lines;  // what a person should know: the GPUs, where it listens
};

struct ServeOptions {
  cli::UpOptions up;
  std::string programs;                     // the directory of bole-supervise and bole-init
  std::function<void(const Ready&)> ready;  // called once, when every door is open
  std::function<void(const std::string&)> log;
};

// Blocks until SIGTERM, SIGINT or POST /v1/shutdown. Running jobs go on without it, unless asked to
// be stopped. An Error means that it never served.
[[nodiscard]] Result<void> serve(const ServeOptions& options, Clock& clock, Rng& rng);

}  // namespace bole::app
