// What a command line asks for, as plain values: the parser makes them, the commands carry them
// out.
//
// Text that the server understands better (durations of a job, sizes, GPUs) stays as it was typed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace bole::cli {

// What every command takes.
struct Common {
  std::string home;    // --home; empty: BOLE_HOME, or ~/.local/share/bole
  std::string server;  // --server; empty: BOLE_SERVER, or the Unix socket in the home
  bool json = false;
};

struct UpArgs {
  std::optional<std::uint16_t> port;
  std::vector<std::string> emulate;
  bool plain = false;
  bool foreground = false;
  std::string tokenFile;
};

inline constexpr const char* kWaitForEver = "ever";  // of DownArgs::wait

struct DownArgs {
  bool stopJobs = false;
  std::string wait = "60s";
};

struct StatusArgs {};
struct VersionArgs {};

struct FsckArgs {
  bool full = false;
};

struct BackupArgs {
  std::string destination;
  bool withKey = false;
};

struct RestoreArgs {
  std::string source;
};

struct SubmitArgs {
  std::string source;  // a file, a directory, "-"; empty: bole.yaml here
  bool dryRun = false;
  bool follow = false;
  bool noUpload = false;
  bool raw = false;
  std::string project;
};

struct RunArgs {
  std::vector<std::string> command;
  std::string name;
  std::string image;
  std::optional<std::uint32_t> ranks;
  std::optional<std::uint32_t> nodes;
  std::string gpus;
  std::string cpus;
  std::string memory;
  std::string shmSize;
  std::string time;
  std::vector<std::string> env;
  std::vector<std::string> mounts;
  std::vector<std::string> ports;
  std::string begin;
  std::vector<std::string> after;
  std::string array;
  std::string queue;
  std::string priority;
  bool spot = false;
  bool noPreempt = false;
  std::string project;
  std::string workdir;
  std::optional<std::uint32_t> retries;
  std::string network;
  bool detach = false;
  bool raw = false;
  bool dryRun = false;
  bool noUpload = false;
};

struct PsArgs {
  bool all = false;
  std::string state;
  std::string user;
  std::string project;
  std::optional<std::uint32_t> limit;
};

struct ShowArgs {
  std::string job;
};

struct WhyArgs {
  std::string job;
};

struct StopArgs {
  std::vector<std::string> jobs;
  std::string grace;
};

struct LogsArgs {
  std::string job;
  bool follow = false;
  bool timestamps = false;
  bool raw = false;  // the lines of the progress protocol too
  std::optional<std::uint32_t> rank;
  std::optional<std::uint64_t> tail;
  std::optional<std::uint32_t> attempt;
  std::string since;
};

struct AttachArgs {
  std::string job;
  bool raw = false;
};

struct NodesArgs {};
struct GpusArgs {};
struct QueuesArgs {};

struct PolicyArgs {
  bool apply = false;  // false: it is printed
  std::string file;    // "-": standard input
  bool dryRun = false;
};

struct NodeArgs {
  enum class Action : std::uint8_t { kDrain, kDown, kResume, kLabel };
  Action action = Action::kDrain;
  std::string node;  // "box-1", "box-1:3"
  std::vector<std::string> labels;
  std::string lasts;
  std::string why;
};

struct SnapshotArgs {};

struct PlanArgs {
  std::string snapshot;
  std::string with;
  std::string policy;
  bool all = false;
};

struct TopoArgs {
  std::string node;  // empty: all
};

struct EventsArgs {
  bool follow = false;
  std::optional<std::uint64_t> from;
  std::optional<std::uint32_t> limit;
  std::string kind;
};

struct SupportArgs {
  std::string output;  // empty: a name of its own, here
};

struct CompletionArgs {
  std::string shell;
};

using Command =
    std::variant<UpArgs, DownArgs, StatusArgs, VersionArgs, FsckArgs, BackupArgs, RestoreArgs,
                 SubmitArgs, RunArgs, PsArgs, ShowArgs, WhyArgs, StopArgs, LogsArgs, AttachArgs,
                 NodesArgs, GpusArgs, QueuesArgs, PolicyArgs, NodeArgs, SnapshotArgs, PlanArgs,
                 TopoArgs, EventsArgs, SupportArgs, CompletionArgs>;

struct Invocation {
  Common common;
  Command command;
};

}  // namespace bole::cli
