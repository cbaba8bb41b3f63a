// What a job brought along, unpacked: a tar archive that anyone may have written, into a directory
// that is trusted.
//
// Nothing is written outside of the directory, whatever the archive says: no absolute path, no
// "..", nothing through a link, no device, pipe or socket, no setuid bit. Links are made as they
// are written and never followed.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/units.h"

namespace bole::engine {

struct UploadLimits {
  Bytes bytes = kGiB * 4;  // of all files together, holes counted
  std::uint64_t entries = 200'000;
};

struct Owner {
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
};

// `directory` must be empty and reachable for the server alone. With `owner` everything in it is
// given to him. Errors: kInvalid (what the archive holds is refused; says which entry), kCorrupt,
// kUnavailable (disk full, cancelled), kNotFound. What was unpacked until then is left behind.
[[nodiscard]] Result<void> unpackUpload(const std::string& archive, const std::string& directory,
                                        const std::optional<Owner>& owner,
                                        const UploadLimits& limits,
                                        const std::atomic<bool>& cancelled);

}  // namespace bole::engine
