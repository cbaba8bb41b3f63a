#include "engine/local/outcome.h"

#include <array>
#include <cstring>
#include <utility>

namespace bole::engine {
namespace {

using model::AttemptOutcome;
using model::StopReason;

constexpr std::array kStopReasons{
    std::pair{StopReason::kCancelled, std::string_view("cancelled")},
    std::pair{StopReason::kTimeLimit, std::string_view("time-limit")},
    std::pair{StopReason::kPreempted, std::string_view("preempted")},
    std::pair{StopReason::kRankFailed, std::string_view("rank-failed")},
    std::pair{StopReason::kServerDown, std::string_view("server-down")},
    std::pair{StopReason::kNodeDown, std::string_view("node-down")},
};

constexpr std::size_t kMostRanksNamed = 4;  // in a note: the rest are counted

AttemptOutcome outcomeOf(const supervise::End& end) {
  if (end.outcome == supervise::EndOutcome::kLaunchFailed) return AttemptOutcome::kLaunchFailed;
  switch (end.cause) {
    case supervise::EndCause::kCompleted:
      return AttemptOutcome::kCompleted;
    case supervise::EndCause::kRankFailed:
    case supervise::EndCause::kAborted:
      return AttemptOutcome::kFailed;
    case supervise::EndCause::kRankLost:
      return AttemptOutcome::kRankLost;
    case supervise::EndCause::kTimeLimit:
      return AttemptOutcome::kTimeLimit;
    case supervise::EndCause::kLaunchFailed:
      return AttemptOutcome::kLaunchFailed;
    case supervise::EndCause::kStopped:
      break;
  }
  // Stopped, but not by Bole: a signal from outside took the supervisor down, for example at the
  // machine's shutdown. To the job that is the loss of its keeper, and its restart policy says what
  // follows.
  return stopReasonFromName(end.stopReason) == StopReason::kNone ? AttemptOutcome::kSupervisorLost
                                                                 : AttemptOutcome::kStopped;
}

StopReason stopOf(const supervise::End& end) {
  if (end.cause == supervise::EndCause::kTimeLimit) return StopReason::kTimeLimit;
  if (end.cause == supervise::EndCause::kStopped) return stopReasonFromName(end.stopReason);
  return StopReason::kNone;
}

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const auto& part : parts) {
    if (!part.empty()) text += (text.empty() ? "" : "; ") + part;
  }
  return text;
}

// "ranks 0, 3 and 2 more"
std::string ranksText(const std::vector<std::uint32_t>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size() && i < kMostRanksNamed; ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  }
  if (ranks.size() > kMostRanksNamed) {
    text += " and " + std::to_string(ranks.size() - kMostRanksNamed) + " more";
  }
  return text;
}

std::string memoryNote(const supervise::End& end) {
  std::vector<std::uint32_t> killed;
  for (const auto& rank : end.ranks) {
    if (rank.oomKilled) killed.push_back(rank.rank);
  }
  if (killed.empty()) return {};
  return ranksText(killed) + " ran into the memory limit: the kernel killed a process of it";
}

// The supervisor's own note tells of the first command that could not be started; without one, it
// is told here.
std::string execNote(const supervise::End& end) {
  if (!end.note.empty()) return {};
  for (const auto& rank : end.ranks) {
    if (rank.execErrno == 0) continue;
    return "rank " + std::to_string(rank.rank) + " could not be started: " + rank.execStep + ": " +
           std::strerror(rank.execErrno);
  }
  return {};
}

}  // namespace

std::string_view stopReasonName(StopReason reason) {
  for (const auto& [value, name] : kStopReasons) {
    if (value == reason) return name;
  }
  return "cancelled";  // whoever stops without a reason has one all the same
}

StopReason stopReasonFromName(std::string_view name) {
  for (const auto& [value, known] : kStopReasons) {
    if (known == name) return value;
  }
  return StopReason::kNone;
}

ports::AttemptFinished finishedFrom(AttemptId attempt, const supervise::End& end,
                                    const std::vector<std::string>& notes) {
  ports::AttemptFinished finished;
  finished.attempt = attempt;
  finished.outcome = outcomeOf(end);
  finished.stop = stopOf(end);
  if (end.firstFailed) finished.firstFailed = static_cast<std::int32_t>(*end.firstFailed);
  for (const auto& rank : end.ranks) {
    finished.ranks.push_back({rank.rank, rank.waitStatus.has_value(), rank.waitStatus.value_or(0)});
  }
  auto all = notes;
  if (finished.outcome == AttemptOutcome::kSupervisorLost) {
    all.push_back("the supervisor was told to end from outside of Bole (" + end.stopReason + ")");
  }
  all.push_back(end.note);
  all.push_back(execNote(end));
  all.push_back(memoryNote(end));
  finished.note = joined(all);
  return finished;
}

ports::AttemptFinished finishedWithoutSupervisor(
    AttemptId attempt, const std::vector<std::optional<supervise::RankStatus>>& statuses,
    std::string note) {
  ports::AttemptFinished finished;
  finished.attempt = attempt;
  finished.outcome = AttemptOutcome::kSupervisorLost;
  for (std::size_t i = 0; i < statuses.size(); ++i) {
    model::RankExit exit;
    exit.rank = static_cast<std::uint32_t>(i);
    if (statuses[i] && statuses[i]->waitStatus) {
      exit.known = true;
      exit.status = *statuses[i]->waitStatus;
    }
    finished.ranks.push_back(exit);
  }
  finished.note = std::move(note);
  return finished;
}

ports::AttemptFinished notStarted(AttemptId attempt, AttemptOutcome outcome, StopReason stop,
                                  std::size_t ranks, std::string note) {
  ports::AttemptFinished finished = finishedWithoutSupervisor(
      attempt, std::vector<std::optional<supervise::RankStatus>>(ranks), std::move(note));
  finished.outcome = outcome;
  finished.stop = stop;
  return finished;
}

}  // namespace bole::engine
