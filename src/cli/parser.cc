#include "cli/parser.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <functional>
#include <limits>
#include <memory>

#include "cli/cli.h"
#include "cli/text.h"

namespace bole::cli {
namespace {

constexpr const char* kJobs = "Jobs";
constexpr const char* kCloud = "Cloud";
constexpr const char* kServer = "Server";
constexpr const char* kOther = "Other";
constexpr std::uint32_t kMaxRanks = 65'536;
constexpr std::uint64_t kMaxRetries = 1'000'000;
constexpr std::uint64_t kNoEnd = std::numeric_limits<std::int64_t>::max();
constexpr std::uint64_t kMost32 = std::numeric_limits<std::uint32_t>::max();

bool isWhole(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::string notInRange(const std::string& flag, const std::string& text, std::uint64_t least,
                       std::uint64_t most) {
  const auto expected = most == kNoEnd ? "a whole number, " + std::to_string(least) + " or more"
                                       : "a whole number from " + std::to_string(least) + " to " +
                                             std::to_string(most);
  return makeError(ErrorCode::kInvalid, isWhole(text) ? "out of range" : "not a whole number")
      .at(flag)
      .foundValue("'" + text + "'")
      .expectedValue(expected)
      .message();
}

class HelpFormatter final : public CLI::Formatter {
 public:
  HelpFormatter() {
    column_width(34);
    label("REQUIRED", "");
    label("Positionals", "Arguments");
    label("SUBCOMMAND", "COMMAND");
  }
  std::string make_usage(const CLI::App* app, std::string name) const override {
    if (!app->get_prefix_command()) return "\n" + CLI::Formatter::make_usage(app, std::move(name));
    return "\nUsage: " + name + " [OPTIONS] [--] COMMAND [ARGUMENT...]\n";
  }
};

// Builds the whole command line; lives as long as one parse, for the options are bound to its
// members.
class CommandLine {
 public:
  CommandLine() {
    app_.name("bole");
    app_.description(
        "Bole makes a GPU cloud of a machine: submit a job, watch it train, lose nothing.");
    app_.footer(
        "Examples:\n"
        "  bole up                        start the cloud on this machine\n"
        "  bole run --gpus 1 -- ./train   run a command on a GPU and watch it\n"
        "  bole submit -f bole.yaml       queue a job of several ranks\n"
        "  bole COMMAND --help            more, with an example");
    app_.set_help_flag("-h,--help", "Say this and exit");
    app_.add_flag("--version", versionWanted_, "Say the version and exit");
    addCommon(app_, nullptr);
    app_.require_subcommand(0, 1);
    app_.formatter(std::make_shared<HelpFormatter>());
    addJobCommands();
    addCloudCommands();
    addServerCommands();
    addOtherCommands();
  }

  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  // Throws CLI::ParseError.
  Parse parse(std::vector<std::string> arguments) {
    std::reverse(arguments.begin(), arguments.end());  // as CLI11 takes them
    app_.parse(std::move(arguments));
    if (versionWanted_) return made(VersionArgs{});
    for (auto& entry : entries_) {
      if (entry->app->parsed()) return made(entry->take());
    }
    return {false, {}, {}, kExitOk};
  }

  struct Entry {
    CLI::App* app = nullptr;
    std::string example{};
    ValueKind argument = ValueKind::kNone;
    std::vector<std::pair<CLI::Option*, ValueKind>> values{};
    std::function<Command()> take{};
  };
  [[nodiscard]] const std::vector<std::unique_ptr<Entry>>& entries() const { return entries_; }
  [[nodiscard]] CLI::App& app() { return app_; }
  [[nodiscard]] CLI::App* chosen() {
    const auto chosen = app_.get_subcommands();
    return chosen.empty() ? nullptr : chosen.front();
  }

 private:
  Parse made(Command command) { return {true, {common_, std::move(command)}, {}, kExitOk}; }

  // A command whose options are bound to `args`, which must live as long as this does.
  template <class Args>
  Entry& add(const char* group, const char* name, const char* summary, const char* example,
             Args& args) {
    auto entry = std::make_unique<Entry>();
    entry->app = app_.add_subcommand(name, summary);
    entry->app->group(group);
    entry->app->set_help_flag("-h,--help", "Say this and exit");
    entry->example = example;
    entry->app->footer(std::string("Example:\n  ") + example);
    entry->take = [&args]() -> Command { return args; };
    addCommon(*entry->app, entry.get());
    entries_.push_back(std::move(entry));
    return *entries_.back();
  }

  // Before the command and behind it alike.
  void addCommon(CLI::App& app, Entry* entry) {
    auto* home = app.add_option("--home", common_.home,
                                "Where the server keeps its data (BOLE_HOME; ~/.local/share/bole)");
    auto* server =
        app.add_option("--server", common_.server,
                       "http://127.0.0.1:PORT instead of the socket there (BOLE_SERVER)");
    home->type_name("DIR")->group("Common");
    server->type_name("URL")->group("Common");
    app.add_flag("--json", common_.json, "Print the server's JSON as it is")->group("Common");
    if (!entry) return;
    entry->values.emplace_back(home, ValueKind::kDirectory);
    entry->values.emplace_back(server, ValueKind::kText);
  }

  template <class T>
  CLI::Option* value(Entry& entry, const char* names, T& target, const char* kind, const char* help,
                     ValueKind completes = ValueKind::kText) {
    auto* option = entry.app->add_option(names, target, help);
    option->type_name(kind);
    entry.values.emplace_back(option, completes);
    return option;
  }
  // A whole number; whatever else stands there is refused by its flag, with the range.
  template <class T>
  CLI::Option* number(Entry& entry, const char* names, std::optional<T>& target, const char* kind,
                      const char* help, std::uint64_t least, std::uint64_t most) {
    const std::string all(names);
    const auto flag = all.substr(all.rfind(',') + 1);
    const auto take = [&target, flag, least, most](const std::string& text) {
      std::uint64_t got = 0;
      const auto* end = text.data() + text.size();
      const auto [stop, error] = std::from_chars(text.data(), end, got);
      if (error != std::errc() || stop != end || got < least || got > most) {
        throw CLI::ValidationError(notInRange(flag, text, least, most));
      }
      target = static_cast<T>(got);
    };
    auto* option = entry.app->add_option_function<std::string>(names, take, help);
    option->type_name(kind);
    entry.values.emplace_back(option, ValueKind::kText);
    return option;
  }
  // May be given several times, each with one value.
  CLI::Option* values(Entry& entry, const char* names, std::vector<std::string>& target,
                      const char* kind, const char* help) {
    return value(entry, names, target, kind, help)->allow_extra_args(false);
  }
  // What stands without a name.
  template <class T>
  CLI::Option* argument(Entry& entry, const char* name, T& target, const char* help,
                        ValueKind completes) {
    entry.argument = completes;
    return entry.app->add_option(name, target, help)->type_name("");
  }

  void addJobCommands() {
    addRun();
    addSubmit();
    addListing();
    auto& logs = add(kJobs, "logs", "Show what a job wrote", "bole logs digits -f --rank 0", logs_);
    argument(logs, "JOB", logs_.job, "Number or name of the job", ValueKind::kJob)->required();
    logs.app->add_flag("-f,--follow", logs_.follow, "Go on until the job ends");
    number(logs, "--rank", logs_.rank, "N", "Of this rank only", 0, kMaxRanks - 1);
    value(logs, "--since", logs_.since, "TIME", "From 10m ago on, or 2026-11-30T12:43:09Z");
    number(logs, "--tail", logs_.tail, "N", "Only the newest N lines", 0, kNoEnd);
    number(logs, "--attempt", logs_.attempt, "N", "Of the job's Nth attempt; otherwise the newest",
           1, kMost32);
    logs.app->add_flag("-t,--timestamps", logs_.timestamps, "Begin each line with its time (UTC)");
    addRaw(logs, logs_.raw);

    auto& attach = add(kJobs, "attach", "Watch a job until it ends and exit with its code",
                       "bole attach digits", attach_);
    argument(attach, "JOB", attach_.job, "Number or name of the job", ValueKind::kLiveJob)
        ->required();
    addRaw(attach, attach_.raw);

    auto& stop = add(kJobs, "stop", "Stop jobs", "bole stop digits", stop_);
    argument(stop, "JOB", stop_.jobs, "Numbers or names of the jobs", ValueKind::kLiveJob)
        ->required();
    value(stop, "--grace", stop_.grace, "TIME",
          "From SIGTERM to SIGKILL, for example 30s; otherwise the job's own");
  }

  static void addRaw(Entry& entry, bool& raw) {
    entry.app->add_flag("--raw", raw, "On a terminal: the lines that the bar is made of too");
  }

  void addRun() {
    auto& run = add(kJobs, "run", "Run a command as a job and watch it",
                    "bole run --gpus A100:2 -n 4 -t 2h -- python train.py --epochs 20", run_);
    run.argument = ValueKind::kCommand;
    run.app->prefix_command();
    addRunSize(run);
    addRunPlace(run);
  }

  // The names that sbatch and docker give the same things.
  void addRunSize(Entry& run) {
    number(run, "-n,--ntasks", run_.ranks, "N", "Ranks; they start together or not at all", 1,
           kMaxRanks);
    number(run, "-N,--nodes", run_.nodes, "N", "Without -n: one rank for each of N machines", 1,
           kMaxRanks);
    value(run, "-G,--gpus", run_.gpus, "GPUS", "For each rank: 2, A100:2, A100:80GB:2, 24GB..");
    value(run, "-c,--cpus-per-task", run_.cpus, "CPUS", "For each rank: 2, 0.5");
    value(run, "--mem", run_.memory, "SIZE", "For each rank: 512MiB, 16G");
    value(run, "--shm-size", run_.shmSize, "SIZE", "Of /dev/shm");
    value(run, "-t,--time", run_.time, "TIME", "Time limit: 30m, 2h, 1-12:00:00");
    number(run, "--retries", run_.retries, "N", "Start it again after a failure, N times at most",
           0, kMaxRetries);
    values(run, "--after,--dependency", run_.after, "[KIND:]JOB",
           "Not before JOB has ended well, or as KIND says: ok, notok, any");
    value(run, "-b,--begin", run_.begin, "TIME",
          "Not before TIME: 2h from now, 2026-12-24T20:00+08:00");
    value(run, "-a,--array", run_.array, "ELEMENTS",
          "As many jobs as elements: 0-9, 1,3,7, 0-99%5 with five at a time");
    value(run, "--queue", run_.queue, "NAME", "Where it waits; 'bole queues' lists them",
          ValueKind::kQueue);
    value(run, "--priority", run_.priority, "PRIORITY",
          "Within its queue: low, normal, high, or a number");
    run.app->add_flag("--spot", run_.spot, "It may be stopped for any job that is not spot");
    run.app->add_flag("--no-preempt", run_.noPreempt, "It is never stopped for another job");
    value(run, "--project", run_.project, "NAME", "Whose project it counts for");
  }

  void addRunPlace(Entry& run) {
    value(run, "-J,--job-name,--name", run_.name, "NAME", "Otherwise after the command");
    value(run, "-i,--image", run_.image, "IMAGE", "Run in a container; otherwise on the machine");
    values(run, "-e,--env", run_.env, "NAME[=VALUE]",
           "Set a variable; NAME alone passes on your own");
    values(run, "-v,--volume", run_.mounts, "SOURCE:TARGET[:ro]", "Mount a directory");
    values(run, "-p,--publish", run_.ports, "[HOST:]PORT",
           "Let a container's port be reached from the machine");
    value(run, "--network", run_.network, "gang|host", "The ranks' own network, or the machine's");
    value(run, "-w,--workdir", run_.workdir, "DIR", "Start there; otherwise in this directory",
          ValueKind::kDirectory);
    run.app->add_flag("--no-upload", run_.noUpload, "Do not bring this directory's files along");
    run.app->add_flag("-d,--detach", run_.detach, "Do not watch it");
    addRaw(run, run_.raw);
    run.app->add_flag("--dry-run", run_.dryRun, "Only check whether it could run");
  }

  void addSubmit() {
    auto& submit = add(kJobs, "submit", "Queue the jobs of a file",
                       "bole submit -f examples/digits/bole.yaml --follow", submit_);
    value(submit, "-f,--file", submit_.source, "FILE|DIR|-",
          "A bole.yaml or Volcano Job, a directory with one, - for standard input",
          ValueKind::kFile);
    argument(submit, "SPEC", submitted_, "The same without -f; otherwise ./bole.yaml",
             ValueKind::kFile);
    submit.take = [this]() -> Command {
      if (submitted_.empty()) return submit_;
      if (!submit_.source.empty()) {
        throw CLI::ValidationError("two specs: found '" + submit_.source + "' and '" + submitted_ +
                                   "', expected one");
      }
      auto args = submit_;
      args.source = submitted_;
      return args;
    };
    submit.app->add_flag("--follow", submit_.follow, "Watch it and exit with its code");
    addRaw(submit, submit_.raw);
    submit.app->add_flag("--dry-run", submit_.dryRun, "Only check whether it could run");
    submit.app->add_flag("--no-upload", submit_.noUpload,
                         "Do not bring the directory's files along");
    value(submit, "--project", submit_.project, "NAME", "Instead of the one in the file");
  }

  void addListing() {
    auto& ps = add(kJobs, "ps", "List jobs", "bole ps -a --state failed,cancelled", ps_);
    ps.app->add_flag("-a,--all", ps_.all, "Also those that have ended");
    value(ps, "--state", ps_.state, "STATE", "In these states: queued,running", ValueKind::kState);
    value(ps, "-u,--user", ps_.user, "NAME", "Of this user");
    value(ps, "--project", ps_.project, "NAME", "Of this project");
    number(ps, "--limit", ps_.limit, "N", "The newest N", 1, kMost32);

    auto& show = add(kJobs, "show", "Everything about one job", "bole show digits", show_);
    argument(show, "JOB", show_.job, "Number or name of the job", ValueKind::kJob)->required();

    auto& why = add(kJobs, "why", "Why a job waits, or how it ended", "bole why digits", why_);
    argument(why, "JOB", why_.job, "Number or name of the job", ValueKind::kJob)->required();
  }

  void addCloudCommands() {
    add(kCloud, "nodes", "List the machines", "bole nodes", nodes_);
    add(kCloud, "gpus", "List the GPUs and who holds them", "bole gpus", gpus_);
    auto& topo = add(kCloud, "topo", "How the GPUs of a machine are linked", "bole topo", topo_);
    argument(topo, "NODE", topo_.node, "Only this machine", ValueKind::kText);
    add(kCloud, "queues", "List the queues and what is used of them", "bole queues", queues_);
    addPolicy();
    addNode();
    add(kCloud, "snapshot", "Write down all that the scheduler looks at", "bole snapshot",
        snapshot_);
    auto& plan = add(kCloud, "plan", "What the scheduler decides on a snapshot, without a server",
                     "bole plan now.json --with bole.yaml", plan_);
    argument(plan, "SNAPSHOT", plan_.snapshot, "A file of 'bole snapshot', - for standard input",
             ValueKind::kFile)
        ->required();
    value(plan, "--with", plan_.with, "FILE", "As if the jobs of FILE were submitted",
          ValueKind::kFile);
    value(plan, "--policy", plan_.policy, "FILE", "As if the cloud were shared as FILE says",
          ValueKind::kFile);
    plan.app->add_flag("-a,--all", plan_.all, "Not only what is decided otherwise");
    auto& events =
        add(kCloud, "events", "What happened, from the ledger", "bole events -f", events_);
    events.app->add_flag("-f,--follow", events_.follow, "Go on as things happen");
    number(events, "--from", events_.from, "N", "From this number on; otherwise the newest", 0,
           kNoEnd);
    number(events, "--limit", events_.limit, "N", "At most N, 1 to 10000; otherwise 100", 1,
           10'000);
    value(events, "--kind", events_.kind, "KIND", "Only these: job.submitted");
  }

  void addPolicy() {
    auto& policy = add(kCloud, "policy", "Show how the cloud is shared, or share it otherwise",
                       "bole policy apply policy.yaml --dry-run", policy_);
    argument(policy, "ACTION", action_, "apply: share it as FILE says; otherwise it is shown",
             ValueKind::kPolicy);
    argument(policy, "FILE", policy_.file, "A policy file, - for standard input",
             ValueKind::kPolicy);
    policy.app->add_flag("--dry-run", policy_.dryRun, "With apply: only say what would change");
    policy.take = [this]() -> Command {
      auto args = policy_;
      args.apply = !action_.empty();
      if (args.apply && action_ != "apply") {
        throw CLI::ValidationError("there is no such action: found '" + action_ +
                                   "', expected apply");
      }
      if (args.apply && args.file.empty())
        throw CLI::ValidationError("no file to apply: 'bole policy apply FILE'");
      if (!args.apply && args.dryRun)
        throw CLI::ValidationError("--dry-run: there is nothing to try: 'bole policy apply FILE'");
      return args;
    };
  }

  void addNode() {
    auto& node = add(kCloud, "node", "Drain a machine or a GPU, take it back, give it labels",
                     "bole node drain box-1:3 --for 2h --why ECC", node_);
    argument(node, "ACTION", nodeAction_, "drain, down, resume or label", ValueKind::kText)
        ->required();
    argument(node, "NODE[:GPU]", node_.node, "A machine, or one of its GPUs", ValueKind::kText)
        ->required();
    argument(node, "LABEL", node_.labels, "With label: NAME=VALUE, or NAME- to take it away",
             ValueKind::kText);
    value(node, "--for", node_.lasts, "TIME",
          "With drain or down: taken back by itself after TIME");
    value(node, "--why", node_.why, "TEXT", "What others are told");
    node.take = [this]() -> Command {
      static const std::vector<std::string> kActions = {"drain", "down", "resume", "label"};
      const auto found = std::find(kActions.begin(), kActions.end(), nodeAction_);
      if (found == kActions.end()) {
        throw CLI::ValidationError("there is no such action: found '" + nodeAction_ +
                                   "', expected drain, down, resume or label");
      }
      auto args = node_;
      args.action = static_cast<NodeArgs::Action>(found - kActions.begin());
      const bool label = args.action == NodeArgs::Action::kLabel;
      if (label == args.labels.empty()) {
        throw CLI::ValidationError(label ? "no label: 'bole node label NODE NAME=VALUE'"
                                         : "labels are for 'bole node label'");
      }
      const bool timed =
          args.action == NodeArgs::Action::kDrain || args.action == NodeArgs::Action::kDown;
      if (!timed && !args.lasts.empty())
        throw CLI::ValidationError("--for: only drain and down end by themselves");
      return args;
    };
  }

  void addServerCommands() {
    auto& up = add(kServer, "up", "Start the server on this machine",
                   "bole up --emulate 8xA100-SXM4-80GB", up_);
    number(up, "--port", up_.port, "PORT", "Of 127.0.0.1; otherwise 8470, 0 for any free one", 0,
           65'535);
    values(up, "--emulate", up_.emulate, "SPEC", "GPUs that are not there: 4xT4, '4x[8xH100]'");
    up.app->add_flag("--plain", up_.plain,
                     "Run jobs without a sandbox, as yourself: for your own machine only");
    up.app->add_flag("--foreground", up_.foreground, "Stay in front until it ends");
    value(up, "--token-file", up_.tokenFile, "FILE", "Keep the token for TCP there",
          ValueKind::kFile);

    auto& down = add(kServer, "down", "Stop the server; jobs go on", "bole down", down_);
    down.app->add_flag("--stop-jobs", down_.stopJobs, "Stop the jobs too");
    value(down, "--wait", down_.wait, "TIME",
          "Wait TIME for its end, or, without TIME, as long as it takes; otherwise 60s")
        ->expected(0, 1)
        ->default_str(kWaitForEver)
        ->option_text("[TIME]");

    add(kServer, "status", "How the server and the cloud fare", "bole status", status_);

    auto& fsck = add(kServer, "fsck", "Check the ledger", "bole fsck --full", fsck_);
    fsck.app->add_flag("--full", fsck_.full, "From the first record on");

    auto& backup = add(kServer, "backup", "Copy the ledger, also while the server runs",
                       "bole backup /mnt/backup/monday.db", backup_);
    argument(backup, "DESTINATION", backup_.destination, "A file that is not there yet",
             ValueKind::kFile)
        ->required();
    backup.app->add_flag("--with-key", backup_.withKey, "The signing key too: keep it secret");

    auto& restore = add(kServer, "restore", "Make a home of a backup",
                        "bole restore /mnt/backup/monday.db --home /srv/bole", restore_);
    argument(restore, "SOURCE", restore_.source, "What 'bole backup' made", ValueKind::kFile)
        ->required();
  }

  void addOtherCommands() {
    auto& support = add(kOther, "support", "Make one archive for a bug report, secrets left out",
                        "bole support -o report.tar.gz", support_);
    value(support, "-o,--output", support_.output, "FILE", "Otherwise bole-support-TIME.tar.gz",
          ValueKind::kFile);
    auto& completion = add(kOther, "completion", "Print completions for a shell",
                           "source <(bole completion bash)", completion_);
    argument(completion, "SHELL", completion_.shell, "bash, zsh or fish", ValueKind::kShell)
        ->required()
        ->check(CLI::Validator(
            [](const std::string& shell) -> std::string {
              if (shell == "bash" || shell == "zsh" || shell == "fish") return {};
              return "there are no completions for this shell: found '" + shell +
                     "', expected bash, zsh or fish";
            },
            ""));
    add(kOther, "version", "Say the version of this program and of the server", "bole version",
        version_);
  }

  CLI::App app_;
  Common common_;
  std::vector<std::unique_ptr<Entry>> entries_;

  RunArgs run_;
  SubmitArgs submit_;
  std::string submitted_;  // the spec that was named without -f
  PsArgs ps_;
  ShowArgs show_;
  WhyArgs why_;
  LogsArgs logs_;
  AttachArgs attach_;
  StopArgs stop_;
  PolicyArgs policy_;
  std::string action_;  // of `policy`
  NodeArgs node_;
  PlanArgs plan_;
  std::string nodeAction_;
  TopoArgs topo_;
  EventsArgs events_;
  UpArgs up_;
  DownArgs down_;
  BackupArgs backup_;
  RestoreArgs restore_;
  SupportArgs support_;
  CompletionArgs completion_;
  // Small ones last: nothing lies between them.
  bool versionWanted_ = false;
  NodesArgs nodes_;
  GpusArgs gpus_;
  QueuesArgs queues_;
  SnapshotArgs snapshot_;
  StatusArgs status_;
  FsckArgs fsck_;
  VersionArgs version_;
};

// The nearest of the names, as "; did you mean 'X'?", or nothing.
std::string suggestion(const std::string& found, const std::vector<std::string>& names) {
  const auto best = nearestOf(found, names);
  return best.empty() ? "" : "; did you mean '" + best + "'?";
}

std::vector<std::string> optionNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const auto* option : app.get_options()) {
    for (const auto& name : option->get_lnames()) names.push_back("--" + name);
    for (const auto& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

Parse wrong(const std::string& command, const std::string& what) {
  const auto full = command.empty() ? std::string("bole") : "bole " + command;
  return {false, {}, full + ": " + what + "\nsee '" + full + " --help'\n", kExitUsage};
}

Parse unknownArgument(CommandLine& line, const std::string& argument) {
  auto* chosen = line.chosen();
  const auto command = chosen ? chosen->get_name() : std::string();
  if (!argument.starts_with('-')) {
    return wrong(command, "one argument too many: '" + neutralised(argument) + "'");
  }
  const auto name = argument.substr(0, argument.find('='));
  const auto names = optionNames(chosen ? *chosen : line.app());
  // Elsewhere -v says the version, or more.
  const auto near =
      !chosen && name == "-v" ? "; did you mean 'bole version'?" : suggestion(name, names);
  return wrong(command, "unknown option '" + neutralised(name) + "'" + near);
}

// Where the command's name stands: behind the options that every command takes.
std::size_t commandIndex(const std::vector<std::string>& arguments) {
  std::size_t at = 0;
  while (at < arguments.size() && arguments[at].starts_with('-')) {
    at += arguments[at] == "--home" || arguments[at] == "--server" ? 2 : 1;
  }
  return std::min(at, arguments.size());
}

// "help logs" is "logs --help".
void rewriteHelp(std::vector<std::string>& arguments) {
  const auto at = commandIndex(arguments);
  if (at == arguments.size() || arguments[at] != "help") return;
  arguments.erase(arguments.begin() + static_cast<std::ptrdiff_t>(at));
  arguments.resize(std::min(arguments.size(), at + 1));
  arguments.emplace_back("--help");
}

// What stands behind the first "--" of `bole run`, with it: the command, or the rest of it.
std::vector<std::string> cutCommand(std::vector<std::string>& arguments) {
  const auto at = commandIndex(arguments);
  if (at == arguments.size() || arguments[at] != "run") return {};
  const auto mark = std::find(arguments.begin(), arguments.end(), "--");
  std::vector<std::string> rest(mark, arguments.end());
  arguments.erase(mark, arguments.end());
  return rest;
}

// `remaining` is what CLI11 did not take of the flags' part.
Parse withCommand(CommandLine& line, Parse parse, std::vector<std::string> remaining,
                  const std::vector<std::string>& rest) {
  auto& run = std::get<RunArgs>(parse.invocation.command);
  if (!remaining.empty() && remaining.front().starts_with('-')) {
    return unknownArgument(line, remaining.front());
  }
  run.command = std::move(remaining);
  // A "--" inside of the command belongs to it.
  const auto from = run.command.empty() && !rest.empty() ? rest.begin() + 1 : rest.begin();
  run.command.insert(run.command.end(), from, rest.end());
  if (!run.command.empty() && !run.command.front().empty()) return parse;
  return wrong("run", "no command to run: 'bole run [OPTIONS] -- COMMAND'");
}

// CLI11 leaves two empty lines between groups.
std::string tidied(std::string help) {
  for (auto at = help.find("\n\n\n"); at != std::string::npos; at = help.find("\n\n\n", at)) {
    help.erase(at, 1);
  }
  return help;
}

// What CLI11 finds by itself, in our words.
std::string reworded(const CLI::ParseError& error) {
  std::string text = error.what();
  if (error.get_name() ==
      "ConversionError") {  // "Could not convert: --all = maybe", of flags alone
    const auto at = std::min(text.find(": "), text.size() - 2) + 2;
    return text.substr(at, text.find(" = ") - at) + ": takes no value";
  }
  const auto flag = text.substr(0, text.find(": "));
  if (error.get_name() != "ArgumentMismatch") return text;
  constexpr std::string_view kRequired = " required ";
  constexpr std::string_view kMissing = " missing";
  const auto at = text.find(kRequired);
  if (at != std::string::npos && text.ends_with(kMissing)) {
    const auto kind = text.substr(at + kRequired.size());
    return flag + ": its value is missing: expected " +
           kind.substr(0, kind.size() - kMissing.size());
  }
  return flag + ": given more than once";
}

Parse refused(CommandLine& line, const CLI::ParseError& error) {
  auto* chosen = line.chosen();
  return wrong(chosen ? chosen->get_name() : "", neutralised(reworded(error)));
}

Parse parseKnown(CommandLine& line, std::vector<std::string> arguments) {
  const auto rest = cutCommand(arguments);
  auto parse = line.parse(std::move(arguments));
  if (!parse.complete) parse.text = tidied(line.app().help());
  if (!parse.complete || !std::holds_alternative<RunArgs>(parse.invocation.command)) return parse;
  return withCommand(line, std::move(parse), line.chosen()->remaining(), rest);
}

}  // namespace

Parse parseArguments(std::vector<std::string> arguments) {
  CommandLine line;
  rewriteHelp(arguments);
  if (const auto at = commandIndex(arguments); at < arguments.size()) {
    std::vector<std::string> names{"help"};
    for (const auto& entry : line.entries()) names.push_back(entry->app->get_name());
    const auto& name = arguments[at];
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      return wrong("", "unknown command '" + neutralised(name) + "'" + suggestion(name, names));
    }
  }
  try {
    return parseKnown(line, std::move(arguments));
  } catch (const CLI::CallForHelp&) {
    const auto* chosen = line.chosen();
    return {false, {}, tidied(chosen ? chosen->help("bole") : line.app().help()), kExitOk};
  } catch (const CLI::ExtrasError&) {
    const auto extras = line.app().remaining(true);
    return unknownArgument(line, extras.empty() ? "" : extras.front());
  } catch (const CLI::ParseError& error) {
    return refused(line, error);
  }
}

std::vector<CommandInfo> describeCommands() {
  CommandLine line;
  std::vector<CommandInfo> commands;
  for (const auto& entry : line.entries()) {
    CommandInfo command{
        entry->app->get_name(), entry->app->get_description(), entry->example, {}, entry->argument};
    for (const auto* option : entry->app->get_options()) {
      OptionInfo info{{}, option->get_description(), ValueKind::kNone};
      for (const auto& name : option->get_snames()) info.names.push_back("-" + name);
      for (const auto& name : option->get_lnames()) info.names.push_back("--" + name);
      for (const auto& [known, kind] : entry->values) {
        if (known == option) info.value = kind;
      }
      if (!info.names.empty()) command.options.push_back(std::move(info));
    }
    commands.push_back(std::move(command));
  }
  return commands;
}

}  // namespace bole::cli
