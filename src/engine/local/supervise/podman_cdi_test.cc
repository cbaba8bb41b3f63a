// CDI specifications as nvidia-ctk writes them, in YAML and in JSON, and what becomes of a rank's
// devices.
#include "engine/local/supervise/podman_cdi.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace bole::supervise {
namespace {

// As of nvidia-ctk 1.14, cut.
constexpr char kYaml[] = R"(---
cdiVersion: 0.5.0
containerEdits:
  deviceNodes:
  - path: /dev/nvidia-modeset
  - path: /dev/nvidiactl
  hooks:
  - args:
    - nvidia-ctk
    - hook
    hookName: createContainer
    path: /usr/bin/nvidia-ctk
  mounts:
  - containerPath: /usr/lib/x86_64-linux-gnu/libcuda.so.535.161.08
    hostPath: /usr/lib/x86_64-linux-gnu/libcuda.so.535.161.08
devices:
- containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
    - path: /dev/dri/card1
    hooks:
    - args:
      - nvidia-ctk
      path: /usr/bin/nvidia-ctk
  name: "0"
- containerEdits:
    deviceNodes:
    - path: /dev/nvidia3
  name: GPU-1d2f0d9c-0000-0000-0000-000000000000
- containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
    - path: /dev/nvidia3
  name: all
kind: nvidia.com/gpu
)";

constexpr char kJson[] = R"({"cdiVersion": "0.6.0", "kind": "nvidia.com/gpu", "devices": [
  {"name": "0", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0"}, {"path": "/dev/dri/card0"}]}},
  {"name": "1", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia1"}]}},
  {"name": "all", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0"}, {"path": "/dev/nvidia1"}]}}]})";

using Options = std::vector<std::string>;

TEST(Cdi, OfYaml) {
  EXPECT_EQ(
      parseCdi(kYaml),
      (CdiNames{{"/dev/nvidia0", "nvidia.com/gpu=0"},
                {"/dev/nvidia3", "nvidia.com/gpu=GPU-1d2f0d9c-0000-0000-0000-000000000000"}}));
}

TEST(Cdi, OfYamlThatBeginsWithAName) {
  EXPECT_EQ(
      parseCdi(
          "kind: nvidia.com/gpu\ndevices:\n  - name: '5'\n    containerEdits:\n      deviceNodes:\n"
          "        - path: /dev/nvidia5\n"),
      (CdiNames{{"/dev/nvidia5", "nvidia.com/gpu=5"}}));
}

TEST(Cdi, OfJson) {
  EXPECT_EQ(parseCdi(kJson),
            (CdiNames{{"/dev/nvidia0", "nvidia.com/gpu=0"}, {"/dev/nvidia1", "nvidia.com/gpu=1"}}));
}

TEST(Cdi, OtherKindsAndOtherFilesSayNothing) {
  for (const auto* text :
       {"", "devices", "kind: intel.com/gpu\ndevices:\n- name: a\n  path: /dev/nvidia0\n", "[]",
        "{}", "3", R"({"kind": "nvidia.com/gpu"})",
        R"({"kind": "nvidia.com/gpu", "devices": [1, {"name": 3}]})",
        R"({"kind": "nvidia.com/gpu", "devices": [{"name": "x", "containerEdits": []}]})",
        "- \n-\n:\n - :\n", "kind: nvidia.com/gpu\ndevices:\n"}) {
    EXPECT_TRUE(parseCdi(text).empty()) << text;
  }
}

TEST(Cdi, GpusGoByNameAndBringWhatTheyShare) {
  const auto devices = deviceOptions(
      {"/dev/nvidia3", "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/infiniband/uverbs0"},
      parseCdi(kYaml));
  EXPECT_EQ(devices.options,
            (Options{"--device", "nvidia.com/gpu=GPU-1d2f0d9c-0000-0000-0000-000000000000",
                     "--device", "/dev/infiniband/uverbs0"}));
  EXPECT_EQ(devices.note, "");
}

TEST(Cdi, WithoutASpecificationTheyGoAsNodesAndItIsSaid) {
  const auto devices = deviceOptions({"/dev/nvidia3", "/dev/nvidiactl"}, {});
  EXPECT_EQ(devices.options, (Options{"--device", "/dev/nvidia3", "--device", "/dev/nvidiactl"}));
  EXPECT_NE(devices.note.find("nvidia-ctk cdi generate"), std::string::npos);
}

// A specification that knows one of two GPUs is out of date: half of it is worse than none.
TEST(Cdi, AllByNameOrNone) {
  const auto devices = deviceOptions({"/dev/nvidia0", "/dev/nvidia7"}, parseCdi(kYaml));
  EXPECT_EQ(devices.options, (Options{"--device", "/dev/nvidia0", "--device", "/dev/nvidia7"}));
}

TEST(Cdi, WithoutGpusThereIsNothingToSay) {
  const auto devices = deviceOptions({"/dev/infiniband/uverbs0"}, {});
  EXPECT_EQ(devices.options, (Options{"--device", "/dev/infiniband/uverbs0"}));
  EXPECT_EQ(devices.note, "");
}

}  // namespace
}  // namespace bole::supervise
