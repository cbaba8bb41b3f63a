// Jobs as plain data, in two halves.
//
// *Shape* is what decisions read: counts, sizes, limits, rules. It stands in the event itself.
// *Text* is what only people and processes read: names, commands, environments, paths. It lies in
// the ledger's side table, can be erased there, and nothing is ever decided by it. tasks[i] of both
// halves describe the same task.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/units.h"

namespace bole::model {

enum class JobKind : std::uint8_t { kJob, kInstance, kService };

// Where a job's ranks run.
enum class Runtime : std::uint8_t {
  kProcess,  // under bubblewrap on the host's own system
  kPlain,    // as the server's own user, without a sandbox: for one user's own machine
  kPodman,   // in a container, from an image
};

enum class Network : std::uint8_t {
  kGang,  // the ranks of an attempt on one machine share a network namespace of their own
  kHost,
};

// GPUs for each replica. Grammar: "2", "A100:2", "A100:80GB:2", "24GB..", "H100,A100:8", "0.5",
// "0.5:10GB", "A100:10GB/".
struct GpuRequest {
  std::uint32_t count = 0;  // 0: none are seen
  // Of each, in thousandths: 1000 without shareMemory is a whole GPU; 0 only with shareMemory, and
  // then the part of the GPU that this memory is.
  MilliGpu share = kWholeGpu;
  std::optional<Bytes> shareMemory;  // of each GPU's memory; absent: the share's part of it
  std::vector<std::string>
      models;  // any of these, matched by whole words of the product name; empty: any
  std::optional<Bytes> memoryMin;  // of each GPU
  std::optional<Bytes> memoryMax;
  std::uint32_t computeMin = 0;  // compute capability in tenths: 80 is 8.0; 0: any
  bool operator==(const GpuRequest&) const = default;

  [[nodiscard]] bool isWhole() const { return share == kWholeGpu && !shareMemory; }
};

struct TaskShape {
  std::uint32_t replicas = 1;      // 1 to 65,536
  std::uint32_t minAvailable = 1;  // of these replicas, at most `replicas`
  GpuRequest gpus;                 // for each replica
  MilliCpu cpus{1000};             // for each replica; 0: no share is set aside
  Bytes memory;                    // for each replica; 0: no limit
  Bytes shm;  // of /dev/shm; 0: half of the machine's memory, as memory is used
  // The node has all of these labels. Words of an installation, not of a person.
  std::vector<std::pair<std::string, std::string>> nodeLabels;
  bool operator==(const TaskShape&) const = default;
};

enum class RestartKind : std::uint8_t { kNever, kOnFailure };

struct RestartPolicy {
  RestartKind kind = RestartKind::kNever;
  std::uint32_t maxRetries = 0;    // attempts after the first
  Duration backoff = seconds(10);  // before the first retry; doubles with each, up to maxBackoff
  Duration maxBackoff = minutes(10);
  bool operator==(const RestartPolicy&) const = default;
};

// Volcano's lifecycle policies: when `event` happens in a task, do `action` with the whole job (or
// that task).
enum class PolicyEvent : std::uint8_t {
  kAny,
  kPodFailed,
  kPodEvicted,
  kTaskCompleted,
  kTaskFailed,
  kExitCode,
  kUnknown
};
enum class PolicyAction : std::uint8_t {
  kAbortJob,
  kRestartJob,
  kRestartTask,
  kRestartPod,
  kTerminateJob,
  kCompleteJob,
  kResumeJob
};

struct LifecycleRule {
  std::int32_t task = -1;  // index into tasks; -1: the whole job
  PolicyEvent event = PolicyEvent::kPodFailed;
  std::int32_t exitCode = 0;  // for kExitCode: 1 to 255
  PolicyAction action = PolicyAction::kAbortJob;
  Duration timeout;  // 0: at once
  bool operator==(const LifecycleRule&) const = default;
};

// What has to have become of another job before this one may start.
enum class DependencyKind : std::uint8_t {
  kOk,     // it ended as SUCCEEDED
  kNotOk,  // it ended otherwise
  kAny,    // it ended
};

struct Dependency {
  JobId job;
  DependencyKind kind = DependencyKind::kOk;
  bool operator==(const Dependency&) const = default;
};

// A job that is one element of an array. Elements are jobs of their own, with numbers one after the
// other.
struct ArrayPlace {
  JobId first;              // the element with the lowest number
  std::uint32_t count = 1;  // of elements; 1 to 10,000
  std::uint32_t index = 0;  // what this element is called, 0 to 1,000,000,000
  std::uint32_t most = 0;   // of the elements that run at a time; 0: any number
  bool operator==(const ArrayPlace&) const = default;
};

struct JobShape {
  JobKind kind = JobKind::kJob;
  Runtime runtime = Runtime::kProcess;
  Network network = Network::kGang;
  QueueId queue{1};           // where it waits and what it counts against; 1: default
  std::int32_t priority = 0;  // within its queue, higher first; -1,000,000 to 1,000,000
  bool preemptible = true;  // may be stopped for a job that has the better right, and queued again
  bool spot = false;        // may be stopped for any job that is not
  std::vector<TaskShape> tasks;  // 1 to 64
  std::uint32_t minAvailable =
      1;  // of all replicas: the gang starts with at least these or not at all
  RestartPolicy restart;
  std::vector<LifecycleRule> rules;
  Duration timeLimit;            // of one attempt, from its start; 0: none
  Duration grace = seconds(10);  // from SIGTERM to SIGKILL
  Duration ttlAfterFinished{
      -1};  // kept this long after its end; negative: by the server's retention
  std::uint32_t checkpointEvery = 0;  // epochs; for sizing what a stop loses; 0: not told
  std::vector<Dependency> after;      // all of them; jobs with lower numbers
  Timestamp begin;                    // not started before; 0: at any time
  Duration delay;                     // not started before so long after it was submitted
  std::optional<ArrayPlace> array;
  bool operator==(const JobShape&) const = default;

  [[nodiscard]] std::uint32_t replicas() const {
    std::uint32_t total = 0;
    for (const auto& task : tasks) total += task.replicas;
    return total;
  }
};

struct Mount {
  std::string source;  // absolute path on the node
  std::string target;  // absolute path inside
  bool readOnly = false;
  bool operator==(const Mount&) const = default;
};

struct Port {
  std::uint16_t container = 0;  // 1 to 65535
  std::uint16_t host = 0;       // 0: a free one is chosen
  std::string address = "127.0.0.1";
  bool operator==(const Port&) const = default;
};

using EnvList = std::vector<std::pair<std::string, std::string>>;  // in the order written; the last
                                                                   // of a name counts

struct TaskText {
  std::string name;                  // [a-z0-9-], unique in the job
  std::vector<std::string> command;  // argv; at least one element
  std::string image;                 // empty: the host's system
  EnvList env;
  std::vector<Port> ports;
  std::vector<Mount> mounts;
  std::string workingDir;  // overrides the job's
  bool operator==(const TaskText&) const = default;
};

struct JobText {
  std::string name;  // [a-z0-9-], 1 to 63; people may use it in place of the number
  std::string user;  // who submitted, as the machine knows him
  std::string queue = "default";
  std::vector<TaskText> tasks;
  std::string workingDir;      // absolute; where the commands start
  std::string checkpointPath;  // absolute or relative to workingDir; empty: none
  EnvList labels;
  std::vector<std::string> plugins;  // Volcano's, in use: "env", "svc", "ssh"
  std::string
      upload;  // what the submitter brought along: SHA-256 of the archive in hex; empty: nothing
  std::string specSource;  // file name as given, or "-" or "run"
  std::string requestId;   // the client's; the same one again submits nothing
  bool operator==(const JobText&) const = default;
};

// A job as it is handed in. What names other jobs, or stands for many, becomes part of the shapes
// when it is accepted.
struct JobSpec {
  static constexpr std::size_t kMostElements = 10'000;
  static constexpr std::size_t kMostAfter = 100;
  JobShape shape;
  JobText text;
  EnvList after = {};  // what kind of end ("ok") of which job: number or name
  std::vector<std::uint32_t> array =
      {};                       // what its elements are called, ascending; empty: no array
  std::uint32_t arrayMost = 0;  // of them at a time; 0: any number
  bool operator==(const JobSpec&) const = default;
};

// QUEUED STARTING RUNNING STOPPING SUCCEEDED FAILED CANCELLED; a preempted or retried job is QUEUED
// again.
enum class JobState : std::uint8_t {
  kQueued,
  kStarting,
  kRunning,
  kStopping,
  kSucceeded,
  kFailed,
  kCancelled
};

[[nodiscard]] constexpr bool isTerminal(JobState state) {
  return state >= JobState::kSucceeded;
}
[[nodiscard]] constexpr bool holdsCapacity(JobState state) {
  return state >= JobState::kStarting && state <= JobState::kStopping;
}

// Why a running attempt is asked to stop.
enum class StopReason : std::uint8_t {
  kNone,
  kCancelled,
  kTimeLimit,
  kPreempted,
  kRankFailed,
  kServerDown,
  kDependency,  // what it waited for can never come
  kNodeDown,    // what it ran on was declared dead
};

// How an attempt ended.
enum class AttemptOutcome : std::uint8_t {
  kCompleted,  // every rank exited 0, or a rule completed the job
  kFailed,     // a rank ended with another status
  kStopped,    // asked to stop, and did
  kTimeLimit,
  kLaunchFailed,    // nothing of it ran, or not all of it could be started
  kRankLost,        // an init died without leaving the status: code unknown
  kSupervisorLost,  // the supervisor or the machine died: codes unknown but for those on disk
};

}  // namespace bole::model
