// Volcano Jobs, batch.volcano.sh/v1alpha1; docs/volcano.md says field by field what becomes of
// them.
//
// Defaults and refusals are those of Volcano's own admission webhooks
// (https://github.com/volcano-sh/volcano, pkg/webhooks/admission/jobs).
#pragma once

#include "spec/job_draft.h"

namespace bole::spec {

// A document with `apiVersion` is a Kubernetes object, whatever it holds.
[[nodiscard]] bool isKubernetesObject(const Node& root);

[[nodiscard]] Result<Parsed> readVolcanoJob(Session& session, const Node& root);

}  // namespace bole::spec
