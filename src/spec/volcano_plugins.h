// Volcano's job plugins: env, svc and ssh, and the frameworks built on them.
#pragma once

#include <string>
#include <vector>

#include "spec/job_draft.h"

namespace bole::spec {

// Reads `plugins` into JobText::plugins, and gives tasks the variables that are known now
// (MPI_HOST).
[[nodiscard]] Result<void> readPlugins(Session& session, const Value& plugins, JobDraft& draft);

}  // namespace bole::spec
