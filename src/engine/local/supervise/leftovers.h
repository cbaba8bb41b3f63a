// What a supervisor leaves for whoever finds it dead: see also killLeftovers in attempt_files.h.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace bole::supervise {

// Groups that nobody could find by the attempt's name, into `DIR/groups`; removed by killLeftovers.
[[nodiscard]] Result<void> recordGroups(const std::string& dir,
                                        const std::vector<std::string>& groups);

}  // namespace bole::supervise
