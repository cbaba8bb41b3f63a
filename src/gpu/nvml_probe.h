// The GPUs of this machine through NVIDIA's management library, which is opened at run time: Bole
// neither needs it to build nor to run.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "gpu/host_info.h"
#include "ports/gpu_probe.h"

namespace bole::gpu {

class NvmlProbe final : public ports::GpuProbe {
 public:
  // `library`: what dlopen is given. `root`: where /sys lies.
  explicit NvmlProbe(HostInfo host, std::string library = "libnvidia-ml.so.1",
                     std::filesystem::path root = "/")
      : host_(std::move(host)), library_(std::move(library)), root_(std::move(root)) {}

  // One node: this machine, with the GPUs that can be used or at least named, in PCI order. Errors:
  //   kNotFound     no NVIDIA driver is here: the case in which emulation is offered
  //   kUnavailable  there is an NVIDIA GPU or driver, and it does not work: to be told, not papered
  //   over kPermission   this user may not use it
  // Blocks for as long as the driver does (seconds without persistence mode): not for the
  // controller's thread.
  [[nodiscard]] Result<std::vector<model::Node>> probe() override;

  // Of the last probe, one sentence each: GPUs left out and why, MIG, what the driver could not
  // tell. For the log and `bole doctor`.
  [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }

 private:
  HostInfo host_;
  std::string library_;
  std::filesystem::path root_;
  std::vector<std::string> notes_;
};

}  // namespace bole::gpu
