#include "gpu/nvml_probe.h"
namespace bole::gpu {
Result<std::vector<model::Node>> NvmlProbe::probe() {
  return fail(ErrorCode::kNotFound, "no");
}
}  // namespace bole::gpu
