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
  std::size_t samples = 16384;  // of all ranks together; a multiple of batch
  std::size_t batch = 256;      // of all ranks together
  float learningRate = 0.04F;
  int sleepMillis = 0;      // an epoch takes at least so long
  int timeoutSeconds = 60;  // for other ranks, when they meet and in every exchange
  std::string result;       // a file; empty: none
  int failEpoch = 0;        // 0: never
  int failRank = 0;
  int failCode = 1;
  std::string failMarker;  // a file that says that the failure has been; empty: fail each time
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
// BOLE_CHECKPOINT_DIR is the checkpoint directory where the command line names none.
[[nodiscard]] Result<Options> parseOptions(int argc, char** argv, const Environment& environment);
// With none of the variables set: rank 0 of 1.
[[nodiscard]] Result<Place> readPlace(const Environment& environment);
// What only both together can say.
[[nodiscard]] Result<void> checkTogether(const Options& options, const Place& place);
// Equal for ranks that can train together: all that decides the batches and the steps.
[[nodiscard]] std::uint64_t fingerprint(const Options& options);

}  // namespace digits
