// When a queue starts jobs: the parts of a week that its policy names.
#pragma once

#include <optional>
#include <vector>

#include "model/policy.h"

namespace bole::scheduler {

// When the next of the windows opens; nothing: one is open now, or none is named. Local time is UTC
// plus the policy's offset.
[[nodiscard]] std::optional<Timestamp> opensAt(const std::vector<model::Window>& windows,
                                               Timestamp now, Duration utcOffset);

// The same of a queue and all above it: when all of them have a window open, looked for over the
// next two weeks; a queue whose windows never meet those above it is given the end of that time.
[[nodiscard]] std::optional<Timestamp> opensAt(const model::Policy& policy, QueueId queue,
                                               Timestamp now);

}  // namespace bole::scheduler
