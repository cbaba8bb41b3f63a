// Environment and arguments of a container: Kubernetes' `env` and its $(NAME) references.
#pragma once

#include <string>

#include "spec/job_draft.h"

namespace bole::spec {

// Reads `env`. A secret or config map key becomes a bare name, whose value the submitter must give;
// what only a cluster knows (fieldRef, resourceFieldRef) becomes a warning.
[[nodiscard]] Result<void> readContainerEnv(Session& session, const Value& list, Environment& env);

// Replaces $(NAME) by the value of a variable in `env`, and $$ before a parenthesis by $. What is
// not known stays as it was written, with a warning. Errors: the text grows too long.
[[nodiscard]] Result<std::string> expandReferences(Session& session, const Value& value,
                                                   const std::string& text, const Environment& env);

}  // namespace bole::spec
