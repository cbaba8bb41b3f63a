#include "scheduler/obstacles.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "scheduler/match.h"
#include "scheduler/place.h"

namespace bole::scheduler {
namespace {

using model::Obstacle;

model::Reason shortage(Obstacle obstacle, std::int64_t needed, std::int64_t available,
                       std::string detail = {}) {
  model::Reason reason;
  reason.obstacle = obstacle;
  reason.needed = needed;
  reason.available = std::max<std::int64_t>(available, 0);
  reason.detail = std::move(detail);
  return reason;
}

double cpuCount(std::int64_t milli) {
  return static_cast<double>(milli) / 1000;
}

// "A100 GPU of 80 GiB" of one, "A100 GPUs of 80 GiB" of more.
std::string plural(std::string kind, std::int64_t count) {
  const auto at = kind.find("GPU");
  if (count != 1 && at != std::string::npos) kind.insert(at + 3, "s");
  return kind;
}

// "A100 GPU", "A100 GPU on nodes with disk=ssd".
std::string kindOf(const model::TaskShape& task) {
  const auto labels = labelsText(task);
  return kindText(task.gpus) + (labels.empty() ? "" : " on nodes with " + labels);
}

// "0.5 of an A100 GPU", "10 GiB of a GPU".
std::string partText(const model::TaskShape& task) {
  const auto& request = task.gpus;
  std::string part;
  if (request.share.value > 0) part = fmt::format("{:g}", cpuCount(request.share.value));
  if (request.shareMemory)
    part += (part.empty() ? "" : " and ") + formatBytes(*request.shareMemory);
  return part + " of one " + kindOf(task);
}

// What is free of one GPU, as far as the task could use it: memory only with a share beside it.
struct FreePart {
  double ofWanted = -1;  // how much of what one replica takes of the GPU
  std::int64_t share = 0;
  std::int64_t memory = 0;
  auto operator<=>(const FreePart&) const = default;
};
FreePart freePartOf(const model::Gpu& device, const GpuFree& free, const model::TaskShape& task) {
  const auto wanted = grantOf(task.gpus, device);
  FreePart part{0, free.share, free.memory};
  const auto ofShare = device.memory.value / kWholeGpu.value * part.share;
  if (task.gpus.share.value == 0 || part.share == 0) part.memory = std::min(part.memory, ofShare);
  const auto ratio = [](std::int64_t have, std::int64_t need) {
    return static_cast<double>(have) / static_cast<double>(std::max<std::int64_t>(need, 1));
  };
  part.ofWanted =
      std::min(ratio(part.share, wanted.share.value), ratio(part.memory, wanted.memory.value));
  return part;
}

// Too few parts of GPUs are free; said with the largest one, so that it is clear why two halves do
// not make one.
model::Reason lackingParts(World& world, const model::TaskShape& task, std::int64_t needed,
                           std::int64_t free) {
  FreePart largest;
  world.shelves().forEachPart(world.listingOf(task), [&](const auto& device, const auto& part) {
    largest = std::max(largest, freePartOf(device, part, task));
  });
  std::string most;
  if (task.gpus.share.value > 0) most = fmt::format("{:g}", cpuCount(largest.share));
  if (task.gpus.shareMemory)
    most += (most.empty() ? "" : " and ") + formatBytes(Bytes(largest.memory));
  return shortage(Obstacle::kGpuShare, needed, free,
                  partText(task) + "; the largest free part is " + most);
}

// Which of a replica's needs are looked at.
struct Needs {
  bool cpus;
  bool memory;
};

// How many replicas like this one would fit, at most `enough`, if only these needs counted (GPUs
// always do).
std::int64_t replicasThatFit(World& world, const model::TaskShape& task, Needs needs,
                             std::int64_t enough) {
  const Beside each{needs.cpus && task.cpus.value > 0 ? task.cpus.value : Shelf::kNothing,
                    needs.memory && task.memory.value > 0 ? task.memory.value : Shelf::kNothing};
  return world.roomInAll(world.listingOf(task), each, enough);
}

// "beside 4 A100 GPUs and 16 GiB of memory": what must lie on the same node.
std::string beside(const model::TaskShape& task, bool memory) {
  std::string text;
  if (task.gpus.count > 0)
    text = fmt::format("{} {}", task.gpus.count, plural(kindText(task.gpus), task.gpus.count));
  if (task.gpus.count > 0 && !task.gpus.isWhole()) text = partText(task);
  if (memory && task.memory.value > 0)
    text += (text.empty() ? "" : " and ") + formatBytes(task.memory) + " of memory";
  return text.empty() ? text : " beside " + text;
}

// CPUs or memory are lacking beside what else a replica needs. Where no replica fits, the most that
// one node has beside it.
model::Reason lackingBeside(World& world, const model::TaskShape& task, std::int64_t replicas,
                            Obstacle obstacle, Needs needs) {
  const bool isCpu = obstacle == Obstacle::kCpus;
  const auto each = isCpu ? task.cpus.value : task.memory.value;
  const auto where = beside(task, isCpu && needs.memory);
  const auto fit = replicasThatFit(world, task, needs, replicas);
  if (fit > 0) {
    const auto group = isCpu ? fmt::format("{:g}", cpuCount(each)) : formatBytes(Bytes(each));
    return shortage(obstacle, replicas * each, fit * each,
                    fmt::format("in groups of {} on one node{}", group, where));
  }
  const auto& listing = world.listingOf(task);
  const auto memory = needs.memory ? task.memory.value : Shelf::kNothing;
  const auto most =
      isCpu ? world.shelves().mostCpus(listing, memory) : world.shelves().mostMemory(listing);
  return shortage(obstacle, each, most, "on one node" + where);
}

std::optional<model::Reason> lackingGpus(World& world, const model::TaskShape& task,
                                         std::int64_t replicas) {
  const auto [total, most] = world.shelves().gpusFree(world.listingOf(task));
  const auto needed = replicas * task.gpus.count;
  const auto fit = replicasThatFit(world, task, {false, false}, replicas);
  if (!task.gpus.isWhole()) {
    if (total >= needed && most >= task.gpus.count && fit >= replicas) return std::nullopt;
    return lackingParts(world, task, needed, std::min(total, fit * task.gpus.count));
  }
  if (total < needed) return shortage(Obstacle::kGpus, needed, total, kindOf(task));
  if (most < task.gpus.count)
    return shortage(Obstacle::kGpusPerNode, task.gpus.count, most, kindOf(task));
  if (fit >= replicas) return std::nullopt;
  return shortage(Obstacle::kGpus, needed, fit * task.gpus.count,
                  fmt::format("{} in groups of {} on one node", kindOf(task), task.gpus.count));
}

// What keeps `replicas` of the task from fitting, if anything, were it alone on `free`.
std::optional<model::Reason> lackingOf(World& world, const model::TaskShape& task,
                                       std::int64_t replicas) {
  if (!world.areLabelled(task)) return shortage(Obstacle::kLabels, 1, 0, labelsText(task));
  if (task.gpus.count > 0) {
    if (auto gpus = lackingGpus(world, task, replicas)) return gpus;
  }
  if (replicasThatFit(world, task, {true, false}, replicas) < replicas)
    return lackingBeside(world, task, replicas, Obstacle::kCpus, {true, false});
  if (replicasThatFit(world, task, {false, true}, replicas) < replicas)
    return lackingBeside(world, task, replicas, Obstacle::kMemory, {false, true});
  if (replicasThatFit(world, task, {true, true}, replicas) < replicas)
    return lackingBeside(world, task, replicas, Obstacle::kCpus, {true, true});
  return std::nullopt;
}

// Each task would fit alone: what the others leave to the first that does not.
model::Reason lackingTogether(World& world, const model::JobShape& shape) {
  const auto mark = world.mark();
  auto gang = placeRanks(world, shape, Quotas::kIgnored);
  std::uint32_t task = 0;
  std::int64_t replicas = 0;
  if (gang.lacking) {
    task = gang.lacking->task;
    replicas = leastReplicas(shape, task);
    world.rollBack(gang.lacking->before);
  } else {
    // Every task has its least and all together are too few: any further rank would do.
    replicas = static_cast<std::int64_t>(shape.minAvailable - gang.ranks.size());
    for (task = 0; task + 1 < shape.tasks.size(); ++task) {
      if (std::count_if(gang.ranks.begin(), gang.ranks.end(), [&](const auto& rank) {
            return rank.task == task;
          }) < shape.tasks[task].replicas) {
        break;
      }
    }
  }
  auto reason = lackingOf(world, shape.tasks[task], replicas);
  world.rollBack(mark);
  if (!reason) reason = shortage(Obstacle::kCpus, replicas * shape.tasks[task].cpus.value, 0);
  reason->detail += std::string(reason->detail.empty() ? "" : " ") + "beside the job's other ranks";
  return *reason;
}

// The least that the gang starts with, of no kind in particular.
Amount leastAmount(const World& world, const model::JobShape& shape) {
  Amount all;
  for (std::uint32_t t = 0; t < shape.tasks.size(); ++t) {
    const auto each = world.queues().amountOf(shape.tasks[t]);
    for (std::uint32_t r = 0; r < leastReplicas(shape, t); ++r) all += each;
  }
  return all;
}

model::Reason refusedBy(const Queues& queues, const Queues::Refusal& refusal) {
  const auto& queue = queues.at(refusal.queue);
  const bool booked = refusal.booked.micros != 0;
  const auto obstacle = booked            ? Obstacle::kBooked
                        : refusal.borrows ? Obstacle::kGuaranteed
                        : refusal.ofUser  ? Obstacle::kUserLimit
                                          : Obstacle::kQueueLimit;
  auto reason = shortage(obstacle, refusal.needed, refusal.most, queues.nameOf(refusal.dimension));
  reason.queue = queue.name;
  if (booked) reason.until = refusal.booked;
  return reason;
}

// What several tasks lack is said once: GPUs of one kind with how many they need together.
void addShortage(std::vector<model::Reason>& reasons, const model::Reason& more) {
  const auto same = std::find_if(reasons.begin(), reasons.end(), [&](const auto& other) {
    return other.obstacle == more.obstacle && other.detail == more.detail;
  });
  if (same == reasons.end()) return reasons.push_back(more);
  const bool adds = more.obstacle == Obstacle::kGpus || more.obstacle == Obstacle::kGpuShare;
  same->needed = adds ? same->needed + more.needed : std::max(same->needed, more.needed);
  same->available = std::min(same->available, more.available);
}

// What of the hardware is lacking first: in all, else in one place, else together.
std::vector<model::Reason> lackingFirst(World& world, const model::JobShape& shape) {
  MilliCpu cpus;
  Bytes memory;
  const auto [cpusFree, memoryFree] = world.freeInAll();
  std::vector<model::Reason> inAll;
  std::vector<model::Reason> inOnePlace;
  for (std::uint32_t t = 0; t < shape.tasks.size(); ++t) {
    const auto& task = shape.tasks[t];
    const auto replicas = std::int64_t{leastReplicas(shape, t)};
    cpus += task.cpus * replicas;
    memory += task.memory * replicas;
    const auto lacking = lackingOf(world, task, replicas);
    if (!lacking) continue;
    const bool gpus =
        lacking->obstacle == Obstacle::kGpus || lacking->obstacle == Obstacle::kGpusPerNode ||
        lacking->obstacle == Obstacle::kGpuShare || lacking->obstacle == Obstacle::kLabels;
    if (gpus)
      addShortage(inAll, *lacking);
    else
      inOnePlace.push_back(*lacking);
  }
  if (cpusFree < cpus.value) inAll.push_back(shortage(Obstacle::kCpus, cpus.value, cpusFree));
  if (memoryFree < memory.value)
    inAll.push_back(shortage(Obstacle::kMemory, memory.value, memoryFree));
  if (!inAll.empty()) return inAll;
  if (!inOnePlace.empty()) return inOnePlace;
  return {lackingTogether(world, shape)};
}

bool fitsHardware(World& world, const model::JobShape& shape) {
  if (!mayFit(world, shape)) return false;
  if (shape.tasks.size() == 1) return true;
  const auto mark = world.mark();
  const bool fits = placeGang(world, shape, Quotas::kIgnored).has_value();
  world.rollBack(mark);
  return fits;
}

// The same job, did it not need what this reason speaks of.
void relax(model::JobShape& shape, Obstacle obstacle) {
  for (auto& task : shape.tasks) {
    if (obstacle == Obstacle::kGpus || obstacle == Obstacle::kGpusPerNode ||
        obstacle == Obstacle::kGpuShare)
      task.gpus.count = 0;
    if (obstacle == Obstacle::kLabels) task.nodeLabels.clear();
    if (obstacle == Obstacle::kCpus) task.cpus = MilliCpu(0);
    if (obstacle == Obstacle::kMemory) task.memory = Bytes(0);
  }
}

// All that the hardware lacks, whatever queues may have: were that there, the job would fit.
std::vector<model::Reason> lackingHardware(World& world, model::JobShape shape) {
  std::vector<model::Reason> all;
  const auto named = [&](const model::Reason& reason) {
    return std::any_of(all.begin(), all.end(), [&](const model::Reason& other) {
      return other.obstacle == reason.obstacle;
    });
  };
  while (!fitsHardware(world, shape)) {
    auto more = lackingFirst(world, shape);
    std::erase_if(more, named);
    if (more.empty()) break;
    for (auto& reason : more) {
      relax(shape, reason.obstacle);
      all.push_back(std::move(reason));
    }
  }
  return all;
}

// The queue refuses a kind of GPU of which there are some: what it said where the gang broke off.
std::optional<model::Reason> refusedKind(World& world, const Claim& claim) {
  const auto mark = world.mark();
  const auto gang = placeRanks(world, claim);
  world.rollBack(mark);
  if (!gang.refusal) return std::nullopt;
  return refusedBy(world.queues(), *gang.refusal);
}

// "GPU", "GPUs", "A100 GPUs of 80 GiB or more".
std::string gpuWords(const model::Reason& reason) {
  return plural(reason.detail.empty() ? "GPU" : reason.detail, reason.needed);
}

// "4 A100 GPUs", "1 CPU", "16 CPUs on one node beside 4 GPUs", "3 GiB of memory".
std::string amount(const model::Reason& reason) {
  const auto detail = reason.detail.empty() ? "" : " " + reason.detail;
  switch (reason.obstacle) {
    case Obstacle::kCpus:
      return fmt::format("{:g} CPU{}{}", cpuCount(reason.needed), reason.needed == 1000 ? "" : "s",
                         detail);
    case Obstacle::kMemory:
      return fmt::format("{} of memory{}", formatBytes(Bytes(reason.needed)), detail);
    default:
      return fmt::format("{} {}", reason.needed, gpuWords(reason));
  }
}

// What there is of it, without the unit where the need already names it.
std::string available(const model::Reason& reason) {
  if (reason.obstacle == Obstacle::kMemory) return formatBytes(Bytes(reason.available));
  if (reason.obstacle == Obstacle::kCpus) return fmt::format("{:g}", cpuCount(reason.available));
  return fmt::format("{}", reason.available);
}

}  // namespace

std::vector<model::Reason> obstacles(World& world, const Claim& claim) {
  const auto& shape = claim.shape;
  if (world.nodes().empty()) return {shortage(Obstacle::kNoNodes, 1, 0)};
  std::vector<model::Reason> reasons;
  const auto& queues = world.queues();
  const auto least = leastAmount(world, shape);
  const auto queue = queues.indexOf(shape.queue);
  if (const auto full = queues.fullFor(queue, claim.user)) {
    reasons.push_back(shortage(Obstacle::kUserLimit, 1000, 0, "jobs"));
    reasons.back().queue = queues.at(*full).name;
  }
  const auto refusal = queues.refusal(queue, least, holdOf(claim));
  if (refusal) reasons.push_back(refusedBy(queues, *refusal));
  for (auto& reason : lackingHardware(world, shape)) reasons.push_back(std::move(reason));
  if (reasons.empty()) {
    if (auto kind = refusedKind(world, claim)) reasons.push_back(std::move(*kind));
  }
  if (reasons.empty()) reasons.push_back(lackingTogether(world, shape));
  return reasons;
}

namespace {

// "4 GPUs", "0.5 CPUs", "3 GiB of memory": so much of what a queue is counted in.
std::string counted(std::int64_t amount, const std::string& dimension) {
  if (dimension == "memory") return formatBytes(Bytes(amount)) + " of memory";
  return fmt::format("{:g} {}", static_cast<double>(amount) / 1000,
                     amount == 1000 ? dimension.substr(0, dimension.size() - 1) : dimension);
}

// The number alone, where the unit has been said.
std::string left(std::int64_t amount, const std::string& dimension) {
  if (dimension == "memory") return formatBytes(Bytes(amount)) + " is";
  return fmt::format("{:g} {}", static_cast<double>(amount) / 1000, amount == 1000 ? "is" : "are");
}

}  // namespace

std::string sentence(const model::Reason& reason) {
  switch (reason.obstacle) {
    case Obstacle::kGpus:
    case Obstacle::kCpus:
    case Obstacle::kMemory:
      return fmt::format("waits for {}: {} free now", amount(reason), available(reason));
    case Obstacle::kGpusPerNode:
      return fmt::format("waits for a node with {} free {}: the most on one node is {}",
                         reason.needed, gpuWords(reason), reason.available);
    case Obstacle::kAhead:
      return fmt::format("waits behind job {}, for which capacity is being kept",
                         reason.ahead.value);
    case Obstacle::kBackoff:
      return fmt::format("waits until {} UTC before trying again", formatTimestamp(reason.until));
    case Obstacle::kNoNodes:
      return "waits for a node: none is present";
    case Obstacle::kNotLookedAt:
      return "waits for the scheduler to come to it";
    case Obstacle::kDependency:
      return reason.needed > 1 ? fmt::format("waits for {} jobs to end, job {} among them",
                                             reason.needed, reason.ahead.value)
                               : fmt::format("waits for job {} to end", reason.ahead.value);
    case Obstacle::kBegin:
      return fmt::format("is not to start before {} UTC", formatTimestamp(reason.until));
    case Obstacle::kWindow:
      return fmt::format("waits for queue {} to start jobs again at {} UTC", reason.queue,
                         formatTimestamp(reason.until));
    case Obstacle::kArrayLimit:
      return fmt::format("waits for its array: {} of its elements run, no more may at a time",
                         reason.available);
    case Obstacle::kBooked:
      return fmt::format(
          "needs {} that others have not booked, as it may run that long and cannot be preempted: "
          "{} left from {} UTC on",
          counted(reason.needed, reason.detail), left(reason.available, reason.detail),
          formatTimestamp(reason.until));
    case Obstacle::kQueueLimit:
      return fmt::format("waits for room in queue {}: needs {}, {} left under its limit",
                         reason.queue, counted(reason.needed, reason.detail),
                         left(reason.available, reason.detail));
    case Obstacle::kGuaranteed:
      return fmt::format(
          "needs {} that no other queue is guaranteed, as it cannot be preempted: {} left for "
          "queue {}",
          counted(reason.needed, reason.detail), left(reason.available, reason.detail),
          reason.queue);
    case Obstacle::kStopping:
      if (reason.needed == 0) return "waits until those that are stopping already have gone";
      return fmt::format("waits for {} to stop for it",
                         reason.needed == 1 ? "a job" : fmt::format("{} jobs", reason.needed));
    case Obstacle::kGpuShare: {
      const auto rest = reason.detail.find("; ");
      return fmt::format("waits for {}{}: {} free now{}",
                         reason.needed == 1 ? "" : fmt::format("{} x ", reason.needed),
                         reason.detail.substr(0, rest), reason.available,
                         rest == std::string::npos ? "" : reason.detail.substr(rest));
    }
    case Obstacle::kLabels:
      return fmt::format("waits for a node with {}: none is present", reason.detail);
    case Obstacle::kUserLimit:
      return fmt::format("waits for other jobs of its user in queue {}: needs {}, {} left",
                         reason.queue, counted(reason.needed, reason.detail),
                         left(reason.available, reason.detail));
  }
  return {};
}

std::string neverSentence(const model::Reason& reason) {
  switch (reason.obstacle) {
    case Obstacle::kGpus:
    case Obstacle::kCpus:
    case Obstacle::kMemory:
      return fmt::format("needs {}, this cloud has {}", amount(reason), available(reason));
    case Obstacle::kGpusPerNode:
      return fmt::format("needs {} in one node, the largest has {}", amount(reason),
                         reason.available);
    case Obstacle::kGpuShare:
      return fmt::format("needs {}{}, this cloud has {} of them",
                         reason.needed == 1 ? "" : fmt::format("{} x ", reason.needed),
                         reason.detail.substr(0, reason.detail.find("; ")), reason.available);
    case Obstacle::kLabels:
      return fmt::format("needs a node with {}, this cloud has none", reason.detail);
    case Obstacle::kQueueLimit:
      return fmt::format("needs {}, queue {} may have {}", counted(reason.needed, reason.detail),
                         reason.queue, counted(reason.available, reason.detail));
    case Obstacle::kUserLimit:
      return fmt::format("needs {}, a user may have {} in queue {}",
                         counted(reason.needed, reason.detail),
                         counted(reason.available, reason.detail), reason.queue);
    default:
      return sentence(reason);
  }
}

}  // namespace bole::scheduler
