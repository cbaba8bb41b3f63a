// The door of room cli: `bole` as people type it.
//
// runCli() parses the command line, talks to the server over HTTP and JSON alone, prints, and
// returns the exit code. What it needs of the process it runs in (variables, sinks, time, chance)
// comes in through Environment; what only the machine can do without a server (start one, check a
// ledger) comes in through LocalCommands. It throws nothing and keeps nothing.
//
// Exit codes (docs/cli.md): 0 done; 2 wrong usage or input; 3 not found; 4 refused, now or ever; 5
// not permitted; 6 no server, or it cannot; 70 a fault of Bole's own; 130 Ctrl-C; 141 nobody
// reads the output any more. `run`, `attach` and `logs -f` exit with the job's own code once it has
// ended.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/units.h"

namespace bole::cli {

inline constexpr int kExitOk = 0;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitNotFound = 3;
inline constexpr int kExitRefused = 4;
inline constexpr int kExitPermission = 5;
inline constexpr int kExitUnavailable = 6;
inline constexpr int kExitInternal = 70;
inline constexpr int kExitInterrupted = 130;
inline constexpr int kExitOutputClosed = 141;

[[nodiscard]] int exitCodeOf(ErrorCode code);

// "bole: WHAT\n", and "  HINT\n" where the error has one; harmless to a terminal.
[[nodiscard]] std::string errorText(const Error& error);

// In all of these `home` is where the server keeps its data: an absolute path, already worked out.

struct UpOptions {
  std::string home;
  std::optional<std::uint16_t> port;  // none: the server's own choice (8470)
  std::vector<std::string> emulate;   // as typed: "8xA100-SXM4-80GB"
  bool plain = false;                 // no sandbox for the process runtime
  bool foreground = false;            // false: in the background, back when it answers
  std::string tokenFile;              // empty: the server's own choice
  bool json = false;
};

struct DownWait {
  std::string home;
  std::int64_t pid = 0;  // of the server that was asked to end
  Duration patience;
  std::string again;  // what waits for it once more, for people
};

struct FsckOptions {
  std::string home;
  bool full = false;  // from the first record on
  bool json = false;
};

struct BackupOptions {
  std::string home;
  std::string destination;  // absolute
  bool withKey = false;     // the signing key too
  bool json = false;
};

struct RestoreOptions {
  std::string home;          // must hold nothing yet
  std::string source;        // absolute
  std::string startCommand;  // what starts a server there, for people
  bool json = false;
};

// What the scheduler would decide on a snapshot.
struct PlanInput {
  std::string snapshot;  // as GET /v1/snapshot gives it
  std::string snapshotName;
  std::string spec;  // jobs that are submitted first; empty: none
  std::string specName;
  std::string policy;  // that is set first; empty: the snapshot's own
  std::string policyName;
  std::string directory;  // absolute: where relative paths in the spec begin
  std::string user;
};
struct PlanRow {
  JobId job;
  std::string added;     // the name of a job of `spec`
  std::string decision;  // "starts", "is stopped", "a place is kept", "goes on waiting"
  std::string where;
  std::string why;
  std::string before;  // what is decided without `spec` and `policy`, where that is another
};
struct PlanOutcome {
  Timestamp at;
  std::vector<PlanRow> rows;  // by number
};

// Each prints for itself and returns an exit code from the list above. One that is left empty makes
// its command answer that this build lacks it.
struct LocalCommands {
  std::function<int(const UpOptions&)> up;
  std::function<int(const DownWait&)>
      waitDown;  // returns once the process is gone, or kExitUnavailable
  std::function<int(const FsckOptions&)> fsck;
  std::function<int(const BackupOptions&)> backup;
  std::function<int(const RestoreOptions&)> restore;
  std::function<Result<PlanOutcome>(const PlanInput&)> plan;  // prints nothing
};

// Writes all of the text at once; false: nobody reads it any more.
using Sink = std::function<bool(std::string_view)>;

struct Environment {
  std::string version;  // of this program
  std::map<std::string, std::string> variables;
  std::string homeDirectory;     // the user's
  std::string workingDirectory;  // absolute
  bool stdinIsTerminal = false;
  bool stdoutIsTerminal = false;
  bool stderrIsTerminal = false;
  std::function<int()> columns;  // of the terminal now; 0 or empty: unknown
  Sink out;
  Sink err;
  std::function<Result<std::string>()> readInput;  // all of standard input
  // From the call on, Ctrl-C makes the descriptor that it returns readable instead of ending the
  // program (a second Ctrl-C should end it: SA_RESETHAND). -1 or empty: no such thing here.
  std::function<int()> catchInterrupts;
  Clock* clock = nullptr;  // these two are needed
  Rng* rng = nullptr;
  LocalCommands local;
};

[[nodiscard]] int runCli(int argc, const char* const* argv, Environment environment);

}  // namespace bole::cli
