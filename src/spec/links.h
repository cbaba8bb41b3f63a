// What a job says of other jobs, and of itself as many. Errors have no `where`.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/job.h"

namespace bole::spec {

// "12", "prep", "any:12", "ok:prep,notok:13": after which end of which job. Without a kind: ok.
// Slurm's afterok, afternotok and afterany are understood. Pairs of kind and job.
[[nodiscard]] Result<model::EnvList> parseAfter(std::string_view text);

// "0-9", "1,3,7", "0-100:10", each with "%2" behind it: no more than 2 at a time.
struct ArrayAsk {
  std::vector<std::uint32_t> elements;  // ascending, each once; 1 to JobSpec::kMostElements
  std::uint32_t most = 0;               // 0: any number
};
[[nodiscard]] Result<ArrayAsk> parseArray(std::string_view text);

}  // namespace bole::spec
