// The files of an attempt's directory, as values: what the engine and the supervisor say to each
// other.
//
// docs/design/process-protocol.md tells who writes which file and when. Every write here is
// complete or absent: a temporary name, fsync, rename, fsync of the directory (progress.json alone
// is not flushed: it is only ever shown). A file that is not there is not an error: readers return
// an empty optional. A file that is there and cannot be understood is kCorrupt. Nothing here blocks
// but on the disk, starts a thread, or keeps state.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace bole::supervise {

// ---- launch.json: what to run
// -------------------------------------------------------------------------------------

enum class RuntimeKind {
  kPlain,    // no sandbox: the user's own processes on the user's own machine
  kProcess,  // bubblewrap
  kPodman,   // an OCI image
};

enum class NetworkKind {
  kHost,  // the machine's
  kGang,  // one network namespace with only loopback, shared by the ranks of the attempt (ignored
          // by kPlain)
};

struct Mount {
  std::string source;  // absolute, on the host; must exist
  std::string target;  // absolute, as the rank sees it
  bool readOnly = true;
  // The source is a directory of Bole's own and may lie below one of Launch::maskPaths. Without it
  // such a mount is refused, so that no job can mount what is hidden from it.
  bool fromBole = false;
};

struct PortMap {  // podman only
  std::string address = "127.0.0.1";
  std::uint16_t host = 0;
  std::uint16_t container = 0;
};

struct RankLaunch {
  std::uint32_t rank = 0;  // 0, 1, 2, ... without a gap, in this order
  std::string task;
  std::vector<std::string> argv;  // argv[0] is looked for in the PATH of `env`
  // All of the environment, "NAME=value". The supervisor adds HOME, USER, LOGNAME and PATH where
  // they are missing, and BOLE_PROGRESS_FILE and BOLE_ATTEMPT_TAG always.
  std::vector<std::string> env;
  std::string cwd;  // absolute; bound writable into the sandbox; its owner must be `uid` already
  std::uint32_t uid =
      0;  // ignored (and said so in Started::note) where the supervisor may not change it
  std::uint32_t gid = 0;
  std::vector<std::string> devices;  // nodes below /dev; nothing else of the host's /dev is seen
  Bytes memory;                      // 0: no limit
  MilliCpu cpu;                      // 0: no limit
  Bytes shm;                         // size of /dev/shm; 0: half of the machine's memory
  std::string image;                 // podman only
  std::vector<Mount> mounts;
  std::vector<PortMap> ports;
};

// When something happens to a rank, the attempt ends early: whatever still runs is stopped.
enum class RuleEvent {
  kExited,  // "exited": exited with code 0, or with exitCode where given
  kFailed,  // "failed": ended in any other way than exit code 0, or with exitCode where given
  kAny,     // "any": ended in whatever way, or with exitCode where given
  kTaskCompleted,  // "task-completed": every rank of the task has exited with code 0
};

struct EndRule {
  std::string task;  // empty: a rank of any task
  RuleEvent event = RuleEvent::kAny;
  std::optional<int> exitCode;
};

struct Launch {
  std::uint64_t attempt = 0;
  std::uint64_t job = 0;
  std::string name;
  RuntimeKind runtime = RuntimeKind::kProcess;
  NetworkKind network = NetworkKind::kGang;
  Duration grace = seconds(10);  // between SIGTERM and SIGKILL; 0: SIGKILL at once
  Duration timeLimit;            // from the start of all ranks, suspends counted; 0: none
  Bytes logBytes = kMiB * 64;    // a log file is rotated at this size
  std::uint32_t logFiles = 4;    // at most so many files for a rank: rank-0.log, rank-0.log.1, ...
  // Processes and threads of one rank, at most; less on a machine with few process numbers. Ignored
  // by kPlain without cgroups.
  std::uint32_t maxProcesses = 32768;
  bool stopOnFailure = true;  // the first rank that fails or is lost ends the attempt
  // Who submitted it: what it mounts he must be able to reach (where the supervisor is root). A
  // user's name, or "uid:NUMBER"; empty: not looked at.
  std::string mountsFor;
  std::vector<std::string> maskPaths;  // hidden from every rank (process runtime)
  std::string cgroup;  // below the cgroup v2 root, for example "bole-1a2b3c/attempt-7"; empty: none
  std::vector<RankLaunch> ranks;
  std::vector<EndRule> completeOn;  // End::cause is then kCompleted
  std::vector<EndRule> abortOn;     // End::cause is then kAborted, firstFailed the rank
};

[[nodiscard]] Result<void> writeLaunch(const std::string& dir, const Launch& launch);
[[nodiscard]] Result<std::optional<Launch>> readLaunch(const std::string& dir);

// ---- claim: who runs it
// -------------------------------------------------------------------------------------------

// A process for ever: a pid alone is reused, and start times only mean something within one boot.
struct ProcessId {
  std::int32_t pid = 0;
  std::uint64_t startTicks = 0;  // field 22 of /proc/PID/stat
};

struct Claim {
  ProcessId process;
  std::string bootId;
};

[[nodiscard]] Result<std::optional<Claim>> readClaim(const std::string& dir);
// True if that very process lives: same boot, same pid, same start time, not a zombie.
[[nodiscard]] bool claimIsAlive(const Claim& claim);
// Of this process. Errors only where /proc is not mounted.
[[nodiscard]] Result<Claim> claimOfSelf();

// ---- started.json
// -------------------------------------------------------------------------------------------------

enum class Containment {
  kCgroup,     // a cgroup v2 of the attempt's own: nothing can leave it
  kPidns,      // a PID namespace for each rank: it dies with its init
  kSubreaper,  // only the family tree; a job that forks as fast as it is killed can hold out
};

struct StartedRank {
  std::uint32_t rank = 0;
  ProcessId init;  // the rank's bole-init as the host sees it
};

struct Started {
  Timestamp at;
  Containment containment = Containment::kSubreaper;
  std::string cgroup;  // absolute path of the attempt's cgroup v2 directory, or empty
  std::vector<StartedRank> ranks;
  // What was asked and cannot be given here, for people: "the memory limit is not enforced: ...;
  // ...".
  std::string note;
};

// Takes the room for the end too: a disk that is full by then must not swallow the exit codes.
[[nodiscard]] Result<void> writeStarted(const std::string& dir, const Started& started);
[[nodiscard]] Result<std::optional<Started>> readStarted(const std::string& dir);

// ---- stop.json
// ----------------------------------------------------------------------------------------------------

// May be written again: a smaller grace shortens the one that runs, a larger one changes nothing;
// the first reason stays. It may be written before the supervisor is spawned: then no rank is
// started.
struct Stop {
  std::string reason;  // "cancelled", "preempted", ...: returned in End::stopReason
  Duration grace;
};

[[nodiscard]] Result<void> writeStop(const std::string& dir, const Stop& stop);
[[nodiscard]] Result<std::optional<Stop>> readStop(const std::string& dir);

// ---- ranks/N/status: how a rank's command ended, in the words of its init
// -----------------------------------------

struct RankStatus {
  // Exactly one of the two is meaningful.
  std::optional<int> waitStatus;  // raw, as from waitpid(2): exit 137 and SIGKILL stay apart
  int execErrno = 0;  // the command could not be started; `execStep` says at what: "exec", "chdir",
                      // "setuid", ...
  std::string execStep;
  Timestamp at;
};

// Empty: there is no record, or one that is torn (its sum is wrong). Both mean *unknown*.
[[nodiscard]] Result<std::optional<RankStatus>> readRankStatus(const std::string& dir,
                                                               std::uint32_t rank);

// ---- progress.json
// ------------------------------------------------------------------------------------------------

using ProgressValues =
    std::vector<std::pair<std::string, std::string>>;  // as the program wrote them, in its order

struct RankProgress {
  std::uint32_t rank = 0;
  Timestamp at;
  ProgressValues values;
};

struct CheckpointReport {
  std::uint32_t rank = 0;
  Timestamp at;
  std::string path;       // as written: relative to the rank's cwd, or absolute
  ProgressValues values;  // without the path
};

struct Progress {
  std::vector<RankProgress> ranks;            // only ranks that reported; by rank
  std::vector<CheckpointReport> checkpoints;  // the newest 64, oldest first
};

[[nodiscard]] Result<void> writeProgress(const std::string& dir, const Progress& progress);
[[nodiscard]] Result<std::optional<Progress>> readProgress(const std::string& dir);

// ---- end.json: no process of the attempt is left
// ------------------------------------------------------------------

enum class EndOutcome {
  kExited,        // the ranks ran
  kLaunchFailed,  // nothing, or not everything, could be started; End::note says why
};

enum class EndCause {
  kCompleted,   // every rank ended with exit code 0, or a completeOn rule matched
  kRankFailed,  // firstFailed ended otherwise
  kRankLost,    // the init of firstFailed died without a record
  kAborted,     // an abortOn rule matched firstFailed
  kStopped,     // stop.json, or the supervisor got SIGTERM (stopReason "supervisor terminated")
  kTimeLimit,
  kLaunchFailed,
};

struct RankEnd {
  std::uint32_t rank = 0;
  // The raw wait status; empty: not known (never started, or its init died without a record).
  std::optional<int> waitStatus;
  int execErrno = 0;  // not 0: the command could not be started, at `execStep`
  std::string execStep;
  Timestamp startedAt;     // 0: never
  Timestamp at;            // when it ended
  Bytes maxRss;            // the largest of its processes; 0: not known
  bool oomKilled = false;  // the kernel killed a process of it for the memory limit
};

struct End {
  EndOutcome outcome = EndOutcome::kExited;
  EndCause cause = EndCause::kCompleted;
  std::string stopReason;
  std::optional<std::uint32_t> firstFailed;
  Timestamp startedAt;  // 0: never
  Timestamp at;
  std::vector<RankEnd> ranks;
  std::uint32_t left = 0;  // always 0: the supervisor waits until nothing is left
  std::string note;
};

[[nodiscard]] Result<void> writeEnd(const std::string& dir, const End& end);
[[nodiscard]] Result<std::optional<End>> readEnd(const std::string& dir);

// ---- names, for messages and for other encodings
// ------------------------------------------------------------------

[[nodiscard]] std::string_view name(RuntimeKind kind);
[[nodiscard]] std::string_view name(NetworkKind kind);
[[nodiscard]] std::string_view name(Containment containment);
[[nodiscard]] std::string_view name(EndOutcome outcome);
[[nodiscard]] std::string_view name(EndCause cause);
[[nodiscard]] std::string_view name(RuleEvent event);

// ---- log/rank-N.log
// -----------------------------------------------------------------------------------------------

enum class LogStream {
  kOut,   // 'o', or 'O' where the line goes on in the next record of the same stream
  kErr,   // 'e' or 'E'
  kBole,  // 'b': said by Bole itself, for example how many lines were lost on a full disk
};

struct LogLine {
  Timestamp at;
  LogStream stream = LogStream::kOut;
  bool continues = false;  // no newline here: the next record of this stream is the same line
  std::string_view text;   // any bytes but '\n'; a view into what was parsed
};

// `line` is without its newline. Empty if it is no log line.
[[nodiscard]] std::optional<LogLine> parseLogLine(std::string_view line);

[[nodiscard]] std::string logPath(const std::string& dir,
                                  std::uint32_t rank);  // DIR/log/rank-N.log

// ---- what is left when the supervisor is gone
// ---------------------------------------------------------------------

// For an attempt whose claim is not alive and that has no end.json: kills whatever of it can be
// found (its cgroup, the inits named in started.json if they are those very processes, processes
// that carry its tag) and returns how many processes are still there. Does not wait: call it again
// until it returns 0. Removes the empty cgroup then.
[[nodiscard]] Result<std::uint32_t> killLeftovers(const std::string& dir, const Launch& launch);

}  // namespace bole::supervise
