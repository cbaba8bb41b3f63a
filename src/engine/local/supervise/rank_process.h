// One rank as the supervisor holds it: its init, its pipes, its log, and how it ended.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/local/supervise/attempt_files.h"
#include "engine/local/supervise/posix.h"
#include "engine/local/supervise/rank_log.h"

namespace bole::supervise {

// What to fork for a rank.
struct SpawnPlan {
  std::vector<std::string> argv;       // the program first; descriptors that it names are `extra`
  std::vector<Fd> extra;               // inherited from number kExtraFd on, in this order
  std::vector<std::string> entrances;  // cgroup.procs files to join first
  std::vector<std::string> config;     // keys and values of init_protocol.h, in turn
};
inline constexpr int kExtraFd = 6;

struct RankProcess {
  const RankLaunch* launch = nullptr;
  std::unique_ptr<RankLog> log;
  pid_t child = -1;  // what was forked: bwrap, or bole-init itself
  bool reaped = true;
  Fd socket;  // to init
  Fd out;
  Fd err;
  std::optional<ProcessId> init;  // as the host sees it
  bool ready = false;             // its init waits for the word to start the command
  bool started = false;           // the command was exec'ed
  bool ended = false;             // it is decided how the rank ended; `end` tells
  RankEnd end;

  [[nodiscard]] bool isGone() const {
    return reaped && !socket.isOpen() && !out.isOpen() && !err.isOpen();
  }
};

// Forks the rank's process and fills in `rank`. The status file is made with its block on the disk,
// so that an exit can be recorded when the disk is full.
[[nodiscard]] Result<void> spawnRank(const std::string& dir, SpawnPlan plan, RankProcess& rank);

// A packet of init's; `sender` as the kernel vouches for. Empty text: the life line ended.
struct InitMessage {
  std::string text;
  pid_t sender = 0;
};
[[nodiscard]] std::optional<InitMessage> receiveFrom(
    const Fd& socket);  // nothing: nothing there now
void sendTo(const Fd& socket, const std::string& text);
void signalInit(const Fd& socket, int number);

}  // namespace bole::supervise
