// Why a gang does not fit on what is free.
#pragma once

#include <string>
#include <vector>

#include "model/plan.h"
#include "scheduler/world.h"

namespace bole::scheduler {

// Why placeGang gave nothing: what it needed and the most that is free. Never empty. First what is
// lacking in all; else what is lacking in one place (the detail says in which groups); else what
// the job's own tasks leave to each other. And what its queue may not have. Leaves `world` as it
// was.
[[nodiscard]] std::vector<model::Reason> obstacles(World& world, const Claim& claim);

// One obstacle for people: "waits for 4 A100 GPUs: 2 free now".
[[nodiscard]] std::string sentence(const model::Reason& reason);

// The same of an empty cloud: "needs 4 A100 GPUs, this cloud has 2".
[[nodiscard]] std::string neverSentence(const model::Reason& reason);

}  // namespace bole::scheduler
