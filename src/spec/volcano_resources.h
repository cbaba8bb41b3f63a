// `resources` of a container, and the GPUs asked for in it and by labels of nodes.
#pragma once

#include <optional>
#include <string>

#include "model/job.h"
#include "spec/reader.h"

namespace bole::spec {

struct Resources {
  MilliCpu cpus;  // requested, else the limit
  Bytes memory;   // the limit, else what is requested
  std::uint32_t gpus = 0;
  std::optional<std::int64_t> gpuCores;  // per cent of each
  std::optional<Bytes> gpuMemory;        // of each
};

[[nodiscard]] Result<void> readResources(Reader& reader, const Value& value, Resources& out);

// Puts count, share, memory and `product` (of the node label nvidia.com/gpu.product, or empty)
// together. `where` is for messages.
[[nodiscard]] Result<model::GpuRequest> gpusOf(Reader& reader, const Value& where,
                                               const Resources& resources,
                                               const std::string& product);

}  // namespace bole::spec
