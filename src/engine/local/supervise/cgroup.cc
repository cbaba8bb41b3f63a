#include "engine/local/supervise/cgroup.h"

#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "engine/local/supervise/posix.h"

namespace bole::supervise {
namespace {

namespace fs = std::filesystem;

constexpr long kCgroup2Magic = 0x63677270;
constexpr std::int64_t kPeriodMicros = 100'000;
constexpr int kMakeTries = 100;
constexpr const char* kControllers[] = {"+memory", "+cpu", "+pids"};

bool isCgroup2(const std::string& path) {
  struct statfs facts {};
  return ::statfs(path.c_str(), &facts) == 0 && facts.f_type == kCgroup2Magic;
}

// Where the v2 tree is; empty: nowhere.
std::string unifiedRoot(const std::string& root) {
  if (isCgroup2(root)) return root;
  if (isCgroup2(root + "/unified")) return root + "/unified";
  return {};
}

// The number after `key` in a file of "key number" lines; 0 where it is not there.
std::uint64_t counter(const std::string& file, const std::string& key) {
  const auto text = readFile(file, 65536);
  if (!text) return 0;
  std::istringstream words(*text);
  std::string name;
  for (std::uint64_t value = 0; words >> name >> value;) {
    if (name == key) return value;
  }
  return 0;
}

// This process's own group in a v1 hierarchy, as a path below it; empty: no such hierarchy.
std::string ownV1Group(const std::string& controller) {
  const auto text = readFile("/proc/self/cgroup", 65536);
  if (!text) return {};
  std::istringstream lines(*text);
  for (std::string line; std::getline(lines, line);) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    std::istringstream names(line.substr(first + 1, second - first - 1));
    for (std::string name; std::getline(names, name, ',');) {
      if (name == controller) return line.substr(second + 1);
    }
  }
  return {};
}

void removeGroup(const std::string& path) {
  if (!path.empty()) ::rmdir(path.c_str());
}

// A group's children first.
void removeTree(const std::string& path) {
  std::error_code lost;
  for (const auto& entry : fs::directory_iterator(path, lost)) {
    if (entry.is_directory(lost)) removeTree(entry.path());
  }
  removeGroup(path);
}

// The empty ones above it too, up to the root of the tree.
void removeParents(std::string path, const std::string& top) {
  for (;;) {
    path.erase(path.rfind('/'));
    if (path.size() <= top.size() || ::rmdir(path.c_str()) != 0) return;
  }
}

// The directories of `relative` below `top`, with the controllers handed down to the last one.
Result<std::string> makeGroups(const std::string& top, const std::string& relative) {
  std::string at = top;
  std::istringstream parts(relative);
  for (std::string part; std::getline(parts, part, '/');) {
    for (const auto* controller : kControllers) {
      static_cast<void>(writeControl(at + "/cgroup.subtree_control", controller));
    }
    at += "/" + part;
    BOLE_TRY(makeDirectory(at, 0755));
  }
  return at;
}

}  // namespace

AttemptCgroup::AttemptCgroup(const std::string& relative, std::string root)
    : root_(std::move(root)) {
  if (relative.empty()) return;
  label_ = relative;
  std::replace(label_.begin(), label_.end(), '/', '-');
  makeAttempt(relative);
}

void AttemptCgroup::makeAttempt(const std::string& relative) {
  const auto top = unifiedRoot(root_);
  if (top.empty()) return note("this machine has no cgroup v2 tree");
  // An attempt that ends at this moment may remove the directory that both share.
  auto made = makeGroups(top, relative);
  for (int tries = 0; !made && made.error().code == ErrorCode::kNotFound && tries < kMakeTries;
       ++tries) {
    made = makeGroups(top, relative);
  }
  if (!made) return note(made.error().message());
  if (!pathExists(*made + "/cgroup.kill")) {
    removeGroup(*made);
    removeParents(*made, top);
    return note("the kernel has no cgroup.kill (Linux 5.14 has)");
  }
  top_ = top;
  path_ = std::move(*made);
  memoryV2_ = writeControl(path_ + "/cgroup.subtree_control", "+memory") == 0;
  cpuV2_ = writeControl(path_ + "/cgroup.subtree_control", "+cpu") == 0;
  pidsV2_ = writeControl(path_ + "/cgroup.subtree_control", "+pids") == 0;
}

void AttemptCgroup::addRank(std::uint32_t rank, const RankLimits& limits) {
  Leaf leaf;
  leaf.rank = rank;
  if (contains()) {
    leaf.v2 = path_ + "/rank-" + std::to_string(rank);
    if (auto made = makeDirectory(leaf.v2, 0755); !made) {
      leaf.v2.clear();
      note(made.error().message());
    }
  }
  if (limits.memory.value > 0) setMemory(leaf, limits.memory);
  if (limits.cpu.value > 0) setCpu(leaf, limits.cpu);
  if (limits.processes > 0) setProcesses(leaf, limits.processes);
  leaves_.push_back(std::move(leaf));
}

void AttemptCgroup::setMemory(Leaf& leaf, Bytes memory) {
  const auto amount = std::to_string(memory.value);
  if (memoryV2_ && !leaf.v2.empty() && writeControl(leaf.v2 + "/memory.max", amount) == 0) {
    static_cast<void>(writeControl(leaf.v2 + "/memory.swap.max", "0"));
    return;
  }
  leaf.memoryV1 = makeV1("memory", leaf.rank);
  if (!leaf.memoryV1.empty() &&
      writeControl(leaf.memoryV1 + "/memory.limit_in_bytes", amount) == 0) {
    static_cast<void>(writeControl(leaf.memoryV1 + "/memory.memsw.limit_in_bytes", amount));
    return;
  }
  note("the memory limit is not enforced: no memory cgroup can be made here");
}

void AttemptCgroup::setCpu(Leaf& leaf, MilliCpu cpu) {
  const auto quota = std::to_string(std::max<std::int64_t>(cpu.value * kPeriodMicros / 1000, 1000));
  const auto period = std::to_string(kPeriodMicros);
  if (cpuV2_ && !leaf.v2.empty() && writeControl(leaf.v2 + "/cpu.max", quota + " " + period) == 0) {
    return;
  }
  leaf.cpuV1 = makeV1("cpu", leaf.rank);
  if (!leaf.cpuV1.empty() && writeControl(leaf.cpuV1 + "/cpu.cfs_period_us", period) == 0 &&
      writeControl(leaf.cpuV1 + "/cpu.cfs_quota_us", quota) == 0) {
    return;
  }
  note("the CPU limit is not enforced: no cpu cgroup can be made here");
}

// Without it a fork bomb takes the machine's process numbers with it. Where no controller is to be
// had init sets a limit of its own, so that it is no note.
void AttemptCgroup::setProcesses(Leaf& leaf, std::uint32_t processes) {
  const auto amount = std::to_string(processes);
  if (pidsV2_ && !leaf.v2.empty() && writeControl(leaf.v2 + "/pids.max", amount) == 0) {
    leaf.processesLimited = true;
    return;
  }
  leaf.pidsV1 = makeV1("pids", leaf.rank);
  leaf.processesLimited =
      !leaf.pidsV1.empty() && writeControl(leaf.pidsV1 + "/pids.max", amount) == 0;
}

// In a container the path that the kernel tells may not be what is mounted here: then below the
// mount itself.
std::string AttemptCgroup::makeV1(const std::string& controller, std::uint32_t rank) {
  const auto own = ownV1Group(controller);
  if (own.empty() || label_.empty()) return {};
  const auto leaf = "/" + label_ + "-rank-" + std::to_string(rank);
  const std::string hierarchy = root_ + "/" + controller;
  for (const auto& parent : {hierarchy + (own == "/" ? "" : own), hierarchy}) {
    if (!pathExists(parent + "/cgroup.procs")) continue;
    if (makeDirectory(parent + leaf, 0755)) return parent + leaf;
  }
  return {};
}

const AttemptCgroup::Leaf* AttemptCgroup::find(std::uint32_t rank) const {
  for (const auto& leaf : leaves_) {
    if (leaf.rank == rank) return &leaf;
  }
  return nullptr;
}

std::vector<std::string> AttemptCgroup::entrances(std::uint32_t rank) const {
  std::vector<std::string> files;
  const auto* leaf = find(rank);
  if (!leaf) return files;
  for (const auto* path : {&leaf->v2, &leaf->memoryV1, &leaf->cpuV1, &leaf->pidsV1}) {
    if (!path->empty()) files.push_back(*path + "/cgroup.procs");
  }
  return files;
}

std::vector<std::string> AttemptCgroup::v1Groups() const {
  std::vector<std::string> groups;
  for (const auto& leaf : leaves_) {
    for (const auto* path : {&leaf.memoryV1, &leaf.cpuV1, &leaf.pidsV1}) {
      if (!path->empty()) groups.push_back(*path);
    }
  }
  return groups;
}

bool AttemptCgroup::limitsProcesses(std::uint32_t rank) const {
  const auto* leaf = find(rank);
  return leaf && leaf->processesLimited;
}

bool AttemptCgroup::oomKilled(std::uint32_t rank) const {
  const auto* leaf = find(rank);
  if (!leaf) return false;
  return (!leaf->v2.empty() && counter(leaf->v2 + "/memory.events", "oom_kill") > 0) ||
         (!leaf->memoryV1.empty() &&
          counter(leaf->memoryV1 + "/memory.oom_control", "oom_kill") > 0);
}

void AttemptCgroup::kill() const {
  if (contains()) static_cast<void>(writeControl(path_ + "/cgroup.kill", "1"));
}

void AttemptCgroup::killRank(std::uint32_t rank) const {
  const auto* leaf = find(rank);
  if (leaf && !leaf->v2.empty()) static_cast<void>(writeControl(leaf->v2 + "/cgroup.kill", "1"));
}

bool AttemptCgroup::populated() const {
  return contains() && counter(path_ + "/cgroup.events", "populated") > 0;
}

void AttemptCgroup::remove() {
  for (const auto& path : v1Groups()) removeGroup(path);
  if (!contains()) return;
  removeTree(path_);
  removeParents(path_, top_);
}

void AttemptCgroup::note(const std::string& text) {
  if (std::find(notes_.begin(), notes_.end(), text) == notes_.end()) notes_.push_back(text);
}

bool killGroup(const std::string& relative, const std::string& root) {
  const auto top = unifiedRoot(root);
  if (relative.empty() || top.empty()) return false;
  const auto path = top + "/" + relative;
  if (!pathExists(path)) return false;
  static_cast<void>(writeControl(path + "/cgroup.kill", "1"));
  if (counter(path + "/cgroup.events", "populated") > 0) return true;
  removeTree(path);
  removeParents(path, top);
  return false;
}

}  // namespace bole::supervise
