// GPUs by their names in the Container Device Interface, where the machine has a specification of
// them
// (`nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml`): then a container gets the driver's
// libraries along with the device nodes.
// https://github.com/cncf-tags/container-device-interface/blob/main/SPEC.md
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace bole::supervise {

// Device node to full CDI name: "/dev/nvidia0" to "nvidia.com/gpu=0". Devices of several nodes of a
// GPU ("all") are left out.
using CdiNames = std::map<std::string, std::string>;

// Of one file, YAML as nvidia-ctk writes it, or JSON. Empty if it is no such file, or of another
// kind than nvidia.com/gpu.
[[nodiscard]] CdiNames parseCdi(std::string_view text);

// Of all files in these directories, as Podman looks for them.
[[nodiscard]] CdiNames readCdi(const std::vector<std::string>& directories = {"/etc/cdi",
                                                                              "/var/run/cdi"});

struct GpuDevices {
  std::vector<std::string> options;  // of `podman run`: --device with names or nodes
  std::string note;                  // for people; empty: nothing to say
};

// The nodes that a rank was given, and nothing else.
[[nodiscard]] GpuDevices deviceOptions(const std::vector<std::string>& nodes,
                                       const CdiNames& names);

}  // namespace bole::supervise
