#include "gpu/emulated.h"

#include <gtest/gtest.h>

#include <set>

#include "gpu/catalog.h"
#include "gpu/topo.h"

namespace bole::gpu {
namespace {

HostInfo smallHost() {
  HostInfo host;
  host.hostname = "laptop";
  host.cpus = 2;
  host.memory = kGiB * 8;
  host.numaNodes = {{0, "0-1"}};
  return host;
}

std::vector<model::Node> emulate(std::string_view spec) {
  auto nodes = parseEmulation(spec, smallHost());
  EXPECT_TRUE(nodes) << spec << ": " << nodes.error().message();
  return nodes ? *nodes : std::vector<model::Node>{};
}

Error refusal(std::string_view spec) {
  const auto nodes = parseEmulation(spec, smallHost());
  EXPECT_FALSE(nodes) << spec;
  return nodes ? Error{} : nodes.error();
}

// "NV1 SYS ..." row by row.
std::vector<std::string> matrix(const model::Node& node) {
  std::vector<std::string> rows;
  for (std::size_t a = 0; a < node.gpus.size(); ++a) {
    std::string row;
    for (std::size_t b = 0; b < node.gpus.size(); ++b)
      row += (b == 0 ? "" : " ") + linkText(node.link(a, b));
    rows.push_back(row);
  }
  return rows;
}

std::string labelOf(const model::Node& node, const std::string& name) {
  for (const auto& [key, value] : node.labels) {
    if (key == name) return value;
  }
  return "";
}

// Everything that must hold for any node that is offered.
void expectSound(const model::Node& node) {
  SCOPED_TRACE(node.name + ": " + node.gpus.at(0).model);
  EXPECT_TRUE(node.emulated);
  EXPECT_EQ(node.links.size(), node.gpus.size() * node.gpus.size());
  EXPECT_GE(node.cpus.value, 4000 * static_cast<std::int64_t>(node.gpus.size()));
  EXPECT_GE(node.memory.value, kGiB.value * 16 * static_cast<std::int64_t>(node.gpus.size()));
  std::set<std::string> seen;
  for (std::size_t a = 0; a < node.gpus.size(); ++a) {
    const auto& gpu = node.gpus[a];
    EXPECT_TRUE(seen.insert(gpu.pciBusId).second);
    EXPECT_TRUE(a == 0 || node.gpus[a - 1].pciBusId < gpu.pciBusId) << "not in PCI order";
    EXPECT_GE(gpu.numaNode, 0);
    EXPECT_LT(gpu.numaNode, node.numaNodes);
    EXPECT_FALSE(labelOf(node, numaCpusLabel(gpu.numaNode)).empty());
    EXPECT_GE(gpu.memory, kGiB * 14);
    for (std::size_t b = 0; b < node.gpus.size(); ++b) {
      const auto link = node.link(a, b);
      EXPECT_EQ(link, node.link(b, a));
      EXPECT_EQ(link.kind == model::LinkKind::kSelf, a == b);
      EXPECT_EQ(link.kind == model::LinkKind::kNvLink, link.nvLinks > 0);
      if (link.kind == model::LinkKind::kNvLink || a == b) continue;
      const bool apart = link.kind == model::LinkKind::kSys;
      EXPECT_NE(apart, gpu.numaNode == node.gpus[b].numaNode) << a << " and " << b;
    }
  }
  std::size_t cpus = 0;
  for (std::int32_t numa = 0; numa < node.numaNodes; ++numa) {
    cpus += parseCpuList(labelOf(node, numaCpusLabel(numa)))->size();
  }
  EXPECT_EQ(static_cast<std::int64_t>(cpus) * 1000, node.cpus.value)
      << "NUMA nodes do not share out all CPUs";
}

TEST(Emulation, EveryProductInEverySizeIsSound) {
  for (const auto& product : products()) {
    for (std::size_t count = 1; count <= product.boards.back().most(); ++count) {
      const auto nodes = emulate(std::to_string(count) + "x" + std::string(product.written));
      ASSERT_EQ(nodes.size(), 1U);
      ASSERT_EQ(nodes[0].gpus.size(), count);
      expectSound(nodes[0]);
    }
  }
}

TEST(Emulation, EveryNameFindsItsOwnProduct) {
  for (const auto& product : products()) {
    EXPECT_EQ(findProduct(product.written), &product) << product.written;
    EXPECT_EQ(findProduct(product.name), &product) << product.name;
    EXPECT_EQ(findProduct("NVIDIA " + std::string(product.name)), &product) << product.name;
    for (const auto alias : product.aliases) {
      EXPECT_EQ(findProduct(alias), &product) << alias;
      EXPECT_EQ(fold(alias), alias) << "an alias that can never match";
    }
  }
  for (const auto& machine : machines()) {
    ASSERT_NE(findProduct(machine.product), nullptr) << machine.written;
    EXPECT_EQ(findProduct(machine.product)->boards.back().most(), machine.gpus) << machine.written;
    EXPECT_EQ(findProduct(machine.written), nullptr) << machine.written << " is also a GPU";
  }
}

TEST(Emulation, Dgx1IsAHybridCubeMesh) {
  const auto nodes = emulate("8xV100-SXM2-16GB");
  EXPECT_EQ(
      matrix(nodes.at(0)),
      (std::vector<std::string>{"X NV1 NV1 NV2 NV2 SYS SYS SYS", "NV1 X NV2 NV1 SYS NV2 SYS SYS",
                                "NV1 NV2 X NV2 SYS SYS NV1 SYS", "NV2 NV1 NV2 X SYS SYS SYS NV1",
                                "NV2 SYS SYS SYS X NV1 NV1 NV2", "SYS NV2 SYS SYS NV1 X NV2 NV1",
                                "SYS SYS NV1 SYS NV1 NV2 X NV2", "SYS SYS SYS NV1 NV2 NV1 NV2 X"}));
  for (std::size_t gpu = 0; gpu < 8; ++gpu) {  // each V100 has six links
    int links = 0;
    for (std::size_t other = 0; other < 8; ++other) links += nodes[0].link(gpu, other).nvLinks;
    EXPECT_EQ(links, 6);
  }
  EXPECT_EQ(nodes[0].cpus, MilliCpu(80'000));
  EXPECT_EQ(nodes[0].memory, kGiB * 512);
}

TEST(Emulation, DgxA100IsSwitchedAndHasEightNumaNodes) {
  const auto node = emulate("8xA100-SXM4-80GB").at(0);
  EXPECT_EQ(matrix(node).at(0), "X NV12 NV12 NV12 NV12 NV12 NV12 NV12");
  EXPECT_EQ(matrix(node).at(7), "NV12 NV12 NV12 NV12 NV12 NV12 NV12 X");
  EXPECT_EQ(node.gpus[0].memory, kMiB * 81920);
  EXPECT_EQ(node.gpus[0].computeCapability, "8.0");
  EXPECT_EQ(node.gpus[0].pciBusId, "0000:07:00.0");
  EXPECT_EQ(node.gpus[0].numaNode, 3);
  EXPECT_EQ(node.gpus[7].numaNode, 5);
  EXPECT_EQ(labelOf(node, "bole.numa-3.cpus"),
            "48-63,176-191");  // as nvidia-smi shows on a DGX A100
  EXPECT_EQ(node.cpus, MilliCpu(256'000));
  EXPECT_EQ(labelOf(node, "bole.machine"), "DGX A100");
}

TEST(Emulation, HopperAndBlackwellHaveEighteenLinks) {
  for (const auto* spec : {"8xH100", "8xH200", "8xB200"}) {
    const auto node = emulate(spec).at(0);
    EXPECT_EQ(matrix(node).at(3), "NV18 NV18 NV18 X NV18 NV18 NV18 NV18") << spec;
    EXPECT_EQ(node.numaNodes, 2);
  }
  EXPECT_EQ(emulate("8xH100").at(0).gpus[0].model, "H100 80GB HBM3");
}

TEST(Emulation, BridgedPairsAndPlainCards) {
  EXPECT_EQ(matrix(emulate("4xA100-PCIE-40GB").at(0)),
            (std::vector<std::string>{"X NV12 SYS SYS", "NV12 X SYS SYS", "SYS SYS X NV12",
                                      "SYS SYS NV12 X"}));
  EXPECT_EQ(matrix(emulate("4xT4").at(0)),
            (std::vector<std::string>{"X NODE SYS SYS", "NODE X SYS SYS", "SYS SYS X NODE",
                                      "SYS SYS NODE X"}));
  EXPECT_EQ(matrix(emulate("2xRTX-3090").at(0)), (std::vector<std::string>{"X PHB", "PHB X"}));
}

TEST(Emulation, APartOfAMachineHasItsPartOfTheCpus) {
  const auto node = emulate("2xV100").at(0);
  EXPECT_EQ(node.cpus, MilliCpu(20'000));
  EXPECT_EQ(node.memory, kGiB * 128);
  EXPECT_EQ(node.numaNodes, 1);
  const auto sixOfEight = emulate("6xA100").at(0);
  EXPECT_EQ(sixOfEight.numaNodes, 3);
  EXPECT_EQ(sixOfEight.gpus[0].numaNode,
            1);  // 3, 1 and 7 of the machine, numbered anew in their order
  EXPECT_EQ(sixOfEight.gpus[2].numaNode, 0);
  EXPECT_EQ(sixOfEight.gpus[4].numaNode, 2);
}

TEST(Emulation, SeveralMachines) {
  const auto nodes = emulate("2x[8xH100]+1x[4xT4], dgx-1 + 2xDGX-A100");
  std::vector<std::string> names;
  std::set<std::string> uuids;
  for (const auto& node : nodes) {
    names.push_back(node.name);
    for (const auto& gpu : node.gpus) uuids.insert(gpu.uuid);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"emu-h100-1", "emu-h100-2", "emu-t4-1", "emu-v100-1",
                                             "emu-a100-1", "emu-a100-2"}));
  EXPECT_EQ(uuids.size(), 8U + 8U + 4U + 8U + 8U + 8U) << "UUIDs repeat";
}

TEST(Emulation, IsForgivingAboutHowNamesAreWritten) {
  const auto wanted = emulate("8xA100-SXM4-80GB");
  for (const auto* spec :
       {"8xa100-sxm4-80gb", "8 x A100 SXM4 80GB", "8XA100_SXM4_80GB", "8*NVIDIA A100-SXM4-80GB",
        "[8xA100]", "1x[8xa100]", " 1 x [ 8xA100-80GB ] ", "dgx-a100", "1xHGX A100"}) {
    EXPECT_EQ(emulate(spec), wanted) << spec;
  }
  EXPECT_EQ(emulate("3090").at(0).gpus.at(0).model, "GeForce RTX 3090");
  EXPECT_EQ(emulate("2x4090").at(0).gpus.size(), 2U);
}

TEST(Emulation, IsTheSameEachTimeAndKeepsItsIds) {
  EXPECT_EQ(emulate("2x[8xH100]+4xT4"), emulate("2x[8xH100]+4xT4"));
  // Frozen: ledgers name GPUs by these.
  EXPECT_EQ(emulate("4xA100-PCIE-40GB").at(0).gpus.at(0).uuid,
            "GPU-659a1fd7-9819-703a-8eee-4895049fff9a");
}

TEST(Emulation, TheHostsOwnFiguresStandInLabels) {
  const auto node = emulate("T4").at(0);
  EXPECT_EQ(labelOf(node, "bole.host.cpus"), "2");
  EXPECT_EQ(labelOf(node, "bole.host.memory"), "8 GiB");
}

TEST(Emulation, ErrorsSayWhatIsMeant) {
  EXPECT_EQ(refusal("8xA1O0").hint, "did you mean 'A100-SXM4-80GB'?");
  EXPECT_EQ(refusal("8xA100-SMX4-80GB").hint, "did you mean 'A100-SXM4-80GB'?");
  EXPECT_EQ(refusal("2xdgx-h10").hint, "did you mean 'DGX-H100'?");
  EXPECT_EQ(refusal("rtx 3080").hint, "did you mean 'RTX-3090'?");
  EXPECT_NE(refusal("8xMI300X").expected.find("H100-SXM5-80GB"), std::string::npos);
  EXPECT_EQ(refusal("9xH100").hint, "for several machines write 2x[8xH100-SXM5-80GB]");
  for (const auto* spec : {"",
                           "  ",
                           "8x",
                           "x",
                           "4x[",
                           "4x[8xH100",
                           "4x8xH100]",
                           "[[8xH100]]",
                           "4x[]",
                           "0xT4",
                           "0x[4xT4]",
                           "0xdgx-1",
                           "2x[8xH100]+",
                           ",T4",
                           "4x[2xT4,1xA10]",
                           "[2xDGX-1]",
                           "2000xDGX-1",
                           "600xDGX-1,600xDGX-2",
                           "99999999999999999999xT4",
                           "four[8xH100]",
                           "4[8xH100]",
                           "4x[T4]4",
                           "-1xT4",
                           "8x8xT4"}) {
    const auto error = refusal(spec);
    EXPECT_EQ(error.code, ErrorCode::kInvalid) << spec;
    EXPECT_EQ(error.where, "--emulate") << spec;
    EXPECT_FALSE(error.expected.empty() && error.hint.empty())
        << spec << ": says nothing about what to do";
  }
}

TEST(Emulation, TheDefaultTakesAGangOfFourOnAnyHost) {
  const auto nodes = defaultEmulation(smallHost());
  ASSERT_EQ(nodes.size(), 1U);
  expectSound(nodes[0]);
  EXPECT_EQ(nodes[0].gpus.size(), 4U);
  EXPECT_GE(nodes[0].cpus, MilliCpu(4000));
  EXPECT_EQ(*EmulatedProbe(nodes).probe(), nodes);
}

TEST(Emulation, EveryListedNameCanBeUsed) {
  for (const auto& name : emulatedModels()) EXPECT_EQ(emulate(name).size(), 1U) << name;
}

}  // namespace
}  // namespace bole::gpu
