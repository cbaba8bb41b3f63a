// A task's pod template: the first container's command, resources, mounts and variables.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "spec/job_draft.h"

namespace bole::spec {

// What a pod says that is the whole job's here.
struct PodFacts {
  bool restarts = false;  // restartPolicy is OnFailure or Always
  bool hostNetwork = false;
  std::optional<Duration> grace;
  std::optional<Duration> deadline;
  std::optional<Value> priorityClass;
  std::vector<std::uint16_t> listens;  // container ports
};

// `value` is a task's `template`.
[[nodiscard]] Result<PodFacts> readPodTemplate(Session& session, const Value& value,
                                               TaskDraft& task);

}  // namespace bole::spec
