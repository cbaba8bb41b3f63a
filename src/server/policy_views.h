// Queues and policies as people are shown them: pure functions, as in views.h. They tell of no job
// and no user, so everyone sees the same.
#pragma once

#include <string>
#include <vector>

#include "model/tables.h"
#include "model/views.h"

namespace bole::server {

[[nodiscard]] model::QueueList queueList(const model::Tables& tables, Timestamp now);

// What the cloud in `tables` lacks of what `policy` guarantees or names, for people.
[[nodiscard]] std::vector<std::string> policyWarnings(const model::Policy& policy,
                                                      const model::Tables& tables);

// What is another where `now` follows `before`, for people, one a line. Queues are known by their
// names; empty: both are the same.
[[nodiscard]] std::vector<std::string> policyChanges(const model::Policy& before,
                                                     const model::Policy& now);

}  // namespace bole::server
