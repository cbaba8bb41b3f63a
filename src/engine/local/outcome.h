// How an attempt ended, in the words of the engine's contract: from what its supervisor wrote, or
// from what is left where the supervisor is gone. Nothing is made up: a status that is not on the
// disk is unknown.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/local/supervise/attempt_files.h"
#include "ports/engine.h"

namespace bole::engine {

// The words of stop.json: "cancelled", "time-limit", "preempted", "rank-failed", "server-down".
[[nodiscard]] std::string_view stopReasonName(model::StopReason reason);
[[nodiscard]] model::StopReason stopReasonFromName(
    std::string_view name);  // kNone: not one of Bole's

// `notes` are put before what the supervisor has to say.
[[nodiscard]] ports::AttemptFinished finishedFrom(AttemptId attempt, const supervise::End& end,
                                                  const std::vector<std::string>& notes);

// The supervisor died: `statuses` are what the ranks' inits wrote down, by rank.
[[nodiscard]] ports::AttemptFinished finishedWithoutSupervisor(
    AttemptId attempt, const std::vector<std::optional<supervise::RankStatus>>& statuses,
    std::string note);

// Nothing was started. `ranks` of them are unknown.
[[nodiscard]] ports::AttemptFinished notStarted(AttemptId attempt, model::AttemptOutcome outcome,
                                                model::StopReason stop, std::size_t ranks,
                                                std::string note);

}  // namespace bole::engine
