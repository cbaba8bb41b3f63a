// The machines and GPUs that can be emulated, as data.
//
// Names, memory and compute capability are what NVML reports on the real device with a driver of
// the 550 series (older drivers report some hundred MiB less memory). Links, NUMA and PCI placement
// of NVIDIA's own machines and of HGX boards are as `nvidia-smi topo -m` shows them there; for PCIe
// cards, which any server may hold, a common one is shown.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/node.h"

namespace bole::gpu {

// A kind of machine. GPU i of it sits on PCI bus buses[i] and NUMA node numa[i].
struct Board {
  std::string_view name;
  std::vector<std::uint8_t> buses;
  std::vector<std::int32_t> numa;
  std::int32_t numaNodes = 1;
  std::int32_t cpus = 1;  // hardware threads: the second half are siblings of the first
  std::int64_t memoryGiB = 1;
  model::Link (*link)(std::size_t a, std::size_t b) = nullptr;  // between two different GPUs

  [[nodiscard]] std::size_t most() const { return buses.size(); }
};

struct Product {
  std::string_view written;  // as people write it: "A100-SXM4-80GB"
  std::string_view name;     // as the driver says it, without "NVIDIA"
  std::string_view shortName;
  std::int64_t memoryMiB = 0;
  std::string_view computeCapability;
  std::vector<std::string_view> aliases;  // folded, see fold()
  std::vector<Board> boards;              // by size
};

// A whole machine by its own name: 8 GPUs of `product` under "dgx-h100".
struct Machine {
  std::string_view written;
  std::string_view product;  // `written` of the product
  std::size_t gpus = 0;
};

[[nodiscard]] const std::vector<Product>& products();
[[nodiscard]] const std::vector<Machine>& machines();

// Lower case, without separators and without "nvidia", "tesla" and "geforce": how names are
// compared.
[[nodiscard]] std::string fold(std::string_view name);

// By any of its names; nullptr: unknown.
[[nodiscard]] const Product* findProduct(std::string_view name);
[[nodiscard]] const Machine* findMachine(std::string_view name);

// The known name that is most like it; empty: nothing is.
[[nodiscard]] std::string closestName(std::string_view name);

}  // namespace bole::gpu
