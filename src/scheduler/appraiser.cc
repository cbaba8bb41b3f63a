#include "scheduler/appraiser.h"

#include <algorithm>
#include <bit>

namespace bole::scheduler {
namespace {

constexpr std::uint64_t kWindow = 4096;       // jobs that are learnt from
constexpr std::uint64_t kLongestStep = 1024;  // after so many at the latest it is learnt anew
constexpr std::uint32_t kMostCounted = 64;    // replicas of one task
constexpr std::int64_t kLevels = 16;          // of CPUs and of memory of a node
constexpr std::size_t kMostKindsLearnt = 256;

// Up to three binary digits that count.
std::int64_t roundUp(std::int64_t value) {
  if (value <= 8) return std::max<std::int64_t>(value, 0);
  const auto unit = std::int64_t{1} << (std::bit_width(static_cast<std::uint64_t>(value)) - 3);
  return (value + unit - 1) / unit * unit;
}

// Down to one of the levels of the whole.
std::int64_t roundDown(std::int64_t value, std::int64_t whole) {
  const auto level = std::max<std::int64_t>(whole / kLevels, 1);
  return std::max<std::int64_t>(value, 0) / level * level;
}

std::int64_t mebibytes(std::int64_t bytes) {
  return bytes / kMiB.value;
}

std::uint16_t milliOf(const model::Gpu& gpu, const GpuFree& free) {
  if (gpu.health != model::GpuHealth::kHealthy) return 0;
  if (isIdle(gpu, free)) return kWholeGpuMilli;
  const auto ofMemory =
      static_cast<std::int64_t>(static_cast<__int128>(free.memory) * kWholeGpuMilli /
                                std::max<std::int64_t>(gpu.memory.value, 1));
  return static_cast<std::uint16_t>(
      std::clamp<std::int64_t>(std::min(free.share, ofMemory), 0, kWholeGpuMilli - 1));
}

// The share and what the memory is of the GPU, whichever is more.
std::int64_t milliOf(const model::Gpu& gpu, const model::GpuGrant& grant) {
  const auto whole = std::max<std::int64_t>(gpu.memory.value, 1);
  const auto ofMemory =
      (static_cast<__int128>(grant.memory.value) * kWholeGpuMilli + whole - 1) / whole;
  return std::max(grant.share.value, static_cast<std::int64_t>(ofMemory));
}

}  // namespace

Lesson lessonOf(const model::Tables& tables, std::size_t learnFrom) {
  const auto newest = tables.lastJob;
  if (newest < std::max<std::size_t>(learnFrom, 1)) return {};
  const auto step = std::clamp<std::uint64_t>(std::bit_floor(newest) / 2, 1, kLongestStep);
  const auto last = newest / step * step;
  return {last - std::min(last, kWindow), last};
}

std::unique_ptr<Appraiser> Appraiser::make(const model::Tables& tables, const Lesson& lesson,
                                           Shelves& shelves, std::size_t nodes) {
  if (lesson.last == 0 || nodes < 2 || shelves.hardwareCount() > kMostModelsValued) return nullptr;
  std::unique_ptr<Appraiser> made(new Appraiser(shelves));
  for (HardwareId id = 0; id < shelves.hardwareCount(); ++id) {
    const auto& hardware = shelves.hardware(id);
    made->isValued_.push_back(hardware.like->health == model::GpuHealth::kHealthy &&
                              !hardware.isMixed && hardware.order.size() <= kMostGpusValued);
  }
  std::int64_t cpus = 0;
  std::int64_t gpus = 0;
  tables.nodes.forEach([&](NodeId, const model::NodeRecord& record) {
    if (!record.present) return true;
    cpus += record.node->cpus.value;
    gpus += static_cast<std::int64_t>(record.node->gpus.size()) * kWholeGpuMilli;
    return true;
  });
  made->mix_ = made->learn(tables, lesson);
  const bool asksForGpus = std::any_of(made->mix_.kinds.begin(), made->mix_.kinds.end(),
                                       [](const Kind& kind) { return kind.request.gpus > 0; });
  if (!asksForGpus || cpus <= 0 || gpus <= 0) return nullptr;
  FillOptions options;
  options.cpuOnlyWeight = cpuOnlyWeight(made->mix_, cpus, gpus);
  made->value_ = std::make_unique<FillValue>(made->mix_, options);
  made->index_ = std::make_unique<ClassIndex>(made->mix_, *made->value_);
  return made;
}

Mix Appraiser::learn(const model::Tables& tables, const Lesson& lesson) {
  MixCounter counter(kMostKindsLearnt);
  for (auto id = lesson.after + 1; id <= lesson.last; ++id) {
    const auto* job = tables.jobs.find(JobId(id));
    if (!job) continue;
    for (const auto& task : job->shape->tasks) {
      auto& ask = shelves_.listingOf(task).ask;
      const auto request = requestOf(ask, {task.cpus.value, task.memory.value}, 1);
      if (request) counter.add(*request, std::min(task.replicas, kMostCounted));
    }
  }
  return counter.mix();
}

std::optional<Request> Appraiser::requestOf(Ask& ask, const Beside& each, std::int64_t ranks) {
  const auto& gpus = ask.gpus();
  if (gpus.count > kMostGpusValued || ranks > static_cast<std::int64_t>(kMostGpusValued))
    return std::nullopt;
  if (ranks > 1 && !gpus.isWhole()) return std::nullopt;
  Request request;
  request.cpus = roundUp(each.cpus * ranks);
  request.memory = roundUp(mebibytes(each.memory * ranks + kMiB.value - 1));
  if (gpus.count == 0) return ask.labels().empty() ? std::optional(request) : std::nullopt;
  const auto count = gpus.count * ranks;
  if (count > static_cast<std::int64_t>(kMostGpusValued)) return std::nullopt;
  request.gpus = static_cast<std::uint16_t>(count);
  std::int64_t milli = 0;
  std::uint64_t models = 0;
  std::uint64_t withGpus = 0;
  for (HardwareId id = 0; id < isValued_.size(); ++id) {
    const auto& hardware = shelves_.hardware(id);
    if (!isValued_[id] || hardware.order.empty()) continue;
    withGpus |= 1ULL << id;
    const auto& on = ask.on(id, hardware);
    if (on.gpus.empty()) continue;
    models |= 1ULL << id;
    milli =
        std::max(milli, gpus.isWhole() ? std::int64_t{kWholeGpuMilli}
                                       : milliOf(hardware.like->gpus[on.gpus[0]], on.grants[0]));
  }
  if (models == 0 || milli > kWholeGpuMilli) return std::nullopt;
  request.perGpu = static_cast<std::uint16_t>(milli);
  request.models = models == withGpus ? ~0ULL : models;
  return request;
}

void Appraiser::put(std::uint32_t node, const GpuState& gpus, const Beside& free) {
  if (!isValued_[gpus.hardware]) return;
  const auto& hardware = shelves_.hardware(gpus.hardware);
  FreeState state;
  state.cpus = roundDown(free.cpus, hardware.like->cpus.value);
  state.memory = roundDown(mebibytes(free.memory), mebibytes(hardware.like->memory.value));
  state.model = static_cast<std::uint8_t>(gpus.hardware);
  for (std::size_t i = 0; i < gpus.free.size(); ++i)
    state.gpus[i] = milliOf(hardware.like->gpus[hardware.order[i]], gpus.free[i]);
  state.arrange();
  if (index_->stateOf(node) != state) index_->put(node, state);
}

std::optional<std::uint32_t> Appraiser::best(Ask& ask, const Beside& each, std::int64_t ranks) {
  const auto request = requestOf(ask, each, ranks);
  if (!request) return std::nullopt;
  const auto choice = index_->best(*request);
  if (!choice) return std::nullopt;
  return choice->node;
}

}  // namespace bole::scheduler
