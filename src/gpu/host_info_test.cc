#include "gpu/host_info.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>

#include "gpu/testing/test_root.h"

namespace bole::gpu {
namespace {

TEST(CpuList, ReadsTheKernelsNotation) {
  EXPECT_EQ(*parseCpuList("0"), (std::vector<std::int32_t>{0}));
  EXPECT_EQ(*parseCpuList("0-3,8,10-11"), (std::vector<std::int32_t>{0, 1, 2, 3, 8, 10, 11}));
  EXPECT_TRUE(parseCpuList("")->empty());
}

TEST(CpuList, RefusesWhatTheKernelNeverWrites) {
  for (const auto* bad :
       {"a", "0-", "-3", "3-1", "0,,1", "0,", "1,1", "0-3,2", "0-99999999", "0 1"}) {
    const auto list = parseCpuList(bad);
    ASSERT_FALSE(list) << bad;
    EXPECT_EQ(list.error().code, ErrorCode::kInvalid);
    EXPECT_EQ(list.error().found, bad);
  }
}

TEST(HostInfo, ReadsTheMachine) {
  const TestRoot root;
  root.writeMachine();
  const auto host = readHostInfo(root.path());
  ASSERT_TRUE(host) << host.error().message();
  EXPECT_EQ(host->hostname, "gpu-box");
  EXPECT_EQ(host->bootId, "6f1e0a52-0b7c-4d9e-8b56-3d1f7a2c9e10");
  EXPECT_EQ(host->cpus, 8);
  EXPECT_EQ(host->memory, kKiB * 65843912);
  EXPECT_EQ(host->numaNodes, (std::vector<NumaNode>{{0, "0-3"}, {1, "4-7"}}));
}

TEST(HostInfo, WithoutNumaThereIsOneNode) {
  const TestRoot root;
  root.writeMachine();
  std::filesystem::remove_all(root.path() / "sys/devices/system/node");
  const auto host = readHostInfo(root.path());
  ASSERT_TRUE(host);
  EXPECT_EQ(host->numaNodes, (std::vector<NumaNode>{{0, "0-7"}}));
}

TEST(HostInfo, NumaNodesMayHaveGapsAndMemoryAlone) {
  const TestRoot root;
  root.writeMachine();
  root.write("sys/devices/system/node/online", "0,2\n");
  root.write("sys/devices/system/node/node2/cpulist", "\n");
  const auto host = readHostInfo(root.path());
  ASSERT_TRUE(host) << host.error().message();
  EXPECT_EQ(host->numaNodes, (std::vector<NumaNode>{{0, "0-3"}, {2, ""}}));
  const auto node = hostNode(*host);
  EXPECT_EQ(node.numaNodes, 2);
  ASSERT_EQ(node.labels.size(), 1U);
  EXPECT_EQ(node.labels[0].first, "bole.numa-0.cpus");
}

TEST(HostInfo, SaysWhatIsMissing) {
  for (const auto* missing : {"proc/sys/kernel/hostname", "proc/sys/kernel/random/boot_id",
                              "proc/meminfo", "sys/devices/system/cpu/online"}) {
    const TestRoot root;
    root.writeMachine();
    std::filesystem::remove(root.path() / missing);
    const auto host = readHostInfo(root.path());
    ASSERT_FALSE(host) << missing;
    EXPECT_EQ(host.error().code, ErrorCode::kUnsupported);
    EXPECT_EQ(host.error().where, (root.path() / missing).string());
  }
}

TEST(HostInfo, RefusesGarbageInMeminfo) {
  for (const auto* text :
       {"", "MemTotal:", "MemTotal: x kB\n", "MemTotal: 0 kB\n", "MemTotal:      \n"}) {
    const TestRoot root;
    root.writeMachine();
    root.write("proc/meminfo", text);
    EXPECT_FALSE(readHostInfo(root.path())) << text;
  }
}

TEST(HostInfo, AgreesWithThisMachine) {
  const auto host = readHostInfo();
  ASSERT_TRUE(host) << host.error().message();
  EXPECT_EQ(host->cpus, ::sysconf(_SC_NPROCESSORS_ONLN));
  std::array<char, 256> name{};
  ASSERT_EQ(::gethostname(name.data(), name.size()), 0);
  EXPECT_EQ(host->hostname, name.data());
  EXPECT_EQ(host->bootId.size(), 36U);
  EXPECT_GT(host->memory, kMiB * 64);
}

TEST(HostNode, IsTheMachineWithoutGpus) {
  const TestRoot root;
  root.writeMachine();
  const auto node = hostNode(*readHostInfo(root.path()));
  EXPECT_EQ(node.name, "gpu-box");
  EXPECT_FALSE(node.emulated);
  EXPECT_EQ(node.cpus, MilliCpu(8000));
  EXPECT_EQ(node.numaNodes, 2);
  EXPECT_TRUE(node.gpus.empty());
  const std::pair<std::string, std::string> label{"bole.numa-1.cpus", "4-7"};
  EXPECT_EQ(node.labels.back(), label);
}

}  // namespace
}  // namespace bole::gpu
