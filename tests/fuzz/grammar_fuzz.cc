// The small languages inside of values: GPUs, times, sizes, CPUs, and Kubernetes' forms of them.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "fuzz/check.h"
#include "spec/grammar.h"
#include "spec/kubernetes.h"

namespace bole::fuzz {
namespace {

// The value if there is one; else the error is held to its promises.
template <class T>
const T* valueOf(const Result<T>& result) {
  if (result) return &*result;
  holdError(result.error(), Speaker::kGrammar);
  hold(result.error().where.empty(), "a grammar names no place");
  return nullptr;
}

void holdGpus(std::string_view text) {
  const auto result = spec::parseGpuRequest(text);
  const auto* gpus = valueOf(result);
  if (!gpus) return;
  hold(gpus->count <= spec::kMaxGpus, "at most 1024 GPUs", text);
  hold(gpus->share.value >= 1 && gpus->share <= kWholeGpu, "a share is of one GPU", text);
  hold(gpus->share == kWholeGpu || gpus->count == 1, "a fraction is of one GPU", text);
  hold(!gpus->memoryMin || !gpus->memoryMax || *gpus->memoryMin <= *gpus->memoryMax,
       "a range has an inside", text);
  for (const auto& model : gpus->models)
    hold(!model.empty() && model.size() <= 256, "a model has a name", text);
  // A name that was read is a name that can be read again.
  for (const auto& model : gpus->models) {
    const auto again = spec::parseGpuRequest(model + ":1");
    hold(again && again->models == std::vector<std::string>{model}, "a model's name is a model",
         model);
  }
}

void holdNumbers(std::string_view text) {
  const auto time = spec::parseDuration(text);
  if (const auto* value = valueOf(time))
    hold(value->value >= 0 && *value <= spec::kMaxDuration, "ten years at most", text);
  const auto goTime = spec::parseGoDuration(text);
  if (const auto* value = valueOf(goTime))
    hold(value->value >= 0 && *value <= spec::kMaxDuration, "ten years at most", text);
  const auto size = spec::parseSize(text);
  if (const auto* value = valueOf(size))
    hold(value->value >= 0 && *value <= spec::kMaxSize, "a PiB at most", text);
  const auto cpus = spec::parseCpus(text);
  if (const auto* value = valueOf(cpus))
    hold(value->value >= 0 && *value <= spec::kMaxCpus, "100,000 CPUs at most", text);
  const auto bytes = spec::parseKubernetesBytes(text);
  if (const auto* value = valueOf(bytes))
    hold(value->value >= 0 && *value <= spec::kMaxSize, "a PiB at most", text);
  const auto milli = spec::parseKubernetesCpus(text);
  if (const auto* value = valueOf(milli))
    hold(value->value >= 0 && *value <= spec::kMaxCpus, "100,000 CPUs at most", text);
  if (time && goTime && text != "0") hold(*time == *goTime, "both forms of a time agree", text);
  if (size && bytes && text.find_first_of("kMGTPEmKgtpe") == std::string_view::npos)
    hold(*size == *bytes, "both forms of a size agree", text);
}

void holdPlaces(std::string_view text) {
  const auto port = spec::parsePort(text);
  if (const auto* value = valueOf(port))
    hold(value->container > 0 && !value->address.empty(), "a port is a port", text);
  const auto path = spec::resolvePath(text, "/home/ada");
  if (const auto* value = valueOf(path)) {
    hold(value->starts_with('/') && value->size() <= 4096, "a path is absolute", text);
    hold(spec::resolvePath(*value, "/") == *value, "a path that was resolved stays as it is", text);
  }
  const auto mount = spec::parseMount(text, "/home/ada");
  if (const auto* value = valueOf(mount)) {
    hold(value->source.starts_with('/') && value->target.starts_with('/') && value->target != "/",
         "a mount is absolute", text);
    for (const auto* kept : {"/proc/", "/sys/", "/dev/"})
      hold(!(value->target + "/").starts_with(kept), "the system is kept", text);
  }
}

void holdNames(std::string_view text) {
  const auto name = spec::parseName(text);
  if (const auto* value = valueOf(name))
    hold(*value == text && value->size() <= spec::kMaxNameLength, "a name is kept", text);
  const auto variable = spec::parseEnvName(text);
  if (const auto* value = valueOf(variable))
    hold(value->find('=') == std::string::npos, "a variable's name has no '='", text);
  const auto image = spec::parseImage(text);
  if (const auto* value = valueOf(image))
    hold(!value->starts_with('-'), "an image is no option", text);
}

}  // namespace
}  // namespace bole::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  bole::fuzz::holdGpus(text);
  bole::fuzz::holdNumbers(text);
  bole::fuzz::holdPlaces(text);
  bole::fuzz::holdNames(text);
  return 0;
}
