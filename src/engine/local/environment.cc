#include "engine/local/environment.h"

#include <algorithm>
#include <cctype>
#include <unordered_map>

namespace bole::engine {
namespace {

class Builder {
 public:
  // A variable of Bole's that the job may set otherwise.
  void preset(std::string name, std::string value) {
    put(std::move(name), std::move(value), false);
  }
  // One that says what was allocated: the job may not.
  void fixed(std::string name, std::string value) { put(std::move(name), std::move(value), true); }

  void own(const std::string& name, const std::string& value) {
    const auto known = index_.find(name);
    if (known == index_.end() || !entries_[known->second].fixed) return put(name, value, false);
    if (entries_[known->second].value != value) ignored_.push_back(name);
  }

  RankEnvironment take() {
    RankEnvironment result;
    for (const auto& entry : entries_) result.variables.push_back(entry.name + "=" + entry.value);
    std::sort(ignored_.begin(), ignored_.end());
    ignored_.erase(std::unique(ignored_.begin(), ignored_.end()), ignored_.end());
    result.ignored = std::move(ignored_);
    return result;
  }

 private:
  struct Entry {
    std::string name;
    std::string value;
    bool fixed = false;
  };

  void put(std::string name, std::string value, bool isFixed) {
    const auto [at, isNew] = index_.try_emplace(name, entries_.size());
    if (isNew) {
      entries_.push_back({std::move(name), std::move(value), isFixed});
    } else {
      entries_[at->second].value = std::move(value);
    }
  }

  std::vector<Entry> entries_;
  std::unordered_map<std::string, std::size_t> index_;
  std::vector<std::string> ignored_;
};

struct Rank {
  const ports::AttemptOrder& order;
  std::uint32_t number;
  const model::RankPlacement& placement;
  const model::TaskShape& shape;
  const model::TaskText& text;
  const model::Node& node;
};

// The rank among those of its machine, and how many these are.
std::pair<std::size_t, std::size_t> localPlace(const Rank& rank) {
  std::size_t before = 0;
  std::size_t all = 0;
  for (std::size_t i = 0; i < rank.order.ranks.size(); ++i) {
    if (rank.order.ranks[i].node != rank.placement.node) continue;
    if (i < rank.number) ++before;
    ++all;
  }
  return {before, all};
}

// A rank is a machine of its own to the programs in it (docs/adr/0003-local-rank.md).
void addGang(Builder& env, const Rank& rank, const EnvironmentFacts& facts) {
  const auto world = std::to_string(rank.order.ranks.size());
  const auto number = std::to_string(rank.number);
  const auto port = std::to_string(facts.masterPort);
  env.fixed("RANK", number);
  env.fixed("LOCAL_RANK", "0");
  env.fixed("WORLD_SIZE", world);
  env.fixed("LOCAL_WORLD_SIZE", "1");
  env.fixed("NODE_RANK", number);
  env.preset("MASTER_ADDR", facts.masterAddress);
  env.preset("MASTER_PORT", port);
  // The defaults of torchrun's own options: `torchrun train.py` in every rank is the whole gang.
  env.preset("PET_NNODES", world);
  env.preset("PET_NODE_RANK", number);
  env.preset("PET_NPROC_PER_NODE",
             std::to_string(std::max<std::size_t>(1, rank.placement.gpus.size())));
  env.preset("PET_MASTER_ADDR", facts.masterAddress);
  env.preset("PET_MASTER_PORT", port);
  if (facts.ownNetwork) {
    env.preset("NCCL_SOCKET_IFNAME", "lo");
    env.preset("GLOO_SOCKET_IFNAME", "lo");
  }
}

void addGpus(Builder& env, const Rank& rank) {
  auto gpus = rank.placement.gpus;
  std::sort(gpus.begin(), gpus.end());  // a node's indices are in PCI order
  std::string uuids;
  for (const auto gpu : gpus) {
    if (!uuids.empty()) uuids += ',';
    uuids += rank.node.gpus[gpu].uuid;
  }
  const bool emulated = rank.node.emulated && !gpus.empty();
  env.fixed("CUDA_DEVICE_ORDER", "PCI_BUS_ID");
  env.fixed("CUDA_VISIBLE_DEVICES", uuids);
  // Read by NVIDIA's container runtime. "void": a container of none of its business.
  env.fixed("NVIDIA_VISIBLE_DEVICES", gpus.empty() || emulated ? "void" : uuids);
  env.fixed("BOLE_GPUS", std::to_string(gpus.size()));
  if (!gpus.empty()) env.fixed("BOLE_GPU_MODEL", rank.node.gpus[gpus.front()].model);
  if (emulated) env.fixed("BOLE_GPUS_EMULATED", "1");
  if (rank.placement.grants.empty()) return;
  std::string shares;
  std::string memory;
  for (const auto& grant : rank.placement.grants) {  // in the order of the GPUs, which are sorted
    shares += (shares.empty() ? "" : ",") + std::to_string(grant.share.value);
    memory += (memory.empty() ? "" : ",") + std::to_string(grant.memory.value);
  }
  env.fixed("BOLE_GPU_SHARES", shares);
  env.fixed("BOLE_GPU_MEMORY_BYTES", memory);
}

void addCpus(Builder& env, const Rank& rank) {
  const auto whole = std::to_string(std::max<std::int64_t>(1, rank.shape.cpus.value / 1000));
  for (const auto* name : {"OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS",
                           "NUMEXPR_NUM_THREADS", "RAYON_NUM_THREADS", "GOMAXPROCS"}) {
    env.preset(name, whole);
  }
  env.fixed("BOLE_MILLICPUS", std::to_string(rank.shape.cpus.value));
  env.fixed("BOLE_MEMORY_BYTES", std::to_string(rank.shape.memory.value));
}

void addNames(Builder& env, const Rank& rank, const EnvironmentFacts& facts) {
  const auto [localRank, localWorld] = localPlace(rank);
  env.fixed("BOLE_JOB_ID", std::to_string(rank.order.job.value));
  env.fixed("BOLE_JOB_NAME", rank.order.text->name);
  env.fixed("BOLE_ATTEMPT", std::to_string(rank.order.number));
  env.fixed("BOLE_ATTEMPT_ID", std::to_string(rank.order.attempt.value));
  env.fixed("BOLE_PROJECT_ID", std::to_string(rank.order.project.value));
  env.fixed("BOLE_TASK", rank.text.name);
  env.fixed("BOLE_REPLICA", std::to_string(rank.placement.replica));
  env.fixed("BOLE_RANK", std::to_string(rank.number));
  env.fixed("BOLE_WORLD_SIZE", std::to_string(rank.order.ranks.size()));
  env.fixed("BOLE_LOCAL_RANK", std::to_string(localRank));
  env.fixed("BOLE_LOCAL_WORLD_SIZE", std::to_string(localWorld));
  env.fixed("BOLE_NODE", rank.node.name);
  env.fixed("BOLE_WORK_DIR", facts.workDirectory);
  if (const auto& array = rank.order.shape->array) {
    env.fixed("BOLE_ARRAY_INDEX", std::to_string(array->index));
    env.fixed("BOLE_ARRAY_JOB_ID", std::to_string(array->first.value));
    env.fixed("BOLE_ARRAY_COUNT", std::to_string(array->count));
  }
  if (!facts.checkpointDirectory.empty()) {
    env.preset("BOLE_CHECKPOINT_DIR", facts.checkpointDirectory);
  }
  env.preset("PYTHONUNBUFFERED", "1");  // or a log stays empty until 8 KiB have come together
}

std::string variableName(std::string_view task) {
  std::string name;
  for (const char c : task) {
    name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return name;
}

// As Volcano's plugins of these names do:
// https://github.com/volcano-sh/volcano/blob/master/docs/user-guide/how_to_use_env_plugin.md,
// ..._svc_plugin.md
void addVolcano(Builder& env, const Rank& rank, const EnvironmentFacts& facts) {
  const auto& text = *rank.order.text;
  if (hasPlugin(text, "env")) {
    env.fixed("VC_TASK_INDEX", std::to_string(rank.placement.replica));
    env.fixed("VK_TASK_INDEX", std::to_string(rank.placement.replica));
  }
  if (!hasPlugin(text, "svc")) return;
  for (std::size_t task = 0; task < text.tasks.size(); ++task) {
    std::string hosts;
    std::size_t count = 0;
    for (const auto& other : rank.order.ranks) {
      if (other.task != task) continue;
      if (count++ > 0) hosts += ',';
      hosts += facts.hostNames ? hostName(text, other) : facts.masterAddress;
    }
    const auto name = variableName(text.tasks[task].name);
    env.fixed("VC_" + name + "_HOSTS", hosts);
    env.fixed("VC_" + name + "_NUM", std::to_string(count));
  }
}

Result<void> addOwn(Builder& env, const Rank& rank) {
  for (const auto& [name, value] : rank.text.env) {
    const bool bad = name.empty() || name.find('=') != std::string::npos ||
                     name.find('\0') != std::string::npos || value.find('\0') != std::string::npos;
    if (bad) {
      return fail(
          makeError(ErrorCode::kInvalid, "not a name and value that an environment can hold")
              .at("environment of task '" + rank.text.name + "'")
              .foundValue("'" + name + "'")
              .expectedValue("a name without '=', no zero bytes"));
    }
    env.own(name, value);
  }
  return {};
}

}  // namespace

std::string hostName(const model::JobText& text, const model::RankPlacement& rank) {
  return text.name + "-" + text.tasks[rank.task].name + "-" + std::to_string(rank.replica) + "." +
         text.name;
}

bool hasPlugin(const model::JobText& text, std::string_view name) {
  return std::find(text.plugins.begin(), text.plugins.end(), name) != text.plugins.end();
}

Result<RankEnvironment> rankEnvironment(const ports::AttemptOrder& order, std::uint32_t rank,
                                        const EnvironmentFacts& facts) {
  const auto& placement = order.ranks[rank];
  const Rank self{order,
                  rank,
                  placement,
                  order.shape->tasks[placement.task],
                  order.text->tasks[placement.task],
                  *order.nodes[rank]};
  Builder env;
  addGang(env, self, facts);
  addGpus(env, self);
  addCpus(env, self);
  addNames(env, self, facts);
  addVolcano(env, self, facts);
  BOLE_TRY(addOwn(env, self));
  return env.take();
}

}  // namespace bole::engine
