#include "scheduler/reserve.h"

#include <algorithm>
#include <map>

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

// What the ranks take of each node.
std::vector<Reserved::Part> partsOf(const World& world, const model::JobShape& shape,
                                    const std::vector<model::RankPlacement>& ranks) {
  std::map<std::size_t, Reserved::Part> parts;
  for (const auto& rank : ranks) {
    const auto at = world.indexOf(rank.node);
    auto& part = parts[at];
    part.node = at;
    part.cpus += shape.tasks[rank.task].cpus;
    part.memory += shape.tasks[rank.task].memory;
    for (std::size_t i = 0; i < rank.gpus.size(); ++i)
      part.gpus.push_back({rank.gpus[i], rank.grant(i).share, rank.grant(i).memory});
  }
  std::vector<Reserved::Part> out;
  for (auto& [at, part] : parts) {
    mergeParts(part.gpus);
    out.push_back(std::move(part));
  }
  return out;
}

// Of it what is used beyond what is freed there until then.
void keepToWhatIsFreeNow(Reserved::Part& part, const FreeNode& before, const FreeNode& after) {
  part.cpus = std::clamp(part.cpus - (after.cpus - before.cpus), MilliCpu(0),
                         std::max(before.cpus, MilliCpu(0)));
  part.memory = std::clamp(part.memory - (after.memory - before.memory), Bytes(0),
                           std::max(before.memory, Bytes(0)));
  for (auto& gpu : part.gpus) {
    gpu.share = std::clamp(gpu.share - (after.share[gpu.gpu] - before.share[gpu.gpu]), MilliGpu(0),
                           before.share[gpu.gpu]);
    gpu.memory = std::clamp(gpu.memory - (after.gpuMemory[gpu.gpu] - before.gpuMemory[gpu.gpu]),
                            Bytes(0), before.gpuMemory[gpu.gpu]);
  }
}

}  // namespace

bool Reserved::touches(const World& world, const std::vector<model::RankPlacement>& other) const {
  return std::any_of(other.begin(), other.end(), [&](const model::RankPlacement& rank) {
    return std::any_of(parts.begin(), parts.end(),
                       [&](const Part& part) { return world.nodes()[part.node].id == rank.node; });
  });
}

Reserve::Reserve(const model::Tables& tables, const Running& running, Timestamp now)
    : tables_(tables), now_(now), next_(tables, running, now) {}

const Reserve::Release* Reserve::releaseAt(std::size_t place) {
  while (releases_.size() <= place) {
    const auto next = next_.next();
    if (!next) return nullptr;
    const auto* attempt = tables_.attempts.find(next->attempt);
    releases_.push_back({next->at, tables_.jobs.find(attempt->job), attempt});
  }
  return &releases_[place];
}

std::optional<Reserved> Reserve::find(World& world, const model::JobRecord& job) {
  if (!job.reservedOn.empty()) {
    world.openOnly(job.reservedOn);
    auto found = findIn(world, job);
    world.openAll();
    if (found) return found;
  }
  return findIn(world, job);
}

// Gives back just so many; false: there are fewer.
bool Reserve::release(World& world, std::size_t count) {
  if (count + 1 < marks_.size()) {
    world.rollBack(marks_[count]);
    marks_.resize(count + 1);
  }
  while (marks_.size() <= count) {
    const auto* release = releaseAt(marks_.size() - 1);
    if (!release) return false;
    world.giveBack(*release->job, release->attempt->ranks);
    marks_.push_back(world.mark());
  }
  return true;
}

// In steps that double, then between the last two.
std::optional<std::size_t> Reserve::releasesFor(World& world, const model::JobRecord& job) {
  const auto fits = [&] {
    const auto mark = world.mark();
    const bool found = placeGang(world, job).has_value();
    world.rollBack(mark);
    return found;
  };
  std::size_t tooFew = 0;  // it is not known to fit after fewer
  std::size_t enough = 0;
  for (bool isLast = false;; enough = 2 * enough + 1) {
    isLast = !release(world, enough);
    if (isLast) enough = marks_.size() - 1;
    if (fits()) break;
    if (isLast) return std::nullopt;
    tooFew = enough + 1;
  }
  while (tooFew < enough) {
    const auto middle = tooFew + (enough - tooFew) / 2;
    release(world, middle);
    if (fits())
      enough = middle;
    else
      tooFew = middle + 1;
  }
  release(world, enough);
  return enough;
}

std::optional<Reserved> Reserve::findIn(World& world, const model::JobRecord& job) {
  const auto start = world.mark();
  marks_ = {start};
  const auto enough = releasesFor(world, job);
  if (!enough) {
    world.rollBack(start);
    return std::nullopt;
  }
  Reserved found;
  found.job = job.id;
  found.start = *enough == 0 ? now_ : releases_[*enough - 1].at;
  const auto mark = world.mark();
  found.ranks = *placeGang(world, job);
  world.rollBack(mark);
  found.parts = partsOf(world, *job.shape, found.ranks);
  std::vector<FreeNode> then;
  for (const auto& part : found.parts) then.push_back(world.nodes()[part.node]);
  world.rollBack(start);
  for (std::size_t i = 0; i < then.size(); ++i)
    keepToWhatIsFreeNow(found.parts[i], world.nodes()[found.parts[i].node], then[i]);
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
