// Runs the experiment on a grid of workloads, policies and seeds, and reads what others published
// about it. The figures do not depend on the number of threads.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "experiment.h"

namespace bole::bench {

struct GridOptions {
  std::string traces;  // the folder with openb_*.csv
  std::vector<std::string> workloads;
  std::vector<std::string> policies;
  std::uint32_t firstSeed = 42;  // as in the paper's scripts
  std::uint32_t seeds = 10;
  std::uint32_t threads = 2;
};

struct Run {
  Replay replay;
  double seconds = 0;  // of one core: making the policy and replaying all arrivals
};

// By workload and policy; runs by seed.
using Grid = std::map<std::pair<std::string, std::string>, std::vector<Run>>;

[[nodiscard]] Result<Grid> runGrid(const GridOptions& options);

// Means over the seeds.
[[nodiscard]] double meanAllocated(const std::vector<Run>& runs, int percent);
[[nodiscard]] double meanFreeGpus(const std::vector<Run>& runs);

// What the paper's simulator reports: share of the GPUs allocated by (workload, policy) and percent
// asked for.
using Published = std::map<std::pair<std::string, std::string>, std::map<int, double>>;
[[nodiscard]] Result<Published> readPublished(const std::string& path);

// GPUs free at 130 % that an earlier study reached, and the fewest that it found possible.
struct Reference {
  double reachedFree = 0;
  double boundFree = 0;
};
[[nodiscard]] Result<std::map<std::string, Reference>> readReferences(const std::string& path);

}  // namespace bole::bench
