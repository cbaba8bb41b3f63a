// What the command line and the environment say. Nothing here is used before all of it is valid.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "result.h"

namespace digits {

struct Options {
  int epochs = 20;
  std::string checkpointDir;  // empty: no checkpoints
  int checkpointEvery = 5;
  std::uint64_t seed = 1;
  std::size_t samples = 8192;  // of all ranks together; a multiple of batch
  std::size_t batch = 128;     // of all ranks together
  float learningRate = 0.02F;
  double epochSeconds = 0;  // an epoch takes at least so long
  int timeoutSeconds = 60;  // for other ranks, when they meet and in every exchange
  int failAtEpoch = 0;      // 0: never
  int failRank = 0;
  int exitCode = 1;
  bool help = false;
};

// Where this process stands in its gang: the standard variables RANK, WORLD_SIZE, MASTER_ADDR,
// MASTER_PORT.
struct Place {
  std::size_t rank = 0;
  std::size_t worldSize = 1;
  std::string masterAddr;
  std::string masterPort;
};

// Returns nullptr for a variable that is not set, as getenv does.
using Environment = std::function<const char*(const char*)>;

[[nodiscard]] std::string usage();
[[nodiscard]] Result<Options> parseOptions(int argc, char** argv);
// With none of the variables set: rank 0 of 1.
[[nodiscard]] Result<Place> readPlace(const Environment& environment);
// What only both together can say.
[[nodiscard]] Result<void> checkTogether(const Options& options, const Place& place);
// Equal for ranks that can train together: all that decides the batches and the steps.
[[nodiscard]] std::uint64_t fingerprint(const Options& options);

}  // namespace digits
