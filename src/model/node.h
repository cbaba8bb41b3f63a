// Machines and what is in them, as plain data.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/units.h"

namespace bole::model {

// How two GPUs of a node reach each other, in the words of `nvidia-smi topo -m`.
enum class LinkKind : std::uint8_t {
  kSelf,    // X
  kNvLink,  // NV<count>: a bonded set of NVLinks
  kPix,     // at most one PCIe bridge
  kPxb,     // several PCIe bridges, no host bridge
  kPhb,     // a PCIe host bridge
  kNode,    // between host bridges of one NUMA node
  kSys,     // between NUMA nodes
};

struct Link {
  LinkKind kind = LinkKind::kSys;
  std::uint8_t nvLinks = 0;  // for kNvLink: how many, 1 or more
  bool operator==(const Link&) const = default;
};

// Nothing new is started on what is not healthy; what runs there goes on, except where it is down.
enum class GpuHealth : std::uint8_t { kHealthy, kSuspect, kDraining, kDown };

struct Gpu {
  std::string uuid;               // "GPU-8f3c..."; unique
  std::string model;              // "A100-SXM4-80GB": the product name without "NVIDIA"
  Bytes memory;                   // what the device offers, 1 or more
  std::string pciBusId;           // "0000:07:00.0"
  std::uint32_t minor = 0;        // of /dev/nvidia<minor>
  std::int32_t numaNode = 0;      // -1: unknown
  std::string computeCapability;  // "8.0"; empty: unknown
  GpuHealth health = GpuHealth::kHealthy;
  bool operator==(const Gpu&) const = default;
};

// What of one GPU a rank is given.
struct GpuGrant {
  MilliGpu share = kWholeGpu;  // 1 to 1000
  Bytes memory;                // 0: all of a whole GPU
  bool operator==(const GpuGrant&) const = default;
};

// A machine. GPUs are in PCI order; index i here is the index that people see.
struct Node {
  std::string name;
  bool emulated = false;  // no such hardware is here: for trying, teaching and testing
  MilliCpu cpus;
  Bytes memory;
  std::int32_t numaNodes = 1;
  std::string driverVersion;  // of the GPU driver; empty where none
  std::vector<Gpu> gpus;
  std::vector<Link> links;  // gpus.size() squared, row by row, symmetric
  std::vector<std::pair<std::string, std::string>> labels;
  GpuHealth health = GpuHealth::kHealthy;  // of the machine as a whole
  bool operator==(const Node&) const = default;

  [[nodiscard]] const Link& link(std::size_t a, std::size_t b) const {
    return links[a * gpus.size() + b];
  }
};

}  // namespace bole::model
