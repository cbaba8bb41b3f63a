// What the machine itself has: CPUs, memory, NUMA nodes, its name and the id of this boot.
//
// Read from /proc and /sys below an injectable root, so that tests bring their own machine. The
// figures are the machine's, not those of the caller's cgroup or CPU affinity: the scheduler hands
// out the machine.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "model/node.h"

namespace bole::gpu {

struct NumaNode {
  std::int32_t id = 0;
  std::string cpuList;  // "0-15,32-47"; empty: a node of memory alone
  bool operator==(const NumaNode&) const = default;
};

struct HostInfo {
  std::string hostname;
  std::string bootId;               // of the running kernel: another one after each boot
  std::int32_t cpus = 1;            // online
  Bytes memory;                     // as the kernel counts it (MemTotal)
  std::vector<NumaNode> numaNodes;  // by id; at least one
};

// Errors: kUnsupported where /proc or /sys does not tell (not Linux, or not mounted).
[[nodiscard]] Result<HostInfo> readHostInfo(const std::filesystem::path& root = "/");

// The machine as a node without GPUs.
[[nodiscard]] model::Node hostNode(const HostInfo& host);

// The label of a node that lists the CPUs of one NUMA node: "bole.numa-3.cpus".
[[nodiscard]] std::string numaCpusLabel(std::int32_t numaNode);

// "0-3,8" to {0, 1, 2, 3, 8}, the kernel's notation. Empty text: no CPUs. Errors: kInvalid.
[[nodiscard]] Result<std::vector<std::int32_t>> parseCpuList(std::string_view text);

}  // namespace bole::gpu
