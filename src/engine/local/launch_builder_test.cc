#include "engine/local/launch_builder.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <map>
#include <set>

#include "engine/local/testing/test_support.h"

namespace bole::engine {
namespace {

using testing::gangOrder;
using testing::shapeOf;
using testing::textOf;

HostFacts rootHost() {
  HostFacts host;
  host.mayChangeUid = true;
  host.instance = "1a2b3c";
  host.gpuDevices = {"/dev/nvidiactl", "/dev/nvidia-uvm"};
  host.fabricDevices = {"/dev/infiniband/uverbs0"};
  host.maskPaths = {"/var/lib/bole"};
  host.etcHosts = "127.0.0.1 localhost\n10.0.0.7 fileserver";
  return host;
}

LaunchPlace place() {
  return {"/var/lib/bole/attempts/7", "/var/lib/bole/work/3", 29500, {}};
}

std::string lines(const std::vector<std::string>& list) {
  std::string text;
  for (const auto& line : list) text += line + "\n";
  return text;
}

std::map<std::string, std::string> environmentOf(const supervise::RankLaunch& rank) {
  std::map<std::string, std::string> env;
  for (const auto& variable : rank.env) {
    const auto at = variable.find('=');
    EXPECT_TRUE(env.emplace(variable.substr(0, at), variable.substr(at + 1)).second) << variable;
  }
  return env;
}

BuiltLaunch built(const ports::AttemptOrder& order, const HostFacts& host = rootHost(),
                  const LaunchPlace& where = place()) {
  auto result = buildLaunch(order, host, where);
  if (!result) ADD_FAILURE() << result.error().message();
  return result ? *result : BuiltLaunch{};
}

TEST(LaunchBuilder, WholeEnvironmentOfARankOfAnEmulatedGang) {
  auto order = gangOrder(7, 4, {"./digits", "--epochs", "20"}, 2);
  shapeOf(order).tasks[0].cpus = MilliCpu(2500);
  shapeOf(order).tasks[0].memory = kMiB * 512;
  textOf(order).checkpointPath = "checkpoints";
  textOf(order).tasks[0].env = {{"LR", "0.1"}, {"LR", "0.2"}};
  const auto launch = built(order).launch;
  ASSERT_EQ(launch.ranks.size(), 4U);
  EXPECT_EQ(lines(launch.ranks[2].env),
            "RANK=2\nLOCAL_RANK=0\nWORLD_SIZE=4\nLOCAL_WORLD_SIZE=1\nNODE_RANK=2\n"
            "MASTER_ADDR=127.0.0.1\nMASTER_PORT=29500\n"
            "PET_NNODES=4\nPET_NODE_RANK=2\nPET_NPROC_PER_NODE=2\n"
            "PET_MASTER_ADDR=127.0.0.1\nPET_MASTER_PORT=29500\n"
            "NCCL_SOCKET_IFNAME=lo\nGLOO_SOCKET_IFNAME=lo\n"
            "CUDA_DEVICE_ORDER=PCI_BUS_ID\nCUDA_VISIBLE_DEVICES=GPU-4,GPU-5\n"
            "NVIDIA_VISIBLE_DEVICES=void\nBOLE_GPUS=2\nBOLE_GPU_MODEL=A100-SXM4-80GB\n"
            "BOLE_GPUS_EMULATED=1\n"
            "OMP_NUM_THREADS=2\nMKL_NUM_THREADS=2\nOPENBLAS_NUM_THREADS=2\n"
            "NUMEXPR_NUM_THREADS=2\nRAYON_NUM_THREADS=2\nGOMAXPROCS=2\n"
            "BOLE_MILLICPUS=2500\nBOLE_MEMORY_BYTES=536870912\n"
            "BOLE_JOB_ID=3\nBOLE_JOB_NAME=digits\nBOLE_ATTEMPT=1\nBOLE_ATTEMPT_ID=7\n"
            "BOLE_PROJECT_ID=2\nBOLE_TASK=worker\nBOLE_REPLICA=2\nBOLE_RANK=2\n"
            "BOLE_WORLD_SIZE=4\nBOLE_LOCAL_RANK=2\nBOLE_LOCAL_WORLD_SIZE=4\nBOLE_NODE=node-0\n"
            "BOLE_WORK_DIR=/var/lib/bole/work/3\n"
            "BOLE_CHECKPOINT_DIR=/var/lib/bole/work/3/checkpoints\n"
            "PYTHONUNBUFFERED=1\nLR=0.2\n");
}

TEST(LaunchBuilder, WholeLaunch) {
  auto order = gangOrder(7, 1, {"./digits"}, 1);
  shapeOf(order).timeLimit = minutes(10);
  shapeOf(order).grace = seconds(3);
  shapeOf(order).tasks[0].shm = kGiB;
  textOf(order).tasks[0].mounts = {{"/data", "/in", true}};
  const auto launch = built(order).launch;
  EXPECT_EQ(launch.attempt, 7U);
  EXPECT_EQ(launch.job, 3U);
  EXPECT_EQ(launch.name, "digits");
  EXPECT_EQ(launch.runtime, supervise::RuntimeKind::kProcess);
  EXPECT_EQ(launch.network, supervise::NetworkKind::kGang);
  EXPECT_EQ(launch.grace, seconds(3));
  EXPECT_EQ(launch.timeLimit, minutes(10));
  EXPECT_TRUE(launch.stopOnFailure);
  EXPECT_EQ(launch.cgroup, "bole-1a2b3c/attempt-7");
  EXPECT_EQ(launch.maskPaths, std::vector<std::string>{"/var/lib/bole"});
  const auto& rank = launch.ranks.at(0);
  EXPECT_EQ(rank.cwd, "/var/lib/bole/work/3");
  EXPECT_EQ(rank.uid, 200'002U);
  EXPECT_EQ(rank.gid, 200'002U);
  EXPECT_EQ(rank.shm, kGiB);
  ASSERT_EQ(rank.mounts.size(), 1U);
  EXPECT_EQ(rank.mounts[0].source, "/data");
  EXPECT_EQ(rank.mounts[0].target, "/in");
  EXPECT_TRUE(rank.mounts[0].readOnly);
  EXPECT_FALSE(rank.mounts[0].fromBole);
}

TEST(LaunchBuilder, RealGpusAreSeenInPciOrderWhateverTheOrderGiven) {
  auto order = gangOrder(7, 1, {"true"});
  order.nodes[0] = testing::nodeWithGpus(8);
  order.ranks[0].gpus = {6, 1};
  const auto rank = built(order).launch.ranks.at(0);
  const auto env = environmentOf(rank);
  EXPECT_EQ(env.at("CUDA_VISIBLE_DEVICES"), "GPU-1,GPU-6");
  EXPECT_EQ(env.at("NVIDIA_VISIBLE_DEVICES"), "GPU-1,GPU-6");
  EXPECT_EQ(env.count("BOLE_GPUS_EMULATED"), 0U);
  EXPECT_EQ(lines(rank.devices),
            "/dev/nvidia1\n/dev/nvidia6\n/dev/nvidiactl\n/dev/nvidia-uvm\n"
            "/dev/infiniband/uverbs0\n");
}

TEST(LaunchBuilder, AJobWithoutGpusSeesNone) {
  auto order = gangOrder(7, 1, {"true"});
  order.nodes[0] = testing::nodeWithGpus(8);
  const auto rank = built(order).launch.ranks.at(0);
  const auto env = environmentOf(rank);
  EXPECT_EQ(env.at("CUDA_VISIBLE_DEVICES"), "");
  EXPECT_EQ(env.at("NVIDIA_VISIBLE_DEVICES"), "void");
  EXPECT_EQ(lines(rank.devices), "/dev/infiniband/uverbs0\n");
}

TEST(LaunchBuilder, EmulatedGpusHaveNoDevices) {
  const auto order = gangOrder(7, 1, {"true"}, 2);
  EXPECT_EQ(lines(built(order).launch.ranks.at(0).devices), "/dev/infiniband/uverbs0\n");
}

TEST(LaunchBuilder, AGpuThatIsNotThereOrGivenTwiceIsRefused) {
  auto order = gangOrder(7, 2, {"true"}, 1);
  order.ranks[1].gpus = {2};
  auto result = buildLaunch(order, rootHost(), place());
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message().find("GPU 2"), std::string::npos) << result.error().message();
  order.ranks[1].gpus = {0};
  result = buildLaunch(order, rootHost(), place());
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message().find("one GPU to two ranks"), std::string::npos);
}

TEST(LaunchBuilder, TheJobsOwnVariablesWinButOverTheAllocation) {
  auto order = gangOrder(7, 2, {"true"}, 1);
  textOf(order).tasks[0].env = {{"MASTER_PORT", "1234"},     {"OMP_NUM_THREADS", "9"},
                                {"NCCL_SOCKET_IFNAME", "x"}, {"CUDA_VISIBLE_DEVICES", "0,1"},
                                {"WORLD_SIZE", "99"},        {"BOLE_JOB_ID", "3"}};
  const auto result = built(order);
  const auto env = environmentOf(result.launch.ranks.at(1));
  EXPECT_EQ(env.at("MASTER_PORT"), "1234");
  EXPECT_EQ(env.at("OMP_NUM_THREADS"), "9");
  EXPECT_EQ(env.at("NCCL_SOCKET_IFNAME"), "x");
  EXPECT_EQ(env.at("CUDA_VISIBLE_DEVICES"), "GPU-1");
  EXPECT_EQ(env.at("WORLD_SIZE"), "2");
  ASSERT_EQ(result.notes.size(), 1U);
  EXPECT_EQ(result.notes[0],
            "task 'worker' sets CUDA_VISIBLE_DEVICES, WORLD_SIZE: ignored, these say what was "
            "allocated");
}

TEST(LaunchBuilder, AVariableThatNoEnvironmentCanHoldIsRefused) {
  auto order = gangOrder(7, 1, {"true"});
  textOf(order).tasks[0].env = {{"A=B", "1"}};
  EXPECT_FALSE(buildLaunch(order, rootHost(), place()));
  textOf(order).tasks[0].env = {{"A", std::string("1\0002", 3)}};
  EXPECT_FALSE(buildLaunch(order, rootHost(), place()));
}

TEST(LaunchBuilder, MachineViewCountsTheRanksOfOneNode) {
  auto order = gangOrder(7, 4, {"true"}, 1);
  order.ranks[1].node = order.ranks[3].node = NodeId(2);
  const auto launch = built(order).launch;
  const auto env = environmentOf(launch.ranks.at(3));
  EXPECT_EQ(env.at("BOLE_LOCAL_RANK"), "1");
  EXPECT_EQ(env.at("BOLE_LOCAL_WORLD_SIZE"), "2");
  EXPECT_EQ(env.at("LOCAL_RANK"), "0");
  EXPECT_EQ(env.at("NODE_RANK"), "3");
}

TEST(LaunchBuilder, PlainRanksAreTheServersOwnUserInTheSubmittersDirectory) {
  auto order = gangOrder(7, 2, {"true"});
  shapeOf(order).runtime = model::Runtime::kPlain;
  textOf(order).checkpointPath = "ckpt";
  auto host = rootHost();
  host.ownUid = 1000;
  host.ownGid = 1001;
  auto where = place();
  where.masterPort = 29777;
  const auto launch = built(order, host, where).launch;
  EXPECT_EQ(launch.network, supervise::NetworkKind::kHost);
  const auto& rank = launch.ranks.at(1);
  EXPECT_EQ(rank.cwd, "/home/alice/digits");
  EXPECT_EQ(rank.uid, 1000U);
  EXPECT_EQ(rank.gid, 1001U);
  const auto env = environmentOf(rank);
  EXPECT_EQ(env.at("MASTER_PORT"), "29777");
  EXPECT_EQ(env.at("PET_MASTER_PORT"), "29777");
  EXPECT_EQ(env.count("NCCL_SOCKET_IFNAME"), 0U);
  EXPECT_EQ(env.at("BOLE_WORK_DIR"), "/home/alice/digits");
  EXPECT_EQ(env.at("BOLE_CHECKPOINT_DIR"), "/home/alice/digits/ckpt");
}

TEST(LaunchBuilder, AServerThatIsNotRootKeepsItsOwnUser) {
  auto host = rootHost();
  host.mayChangeUid = false;
  host.ownUid = 1000;
  host.ownGid = 1001;
  const auto rank = built(gangOrder(7, 1, {"true"}), host).launch.ranks.at(0);
  EXPECT_EQ(rank.uid, 1000U);
  EXPECT_EQ(rank.gid, 1001U);
}

TEST(LaunchBuilder, DirectoriesBelowTheSubmittersStandForThoseInTheJobsOwn) {
  auto order = gangOrder(7, 1, {"./train"});
  const auto cwdWith = [&](const std::string& directory) {
    textOf(order).tasks[0].workingDir = directory;
    return built(order).launch.ranks.at(0);
  };
  EXPECT_EQ(cwdWith("/home/alice/digits/").cwd, "/var/lib/bole/work/3");
  EXPECT_TRUE(cwdWith("/home/alice/digits/").mounts.empty());
  EXPECT_EQ(cwdWith("/home/alice/digits/src").cwd, "/var/lib/bole/work/3/src");
  EXPECT_EQ(cwdWith("src/./a/..").cwd, "/var/lib/bole/work/3/src");
  const auto inner = cwdWith("src");
  ASSERT_EQ(inner.mounts.size(), 1U);
  EXPECT_EQ(inner.mounts[0].source, "/var/lib/bole/work/3");
  EXPECT_EQ(inner.mounts[0].target, "/var/lib/bole/work/3");
  EXPECT_TRUE(inner.mounts[0].fromBole);
  EXPECT_FALSE(inner.mounts[0].readOnly);

  // Elsewhere, for example in the image: a shell goes there.
  const auto elsewhere = cwdWith("/home/alice/digits-2");
  EXPECT_EQ(elsewhere.cwd, "/var/lib/bole/work/3");
  EXPECT_EQ(lines(elsewhere.argv),
            "/bin/sh\n-c\ncd -- \"$0\" && exec \"$@\"\n/home/alice/digits-2\n./train\n");

  textOf(order).tasks[0].workingDir = "../4";
  const auto refused = buildLaunch(order, rootHost(), place());
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("../4"), std::string::npos);
}

TEST(LaunchBuilder, CheckpointDirectories) {
  auto order = gangOrder(7, 1, {"true"});
  const auto directory = [&](const std::string& path) {
    textOf(order).checkpointPath = path;
    return checkpointDirectory(*order.shape, *order.text, "/w/3");
  };
  EXPECT_EQ(directory(""), "");
  EXPECT_EQ(directory("a/b/"), "/w/3/a/b");
  EXPECT_EQ(directory("/home/alice/digits/c"), "/w/3/c");
  EXPECT_EQ(directory("/shared/c"), "/shared/c");
  EXPECT_EQ(directory("."), "/w/3");
  shapeOf(order).runtime = model::Runtime::kPlain;
  EXPECT_EQ(directory("c"), "/home/alice/digits/c");
}

ports::AttemptOrder volcanoOrder() {
  auto order = gangOrder(7, 3, {"true"});
  auto& shape = shapeOf(order);
  auto& text = textOf(order);
  shape.tasks.push_back(shape.tasks[0]);
  text.tasks.push_back(text.tasks[0]);
  text.tasks[0].name = "ps-server";
  order.ranks[1].task = order.ranks[2].task = 1;
  order.ranks[1].replica = 0;
  order.ranks[2].replica = 1;
  text.plugins = {"env", "svc"};
  return order;
}

TEST(LaunchBuilder, VolcanoVariables) {
  const auto launch = built(volcanoOrder()).launch;
  const auto env = environmentOf(launch.ranks.at(2));
  EXPECT_EQ(env.at("VC_TASK_INDEX"), "1");
  EXPECT_EQ(env.at("VK_TASK_INDEX"), "1");
  EXPECT_EQ(env.at("VC_PS_SERVER_HOSTS"), "digits-ps-server-0.digits");
  EXPECT_EQ(env.at("VC_PS_SERVER_NUM"), "1");
  EXPECT_EQ(env.at("VC_WORKER_HOSTS"), "digits-worker-0.digits,digits-worker-1.digits");
  EXPECT_EQ(env.at("VC_WORKER_NUM"), "2");
}

TEST(LaunchBuilder, VolcanoHostNamesAreWrittenDown) {
  const auto result = built(volcanoOrder());
  ASSERT_EQ(result.files.size(), 1U);
  EXPECT_EQ(result.files[0].path, "/var/lib/bole/attempts/7/files/hosts");
  EXPECT_EQ(result.files[0].content,
            "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n"
            "127.0.0.1 digits-ps-server-0.digits digits-ps-server-0\n"
            "127.0.0.1 digits-worker-0.digits digits-worker-0\n"
            "127.0.0.1 digits-worker-1.digits digits-worker-1\n");
  const auto& mount = result.launch.ranks.at(0).mounts.at(0);
  EXPECT_EQ(mount.target, "/etc/hosts");
  EXPECT_TRUE(mount.readOnly);
  EXPECT_TRUE(mount.fromBole);
}

TEST(LaunchBuilder, VolcanoHostFilesInContainersAndAddressesWithoutSandbox) {
  auto order = volcanoOrder();
  shapeOf(order).runtime = model::Runtime::kPodman;
  const auto result = built(order);
  ASSERT_EQ(result.files.size(), 3U);
  EXPECT_EQ(result.files[2].path, "/var/lib/bole/attempts/7/files/volcano/worker.host");
  EXPECT_EQ(result.files[2].content, "digits-worker-0.digits\ndigits-worker-1.digits\n");
  EXPECT_EQ(result.launch.ranks.at(0).mounts.at(1).target, "/etc/volcano");

  shapeOf(order).runtime = model::Runtime::kPlain;
  const auto plain = built(order);
  EXPECT_TRUE(plain.files.empty());
  EXPECT_EQ(environmentOf(plain.launch.ranks.at(0)).at("VC_WORKER_HOSTS"), "127.0.0.1,127.0.0.1");
}

TEST(LaunchBuilder, HostNetworkKeepsTheMachinesNames) {
  auto order = volcanoOrder();
  shapeOf(order).network = model::Network::kHost;
  const auto result = built(order);
  EXPECT_EQ(
      result.files.at(0).content.find("127.0.0.1 localhost\n10.0.0.7 fileserver\n127.0.0.1 d"), 0U);
}

TEST(LaunchBuilder, Rules) {
  using model::PolicyAction;
  using model::PolicyEvent;
  auto order = volcanoOrder();
  shapeOf(order).rules = {
      {1, PolicyEvent::kTaskCompleted, 0, PolicyAction::kCompleteJob, {}},
      {-1, PolicyEvent::kPodFailed, 0, PolicyAction::kRestartJob, {}},
      {-1, PolicyEvent::kExitCode, 3, PolicyAction::kAbortJob, {}},
      {-1, PolicyEvent::kAny, 0, PolicyAction::kTerminateJob, {}},
      {-1, PolicyEvent::kPodEvicted, 0, PolicyAction::kRestartJob, {}},
      {-1, PolicyEvent::kUnknown, 0, PolicyAction::kAbortJob, {}},
      {-1, PolicyEvent::kPodFailed, 0, PolicyAction::kResumeJob, {}},
  };
  const auto launch = built(order).launch;
  ASSERT_EQ(launch.completeOn.size(), 1U);
  EXPECT_EQ(launch.completeOn[0].task, "worker");
  EXPECT_EQ(launch.completeOn[0].event, supervise::RuleEvent::kTaskCompleted);
  ASSERT_EQ(launch.abortOn.size(), 3U);
  EXPECT_EQ(launch.abortOn[0].event, supervise::RuleEvent::kFailed);
  EXPECT_EQ(launch.abortOn[0].task, "");
  EXPECT_EQ(launch.abortOn[1].exitCode, 3);
  EXPECT_EQ(launch.abortOn[1].event, supervise::RuleEvent::kFailed);
  // A rank that is done must not take the others with it.
  EXPECT_EQ(launch.abortOn[2].event, supervise::RuleEvent::kFailed);
}

TEST(LaunchBuilder, PortsOfTheHostAreChosenWhereNoneIsNamed) {
  auto order = gangOrder(7, 2, {"true"});
  shapeOf(order).runtime = model::Runtime::kPodman;
  textOf(order).tasks[0].image = "pytorch";
  textOf(order).tasks[0].ports = {{8888, 0, "127.0.0.1"}, {6006, 6006, "0.0.0.0"}};
  EXPECT_EQ(portsToChoose(order), 2U);
  auto where = place();
  where.ports = {30001, 30002};
  const auto launch = built(order, rootHost(), where).launch;
  EXPECT_EQ(launch.ranks[0].image, "pytorch");
  EXPECT_EQ(launch.ranks[0].ports.at(0).host, 30001);
  EXPECT_EQ(launch.ranks[1].ports.at(0).host, 30002);
  EXPECT_EQ(launch.ranks[1].ports.at(0).container, 8888);
  EXPECT_EQ(launch.ranks[1].ports.at(1).host, 6006);
  EXPECT_EQ(launch.ranks[1].ports.at(1).address, "0.0.0.0");
}

TEST(LaunchBuilder, AnOrderThatIsNotWholeIsRefused) {
  const auto refused = [](auto change) {
    auto order = gangOrder(7, 2, {"true"});
    change(order);
    return !buildLaunch(order, rootHost(), place());
  };
  EXPECT_FALSE(refused([](auto&) {}));
  EXPECT_TRUE(refused([](auto& order) {
    order.ranks.clear();
    order.nodes.clear();
  }));
  EXPECT_TRUE(refused([](auto& order) { order.nodes.pop_back(); }));
  EXPECT_TRUE(refused([](auto& order) { order.nodes[1] = nullptr; }));
  EXPECT_TRUE(refused([](auto& order) { order.ranks[0].task = 1; }));
  EXPECT_TRUE(refused([](auto& order) { textOf(order).tasks[0].command.clear(); }));
  EXPECT_TRUE(refused([](auto& order) { textOf(order).tasks.clear(); }));
}

// Whatever is allocated: each rank sees its own GPUs, all of them and no one else's, by name and by
// device.
TEST(LaunchBuilder, PropertyNoRankSeesAGpuOfAnother) {
  EXPECT_TRUE(rc::check([] {
    const auto ranks = *rc::gen::inRange<std::uint32_t>(1, 9);
    const auto each = *rc::gen::inRange<std::size_t>(0, 4);
    auto order = gangOrder(7, ranks, {"true"}, each);
    const auto node = testing::nodeWithGpus(ranks * each);
    for (auto& one : order.nodes) one = node;
    auto all = *rc::gen::container<std::vector<std::uint32_t>>(  // a shuffle of all the node's GPUs
        ranks * each, rc::gen::arbitrary<std::uint32_t>());
    std::vector<std::uint32_t> shuffled(ranks * each);
    for (std::uint32_t i = 0; i < shuffled.size(); ++i) shuffled[i] = i;
    for (std::size_t i = shuffled.size(); i > 1; --i)
      std::swap(shuffled[i - 1], shuffled[all[i - 1] % i]);
    for (std::uint32_t r = 0; r < ranks; ++r) {
      order.ranks[r].gpus.assign(shuffled.begin() + static_cast<long>(r * each),
                                 shuffled.begin() + static_cast<long>((r + 1) * each));
    }
    const auto launch = buildLaunch(order, rootHost(), place());
    RC_ASSERT(launch.has_value());
    std::set<std::string> seen;
    for (const auto& rank : launch->launch.ranks) {
      const auto env = environmentOf(rank);
      std::string expected;
      auto own = order.ranks[rank.rank].gpus;
      std::sort(own.begin(), own.end());
      std::set<std::string> devices;
      for (const auto gpu : own) {
        expected += (expected.empty() ? "" : ",") + node->gpus[gpu].uuid;
        devices.insert("/dev/nvidia" + std::to_string(node->gpus[gpu].minor));
      }
      RC_ASSERT(env.at("CUDA_VISIBLE_DEVICES") == expected);
      RC_ASSERT(env.at("BOLE_GPUS") == std::to_string(each));
      RC_ASSERT(env.at("WORLD_SIZE") == std::to_string(ranks));
      for (const auto& device : rank.devices) {
        const bool isGpu =
            device.size() > 11 && std::isdigit(static_cast<unsigned char>(device[11]));
        if (!isGpu) continue;
        RC_ASSERT(devices.count(device) == 1U);
        RC_ASSERT(seen.insert(device).second);
      }
      for (const auto& device : devices) RC_ASSERT(seen.count(device) == 1U);
    }
  }));
}

// Whatever a job sets: what says what was allocated stands, and everything else is the job's.
TEST(LaunchBuilder, PropertyOwnVariables) {
  const std::set<std::string> fixed = {
      "RANK",       "LOCAL_RANK", "WORLD_SIZE",           "LOCAL_WORLD_SIZE",
      "NODE_RANK",  "BOLE_GPUS",  "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES",
      "BOLE_JOB_ID"};
  EXPECT_TRUE(rc::check([&] {
    const auto names = *rc::gen::container<std::vector<std::string>>(rc::gen::element<std::string>(
        "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK", "BOLE_GPUS",
        "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "BOLE_JOB_ID", "PATH", "MASTER_ADDR",
        "OMP_NUM_THREADS", "PET_NNODES", "MINE"));
    auto order = gangOrder(7, 2, {"true"}, 1);
    const auto before = environmentOf(built(order).launch.ranks.at(1));
    std::map<std::string, std::string> last;
    for (std::size_t i = 0; i < names.size(); ++i) {
      textOf(order).tasks[0].env.emplace_back(names[i], "own-" + std::to_string(i));
      last[names[i]] = "own-" + std::to_string(i);
    }
    const auto after = environmentOf(built(order).launch.ranks.at(1));
    for (const auto& [name, value] : before) {
      if (fixed.count(name) || !last.count(name)) RC_ASSERT(after.at(name) == value);
    }
    for (const auto& [name, value] : last) {
      if (!fixed.count(name)) RC_ASSERT(after.at(name) == value);
    }
  }));
}

}  // namespace
}  // namespace bole::engine
