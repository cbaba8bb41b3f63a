#include "scheduler/reserve.h"

#include <algorithm>
#include <map>

#include "model/run_time.h"
#include "scheduler/place.h"

namespace bole::scheduler {
namespace {

// Several ranks may have parts of one GPU.
void mergeParts(std::vector<World::GpuPart>& parts) {
  std::map<std::uint32_t, World::GpuPart> byGpu;
  for (const auto& part : parts) {
    auto& sum = byGpu.try_emplace(part.gpu, World::GpuPart{part.gpu, {}, {}}).first->second;
    sum.share += part.share;
    sum.memory += part.memory;
  }
  parts.clear();
  for (const auto& [gpu, sum] : byGpu) parts.push_back(sum);
}

// Of each node, what the ranks will use beyond what is freed there until they start.
std::vector<Reserved::Part> partsOf(const World& now, const World& then,
                                    const model::JobShape& shape,
                                    const std::vector<model::RankPlacement>& ranks) {
  std::map<std::size_t, Reserved::Part> parts;
  for (const auto& rank : ranks) {
    const auto at = now.indexOf(rank.node);
    auto& part = parts[at];
    part.node = at;
    part.cpus += shape.tasks[rank.task].cpus;
    part.memory += shape.tasks[rank.task].memory;
    for (std::size_t i = 0; i < rank.gpus.size(); ++i)
      part.gpus.push_back({rank.gpus[i], rank.grant(i).share, rank.grant(i).memory});
  }
  std::vector<Reserved::Part> out;
  for (auto& [at, part] : parts) {
    const auto& before = now.nodes()[at];
    const auto& after = then.nodes()[at];
    part.cpus = std::clamp(part.cpus - (after.cpus - before.cpus), MilliCpu(0),
                           std::max(before.cpus, MilliCpu(0)));
    part.memory = std::clamp(part.memory - (after.memory - before.memory), Bytes(0),
                             std::max(before.memory, Bytes(0)));
    mergeParts(part.gpus);
    for (auto& gpu : part.gpus) {
      gpu.share = std::clamp(gpu.share - (after.share[gpu.gpu] - before.share[gpu.gpu]),
                             MilliGpu(0), before.share[gpu.gpu]);
      gpu.memory = std::clamp(gpu.memory - (after.gpuMemory[gpu.gpu] - before.gpuMemory[gpu.gpu]),
                              Bytes(0), before.gpuMemory[gpu.gpu]);
    }
    out.push_back(std::move(part));
  }
  return out;
}

}  // namespace

Timestamp expectedEnd(const model::Tables& tables, const model::JobRecord& job,
                      const model::AttemptRecord& attempt, Timestamp now) {
  const auto since = attempt.startedAt.micros != 0 ? attempt.startedAt : attempt.plannedAt;
  const auto learnt = model::learntRunTime(tables, job);
  if (learnt && since + *learnt > now) return since + *learnt;
  if (job.shape->timeLimit.value > 0) return std::max(since + job.shape->timeLimit, now);
  return now + std::max(now - since, kLeastExpected);
}

bool Reserved::touches(const World& world, const std::vector<model::RankPlacement>& other) const {
  return std::any_of(other.begin(), other.end(), [&](const model::RankPlacement& rank) {
    return std::any_of(parts.begin(), parts.end(),
                       [&](const Part& part) { return world.nodes()[part.node].id == rank.node; });
  });
}

Reserve::Reserve(const model::Tables& tables, Timestamp now) : now_(now) {
  tables.attempts.forEach([&](AttemptId, const model::AttemptRecord& attempt) {
    if (!attempt.live) return true;
    const auto& job = *tables.jobs.find(attempt.job);
    const bool stopping = job.state == model::JobState::kStopping;
    releases_.push_back({stopping ? now : expectedEnd(tables, job, attempt, now), &job, &attempt});
    return true;
  });
  std::stable_sort(releases_.begin(), releases_.end(),
                   [](const Release& a, const Release& b) { return a.at < b.at; });
}

std::optional<Reserved> Reserve::find(const World& world, const model::JobRecord& job) const {
  if (!job.reservedOn.empty()) {
    auto there = world;
    there.openOnly(job.reservedOn);
    if (auto found = findOn(std::move(there), job)) return found;
  }
  return findOn(world, job);
}

std::optional<Reserved> Reserve::findOn(World future, const model::JobRecord& job) const {
  const World now = future;
  const auto start = future.mark();
  // The fewest releases, soonest first, after which it fits.
  const auto fitsAfter = [&](std::size_t count) {
    future.rollBack(start);
    for (std::size_t i = 0; i < count; ++i)
      future.giveBack(*releases_[i].job, releases_[i].attempt->ranks);
    const auto mark = future.mark();
    const bool fits = placeGang(future, job).has_value();
    future.rollBack(mark);
    return fits;
  };
  if (!fitsAfter(releases_.size())) return std::nullopt;
  std::size_t tooFew = 0;
  std::size_t enough = releases_.size();
  while (tooFew < enough) {
    const auto middle = tooFew + (enough - tooFew) / 2;
    if (fitsAfter(middle))
      enough = middle;
    else
      tooFew = middle + 1;
  }
  static_cast<void>(fitsAfter(enough));
  const World then = future;
  Reserved found;
  found.job = job.id;
  found.start = enough == 0 ? now_ : releases_[enough - 1].at;
  found.ranks = *placeGang(future, job);
  found.parts = partsOf(now, then, *job.shape, found.ranks);
  return found;
}

void keepReserved(World& world, const Claim& claim, const Reserved& reserved) {
  for (const auto& part : reserved.parts) {
    const auto& node = world.nodes()[part.node];
    auto gpus = part.gpus;
    for (auto& gpu : gpus) {
      gpu.share = std::min(gpu.share, node.share[gpu.gpu]);
      gpu.memory = std::min(gpu.memory, node.gpuMemory[gpu.gpu]);
    }
    world.keep(part.node, std::min(part.cpus, std::max(node.cpus, MilliCpu(0))),
               std::min(part.memory, std::max(node.memory, Bytes(0))), gpus);
  }
  world.charge(claim, reserved.ranks);
}

}  // namespace bole::scheduler
