// The little that the command line must know of a spec: where it is, and what it wants to bring
// along. Everything else in it is the server's to read and to judge.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace bole::cli {

inline constexpr std::size_t kMaxSpecBytes = 1024 * 1024;

struct SpecFile {
  std::string text;
  std::string name;       // for messages: as it was given
  std::string directory;  // absolute: where relative paths begin
  bool fromInput = false;
};

// A file, or a directory with a bole.yaml (or bole.yml) in it; both absolute. `shown` is how it was
// given.
[[nodiscard]] Result<SpecFile> readSpecFile(const std::string& path, const std::string& shown);

// What the jobs of a spec bring along.
struct Luggage {
  bool readable = false;            // the text could be read as YAML; if not, the server says why
  bool all = false;                 // the whole directory, for a job does not say
  std::vector<std::string> files;   // what jobs name, where all of them do
  bool image = false;               // a job runs in a container
  std::vector<std::string> mounts;  // the sources of its mounts, as they are written
};

// A bole.yaml without `files` brings its directory, unless its working_dir is an absolute path. A
// Volcano Job brings nothing.
[[nodiscard]] Luggage luggageOf(std::string_view spec);

}  // namespace bole::cli
