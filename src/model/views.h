// What the API answers: the state as readers see it, joined with the texts of the side table. Field
// for field the stable schema behind `--json`. Times are microseconds since 1970 UTC, 0 where not
// yet; durations are microseconds.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/units.h"
#include "model/job.h"
#include "model/node.h"
#include "model/plan.h"
#include "model/policy.h"

namespace bole::model {

struct ExitView {
  std::uint32_t rank = 0;
  bool known = false;
  std::int32_t code = -1;   // the exit code, -1 where a signal or nothing is known
  std::int32_t signal = 0;  // the signal that ended it; 0: none
  std::string text;         // "exit 137", "SIGKILL (signal 9)", "unknown"
};

struct ProgressView {
  std::uint64_t done = 0;   // epochs, else steps
  std::uint64_t total = 0;  // 0: not told
  std::string unit;         // "epoch" or "step"
  std::vector<std::pair<std::string, std::string>>
      values;  // loss, accuracy, ... as the job wrote them
  Timestamp at;
};

struct JobView {
  JobId id;
  std::string name;
  std::string project;
  std::string user;
  JobState state = JobState::kQueued;
  std::string reason;  // one sentence: why it waits, or how it ended; may be empty
  std::string queue;
  std::int32_t priority = 0;
  std::uint32_t ranks = 0;
  std::int64_t gpus = 0;  // of all ranks
  bool emulated = false;  // of its GPUs
  Timestamp submittedAt;
  Timestamp startedAt;
  Timestamp endedAt;
  Duration running;  // of the newest attempt so far
  std::uint32_t attempts = 0;
  std::optional<ProgressView> progress;
  std::optional<std::uint32_t> arrayIndex;  // of an array's element: what it is called
  std::optional<JobId> arrayFirst;          // and the element with the lowest number
};

struct RankView {
  std::uint32_t rank = 0;
  std::string task;
  std::uint32_t replica = 0;
  std::string node;
  std::vector<std::uint32_t> gpus;
  std::optional<ExitView> exit;
};

struct AttemptView {
  AttemptId id;
  std::uint32_t number = 1;
  Timestamp plannedAt;
  Timestamp startedAt;
  Timestamp endedAt;
  std::string outcome;  // "" while it lives; else completed, failed, ...
  std::string stop;  // why it was asked to stop: "" if it was not, else preempted, cancelled, ...
  std::optional<JobId> stoppedFor;
  std::int32_t firstFailed = -1;
  std::string note;
  std::string logDirectory;
  std::vector<RankView> ranks;
};

struct CheckpointView {
  std::uint64_t epoch = 0;
  std::string path;
};

// Where and when a job is expected to start, as far as is known now.
struct ExpectedView {
  Timestamp at;
  std::vector<RankView> ranks;
};

struct JobDetail {
  JobView summary;
  JobSpec spec;
  std::vector<Reason> reasons;               // while it waits
  std::optional<ExpectedView> expected;      // the same, where it was asked for and is known
  std::vector<AttemptView> attempts;         // oldest first
  std::uint64_t gpuMilliseconds = 0;         // whole GPUs x milliseconds, of all attempts so far
  std::string workingDirectory;              // on the machine
  std::string checkpointDirectory;           // empty: none
  std::optional<CheckpointView> checkpoint;  // the newest complete one
  std::vector<std::string> lastLines;        // of the rank that failed first
  std::int32_t exitCode = -1;                // what `bole run` exits with; -1 while not ended
};

struct GpuView {
  std::string node;
  std::uint32_t index = 0;
  std::string uuid;
  std::string model;
  Bytes memory;
  std::string pciBusId;
  GpuHealth health = GpuHealth::kHealthy;
  bool emulated = false;
  Timestamp healthyAt;       // by itself; 0: not, or it is
  std::string why;           // it is not healthy
  MilliGpu used;             // of its 1000 thousandths
  Bytes memoryUsed;          // by who holds a share of it; a whole one is not counted
  std::optional<JobId> job;  // who holds it whole
  std::vector<JobId> sharers;
  std::string jobName;
  std::string user;
};

struct NodeView {
  std::string name;
  bool present = true;
  bool emulated = false;
  std::string gpuModel;  // "4 x A100-SXM4-80GB"; empty: none
  std::int64_t gpus = 0;
  std::int64_t gpusUsed = 0;
  MilliCpu cpus;
  MilliCpu cpusUsed;
  Bytes memory;
  Bytes memoryUsed;
  std::string driverVersion;
  GpuHealth health = GpuHealth::kHealthy;
  Timestamp healthyAt;  // by itself; 0: not, or it is
  std::string why;      // it is not healthy
  std::vector<std::pair<std::string, std::string>> labels;
};

struct StatusView {
  std::string version;
  std::string home;
  std::int64_t pid = 0;
  Timestamp startedAt;
  Timestamp now;  // ledger time
  bool writable = true;
  std::string problem;             // why not, or what else is wrong; empty: nothing
  std::vector<std::string> notes;  // what this machine cannot do, in plain lines
  std::uint64_t events = 0;
  std::uint64_t queued = 0;
  std::uint64_t running = 0;
  std::int64_t gpus = 0;
  std::int64_t gpusUsed = 0;
  bool emulated = false;
  std::string sandbox;  // around jobs without an image: "bubblewrap", "plain", "none"
};

// A queue as it fares. What is used, waits and runs is of all queues below it too.
struct BookingView {
  std::string name;
  std::string queue;
  Amounts amounts;
  Timestamp from;
  Timestamp to;
};

struct QueueView {
  std::string name;
  std::string parent;       // empty: it stands at the top
  std::uint32_t depth = 0;  // 0: at the top
  Amounts guaranteed;       // as the policy has it
  Amounts effective;  // what of it counts: more where those below it are guaranteed more together,
                      // less where the cloud does not have what is guaranteed in all
  Amounts limit;
  std::int32_t weight = 1;
  Preemption preemption = Preemption::kNever;
  Amounts perUser;
  std::optional<std::uint32_t> perUserRunning;
  Amounts used;  // GPUs, CPUs, memory, and each kind of GPU that the policy names
  std::optional<Timestamp> opensAt;  // when it starts jobs again; absent: it does
  std::uint64_t waiting = 0;
  std::uint64_t running = 0;  // they hold what they use
};

struct PolicyView {
  std::string text;  // a policy file, in its canonical form
  Policy policy;
};

struct PolicyRequest {
  std::string text;      // a policy file
  std::string fileName;  // for messages
  bool dryRun = false;
};

struct PolicyAnswer {
  std::string text;                   // the policy that is set, or would be
  std::vector<std::string> changes;   // for people, one a line; empty: none
  std::vector<std::string> warnings;  // of the file, and where the cloud lacks what is guaranteed
};

// What an operator says of a node, or of one of its GPUs.
struct HealthRequest {
  GpuHealth health = GpuHealth::kHealthy;
  std::optional<std::uint32_t> gpu;  // index; absent: the node as a whole
  Duration lasts;                    // healthy again after that; 0: until someone says so
  std::string why;
};

struct LabelsRequest {
  std::vector<std::pair<std::string, std::string>> set;
  std::vector<std::string> remove;
};

struct EventView {
  std::uint64_t sequence = 0;
  Timestamp time;
  std::string kind;
  std::string actor;  // a name, or "bole"
  std::string project;
  std::string source;
  std::string summary;  // one line
  std::string body;     // the body's JSON text
};

struct LogLineView {
  Timestamp time;
  std::uint32_t rank = 0;
  std::string stream;  // "out" or "err"
  std::string text;
};

struct SubmitRequest {
  std::string spec;       // the text of a bole.yaml (JSON is YAML too) or a Volcano Job
  std::string fileName;   // for messages
  std::string directory;  // absolute: where relative paths begin
  std::vector<std::pair<std::string, std::string>> env;  // values for bare names in the spec
  std::string upload;                                    // see POST /v1/uploads; empty: nothing
  std::string project;                                   // overrides the spec's; empty: the spec's
  std::string requestId;  // the same id again gives the same job and submits nothing
  bool dryRun = false;
};

struct Submitted {
  JobId id;
  std::string name;
  std::vector<std::string> warnings;
  bool existed = false;                        // the request id was seen before
  std::uint32_t count = 1;                     // of an array: how many jobs, numbered from `id` on
  std::optional<ExpectedView> expected = {};   // of a dry run, where it is known
  std::shared_ptr<const JobShape> shape = {};  // of a dry run, with its queue; not in an answer
};

struct SubmitAnswer {
  std::vector<Submitted> jobs;
};

struct StopCommand {
  Duration grace{-1};  // negative: the job's own
};

struct ErrorView {
  std::string code;
  std::string message;  // everything in one line
  std::string what;
  std::string where;
  std::string found;
  std::string expected;
  std::string hint;
  std::vector<std::string> missingEnv;  // bare names whose values the request must give
};

struct JobList {
  std::vector<JobView> jobs;
  std::uint64_t queues = 1;  // how many there are
};
struct QueueList {
  std::vector<QueueView> queues;      // each behind the one it stands below
  std::vector<BookingView> bookings;  // that have not ended, soonest first
  bool emulated = false;              // the cloud's GPUs are
  std::vector<std::string> warnings;  // where the cloud lacks what is guaranteed
};
struct NodeList {
  std::vector<NodeView> nodes;
};
struct GpuList {
  std::vector<GpuView> gpus;
};
struct EventList {
  std::vector<EventView> events;
};
struct LogPage {
  std::vector<LogLineView> lines;
};
struct TopologyView {
  std::vector<Node> nodes;
};

}  // namespace bole::model
