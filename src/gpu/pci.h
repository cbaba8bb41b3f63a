// What /sys tells about PCI devices, and how their addresses are written: "0000:07:00.0", as the
// kernel does.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace bole::gpu {

[[nodiscard]] std::string pciAddress(unsigned domain, unsigned bus, unsigned device);

// An NVIDIA GPU that the kernel sees, whether a driver works on it or not.
struct PciGpu {
  std::string address;
  std::string driver;  // bound to it: "nvidia", "nouveau", "vfio-pci"; empty: none
};

// By address.
[[nodiscard]] std::vector<PciGpu> nvidiaGpus(const std::filesystem::path& root);

// -1: unknown.
[[nodiscard]] std::int32_t pciNumaNode(const std::filesystem::path& root,
                                       const std::string& address);

// Whether that device is a bridge of the kind that NVSwitch shows itself as.
[[nodiscard]] bool isNvSwitch(const std::filesystem::path& root, const std::string& address);

}  // namespace bole::gpu
