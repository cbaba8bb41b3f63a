// The invariants of docs/design/DESIGN.md, each recomputed from the live attempts and compared with
// what the tables say.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "state/state.h"

namespace bole::state {
namespace {

using UseOfQueues = std::map<QueueId, model::QueueUse>;

struct Held {
  std::vector<MilliGpu> gpus;
  std::vector<Bytes> gpuMemory;
  MilliCpu cpus;
  Bytes memory;
};

Error broken(std::string what) {
  return makeError(ErrorCode::kCorrupt, "an invariant does not hold: " + std::move(what));
}

// What everything else relies on: whoever is named is there.
Result<void> checkNames(const model::Tables& tables) {
  Result<void> result;
  tables.nodes.forEach([&](NodeId id, const model::NodeRecord& node) {
    const auto gpus = node.node->gpus.size();
    if (node.node->links.size() == gpus * gpus && node.gpuUsed.size() >= gpus &&
        node.gpuMemoryUsed.size() == node.gpuUsed.size() &&
        node.gpuHolder.size() == node.gpuUsed.size() &&
        (!node.probed || node.probed->gpus.size() == gpus))
      return true;
    result = fail(broken(fmt::format("node {} does not count its own GPUs", id.value)));
    return false;
  });
  if (!result) return result;
  tables.attempts.forEach([&](AttemptId id, const model::AttemptRecord& attempt) {
    const auto* job = tables.jobs.find(attempt.job);
    for (const auto& rank : attempt.ranks) {
      const auto* node = tables.nodes.find(rank.node);
      bool there = job && node && rank.task < job->shape->tasks.size();
      for (const auto gpu : rank.gpus)
        there = there && (!attempt.live || gpu < node->gpuUsed.size());
      if (there) continue;
      result = fail(broken(fmt::format("attempt {} has a rank of no task or no place", id.value)));
      return false;
    }
    return true;
  });
  return result;
}

// 4. Each allocation belongs to one live attempt, each live attempt to one job, each job to one
// project.
Result<void> checkOwners(const model::Tables& tables, std::map<NodeId, Held>& held,
                         UseOfQueues& uses) {
  Result<void> result;
  tables.attempts.forEach([&](AttemptId id, const model::AttemptRecord& attempt) {
    const auto* job = tables.jobs.find(attempt.job);
    if (!job) {
      result = fail(broken(fmt::format("attempt {} belongs to no job", id.value)));
      return false;
    }
    if (!attempt.live) return true;
    if (job->attempt != id || !model::holdsCapacity(job->state)) {
      result = fail(broken(fmt::format("attempt {} holds capacity, but job {} does not run it",
                                       id.value, attempt.job.value)));
      return false;
    }
    for (const auto& rank : attempt.ranks) {
      const auto& task = job->shape->tasks[rank.task];
      auto& sum = held[rank.node];
      for (std::size_t i = 0; i < rank.gpus.size(); ++i) {
        const auto gpu = rank.gpus[i];
        if (sum.gpus.size() <= gpu) sum.gpus.resize(gpu + 1);
        sum.gpuMemory.resize(sum.gpus.size());
        sum.gpus[gpu] += rank.grant(i).share;
        sum.gpuMemory[gpu] += rank.grant(i).memory;
      }
      sum.cpus += task.cpus;
      sum.memory += task.memory;
      auto& use = uses[job->shape->queue];
      for (std::size_t i = 0; i < rank.gpus.size(); ++i) use.gpusHeld += rank.grant(i).share;
      use.cpusHeld += task.cpus;
      use.memoryHeld += task.memory;
    }
    return true;
  });
  return result;
}

// 3, of queues.
Result<void> checkQueues(const model::Tables& tables, UseOfQueues& uses) {
  Result<void> result;
  tables.queueUse.forEach([&](QueueId id, const model::QueueUse& use) {
    const auto& own = uses[id];
    if (own.gpusHeld == use.gpusHeld && own.cpusHeld == use.cpusHeld &&
        own.memoryHeld == use.memoryHeld) {
      uses.erase(id);
      return true;
    }
    result = fail(broken(fmt::format("queue {} counts {} thousandths of GPUs, its jobs hold {}",
                                     id.value, use.gpusHeld.value, own.gpusHeld.value)));
    return false;
  });
  if (!result || uses.empty()) return result;
  return fail(broken(fmt::format("queue {} is not counted", uses.begin()->first.value)));
}

// 1. On each GPU the shares sum to at most 1000, and their memory to what it has. 3. Use is the sum
// of the live allocations.
Result<void> checkNode(const model::NodeRecord& node, const Held& held) {
  for (std::size_t i = 0; i < node.gpuUsed.size(); ++i) {
    const MilliGpu sum = i < held.gpus.size() ? held.gpus[i] : MilliGpu();
    if (sum > kWholeGpu) {
      return fail(broken(
          fmt::format("GPU {} of {} is given {} thousandths", i, node.node->name, sum.value)));
    }
    if (sum != node.gpuUsed[i]) {
      return fail(broken(fmt::format("GPU {} of {} counts {} thousandths, its attempts hold {}", i,
                                     node.node->name, node.gpuUsed[i].value, sum.value)));
    }
    const Bytes memory = i < held.gpuMemory.size() ? held.gpuMemory[i] : Bytes();
    if (memory != node.gpuMemoryUsed[i]) {
      return fail(broken(fmt::format("GPU {} of {} counts {} bytes, its attempts hold {}", i,
                                     node.node->name, node.gpuMemoryUsed[i].value, memory.value)));
    }
    if (i < node.node->gpus.size() && memory > node.node->gpus[i].memory)
      return fail(
          broken(fmt::format("GPU {} of {} is given {} bytes", i, node.node->name, memory.value)));
  }
  if (held.cpus != node.cpusUsed || held.memory != node.memoryUsed) {
    return fail(broken(
        fmt::format("the CPUs or memory of {} are not what its attempts hold", node.node->name)));
  }
  return {};
}

// 2. A gang holds at least its minimum, or nothing. 5. Only states that agree with what the job
// holds.
Result<void> checkJob(const model::Tables& tables, const model::JobRecord& job) {
  const auto* attempt = tables.attempts.find(job.attempt);
  const bool live = attempt && attempt->live;
  // Between an attempt's end and the event that says what follows, which are of one moment, the job
  // stands as it was.
  const bool justEnded = attempt && !live && attempt->endedAt == tables.time;
  if (live != model::holdsCapacity(job.state) && !justEnded) {
    return fail(broken(fmt::format("job {} {} capacity, which its state does not allow",
                                   job.id.value, live ? "holds" : "holds no")));
  }
  if (live && attempt->ranks.size() < job.shape->minAvailable) {
    return fail(broken(fmt::format("the gang of job {} holds {} ranks, less than its minimum {}",
                                   job.id.value, attempt->ranks.size(), job.shape->minAvailable)));
  }
  for (const auto& dependency : job.waitsFor) {
    const auto* other = tables.jobs.find(dependency.job);
    const bool knows = other && std::find(other->dependents.begin(), other->dependents.end(),
                                          job.id) != other->dependents.end();
    if (knows && !model::isTerminal(other->state) && job.state == model::JobState::kQueued)
      continue;
    return fail(broken(fmt::format("job {} waits for job {}, which will not tell it of its end",
                                   job.id.value, dependency.job.value)));
  }
  if (!tables.projects.find(job.project)) {
    return fail(broken(fmt::format("job {} belongs to no project", job.id.value)));
  }
  return {};
}

}  // namespace

Result<void> checkInvariants(const model::Tables& tables) {
  BOLE_TRY(checkNames(tables));
  std::map<NodeId, Held> held;
  UseOfQueues uses;
  BOLE_TRY(checkOwners(tables, held, uses));
  BOLE_TRY(checkQueues(tables, uses));
  Result<void> result;
  tables.nodes.forEach([&](NodeId id, const model::NodeRecord& node) {
    result = checkNode(node, held[id]);
    return result.has_value();
  });
  if (!result) return result;
  tables.jobs.forEach([&](JobId, const model::JobRecord& job) {
    result = checkJob(tables, job);
    return result.has_value();
  });
  return result;
}

}  // namespace bole::state
