// Bole's own format, docs/spec.md.
#pragma once

#include "spec/job_draft.h"

namespace bole::spec {

// `root` is one document.
[[nodiscard]] Result<Parsed> readBoleYaml(Session& session, const Node& root);

}  // namespace bole::spec
