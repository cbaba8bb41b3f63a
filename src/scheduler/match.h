// Which GPUs a request means.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/job.h"
#include "model/node.h"

namespace bole::scheduler {

// Does `wanted` name the product `model`? Whole words only, split at '-', ' ' and '_', ignoring
// case and "NVIDIA": "A100" names "A100-SXM4-80GB"; "H200" does not name "GH200-480GB".
[[nodiscard]] bool namesModel(std::string_view wanted, std::string_view model);

// A healthy GPU of the kind that is asked for, and large enough for the part of it.
[[nodiscard]] bool matches(const model::GpuRequest& request, const model::Gpu& gpu);

// What of this GPU the request takes. Of a share without memory the memory is in proportion, and
// the other way round; both are rounded down, so that n equal parts of 1/n always fit.
[[nodiscard]] model::GpuGrant grantOf(const model::GpuRequest& request, const model::Gpu& gpu);

// "8.0" is 80; 0 where it is not known.
[[nodiscard]] std::uint32_t computeTenths(const std::string& capability);

// Has the node all of these labels?
[[nodiscard]] bool hasLabels(const model::Node& node,
                             const std::vector<std::pair<std::string, std::string>>& labels);

// Has the node all the labels that the task asks for?
[[nodiscard]] bool labelsMatch(const model::TaskShape& task, const model::Node& node);

// "disk=ssd, zone=a".
[[nodiscard]] std::string labelsText(const model::TaskShape& task);

// "A100, 80 GiB or more" for people; "GPU" where any will do.
[[nodiscard]] std::string kindText(const model::GpuRequest& request);

}  // namespace bole::scheduler
