#include "gpu/nvml_probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "gpu/nvml_library.h"
#include "gpu/pci.h"

namespace bole::gpu {
namespace {

using nvml::Device;
using nvml::Library;

constexpr std::size_t kTextSize =
    128;  // more than NVML writes: 96 for names and UUIDs, 80 for versions
constexpr unsigned kMostNvLinks =
    36;  // more than any GPU has; asking beyond costs an error code each
constexpr std::string_view kMaker = "NVIDIA ";

// One GPU while it is being looked at.
struct Found {
  Device device = nullptr;
  unsigned domain = 0;
  unsigned bus = 0;
  unsigned slot = 0;
  model::Gpu gpu;
  bool mig = false;
  std::vector<std::string> linksTo;  // the PCI addresses of the peers of its active NVLinks
  unsigned linksToSwitch = 0;
};

// nvmlShutdown when the probe ends, however it ends.
class Session {
 public:
  explicit Session(const Library& library) : library_(library) {}
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session() { library_.call().shutdown(); }

 private:
  const Library& library_;
};

std::string list(const std::vector<PciGpu>& gpus) {
  std::string text;
  for (const auto& gpu : gpus) {
    text += fmt::format("{}{}{}", text.empty() ? "" : ", ", gpu.address,
                        gpu.driver.empty() ? "" : " (driver " + gpu.driver + ")");
  }
  return text;
}

std::string loadedModuleVersion(const std::filesystem::path& root) {
  std::ifstream file(root / "sys/module/nvidia/version");
  std::string version;
  file >> version;
  return version;
}

Error cannotOpen(const nvml::OpenFailure& failure, const std::string& path,
                 const std::filesystem::path& root) {
  if (!failure.absent) {
    return makeError(ErrorCode::kUnavailable, "the NVIDIA library cannot be used")
        .at(path)
        .foundValue(failure.text)
        .withHint("install the driver again; its library and kernel module must be of one version");
  }
  const auto hardware = nvidiaGpus(root);
  auto error = makeError(ErrorCode::kNotFound, "no NVIDIA driver on this machine").at(path);
  if (hardware.empty()) return error;
  return std::move(error)
      .foundValue("NVIDIA GPUs without it: " + list(hardware))
      .withHint("install NVIDIA's driver to use them");
}

Error cannotStart(const Library& library, int code, const std::filesystem::path& root) {
  const auto text = library.text(code);
  const auto hardware = nvidiaGpus(root);
  switch (code) {
    case nvml::kDriverNotLoaded:
      if (hardware.empty()) {
        return makeError(ErrorCode::kNotFound, "the NVIDIA library is here, but no NVIDIA GPU")
            .foundValue(text);
      }
      return makeError(ErrorCode::kUnavailable, "the NVIDIA driver is not loaded")
          .at(list(hardware))
          .foundValue(text)
          .withHint("modprobe nvidia; if that fails, dmesg says why");
    case nvml::kLibRmVersionMismatch:
      return makeError(ErrorCode::kUnavailable,
                       "the NVIDIA library and the loaded kernel module are of different versions")
          .foundValue(text + "; loaded module " + loadedModuleVersion(root))
          .withHint(
              "usual after an update of the driver: reboot, or unload and load the nvidia modules");
    case nvml::kNoPermission:
      return makeError(ErrorCode::kPermission, "this user may not use the NVIDIA driver")
          .at("/dev/nvidiactl")
          .foundValue(text)
          .withHint("look at the owner and mode of /dev/nvidia*");
    default:
      return makeError(ErrorCode::kUnavailable, "the NVIDIA driver does not work")
          .foundValue(text)
          .withHint("nvidia-smi and dmesg say more; a reboot or `nvidia-smi --gpu-reset` may help");
  }
}

// Turns the driver's answers into Found, and what cannot be told into notes.
class Collector {
 public:
  Collector(const Library& library, const HostInfo& host, const std::filesystem::path& root,
            std::vector<std::string>& notes)
      : library_(library), call_(library.call()), host_(host), root_(root), notes_(notes) {}

  // In PCI order.
  [[nodiscard]] std::vector<Found> gpus(unsigned count) {
    std::vector<Found> all;
    for (unsigned index = 0; index < count; ++index) {
      if (auto found = gpu(index)) all.push_back(std::move(*found));
    }
    std::sort(all.begin(), all.end(), [](const Found& a, const Found& b) {
      return std::tie(a.domain, a.bus, a.slot) < std::tie(b.domain, b.bus, b.slot);
    });
    noteUnseen(all);
    for (std::size_t i = 0; i < all.size(); ++i) readNvLinks(all[i], i);
    for (std::size_t i = 0; i < all.size(); ++i) noteMig(all[i], i);
    return all;
  }

  [[nodiscard]] std::vector<model::Link> links(const std::vector<Found>& gpus) {
    std::vector<model::Link> matrix;
    for (const auto& a : gpus) {
      for (const auto& b : gpus) matrix.push_back(link(a, b));
    }
    return matrix;
  }

 private:
  [[nodiscard]] std::optional<Found> gpu(unsigned index) {
    Found found;
    std::string known = fmt::format("GPU number {} of the driver", index);
    const auto leftOut = [&](int code) {
      notes_.push_back(
          fmt::format("{} is left out: {}{}", known, library_.text(code), adviceFor(code)));
      return std::nullopt;
    };
    if (const int code = call_.deviceGetHandleByIndex(index, &found.device)) return leftOut(code);
    nvml::PciInfo pci{};
    if (const int code = call_.deviceGetPciInfo(found.device, &pci)) return leftOut(code);
    std::tie(found.domain, found.bus, found.slot) = std::tie(pci.domain, pci.bus, pci.device);
    found.gpu.pciBusId = pciAddress(pci.domain, pci.bus, pci.device);
    known = "the GPU at " + found.gpu.pciBusId;
    char text[kTextSize] = {};
    if (const int code = call_.deviceGetUuid(found.device, text, kTextSize)) return leftOut(code);
    found.gpu.uuid = text;
    if (const int code = call_.deviceGetName(found.device, text, kTextSize)) return leftOut(code);
    found.gpu.model = std::string_view(text).starts_with(kMaker) ? text + kMaker.size() : text;
    if (const int code = call_.deviceGetMinorNumber(found.device, &found.gpu.minor))
      return leftOut(code);
    nvml::Memory memory{};
    if (const int code = call_.deviceGetMemoryInfo(found.device, &memory)) return leftOut(code);
    if (memory.total == 0) {
      notes_.push_back(known + " is left out: the driver says that it has no memory");
      return std::nullopt;
    }
    found.gpu.memory = Bytes(static_cast<std::int64_t>(memory.total));
    readDetails(found);
    return found;
  }

  static std::string adviceFor(int code) {
    if (code == nvml::kGpuIsLost)
      return "; it has fallen off the bus: dmesg shows an Xid; a reboot brings it back";
    if (code == nvml::kResetRequired) return "; `nvidia-smi --gpu-reset` when nothing uses it";
    return "";
  }

  void readDetails(Found& found) const {
    found.gpu.numaNode = pciNumaNode(root_, found.gpu.pciBusId);
    if (found.gpu.numaNode < 0 && host_.numaNodes.size() == 1)
      found.gpu.numaNode = host_.numaNodes[0].id;
    int major = 0;
    int minor = 0;
    if (call_.deviceGetCudaComputeCapability != nullptr &&
        call_.deviceGetCudaComputeCapability(found.device, &major, &minor) == nvml::kSuccess) {
      found.gpu.computeCapability = fmt::format("{}.{}", major, minor);
    }
    unsigned current = 0;
    unsigned pending = 0;
    found.mig = call_.deviceGetMigMode != nullptr &&
                call_.deviceGetMigMode(found.device, &current, &pending) == nvml::kSuccess &&
                current == 1;
    // A GPU in MIG mode cannot be had as a whole, which is all that is handed out so far.
    if (found.mig) found.gpu.health = model::GpuHealth::kDraining;
  }

  void noteMig(const Found& found, std::size_t index) {
    if (!found.mig) return;
    notes_.push_back(
        fmt::format("GPU {} ({}) is in MIG mode and is not handed out: only whole GPUs are; "
                    "`nvidia-smi -i {} -mig 0` ends it",
                    index, found.gpu.pciBusId, found.gpu.uuid));
  }

  // What the kernel sees and the driver does not offer.
  void noteUnseen(const std::vector<Found>& all) {
    for (const auto& hardware : nvidiaGpus(root_)) {
      const bool seen = std::any_of(all.begin(), all.end(), [&](const Found& found) {
        return found.gpu.pciBusId == hardware.address;
      });
      if (seen) continue;
      notes_.push_back(
          fmt::format("the NVIDIA GPU at {} is not offered by the driver; bound to it: {}",
                      hardware.address, hardware.driver.empty() ? "nothing" : hardware.driver));
    }
  }

  void readNvLinks(Found& found, std::size_t index) {
    if (call_.deviceGetNvLinkState == nullptr) return;
    unsigned up = 0;
    unsigned down = 0;
    for (unsigned number = 0; number < kMostNvLinks; ++number) {
      int active = 0;
      if (call_.deviceGetNvLinkState(found.device, number, &active) != nvml::kSuccess) continue;
      if (active == 0) {
        ++down;
        continue;
      }
      ++up;
      readNvLinkPeer(found, number);
    }
    const auto unknown = up - found.linksToSwitch - static_cast<unsigned>(found.linksTo.size());
    if (up > 0 && down > 0) {
      notes_.push_back(fmt::format("GPU {} ({}): {} NVLinks are up, {} down", index,
                                   found.gpu.pciBusId, up, down));
    }
    if (unknown > 0) {
      notes_.push_back(
          fmt::format("GPU {} ({}): the driver does not say where {} of its {} NVLinks lead", index,
                      found.gpu.pciBusId, unknown, up));
    }
  }

  void readNvLinkPeer(Found& found, unsigned number) const {
    int peer = nvml::kPeerUnknown;
    if (call_.deviceGetNvLinkRemoteDeviceType != nullptr &&
        call_.deviceGetNvLinkRemoteDeviceType(found.device, number, &peer) != nvml::kSuccess) {
      peer = nvml::kPeerUnknown;
    }
    if (peer == nvml::kPeerSwitch) {
      ++found.linksToSwitch;
      return;
    }
    nvml::PciInfo pci{};
    if (call_.deviceGetNvLinkRemotePciInfo == nullptr ||
        call_.deviceGetNvLinkRemotePciInfo(found.device, number, &pci) != nvml::kSuccess) {
      return;
    }
    auto address = pciAddress(pci.domain, pci.bus, pci.device);
    if (peer == nvml::kPeerUnknown && isNvSwitch(root_, address))
      ++found.linksToSwitch;
    else
      found.linksTo.push_back(std::move(address));
  }

  [[nodiscard]] model::Link link(const Found& a, const Found& b) {
    if (&a == &b) return {model::LinkKind::kSelf, 0};
    // Seen from either end, so that the matrix is symmetric even while a link is going up or down.
    const auto direct = std::min(std::count(a.linksTo.begin(), a.linksTo.end(), b.gpu.pciBusId),
                                 std::count(b.linksTo.begin(), b.linksTo.end(), a.gpu.pciBusId));
    const auto nvLinks = direct + std::min(a.linksToSwitch, b.linksToSwitch);
    if (nvLinks > 0) return {model::LinkKind::kNvLink, static_cast<std::uint8_t>(nvLinks)};
    return {pcieLink(a, b), 0};
  }

  [[nodiscard]] model::LinkKind pcieLink(const Found& a, const Found& b) {
    // Asked in one direction only: the answer for (b, a) is the answer for (a, b).
    const auto& first = a.gpu.pciBusId < b.gpu.pciBusId ? a : b;
    const auto& second = &first == &a ? b : a;
    int level = nvml::kSystem;
    if (call_.deviceGetTopologyCommonAncestor == nullptr ||
        call_.deviceGetTopologyCommonAncestor(first.device, second.device, &level) !=
            nvml::kSuccess) {
      noteOnce(fmt::format(
          "the driver does not say how {} and {} are connected; taken as far apart (SYS)",
          first.gpu.pciBusId, second.gpu.pciBusId));
      return model::LinkKind::kSys;
    }
    if (level <= nvml::kSingleSwitch) return model::LinkKind::kPix;
    if (level <= nvml::kMultipleSwitches) return model::LinkKind::kPxb;
    if (level <= nvml::kHostBridge) return model::LinkKind::kPhb;
    return level <= nvml::kNumaNode ? model::LinkKind::kNode : model::LinkKind::kSys;
  }

  void noteOnce(std::string note) {
    if (std::find(notes_.begin(), notes_.end(), note) == notes_.end())
      notes_.push_back(std::move(note));
  }

  const Library& library_;
  const nvml::Functions& call_;
  const HostInfo& host_;
  const std::filesystem::path& root_;
  std::vector<std::string>& notes_;
};

std::string driverVersion(const Library& library) {
  char text[kTextSize] = {};
  if (library.call().systemGetDriverVersion == nullptr ||
      library.call().systemGetDriverVersion(text, kTextSize) != nvml::kSuccess) {
    return "";
  }
  return text;
}

}  // namespace

Result<std::vector<model::Node>> NvmlProbe::probe() {
  notes_.clear();
  const auto library = Library::open(library_);
  if (!library) return fail(cannotOpen(library.error(), library_, root_));
  if (const int code = library->call().init()) return fail(cannotStart(*library, code, root_));
  const Session session(*library);
  unsigned count = 0;
  if (const int code = library->call().deviceGetCount(&count))
    return fail(cannotStart(*library, code, root_));
  Collector collector(*library, host_, root_, notes_);
  const auto found = collector.gpus(count);
  auto node = hostNode(host_);
  node.driverVersion = driverVersion(*library);
  node.links = collector.links(found);
  for (const auto& one : found) node.gpus.push_back(one.gpu);
  if (count == 0) notes_.emplace_back("the NVIDIA driver works and sees no GPU");
  return std::vector<model::Node>{std::move(node)};
}

}  // namespace bole::gpu
