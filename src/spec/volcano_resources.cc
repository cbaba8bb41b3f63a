#include "spec/volcano_resources.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "spec/grammar.h"
#include "spec/job_draft.h"
#include "spec/kubernetes.h"
#include "spec/spec.h"
#include "spec/suggest.h"

namespace bole::spec {
namespace {

using Section = std::map<std::string, Value, std::less<>>;

// What a job cannot run without, and what no part of Bole can give.
bool isForeignAccelerator(std::string_view name) {
  for (const auto* prefix : {"amd.com/", "gpu.intel.com/", "huawei.com/", "aliyun.com/",
                             "cambricon.com/", "hygon.com/", "habana.ai/", "google.com/tpu",
                             "aws.amazon.com/neuron", "nvidia.com/mig-", "nvidia.com/gpu.shared"}) {
    if (name.starts_with(prefix)) return true;
  }
  return false;
}

constexpr std::string_view kCountNames[] = {"nvidia.com/gpu", "volcano.sh/vgpu-number",
                                            "volcano.sh/gpu-number"};
constexpr std::string_view kMemoryNames[] = {"volcano.sh/vgpu-memory", "volcano.sh/gpu-memory"};
constexpr std::string_view kCoreNames[] = {"volcano.sh/vgpu-cores"};

class ResourceReader {
 public:
  ResourceReader(Reader& reader, Resources& out) : reader_(reader), out_(out) {}

  Result<void> read(const Value& value) {
    ObjectFields fields;
    fields.readers = {
        {"requests", [&](const Value& v) { return readSection(v, requests_); }},
        {"limits", [&](const Value& v) { return readSection(v, limits_); }},
    };
    fields.dropped = {{"claims", "dynamic resources are not known here"}};
    BOLE_TRY(readObject(reader_, value, fields));
    BOLE_TRY(readCpus());
    BOLE_TRY(readMemory());
    BOLE_TRY(readGpus());
    for (const auto* section : {&requests_, &limits_}) BOLE_TRY(checkOthers(*section));
    return {};
  }

 private:
  Result<void> readSection(const Value& value, Section& section) const {
    return reader_.readAnyFields(value,
                                 [&](const std::string& name, const Value& v) -> Result<void> {
                                   if (!v.is(NodeKind::kNull)) section.emplace(name, v);
                                   return {};
                                 });
  }

  [[nodiscard]] static const Value* find(const Section& section, std::string_view name) {
    const auto found = section.find(name);
    return found == section.end() ? nullptr : &found->second;
  }

  // Request and limit of one resource, each or neither.
  template <class T, class Parse>
  Result<std::pair<std::optional<T>, std::optional<T>>> readPair(std::string_view name,
                                                                 Parse parse) const {
    std::pair<std::optional<T>, std::optional<T>> pair;
    const auto* request = find(requests_, name);
    const auto* limit = find(limits_, name);
    const auto readInto = [&](const Value* value, std::optional<T>& out) -> Result<void> {
      if (!value) return {};
      T parsed{};
      BOLE_TRY(readBy(reader_, *value, "a quantity", parse, parsed));
      out = parsed;
      return {};
    };
    BOLE_TRY(readInto(request, pair.first));
    BOLE_TRY(readInto(limit, pair.second));
    if (pair.first && pair.second && *pair.first > *pair.second) {
      return fail(reader_.error(*request, "requested more than the limit")
                      .expectedValue("at most " + quoted(limit->text())));
    }
    return pair;
  }

  Result<void> readCpus() {
    BOLE_ASSIGN(const auto cpus, readPair<MilliCpu>("cpu", parseKubernetesCpus));
    if (cpus.first && cpus.second && *cpus.first != *cpus.second) {
      const auto* limit = find(limits_, "cpu");
      reader_.warn(limit->at, fmt::format("{} is not honoured: the request of {} CPUs counts",
                                          limit->path, find(requests_, "cpu")->text()));
    }
    out_.cpus = cpus.first ? *cpus.first : cpus.second.value_or(MilliCpu());
    return {};
  }

  Result<void> readMemory() {
    BOLE_ASSIGN(const auto memory, readPair<Bytes>("memory", parseKubernetesBytes));
    if (memory.first && memory.second && *memory.first != *memory.second) {
      const auto* request = find(requests_, "memory");
      reader_.warn(request->at, fmt::format("{} is not honoured: the limit of {} is set aside",
                                            request->path, find(limits_, "memory")->text()));
    }
    out_.memory = memory.second ? *memory.second : memory.first.value_or(Bytes());
    if (out_.memory.value == 0 || out_.memory >= kMinMemory) return {};
    const auto* value = memory.second ? find(limits_, "memory") : find(requests_, "memory");
    return fail(reader_.error(*value, "too little memory for any process")
                    .expectedValue("1Mi or more")
                    .withHint("is a unit missing? 512Mi, 16Gi"));
  }

  // A whole number under one of `names`; the value it stands at comes along.
  template <std::size_t N>
  Result<std::optional<std::pair<std::int64_t, Value>>> readCount(
      const std::string_view (&names)[N], std::int64_t most) const {
    std::optional<std::pair<std::int64_t, Value>> out;
    for (const auto name : names) {
      const auto* limit = find(limits_, name);
      const auto* request = find(requests_, name);
      const auto* value = limit ? limit : request;
      if (!value) continue;
      BOLE_ASSIGN(const auto count, reader_.readWhole(*value, 0, most));
      if (limit && request && limit->text() != request->text()) {
        return fail(reader_.error(*request, "request and limit of GPUs differ")
                        .expectedValue(quoted(limit->text())));
      }
      if (out)
        return fail(
            reader_.error(*value, "GPUs are asked for in two ways")
                .expectedValue("one of " + joinAlternatives({std::begin(names), std::end(names)})));
      out.emplace(count, *value);
    }
    return out;
  }

  Result<void> readGpus() {
    BOLE_ASSIGN(const auto count, readCount(kCountNames, kMaxGpus));
    if (count) out_.gpus = static_cast<std::uint32_t>(count->first);
    constexpr std::int64_t kMostMebibytes = 1LL << 30;
    BOLE_ASSIGN(const auto memory, readCount(kMemoryNames, kMostMebibytes));
    if (memory && memory->first > 0) {
      out_.gpuMemory = kMiB * memory->first;
      if (!count) out_.gpus = 1;
    }
    BOLE_ASSIGN(const auto cores, readCount(kCoreNames, 100));
    if (cores && cores->first > 0) {
      out_.gpuCores = cores->first;
      if (!count && !memory) out_.gpus = 1;
    }
    return {};
  }

  Result<void> checkOthers(const Section& section) {
    for (const auto& [name, value] : section) {
      if (name == "cpu" || name == "memory" || isGpu(name)) continue;
      if (isForeignAccelerator(name)) {
        const bool none = value.is(NodeKind::kScalar) && value.text() == "0";
        if (none) continue;
        return fail(
            reader_.error(value.at, "there are no resources of this kind", ErrorCode::kRefused)
                .foundValue(quoted(name))
                .expectedValue("cpu, memory or nvidia.com/gpu"));
      }
      const auto near =
          name.find('/') == std::string::npos
              ? nearest(name, {"cpu", "memory", "ephemeral-storage", "storage", "pods"})
              : std::string_view();
      if (near == "cpu" || near == "memory") {
        return fail(reader_.error(value.at, "unknown resource")
                        .foundValue(quoted(name))
                        .withHint(fmt::format("did you mean '{}'?", near)));
      }
      warnOfLoss(reader_, value,
                 name.starts_with("rdma/")
                     ? "InfiniBand devices are passed to every job where the machine has them"
                     : "nothing is set aside");
    }
    return {};
  }

  [[nodiscard]] static bool isGpu(std::string_view name) {
    const auto isIn = [&](const auto& names) {
      return std::find(std::begin(names), std::end(names), name) != std::end(names);
    };
    return isIn(kCountNames) || isIn(kMemoryNames) || isIn(kCoreNames);
  }

  Reader& reader_;
  Resources& out_;
  Section requests_;
  Section limits_;
};

}  // namespace

Result<void> readResources(Reader& reader, const Value& value, Resources& out) {
  return ResourceReader(reader, out).read(value);
}

Result<model::GpuRequest> gpusOf(Reader& reader, const Value& where, const Resources& resources,
                                 const std::string& product) {
  model::GpuRequest request;
  if (resources.gpus == 0) return request;
  if (!product.empty()) {
    auto named = parseGpuRequest(product + ":1");
    if (!named || named->models.empty())
      return fail(
          reader.error(where.at, "not the name of a GPU product").foundValue(quoted(product)));
    request = std::move(*named);
  }
  request.count = resources.gpus;
  constexpr std::int64_t kMilliPerCent = 10;
  request.shareMemory = resources.gpuMemory;
  const auto cores = resources.gpuCores.value_or(0);
  if (cores > 0 && cores < 100)
    request.share = MilliGpu(cores * kMilliPerCent);
  else if (cores == 0 && request.shareMemory)
    request.share = MilliGpu(0);  // as much of its time as of its memory
  if (request.memoryMax && request.shareMemory && *request.shareMemory > *request.memoryMax) {
    return fail(
        reader.error(where.at, where.path + ": more memory of each GPU than the product has")
            .foundValue(formatBytes(*request.shareMemory))
            .expectedValue("at most " + formatBytes(*request.memoryMax)));
  }
  return request;
}

}  // namespace bole::spec
