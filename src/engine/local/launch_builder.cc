#include "engine/local/launch_builder.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "engine/local/environment.h"

namespace bole::engine {
namespace {

namespace fs = std::filesystem;
using model::PolicyAction;
using model::PolicyEvent;

supervise::RuntimeKind runtimeOf(model::Runtime runtime) {
  switch (runtime) {
    case model::Runtime::kPlain:
      return supervise::RuntimeKind::kPlain;
    case model::Runtime::kPodman:
      return supervise::RuntimeKind::kPodman;
    case model::Runtime::kProcess:
      break;
  }
  return supervise::RuntimeKind::kProcess;
}

std::string rankName(std::size_t rank) {
  return "rank " + std::to_string(rank);
}

Result<void> checkGpus(const ports::AttemptOrder& order) {
  std::set<std::pair<NodeId, std::uint32_t>> given;
  for (std::size_t rank = 0; rank < order.ranks.size(); ++rank) {
    const auto& node = *order.nodes[rank];
    for (const auto gpu : order.ranks[rank].gpus) {
      if (gpu >= node.gpus.size()) {
        return fail(makeError(ErrorCode::kInvalid, "the allocation names a GPU that is not there")
                        .at(rankName(rank) + " on " + node.name)
                        .foundValue("GPU " + std::to_string(gpu))
                        .expectedValue(std::to_string(node.gpus.size()) + " GPUs")
                        .withHint("the machine's inventory changed; start the server again"));
      }
      if (!given.emplace(order.ranks[rank].node, gpu).second) {
        return fail(makeError(ErrorCode::kInvalid, "the allocation gives one GPU to two ranks")
                        .at(rankName(rank) + " on " + node.name)
                        .foundValue("GPU " + std::to_string(gpu)));
      }
    }
  }
  return {};
}

Result<void> checkOrder(const ports::AttemptOrder& order) {
  const bool whole = order.shape && order.text && !order.ranks.empty() &&
                     order.nodes.size() == order.ranks.size() &&
                     order.shape->tasks.size() == order.text->tasks.size();
  if (!whole) return fail(ErrorCode::kInvalid, "the order is not complete");
  for (std::size_t rank = 0; rank < order.ranks.size(); ++rank) {
    const auto task = order.ranks[rank].task;
    if (task >= order.shape->tasks.size() || !order.nodes[rank]) {
      return fail(makeError(ErrorCode::kInvalid, "the order names a task or node that is not there")
                      .at(rankName(rank)));
    }
    if (order.text->tasks[task].command.empty()) {
      return fail(makeError(ErrorCode::kInvalid, "the task has no command")
                      .at("task '" + order.text->tasks[task].name + "'"));
    }
  }
  return checkGpus(order);
}

// ---- where a rank starts
// ------------------------------------------------------------------------------------------

std::string normal(const std::string& path) {
  auto text = fs::path(path).lexically_normal().string();
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  return text;
}

// `path` seen from `base`: "" for itself, "a/b" for what is below, nothing for the rest. Both
// absolute and normal.
std::optional<std::string> below(const std::string& path, const std::string& base) {
  if (path == base) return "";
  const auto prefix = base == "/" ? base : base + "/";
  if (path.compare(0, prefix.size(), prefix) != 0) return std::nullopt;
  return path.substr(prefix.size());
}

std::string join(const std::string& base, const std::string& relative) {
  if (relative.empty()) return base;
  return base + "/" + relative;
}

struct Start {
  std::string job;     // the job's own directory on the host
  std::string cwd;     // on the host, that or below
  std::string inside;  // where the command starts, if that is elsewhere and only there inside
};

// The submitter's directory stands for the job's own: what is below it there is below it here.
Result<Start> startOf(const ports::AttemptOrder& order, const model::TaskText& task,
                      const LaunchPlace& place) {
  const auto& text = *order.text;
  const auto base = text.workingDir.empty() ? std::string() : normal(text.workingDir);
  if (order.shape->runtime == model::Runtime::kPlain) {
    const auto home = base.empty() ? place.workDirectory : base;
    if (task.workingDir.empty()) return Start{home, home, ""};
    return Start{home, normal((fs::path(home) / task.workingDir).string()), ""};
  }
  const auto& job = place.workDirectory;
  if (task.workingDir.empty()) return Start{job, job, ""};
  if (task.workingDir.front() != '/') {
    const auto path = normal((fs::path(job) / task.workingDir).string());
    if (below(path, job)) return Start{job, path, ""};
    return fail(
        makeError(ErrorCode::kInvalid, "the working directory leaves the job's own")
            .at("task '" + task.name + "'")
            .foundValue(task.workingDir)
            .expectedValue("a path below the directory submitted from, or an absolute one"));
  }
  const auto path = normal(task.workingDir);
  if (!base.empty()) {
    if (const auto relative = below(path, base)) {
      return Start{job, join(job, *relative), ""};
    }
  }
  return Start{job, job, path};
}

// The supervisor can only start where it may bind a directory of the job's; a shell inside goes on
// from there.
std::vector<std::string> startedIn(const std::string& directory,
                                   const std::vector<std::string>& command) {
  if (directory.empty()) return command;
  std::vector<std::string> argv = {"/bin/sh", "-c", "cd -- \"$0\" && exec \"$@\"", directory};
  argv.insert(argv.end(), command.begin(), command.end());
  return argv;
}

// ---- devices
// ------------------------------------------------------------------------------------------------------

std::vector<std::string> devicesOf(const ports::AttemptOrder& order, std::size_t rank,
                                   const HostFacts& host) {
  std::vector<std::string> devices;
  const auto& node = *order.nodes[rank];
  const auto& gpus = order.ranks[rank].gpus;
  if (!node.emulated && !gpus.empty()) {
    for (const auto gpu : gpus) {
      devices.push_back("/dev/nvidia" + std::to_string(node.gpus[gpu].minor));
    }
    std::sort(devices.begin(), devices.end());
    devices.insert(devices.end(), host.gpuDevices.begin(), host.gpuDevices.end());
  }
  devices.insert(devices.end(), host.fabricDevices.begin(), host.fabricDevices.end());
  return devices;
}

// ---- names of hosts, for Volcano's svc plugin
// ---------------------------------------------------------------------

// Every host of the gang is this machine's loopback: under bubblewrap and in a container the ranks
// get an /etc/hosts that says so. Without a sandbox the machine's own file stands, and variables
// carry the address itself.
bool canNameHosts(const model::JobShape& shape) {
  return shape.runtime != model::Runtime::kPlain;
}

std::string hostsFile(const ports::AttemptOrder& order, const HostFacts& host) {
  std::string content = "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n";
  if (sharesHostNetwork(*order.shape) && !host.etcHosts.empty()) {
    content = host.etcHosts;
    if (content.back() != '\n') content += '\n';
  }
  for (const auto& rank : order.ranks) {
    const auto name = hostName(*order.text, rank);
    content += "127.0.0.1 " + name + " " + name.substr(0, name.find('.')) + "\n";
  }
  return content;
}

void addHostNames(const ports::AttemptOrder& order, const HostFacts& host, const LaunchPlace& place,
                  BuiltLaunch& built) {
  if (!hasPlugin(*order.text, "svc") || !canNameHosts(*order.shape)) return;
  built.files.push_back({place.attemptDirectory + "/files/hosts", hostsFile(order, host)});
  std::vector<supervise::Mount> mounts;
  mounts.push_back({built.files.back().path, "/etc/hosts", true, true});
  if (order.shape->runtime == model::Runtime::kPodman) {
    // Volcano also writes TASK.host files; a read-only system has no place to mount them at.
    const auto directory = place.attemptDirectory + "/files/volcano";
    for (std::size_t task = 0; task < order.text->tasks.size(); ++task) {
      std::string names;
      for (const auto& rank : order.ranks) {
        if (rank.task == task) names += hostName(*order.text, rank) + "\n";
      }
      built.files.push_back({directory + "/" + order.text->tasks[task].name + ".host", names});
    }
    mounts.push_back({directory, "/etc/volcano", true, true});
  }
  for (auto& rank : built.launch.ranks) {
    rank.mounts.insert(rank.mounts.end(), mounts.begin(), mounts.end());
  }
}

// ---- rules
// --------------------------------------------------------------------------------------------------------

std::vector<supervise::RuleEvent> eventsOf(const model::LifecycleRule& rule) {
  using supervise::RuleEvent;
  switch (rule.event) {
    case PolicyEvent::kPodFailed:
    case PolicyEvent::kTaskFailed:
    case PolicyEvent::kExitCode:
      return {RuleEvent::kFailed};
    case PolicyEvent::kTaskCompleted:
      return {RuleEvent::kTaskCompleted};
    case PolicyEvent::kAny:  // no job is ended for the worse because a part of it is done
      if (rule.action != PolicyAction::kCompleteJob) return {RuleEvent::kFailed};
      return {RuleEvent::kFailed, RuleEvent::kTaskCompleted};
    case PolicyEvent::kPodEvicted:
    case PolicyEvent::kUnknown:
      break;  // these are the controller's: nothing that a rank does
  }
  return {};
}

// What follows the end of the attempt is the controller's to decide; here it only matters that it
// ends, and how.
void addRules(const ports::AttemptOrder& order, BuiltLaunch& built) {
  for (const auto& rule : order.shape->rules) {
    if (rule.action == PolicyAction::kResumeJob) continue;
    supervise::EndRule end;
    if (rule.task >= 0 && static_cast<std::size_t>(rule.task) < order.text->tasks.size()) {
      end.task = order.text->tasks[static_cast<std::size_t>(rule.task)].name;
    }
    if (rule.event == PolicyEvent::kExitCode) end.exitCode = rule.exitCode;
    auto& list =
        rule.action == PolicyAction::kCompleteJob ? built.launch.completeOn : built.launch.abortOn;
    for (const auto event : eventsOf(rule)) {
      end.event = event;
      list.push_back(end);
    }
  }
}

// ---- ranks
// --------------------------------------------------------------------------------------------------------

std::vector<supervise::PortMap> portsOf(const model::TaskText& task, const LaunchPlace& place,
                                        std::size_t& next) {
  std::vector<supervise::PortMap> ports;
  for (const auto& port : task.ports) {
    const auto chosen = port.host != 0              ? port.host
                        : next < place.ports.size() ? place.ports[next++]
                                                    : std::uint16_t{0};
    ports.push_back({port.address, chosen, port.container});
  }
  return ports;
}

Result<supervise::RankLaunch> rankOf(const ports::AttemptOrder& order, std::uint32_t rank,
                                     const HostFacts& host, const LaunchPlace& place,
                                     std::map<std::string, std::set<std::string>>& ignored) {
  const auto& task = order.text->tasks[order.ranks[rank].task];
  const auto& shape = order.shape->tasks[order.ranks[rank].task];
  BOLE_ASSIGN(const auto start, startOf(order, task, place));
  EnvironmentFacts facts;
  facts.workDirectory = start.job;
  facts.checkpointDirectory = checkpointDirectory(*order.shape, *order.text, place.workDirectory);
  facts.masterPort = place.masterPort;
  facts.ownNetwork = !sharesHostNetwork(*order.shape);
  facts.hostNames = canNameHosts(*order.shape);
  BOLE_ASSIGN(auto environment, rankEnvironment(order, rank, facts));
  ignored[task.name].insert(environment.ignored.begin(), environment.ignored.end());

  supervise::RankLaunch launch;
  launch.rank = rank;
  launch.task = task.name;
  launch.argv = startedIn(start.inside, task.command);
  launch.env = std::move(environment.variables);
  launch.cwd = start.cwd;
  launch.uid = uidOf(order, host);
  launch.gid = order.shape->runtime == model::Runtime::kPlain || !host.mayChangeUid ? host.ownGid
                                                                                    : launch.uid;
  launch.devices = devicesOf(order, rank, host);
  launch.memory = shape.memory;
  launch.cpu = shape.cpus;
  launch.shm = shape.shm;
  launch.image = task.image;
  if (order.shape->runtime != model::Runtime::kPlain && start.cwd != start.job) {
    launch.mounts.push_back({start.job, start.job, false, true});  // what lies beside the cwd
  }
  for (const auto& mount : task.mounts) {
    launch.mounts.push_back({mount.source, mount.target, mount.readOnly, false});
  }
  return launch;
}

void addNotes(const std::map<std::string, std::set<std::string>>& ignored, BuiltLaunch& built) {
  for (const auto& [task, names] : ignored) {
    if (names.empty()) continue;
    std::string list;
    for (const auto& name : names) list += (list.empty() ? "" : ", ") + name;
    built.notes.push_back("task '" + task + "' sets " + list +
                          ": ignored, these say what was allocated");
  }
}

}  // namespace

Result<BuiltLaunch> buildLaunch(const ports::AttemptOrder& order, const HostFacts& host,
                                const LaunchPlace& place) {
  BOLE_TRY(checkOrder(order));
  BuiltLaunch built;
  auto& launch = built.launch;
  launch.attempt = order.attempt.value;
  launch.job = order.job.value;
  launch.name = order.text->name;
  launch.runtime = runtimeOf(order.shape->runtime);
  launch.network = sharesHostNetwork(*order.shape) ? supervise::NetworkKind::kHost
                                                   : supervise::NetworkKind::kGang;
  launch.grace = order.shape->grace;
  launch.timeLimit = order.shape->timeLimit;
  launch.logBytes = host.logBytes;
  launch.logFiles = host.logFiles;
  launch.mountsFor = host.mayChangeUid ? order.text->user : "";
  launch.maskPaths = host.maskPaths;
  launch.cgroup = cgroupOf(order.attempt, host);
  std::map<std::string, std::set<std::string>> ignored;
  std::size_t nextPort = 0;
  for (std::uint32_t rank = 0; rank < order.ranks.size(); ++rank) {
    BOLE_ASSIGN(auto one, rankOf(order, rank, host, place, ignored));
    one.ports = portsOf(order.text->tasks[order.ranks[rank].task], place, nextPort);
    launch.ranks.push_back(std::move(one));
  }
  addHostNames(order, host, place, built);
  addRules(order, built);
  addNotes(ignored, built);
  return built;
}

std::size_t portsToChoose(const ports::AttemptOrder& order) {
  std::size_t count = 0;
  for (const auto& rank : order.ranks) {
    if (rank.task >= order.text->tasks.size()) continue;
    const auto& ports = order.text->tasks[rank.task].ports;
    count += static_cast<std::size_t>(
        std::count_if(ports.begin(), ports.end(), [](const auto& port) { return port.host == 0; }));
  }
  return count;
}

bool sharesHostNetwork(const model::JobShape& shape) {
  return shape.network == model::Network::kHost || shape.runtime == model::Runtime::kPlain;
}

std::uint32_t uidOf(const ports::AttemptOrder& order, const HostFacts& host) {
  if (order.shape->runtime == model::Runtime::kPlain || !host.mayChangeUid) return host.ownUid;
  return host.baseUid + static_cast<std::uint32_t>(order.project.value);
}

std::string checkpointDirectory(const model::JobShape& shape, const model::JobText& text,
                                const std::string& workDirectory) {
  if (text.checkpointPath.empty()) return {};
  const auto base = text.workingDir.empty() ? workDirectory : normal(text.workingDir);
  auto path = normal((fs::path(base) / text.checkpointPath).string());
  if (shape.runtime == model::Runtime::kPlain) return path;
  const auto relative = below(path, base);
  return relative ? join(workDirectory, *relative) : path;
}

std::string cgroupOf(AttemptId attempt, const HostFacts& host) {
  return "bole-" + host.instance + "/attempt-" + std::to_string(attempt.value);
}

}  // namespace bole::engine
