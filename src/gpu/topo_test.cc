#include "gpu/topo.h"

#include <gtest/gtest.h>

#include <sstream>

#include "gpu/emulated.h"

namespace bole::gpu {
namespace {

TEST(Topology, LooksLikeNvidiaSmi) {
  const auto nodes = parseEmulation("4xA100-PCIE-40GB", HostInfo{});
  ASSERT_TRUE(nodes);
  EXPECT_EQ(formatTopology(nodes->at(0)),
            "emu-a100-1: 4 x A100-PCIE-40GB (emulated)\n"
            "\n"
            "       GPU0  GPU1  GPU2  GPU3  CPUs          NUMA\n"
            "GPU0    X    NV12  SYS   SYS   0-31,64-95    0\n"
            "GPU1   NV12   X    SYS   SYS   0-31,64-95    0\n"
            "GPU2   SYS   SYS    X    NV12  32-63,96-127  1\n"
            "GPU3   SYS   SYS   NV12   X    32-63,96-127  1\n"
            "\n"
            "Legend:\n"
            "  X    = itself\n"
            "  SYS  = PCIe and the link between NUMA nodes (UPI, Infinity Fabric)\n"
            "  NODE = PCIe and the link between host bridges of one NUMA node\n"
            "  PHB  = a PCIe host bridge, typically the CPU\n"
            "  PXB  = several PCIe bridges, without a host bridge\n"
            "  PIX  = at most one PCIe bridge\n"
            "  NV#  = a bonded set of # NVLinks\n");
}

TEST(Topology, FitsAHundredColumns) {
  for (const auto& name : emulatedModels()) {
    for (const auto* count : {"", "8x", "16x"}) {
      const auto nodes = parseEmulation(count + name, HostInfo{});
      if (!nodes) continue;  // no machine holds so many
      std::istringstream text(formatTopology(nodes->at(0)));
      for (std::string line; std::getline(text, line);)
        EXPECT_LE(line.size(), 100U) << name << ": " << line;
    }
  }
}

TEST(Topology, WhatIsUnknownIsSaid) {
  model::Node node;
  node.name = "box";
  EXPECT_EQ(formatTopology(node), "box: no GPUs\n");
  model::Gpu gpu;
  gpu.model = "T4";
  gpu.numaNode = -1;
  node.gpus = {gpu};
  node.links = {{model::LinkKind::kSelf, 0}};
  EXPECT_NE(formatTopology(node).find("\nGPU0    X    N/A   N/A\n"), std::string::npos)
      << formatTopology(node);
}

TEST(Topology, DifferentCardsAreNamed) {
  model::Node node;
  node.name = "box";
  for (const auto* model : {"T4", "T4", "A10"}) {
    model::Gpu gpu;
    gpu.model = model;
    node.gpus.push_back(gpu);
  }
  node.links.resize(9);
  EXPECT_EQ(formatTopology(node).substr(0, 20), "box: 2 x T4, 1 x A10");
}

}  // namespace
}  // namespace bole::gpu
