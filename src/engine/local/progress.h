// How far a job says it is: what its supervisor wrote down of that (docs/progress.md), as the rest
// of Bole sees it.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/local/supervise/attempt_files.h"
#include "model/views.h"

namespace bole::engine {

// The job's progress is that of its rank 0, or of the lowest rank that tells any. Nothing: none
// did.
[[nodiscard]] std::optional<model::ProgressView> progressOf(const supervise::Progress& progress);

// The same from the attempt's directory. What cannot be read is no progress: it is only ever shown.
[[nodiscard]] std::optional<model::ProgressView> readProgress(const std::string& attemptDirectory);

// readProgress() for many who ask often: a file that did not change is not read again. From any
// thread; may block on the disk.
class ProgressCache {
 public:
  [[nodiscard]] std::optional<model::ProgressView> read(const std::string& attemptDirectory);
  void forget(const std::string& attemptDirectory);

 private:
  struct Entry {
    std::uint64_t inode = 0;
    std::int64_t size = 0;
    std::int64_t modified = 0;  // nanoseconds
    std::optional<model::ProgressView> view;
  };
  std::mutex mutex_;
  std::map<std::string, Entry> entries_;
};

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
