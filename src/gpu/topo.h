// The topology of a node as text, in the form of `nvidia-smi topo -m`.
#pragma once

#include <string>

#include "model/node.h"

namespace bole::gpu {

// "X", "NV12", "PIX", ... as in the matrix.
[[nodiscard]] std::string linkText(const model::Link& link);

// A title line, the matrix with CPU and NUMA affinity, the legend. Fits 100 columns up to 16 GPUs
// where the CPU lists are short. A node without GPUs gets a line that says so. CPU affinity comes
// from the labels that numaCpusLabel names.
[[nodiscard]] std::string formatTopology(const model::Node& node);

}  // namespace bole::gpu
