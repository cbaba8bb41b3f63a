// Volcano's lifecycle policies, with the rules of its own admission check
// (https://github.com/volcano-sh/volcano, pkg/webhooks/admission/jobs/validate/util.go,
// validatePolicies).
#pragma once

#include <vector>

#include "model/job.h"
#include "spec/reader.h"

namespace bole::spec {

// `task` is the index that the rules are for, or -1 for the whole job.
[[nodiscard]] Result<void> readPolicies(Reader& reader, const Value& list, std::int32_t task,
                                        std::vector<model::LifecycleRule>& rules);

}  // namespace bole::spec
