// How the GPUs of a machine are linked, as a matrix like that of `nvidia-smi topo -m`. Pure.
#pragma once

#include <string>

#include "model/node.h"

namespace bole::cli {

[[nodiscard]] std::string linkText(const model::Link& link);  // "NV12", "PIX", ...
[[nodiscard]] std::string topologyText(const model::Node& node);
[[nodiscard]] std::string topologyLegend();

}  // namespace bole::cli
