// How far a job says it is: what its supervisor wrote down of that (docs/progress.md), as the rest
// of Bole sees it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/local/supervise/attempt_files.h"
#include "model/views.h"

namespace bole::engine {

// The job's progress is that of its rank 0, or of the lowest rank that tells any. Nothing: none
// did.
[[nodiscard]] std::optional<model::ProgressView> progressOf(const supervise::Progress& progress);

// A checkpoint that a rank announced.
struct Checkpoint {
  std::uint64_t epoch =
      0;  // the epoch, else the step, that it names; else what the rank last told; else 0
  std::string path;  // absolute, as the rank sees it
  std::string key;   // the same for the same checkpoint, also if several ranks announce it
};

// `launch` may be null: relative paths stay as they are.
[[nodiscard]] std::vector<Checkpoint> checkpointsOf(const supervise::Progress& progress,
                                                    const supervise::Launch* launch);

}  // namespace bole::engine
