#include "simulator/openb.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <filesystem>

namespace bole::simulator {
namespace {

const std::string kOpenb = std::string(BOLE_SHARED) + "/traces/openb/";

std::string errorOfPods(const std::string& text) {
  const auto pods = parseOpenbPods(text, "pods.csv");
  return pods ? "no error" : pods.error().message();
}

TEST(Openb, ReadsNodes) {
  const auto nodes = parseOpenbNodes(
      "sn,cpu_milli,memory_mib,gpu,model\nn0,64000,262144,2,P100\nn1,32000,1024,0,\n", "nodes.csv");
  ASSERT_TRUE(nodes) << nodes.error().message();
  ASSERT_EQ(nodes->size(), 2u);
  EXPECT_EQ(nodes->at(0), (OpenbNode{"n0", MilliCpu(64000), kMiB * 262144, 2, "P100"}));
  EXPECT_EQ(nodes->at(1).model, "");
}

TEST(Openb, ColumnsAreFoundByNameInAnyOrder) {
  const auto pods = parseOpenbPods(
      "gpu_spec,gpu_milli,num_gpu,surprise,memory_mib,cpu_milli,name,creation_time\n"
      "V100M32|T4|V100M32,1000,2,x,512,8000,p0,7\n,0,0,,1,4000,p1,\n",
      "pods.csv");
  ASSERT_TRUE(pods) << pods.error().message();
  ASSERT_EQ(pods->size(), 2u);
  const auto& pod = pods->at(0);
  EXPECT_EQ(pod.name, "p0");
  EXPECT_EQ(pod.cpus, MilliCpu(8000));
  EXPECT_EQ(pod.memory, kMiB * 512);
  EXPECT_EQ(pod.gpus, 2u);
  EXPECT_EQ(pod.gpuTotal(), MilliGpu(2000));
  EXPECT_EQ(pod.models, (std::vector<std::string>{"T4", "V100M32"}));
  EXPECT_EQ(pod.created, seconds(7));
  EXPECT_EQ(pod.deleted, std::nullopt);
  EXPECT_TRUE(pods->at(1).models.empty());
  EXPECT_EQ(pods->at(1).created, std::nullopt);
}

TEST(Openb, LinesMayEndInCrLfAndTheLastInNothing) {
  const auto pods = parseOpenbPods(
      "\xEF\xBB\xBFname,cpu_milli,memory_mib,num_gpu,gpu_milli\r\np0,1,2,1,500\r\n\r\np1,1,2,1,7",
      "pods.csv");
  ASSERT_TRUE(pods) << pods.error().message();
  ASSERT_EQ(pods->size(), 2u);
  EXPECT_EQ(pods->at(0).perGpu, MilliGpu(500));
  EXPECT_EQ(pods->at(1).perGpu, MilliGpu(7));
}

TEST(Openb, ErrorsNamePlaceFoundAndExpected) {
  const std::string names = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n";
  EXPECT_EQ(errorOfPods(""), "pods.csv:1:1: the list is empty: expected a line of column names");
  EXPECT_EQ(errorOfPods("name,cpu_milli,num_gpu,gpu_milli\n"),
            "pods.csv:1:1: a column is missing: found 'name,cpu_milli,num_gpu,gpu_milli', "
            "expected a column 'memory_mib'");
  EXPECT_EQ(errorOfPods("name,name\n"),
            "pods.csv:1:6: the same column twice: found 'name', expected each name once");
  EXPECT_EQ(errorOfPods(names + "p0,1,2,1,500\np1,8k,2,1,500\n"),
            "pods.csv:3:4: a wrong value of cpu_milli: found '8k', expected a whole number from 0 "
            "to 1000000000");
  EXPECT_EQ(errorOfPods(names + "p0,1,2,1,1001\n"),
            "pods.csv:2:10: a wrong value of gpu_milli: found '1001', expected a whole number from "
            "0 to 1000");
  EXPECT_EQ(errorOfPods(names + "p0,1,2,0,1000\n"),
            "pods.csv:2:10: a wrong value of gpu_milli: found '1000', expected 0, since num_gpu is "
            "0");
  EXPECT_EQ(errorOfPods(names + "p0,1,2,1,0\n"),
            "pods.csv:2:10: a wrong value of gpu_milli: found '0', expected 1 to 1000, since "
            "num_gpu is not 0");
  EXPECT_EQ(errorOfPods(names + "p0,1,2\n"),
            "pods.csv:2:6: a line of another width: found 3 fields, expected 5, one for each "
            "column name");
  EXPECT_EQ(errorOfPods(names + ",1,2,1,500\n"),
            "pods.csv:2:1: a wrong value of name: found '', expected a name");
  EXPECT_EQ(errorOfPods(names + "p0,,2,1,500\n"),
            "pods.csv:2:4: a wrong value of cpu_milli: found '', expected a whole number from 0 to "
            "1000000000");
  EXPECT_EQ(errorOfPods(names + "p0,-1,2,1,500\n"),
            "pods.csv:2:4: a wrong value of cpu_milli: found '-1', expected a whole number from 0 "
            "to 1000000000");
}

TEST(Openb, ANodeWithGpusHasAModel) {
  const auto nodes = parseOpenbNodes("sn,cpu_milli,memory_mib,gpu,model\nn0,1,1,2,\n", "nodes.csv");
  ASSERT_FALSE(nodes);
  EXPECT_EQ(nodes.error().message(),
            "nodes.csv:2:10: a wrong value of model: found '', expected the model of the node's "
            "GPUs");
}

TEST(Openb, AFileThatIsNotThereIsNamed) {
  const auto pods = readOpenbPods("/nonexistent/pods.csv");
  ASSERT_FALSE(pods);
  EXPECT_EQ(pods.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(pods.error().where, "/nonexistent/pods.csv");
}

RC_GTEST_PROP(Openb, WhateverIsReadIsInRangeOrRefused, ()) {
  const auto field =
      rc::gen::element<std::string>("", "0", "1", "1000", "1001", "99999999999999999", "-3", "x",
                                    "T4|", "\"a\"", "64", "65", "\r");
  std::string text = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time\n";
  const auto rows = *rc::gen::container<std::vector<std::vector<std::string>>>(
      rc::gen::container<std::vector<std::string>>(7, field));
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) text += (i == 0 ? "" : ",") + row[i];
    text += "\n";
  }
  const auto pods = parseOpenbPods(text, "f");
  if (!pods) {
    RC_ASSERT(pods.error().where.substr(0, 2) == "f:");
    return;
  }
  RC_ASSERT(pods->size() == rows.size());
  for (const auto& pod : *pods) {
    RC_ASSERT(pod.gpus <= 64u && pod.perGpu >= MilliGpu(0) && pod.perGpu <= kWholeGpu);
    RC_ASSERT((pod.gpus == 0) == (pod.perGpu == MilliGpu(0)));
  }
}

class OpenbTrace : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(kOpenb))
      GTEST_SKIP() << kOpenb << " is not here: the public trace is needed (-DBOLE_SHARED=DIR)";
  }
};

TEST_F(OpenbTrace, TheClusterHas6212GpusIn1213Nodes) {
  const auto nodes = readOpenbNodes(kOpenb + "openb_node_list_gpu_node.csv");
  ASSERT_TRUE(nodes) << nodes.error().message();
  EXPECT_EQ(nodes->size(), 1213u);
  std::uint32_t gpus = 0;
  for (const auto& node : *nodes) gpus += node.gpus;
  EXPECT_EQ(gpus, 6212u);
  const auto all = readOpenbNodes(kOpenb + "openb_node_list_all_node.csv");
  ASSERT_TRUE(all) << all.error().message();
  EXPECT_EQ(all->size(), 1213u + 310u);
}

TEST_F(OpenbTrace, EveryPodListIsRead) {
  int lists = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kOpenb)) {
    if (entry.path().filename().string().rfind("openb_pod_list_", 0) != 0) continue;
    const auto pods = readOpenbPods(entry.path());
    ASSERT_TRUE(pods) << pods.error().message();
    EXPECT_GT(pods->size(), 7000u) << entry.path();
    ++lists;
  }
  EXPECT_EQ(lists, 24);
  const auto pods = readOpenbPods(kOpenb + "openb_pod_list_default.csv");
  ASSERT_EQ(pods->size(), 8152u);
  MilliGpu asked;
  for (const auto& pod : *pods) asked += pod.gpuTotal();
  EXPECT_EQ(asked, MilliGpu(6'086'800));
}

}  // namespace
}  // namespace bole::simulator
