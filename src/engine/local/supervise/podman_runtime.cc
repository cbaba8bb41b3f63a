#include "engine/local/supervise/podman_runtime.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <sstream>

#include "engine/local/init/init_protocol.h"
#include "engine/local/supervise/podman_child.h"
#include "engine/local/supervise/podman_command.h"
#include "engine/local/supervise/podman_containers.h"

namespace bole::supervise {
namespace {

std::string rankDirectory(const std::string& dir, std::uint32_t rank) {
  return dir + "/ranks/" + std::to_string(rank);
}

// The number after `key` in a file of "key number" lines; 0 where it is not there.
std::uint64_t counterIn(const std::string& file, const std::string& key) {
  const auto text = readFile(file, 65536);
  if (!text) return 0;
  std::istringstream words(*text);
  std::string name;
  for (std::uint64_t value = 0; words >> name >> value;) {
    if (name == key) return value;
  }
  return 0;
}

// Where the kills for memory of this process's group are counted; empty: nowhere that can be seen.
// `parent` is part of the path that the kernel tells, which may begin elsewhere than what is
// mounted here.
std::string memoryEventsOf(pid_t pid, const std::string& parent) {
  const auto text = readFile("/proc/" + std::to_string(pid) + "/cgroup", 65536);
  if (!text || parent.empty()) return {};
  std::istringstream lines(*text);
  std::string found;
  for (std::string line; std::getline(lines, line);) {
    const auto at = line.find("/" + parent + "/");
    if (at == std::string::npos) continue;
    const auto group = line.substr(at);
    const bool v1 = line.find(":memory:") != std::string::npos;
    const auto file = v1 ? "/sys/fs/cgroup/memory" + group + "/memory.oom_control"
                         : "/sys/fs/cgroup" + group + "/memory.events";
    if ((v1 || line.compare(0, 3, "0::") == 0) && pathExists(file)) found = file;
  }
  return found;
}

}  // namespace

std::vector<std::string> PodmanRuntime::podman() const {
  std::vector<std::string> words = {facts_.program};
  for (const auto& option : globalOptions(facts_)) words.push_back(option);
  return words;
}

Result<void> PodmanRuntime::prepare() {
  facts_ = lookAtPodman();
  BOLE_TRY(checkPodman(facts_));
  preparePodmanEnvironment(place_.tag);
  BOLE_ASSIGN(machineNetwork_,
              openFile("/proc/self/ns/net", O_RDONLY, 0, "cannot hold the machine's network"));
  cdi_ = readCdi();
  if (!facts_.root) note("the ranks run as the server's own user: only root may change it");
  BOLE_TRY(openPorts());
  std::vector<std::string> names;
  for (const auto& rank : launch_.ranks) names.push_back(containerName(place_.tag, rank.rank));
  return recordContainers(place_.directory, names);
}

Result<void> PodmanRuntime::openPorts() {
  for (const auto& rank : launch_.ranks) {
    for (const auto& port : rank.ports) {
      if (launch_.network == NetworkKind::kGang) {
        if (auto opened = ports_.listen(port); !opened) {
          return fail(makeError(opened.error().code, "rank " + std::to_string(rank.rank) + ": " +
                                                         opened.error().message()));
        }
      } else if (port.host != port.container) {
        note("the ranks are in the machine's own network: port " + std::to_string(port.container) +
             " is that of the machine, and not " + std::to_string(port.host));
      }
    }
  }
  return {};
}

std::vector<std::string> PodmanRuntime::published(const RankLaunch& rank) const {
  std::vector<std::string> lines;
  if (launch_.network != NetworkKind::kGang) return lines;
  for (const auto& port : rank.ports) {
    const bool v6 = port.address.find(':') != std::string::npos;
    lines.push_back("port " + std::to_string(port.container) + " is published at " +
                    (v6 ? "[" + port.address + "]" : port.address) + ":" +
                    std::to_string(port.host));
  }
  return lines;
}

Result<void> PodmanRuntime::beginImages(std::vector<std::string> entrances,
                                        std::function<void(const std::string&)> say) {
  PodmanImages::Options options;
  options.podman = podman();
  options.output = place_.directory + "/podman.log";
  options.entrances = std::move(entrances);
  options.network = facts_.root ? machineNetwork_.get() : -1;
  std::vector<std::string> images;
  for (const auto& rank : launch_.ranks) images.push_back(rank.image);
  images_.emplace(std::move(options), std::move(images), std::move(say));
  return images_->begin();
}

std::optional<std::string> PodmanRuntime::failure() const {
  if (!images_ || !images_->failure()) return std::nullopt;
  return images_->failure()->message();
}

Result<std::vector<MountSeen>> PodmanRuntime::plan(const RankLaunch& rank, SpawnPlan& plan) {
  const auto own = rankDirectory(place_.directory, rank.rank);
  ContainerPlace where;
  where.name = containerName(place_.tag, rank.rank);
  where.tag = place_.tag;
  where.attemptDirectory = place_.directory;
  where.init = place_.programs + "/bole-init";
  where.reportsDirectory = own + "/reports";
  where.passages = own + "/passages";
  where.cgroupParent = facts_.root ? launch_.cgroup : "";
  where.root = facts_.root;
  where.machineMemory = place_.machineMemory;
  where.processes = place_.processes;
  auto devices = deviceOptions(rank.devices, cdi_);
  if (!devices.note.empty()) note(devices.note);
  where.devices = std::move(devices.options);
  where.ulimits = ulimitOptions(facts_);
  BOLE_ASSIGN(auto container, buildContainer(launch_, rank, where));
  if (!container.directories.empty()) BOLE_TRY(makeDirectory(where.passages, 0755));
  for (const auto& directory : container.directories) {
    BOLE_TRY(makeDirectory(directory, 0755));
    if (::chmod(directory.c_str(), 0755) != 0) {  // whatever this process's umask says
      return fail(systemError(errno, "cannot open the directory to the job", directory));
    }
  }
  plan.argv = podman();
  plan.argv.insert(plan.argv.end(), container.arguments.begin(), container.arguments.end());
  plan.config.insert(plan.config.end(),
                     {init::kInherit, "1", init::kConfine, "1", init::kFiles, "65536"});
  return std::move(container.mounts);
}

void PodmanRuntime::rankIsUp(std::uint32_t rank, pid_t init) {
  if (auto file = memoryEventsOf(init, launch_.cgroup); !file.empty())
    memoryEvents_[rank] = std::move(file);
}

bool PodmanRuntime::oomKilled(std::uint32_t rank) const {
  const auto file = memoryEvents_.find(rank);
  return file != memoryEvents_.end() && counterIn(file->second, "oom_kill") > 0;
}

std::string PodmanRuntime::whyNotUp(const RankLaunch& rank, const std::string& said) const {
  auto why = lastError(said);
  if (why.empty()) why = "Podman ended without a word";
  auto error = makeError(ErrorCode::kUnavailable, "the container could not be started: " + why)
                   .at("image " + rank.image);
  if (why.find("image not known") != std::string::npos) {
    return std::move(error)
        .withHint("it was here a moment ago: podman pull " + rank.image)
        .message();
  }
  return std::move(error)
      .withHint("`podman run --rm " + rank.image +
                " true` as the server's user shows whether containers run here at all")
      .message();
}

void PodmanRuntime::note(const std::string& text) {
  if (std::find(notes_.begin(), notes_.end(), text) == notes_.end()) notes_.push_back(text);
}

Result<void> PodmanRuntime::remove() {
  auto removed = removeContainers(place_.directory, podman());
  removeContainerGroups(launch_.cgroup);
  return removed;
}

}  // namespace bole::supervise
