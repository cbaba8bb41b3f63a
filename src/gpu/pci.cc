#include "gpu/pci.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <system_error>

namespace bole::gpu {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kNvidiaVendor = "0x10de";

fs::path deviceDirectory(const fs::path& root, const std::string& address) {
  return root / "sys/bus/pci/devices" / address;
}

std::string firstWord(const fs::path& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

bool isNvidiaOfClass(const fs::path& device, std::string_view classPrefix) {
  return firstWord(device / "vendor") == kNvidiaVendor &&
         firstWord(device / "class").starts_with(classPrefix);
}

}  // namespace

std::string pciAddress(unsigned domain, unsigned bus, unsigned device) {
  return fmt::format("{:04x}:{:02x}:{:02x}.0", domain, bus, device);
}

std::vector<PciGpu> nvidiaGpus(const fs::path& root) {
  std::vector<PciGpu> gpus;
  std::error_code error;
  for (fs::directory_iterator it(root / "sys/bus/pci/devices", error), end; !error && it != end;
       it.increment(error)) {
    const auto& device = it->path();
    // Display controllers: VGA compatible (0x0300) and 3D (0x0302).
    if (!isNvidiaOfClass(device, "0x0300") && !isNvidiaOfClass(device, "0x0302")) continue;
    std::error_code noDriver;
    const auto driver = fs::read_symlink(device / "driver", noDriver);
    gpus.push_back({device.filename().string(), driver.filename().string()});
  }
  std::sort(gpus.begin(), gpus.end(),
            [](const PciGpu& a, const PciGpu& b) { return a.address < b.address; });
  return gpus;
}

std::int32_t pciNumaNode(const fs::path& root, const std::string& address) {
  const auto text = firstWord(deviceDirectory(root, address) / "numa_node");
  std::int32_t node = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), node);
  return error == std::errc() && end == text.data() + text.size() && node >= 0 ? node : -1;
}

bool isNvSwitch(const fs::path& root, const std::string& address) {
  return isNvidiaOfClass(deviceDirectory(root, address), "0x0680");
}

}  // namespace bole::gpu
