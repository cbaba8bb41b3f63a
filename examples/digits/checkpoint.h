// Checkpoints: files DIR/epoch-NNNN.ckpt, complete or absent, with a checksum; and who keeps them.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "result.h"

namespace digits {

// All that training needs to go on as if it had never stopped.
struct TrainingState {
  int epoch = 0;    // epochs done
  double loss = 0;  // of the last of them
  std::vector<float> weights;
  std::vector<float> velocity;
};

// Makes the directory if need be and removes what an interrupted write left behind.
[[nodiscard]] Result<void> prepareDirectory(const std::string& directory);

// Temporary name, fsync, rename, fsync of the directory. Returns the path.
[[nodiscard]] Result<std::string> writeCheckpoint(const std::string& directory, std::uint64_t seed,
                                                  const TrainingState& state);

// The newest complete checkpoint, or nothing. A torn or damaged one is skipped with a message; one
// of another seed or of another network is an error, for it is not this training.
[[nodiscard]] Result<std::optional<TrainingState>> newestCheckpoint(const std::string& directory,
                                                                    std::uint64_t seed);

// Holds the state after the last whole epoch and saves it, also from the thread that handles
// SIGTERM.
class Keeper {
 public:
  // An empty directory: nothing is ever saved.
  Keeper(std::string directory, std::uint64_t seed)
      : directory_(std::move(directory)), seed_(seed) {}

  // `saved`: the state comes from a checkpoint.
  void keep(const TrainingState& state, bool saved);
  // Writes and announces what is kept, unless that has been done.
  [[nodiscard]] Result<void> save();

 private:
  std::string directory_;
  std::uint64_t seed_;
  std::mutex mutex_;
  TrainingState kept_;
  int savedEpoch_ = 0;
};

}  // namespace digits
