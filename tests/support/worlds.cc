#include "support/worlds.h"

#include <fmt/format.h>

#include <algorithm>

namespace bole::test {

model::Node node(const std::string& name, std::uint32_t gpus, const std::string& model) {
  model::Node out;
  out.name = name;
  out.emulated = true;
  out.cpus = MilliCpu(4000 * std::max<std::int64_t>(gpus, 2));
  out.memory = kGiB * (32 * std::max<std::int64_t>(gpus, 2));
  for (std::uint32_t i = 0; i < gpus; ++i) {
    model::Gpu gpu;
    gpu.uuid = fmt::format("GPU-{}-{}", name, i);
    gpu.model = model;
    gpu.memory = kGiB * 80;
    gpu.pciBusId = fmt::format("0000:{:02x}:00.0", i + 1);
    gpu.minor = i;
    out.gpus.push_back(gpu);
  }
  for (std::uint32_t a = 0; a < gpus; ++a) {
    for (std::uint32_t b = 0; b < gpus; ++b) {
      out.links.push_back(a == b ? model::Link{model::LinkKind::kSelf, 0}
                                 : model::Link{model::LinkKind::kNvLink, 12});
    }
  }
  return out;
}

model::JobSpec job(std::uint32_t replicas, std::uint32_t gpus, const std::string& name) {
  model::JobSpec out;
  model::TaskShape task;
  task.replicas = task.minAvailable = replicas;
  task.gpus.count = gpus;
  task.cpus = MilliCpu(1000);
  out.shape.tasks.push_back(task);
  out.shape.minAvailable = replicas;
  out.text.name = name;
  model::TaskText text;
  text.name = "worker";
  text.command = {"./train"};
  out.text.tasks.push_back(text);
  return out;
}

}  // namespace bole::test
