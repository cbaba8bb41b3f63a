#include "gpu/nvml_probe.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>

#include "gpu/testing/fake_nvml.h"
#include "gpu/testing/test_root.h"
#include "gpu/topo.h"

namespace bole::gpu {
namespace {

constexpr std::array<unsigned, kFakeGpus> kBuses = {0x85, 0x86, 0x06, 0x07, 0x0a, 0x0b, 0x89, 0x8a};
constexpr std::array<const char*, kFakeGpus> kUuids = {
    "GPU-85850000-0000-0000-0000-000000000000", "GPU-86860000-0000-0000-0000-000000000000",
    "GPU-06060000-0000-0000-0000-000000000000", "GPU-07070000-0000-0000-0000-000000000000",
    "GPU-0a0a0000-0000-0000-0000-000000000000", "GPU-0b0b0000-0000-0000-0000-000000000000",
    "GPU-89890000-0000-0000-0000-000000000000", "GPU-8a8a0000-0000-0000-0000-000000000000"};

class NvmlProbeTest : public testing::Test {
 protected:
  void SetUp() override { load(FAKE_NVML_WHOLE_PATH); }

  // Two GPUs on each socket, handed out by the driver in another order than PCI's.
  void load(const char* library) {
    library_ = library;
    handle_ =
        std::shared_ptr<void>(::dlopen(library, RTLD_NOW), [](void* handle) { ::dlclose(handle); });
    ASSERT_NE(handle_, nullptr) << ::dlerror();
    const auto get = reinterpret_cast<FakeNvml* (*)()>(::dlsym(handle_.get(), "fakeNvml"));
    ASSERT_NE(get, nullptr);
    fake_ = get();
    *fake_ = FakeNvml{};
    fake_->driver = "550.54.15";
    fake_->count = 4;
    for (std::size_t i = 0; i < kFakeGpus; ++i) describeGpu(i);
    for (std::size_t a = 0; a < kFakeGpus; ++a) {
      for (std::size_t b = 0; b < kFakeGpus; ++b)
        fake_->level[a][b] = kBuses[a] / 0x80 == kBuses[b] / 0x80 ? 40 : 50;
    }
    root_ = std::make_unique<TestRoot>();
    root_->writeMachine();
    for (std::size_t i = 0; i < fake_->count; ++i) {
      root_->writePciDevice(address(i), "0x030200", kBuses[i] >= 0x80 ? 1 : 0);
    }
  }

  void describeGpu(std::size_t i) {
    auto& gpu = fake_->gpus[i];
    gpu.name = "NVIDIA A100-SXM4-80GB";
    gpu.uuid = kUuids[i];
    gpu.bus = kBuses[i];
    gpu.minor = static_cast<unsigned>(i);
    gpu.memory = 81920ULL << 20;
    gpu.major = 8;
    gpu.mig = 0;
    for (auto& state : gpu.linkState) state = -1;
  }

  static std::string address(std::size_t i) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "0000:%02x:00.0", kBuses[i]);
    return text.data();
  }

  void connect(std::size_t gpu, std::size_t link, int peerType, unsigned peerBus) {
    fake_->gpus[gpu].linkState[link] = 1;
    fake_->gpus[gpu].linkPeer[link] = peerType;
    fake_->gpus[gpu].linkBus[link] = peerBus;
  }

  Result<std::vector<model::Node>> probe() {
    NvmlProbe probe(*readHostInfo(root_->path()), library_, root_->path());
    auto nodes = probe.probe();
    notes_ = probe.notes();
    return nodes;
  }

  model::Node probeNode() {
    const auto nodes = probe();
    EXPECT_TRUE(nodes) << nodes.error().message();
    EXPECT_EQ(fake_->initialised, 0) << "the library was not shut down";
    return nodes ? nodes->at(0) : model::Node{};
  }

  Error refusal() {
    const auto nodes = probe();
    EXPECT_FALSE(nodes);
    EXPECT_EQ(fake_->initialised, 0);
    return nodes ? Error{} : nodes.error();
  }

  std::string library_;
  std::shared_ptr<void> handle_;
  FakeNvml* fake_ = nullptr;
  std::unique_ptr<TestRoot> root_;
  std::vector<std::string> notes_;
};

TEST_F(NvmlProbeTest, ReadsEverything) {
  const auto node = probeNode();
  EXPECT_EQ(node.name, "gpu-box");
  EXPECT_FALSE(node.emulated);
  EXPECT_EQ(node.cpus, MilliCpu(8000));
  EXPECT_EQ(node.driverVersion, "550.54.15");
  ASSERT_EQ(node.gpus.size(), 4U);
  const auto& gpu = node.gpus[0];
  EXPECT_EQ(gpu.uuid, kUuids[2]);
  EXPECT_EQ(gpu.model, "A100-SXM4-80GB");
  EXPECT_EQ(gpu.memory, kMiB * 81920);
  EXPECT_EQ(gpu.pciBusId, "0000:06:00.0");
  EXPECT_EQ(gpu.minor, 2U);
  EXPECT_EQ(gpu.numaNode, 0);
  EXPECT_EQ(gpu.computeCapability, "8.0");
  EXPECT_EQ(gpu.health, model::GpuHealth::kHealthy);
  EXPECT_TRUE(notes_.empty()) << notes_[0];
}

TEST_F(NvmlProbeTest, GpusComeInPciOrder) {
  fake_->gpus[3].domain = 1;
  std::vector<std::string> buses;
  for (const auto& gpu : probeNode().gpus) buses.push_back(gpu.pciBusId);
  EXPECT_EQ(buses, (std::vector<std::string>{"0000:06:00.0", "0000:85:00.0", "0000:86:00.0",
                                             "0001:07:00.0"}));
}

TEST_F(NvmlProbeTest, PcieLinksComeFromTheCommonAncestor) {
  fake_->count = 2;
  const std::vector<std::pair<int, std::string>> levels = {{0, "PIX"},  {10, "PIX"},  {20, "PXB"},
                                                           {30, "PHB"}, {40, "NODE"}, {50, "SYS"}};
  for (const auto& [level, text] : levels) {
    fake_->level[0][1] = fake_->level[1][0] = level;
    const auto node = probeNode();
    ASSERT_EQ(node.links.size(), 4U);
    EXPECT_EQ(linkText(node.link(0, 1)), text);
    EXPECT_EQ(node.link(0, 1), node.link(1, 0));
    EXPECT_EQ(linkText(node.link(1, 1)), "X");
  }
}

TEST_F(NvmlProbeTest, DirectNvLinksAreCounted) {
  connect(0, 0, 0, kBuses[1]);
  connect(0, 1, 0, kBuses[1]);
  connect(1, 4, 0, kBuses[0]);
  connect(1, 5, 0, kBuses[0]);
  connect(0, 2, 0, kBuses[2]);
  connect(2, 0, 0, kBuses[0]);
  const auto node = probeNode();  // in PCI order: 2, 3, 0, 1
  EXPECT_EQ(linkText(node.link(2, 3)), "NV2");
  EXPECT_EQ(linkText(node.link(0, 2)), "NV1");
  EXPECT_EQ(linkText(node.link(0, 1)), "NODE");
  EXPECT_EQ(linkText(node.link(1, 2)), "SYS");
  EXPECT_TRUE(notes_.empty());
}

TEST_F(NvmlProbeTest, LinksToASwitchReachEveryGpuOnIt) {
  for (std::size_t gpu = 0; gpu < 4; ++gpu) {
    for (std::size_t link = 0; link < 12; ++link)
      connect(gpu, link, 2, 0xc0 + static_cast<unsigned>(link));
  }
  fake_->gpus[1].linkState[3] = 0;
  const auto node = probeNode();
  EXPECT_EQ(linkText(node.link(0, 1)), "NV12");
  EXPECT_EQ(linkText(node.link(2, 3)), "NV11");  // 3 is the driver's 1, with a link down
  ASSERT_EQ(notes_.size(), 1U);
  EXPECT_EQ(notes_[0], "GPU 3 (0000:86:00.0): 11 NVLinks are up, 1 down");
}

TEST_F(NvmlProbeTest, ASwitchIsKnownByItsPciClassWhereTheDriverDoesNotTell) {
  root_->writePciDevice("0000:c4:00.0", "0x068000", 0, "nvidia-nvswitch");
  for (std::size_t gpu = 0; gpu < 4; ++gpu) connect(gpu, 0, 255, 0xc4);
  EXPECT_EQ(linkText(probeNode().link(0, 3)), "NV1");
}

TEST_F(NvmlProbeTest, NvLinksOfUnknownEndAreNotedAndNotInvented) {
  connect(0, 0, 255, 0);
  fake_->gpus[0].linkPciError = 3;
  const auto node = probeNode();
  EXPECT_EQ(linkText(node.link(2, 3)), "NODE");
  ASSERT_EQ(notes_.size(), 1U);
  EXPECT_NE(notes_[0].find("does not say where 1 of its 1 NVLinks lead"), std::string::npos)
      << notes_[0];
}

TEST_F(NvmlProbeTest, ALinkThatOnlyOneEndSeesIsNoLink) {
  connect(0, 0, 0, kBuses[1]);
  const auto node = probeNode();
  EXPECT_EQ(linkText(node.link(2, 3)), "NODE");
  EXPECT_EQ(linkText(node.link(3, 2)), "NODE");
}

TEST_F(NvmlProbeTest, ALostGpuIsLeftOutAndTheOthersStay) {
  fake_->gpus[1].handleError = 15;
  fake_->gpus[2].memoryError = 15;
  const auto node = probeNode();
  EXPECT_EQ(node.gpus.size(), 2U);
  EXPECT_EQ(node.links.size(), 4U);
  ASSERT_EQ(notes_.size(), 4U);  // and what the kernel sees of both
  EXPECT_EQ(notes_[0],
            "GPU number 1 of the driver is left out: GPU is lost (code 15); it has fallen off the "
            "bus: dmesg shows an "
            "Xid; a reboot brings it back");
  EXPECT_EQ(notes_[1].substr(0, 40), "the GPU at 0000:06:00.0 is left out: GPU");
  EXPECT_EQ(notes_[3],
            "the NVIDIA GPU at 0000:86:00.0 is not offered by the driver; bound to it: nvidia");
}

TEST_F(NvmlProbeTest, AGpuThatIsGivenToAVirtualMachineIsNoted) {
  root_->writePciDevice("0000:99:00.0", "0x030000", 0, "vfio-pci");
  root_->writePciDevice("0000:9a:00.0", "0x030000", 0, "amdgpu", "0x1002");
  root_->writePciDevice("0000:9b:00.0", "0x040300", 0, "snd_hda_intel");
  EXPECT_EQ(probeNode().gpus.size(), 4U);
  EXPECT_EQ(
      notes_,
      (std::vector<std::string>{
          "the NVIDIA GPU at 0000:99:00.0 is not offered by the driver; bound to it: vfio-pci"}));
}

TEST_F(NvmlProbeTest, AGpuInMigModeIsListedAndNotHandedOut) {
  fake_->gpus[0].mig = 1;
  fake_->gpus[1].mig = -1;
  const auto node = probeNode();
  EXPECT_EQ(node.gpus[2].health, model::GpuHealth::kDraining);
  EXPECT_EQ(node.gpus[3].health, model::GpuHealth::kHealthy);
  ASSERT_EQ(notes_.size(), 1U);
  EXPECT_EQ(notes_[0].substr(0, 43), "GPU 2 (0000:85:00.0) is in MIG mode and is ");
}

TEST_F(NvmlProbeTest, UnknownNumaNodeOfAMachineWithSeveralStaysUnknown) {
  for (std::size_t i = 0; i < 4; ++i)
    root_->write("sys/bus/pci/devices/" + address(i) + "/numa_node", "-1\n");
  EXPECT_EQ(probeNode().gpus[0].numaNode, -1);
  std::filesystem::remove_all(root_->path() / "sys/devices/system/node");
  EXPECT_EQ(probeNode().gpus[0].numaNode, 0);  // there is only one it can be
}

TEST_F(NvmlProbeTest, ADriverWithoutGpusIsAMachineWithoutGpus) {
  fake_->count = 0;
  std::filesystem::remove_all(root_->path() / "sys/bus");
  EXPECT_TRUE(probeNode().gpus.empty());
  EXPECT_EQ(notes_, (std::vector<std::string>{"the NVIDIA driver works and sees no GPU"}));
}

TEST_F(NvmlProbeTest, AGpuWithoutMemoryIsLeftOut) {
  fake_->gpus[0].memory = 0;
  EXPECT_EQ(probeNode().gpus.size(), 3U);
  ASSERT_FALSE(notes_.empty());
  EXPECT_EQ(notes_[0],
            "the GPU at 0000:85:00.0 is left out: the driver says that it has no memory");
}

TEST_F(NvmlProbeTest, TopologyThatTheDriverDoesNotTellIsNotedOnce) {
  fake_->count = 2;
  fake_->topologyError = 3;
  EXPECT_EQ(linkText(probeNode().link(0, 1)), "SYS");
  EXPECT_EQ(notes_.size(),
            3U);  // one for the pair; two for GPUs that the kernel sees and the driver does not
}

TEST_F(NvmlProbeTest, MismatchedVersionsSayWhatToDo) {
  fake_->initError = 18;
  root_->write("sys/module/nvidia/version", "535.161.08\n");
  const auto error = refusal();
  EXPECT_EQ(error.code, ErrorCode::kUnavailable);
  EXPECT_EQ(error.message(),
            "the NVIDIA library and the loaded kernel module are of different versions: found "
            "Driver/library version "
            "mismatch (code 18); loaded module 535.161.08; usual after an update of the driver: "
            "reboot, or unload and "
            "load the nvidia modules");
}

TEST_F(NvmlProbeTest, NoPermission) {
  fake_->initError = 4;
  const auto error = refusal();
  EXPECT_EQ(error.code, ErrorCode::kPermission);
  EXPECT_EQ(error.where, "/dev/nvidiactl");
}

TEST_F(NvmlProbeTest, ADriverThatIsNotLoadedMattersWhereThereIsAGpu) {
  fake_->initError = 9;
  auto error = refusal();
  EXPECT_EQ(error.code, ErrorCode::kUnavailable);
  EXPECT_NE(error.where.find("0000:06:00.0"), std::string::npos);
  std::filesystem::remove_all(root_->path() / "sys/bus");
  error = refusal();
  EXPECT_EQ(error.code, ErrorCode::kNotFound);
}

TEST_F(NvmlProbeTest, ADriverThatFailsLaterIsShutDown) {
  fake_->countError = 999;
  EXPECT_EQ(refusal().code, ErrorCode::kUnavailable);
}

TEST_F(NvmlProbeTest, ALibraryFromBeforeNvLinkDoes) {
  load(FAKE_NVML_OLD_PATH);
  const auto node = probeNode();
  EXPECT_EQ(node.gpus.size(), 4U);
  EXPECT_EQ(node.driverVersion, "");
  EXPECT_EQ(node.gpus[0].computeCapability, "");
  EXPECT_EQ(linkText(node.link(0, 1)), "SYS");
  EXPECT_EQ(notes_.size(), 6U);  // one for each pair
}

TEST_F(NvmlProbeTest, NoLibraryMeansNoDriver) {
  library_ = "/nonexistent/libnvidia-ml.so.1";
  std::filesystem::remove_all(root_->path() / "sys/bus");
  auto error = refusal();
  EXPECT_EQ(error.code, ErrorCode::kNotFound);
  EXPECT_EQ(error.message(), "/nonexistent/libnvidia-ml.so.1: no NVIDIA driver on this machine");
  root_->writePciDevice("0000:01:00.0", "0x030000", 0, "nouveau");
  error = refusal();
  EXPECT_EQ(error.code, ErrorCode::kNotFound);
  EXPECT_EQ(error.found, "NVIDIA GPUs without it: 0000:01:00.0 (driver nouveau)");
}

TEST_F(NvmlProbeTest, AFileThatIsNoLibraryIsNotTakenForNoDriver) {
  root_->write("libnvidia-ml.so.1", "not a library");
  library_ = (root_->path() / "libnvidia-ml.so.1").string();
  EXPECT_EQ(refusal().code, ErrorCode::kUnavailable);
}

TEST_F(NvmlProbeTest, ALibraryThatLacksAFunctionNamesIt) {
  library_ = FAKE_NVML_BROKEN_PATH;
  const auto error = refusal();
  EXPECT_EQ(error.code, ErrorCode::kUnavailable);
  EXPECT_EQ(error.found, "it has no function nvmlDeviceGetHandleByIndex_v2");
}

}  // namespace
}  // namespace bole::gpu
