// The node and pod lists of the Alibaba GPU cluster trace of 2023 ("openb"), as the FGD simulator
// publishes them: comma-separated text with a line of column names.
//
// Columns are found by name, in any order; columns that nobody here asks for are passed over. A
// line may end in CR LF. Fields are never quoted. Wrong input is an Error with
// file:line:column, what was found and what was expected; nothing partial is returned.
// Source: github.com/alibaba/clusterdata, cluster-trace-gpu-v2023 (columns and units).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace bole::simulator {

struct OpenbNode {
  std::string name;
  MilliCpu cpus;           // 0 or more
  Bytes memory;            // 0 or more
  std::uint32_t gpus = 0;  // 0 to 64
  std::string model;       // empty where the node has no GPU
  bool operator==(const OpenbNode&) const = default;
};

struct OpenbPod {
  std::string name;
  MilliCpu cpus;
  Bytes memory;
  std::uint32_t gpus = 0;           // 0 to 64
  MilliGpu perGpu;                  // of each of them: 0 to 1000; 0 exactly where gpus is 0
  std::vector<std::string> models;  // allowed ones, sorted, each once; empty: any
  // Only in lists that have the columns (`multigpu*` have none of these).
  std::string qos;
  std::string phase;
  std::optional<Duration> created;  // since the trace began
  std::optional<Duration> deleted;
  std::optional<Duration> scheduled;
  bool operator==(const OpenbPod&) const = default;

  [[nodiscard]] MilliGpu gpuTotal() const { return perGpu * gpus; }
};

// `file` is the name used in errors. Needed: sn, cpu_milli, memory_mib, gpu, model.
[[nodiscard]] Result<std::vector<OpenbNode>> parseOpenbNodes(std::string_view text,
                                                             const std::string& file);
// Needed: name, cpu_milli, memory_mib, num_gpu, gpu_milli. Used where present: gpu_spec, qos,
// pod_phase, creation_time, deletion_time, scheduled_time.
[[nodiscard]] Result<std::vector<OpenbPod>> parseOpenbPods(std::string_view text,
                                                           const std::string& file);

// The same from a file; kNotFound where there is none.
[[nodiscard]] Result<std::vector<OpenbNode>> readOpenbNodes(const std::string& path);
[[nodiscard]] Result<std::vector<OpenbPod>> readOpenbPods(const std::string& path);

}  // namespace bole::simulator
