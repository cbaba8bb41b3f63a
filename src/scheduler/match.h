// Which GPUs a request means.
#pragma once

#include <string>

#include "model/job.h"
#include "model/node.h"

namespace bole::scheduler {

// Does `wanted` name the product `model`? Whole words only, split at '-', ' ' and '_', ignoring
// case and "NVIDIA": "A100" names "A100-SXM4-80GB"; "H200" does not name "GH200-480GB".
[[nodiscard]] bool namesModel(std::string_view wanted, std::string_view model);

[[nodiscard]] bool matches(const model::GpuRequest& request, const model::Gpu& gpu);

// "A100, 80 GiB or more" for people; "GPU" where any will do.
[[nodiscard]] std::string kindText(const model::GpuRequest& request);

}  // namespace bole::scheduler
