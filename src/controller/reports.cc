// What the engine reports, and what follows for the job: its end, or another try.
#include <algorithm>

#include "controller/batch.h"

namespace bole::controller {
namespace {

const Caller kEngine{"", "engine", ""};

bool didNotFail(model::AttemptOutcome outcome) {
  return outcome == model::AttemptOutcome::kCompleted || outcome == model::AttemptOutcome::kStopped;
}

// The exit code of the rank that failed first; nothing where a signal ended it or nothing is known.
std::optional<std::int32_t> failedCode(const ports::AttemptFinished& report) {
  for (const auto& exit : report.ranks) {
    if (static_cast<std::int64_t>(exit.rank) != report.firstFailed || !exit.known) continue;
    if ((exit.status & 0x7f) == 0) return (exit.status >> 8) & 0xff;
  }
  return std::nullopt;
}

// The task of the rank that failed first; -1: none did.
std::int32_t failedTask(const model::AttemptRecord& attempt, const ports::AttemptFinished& report) {
  const auto rank = static_cast<std::size_t>(report.firstFailed);
  if (report.firstFailed < 0 || rank >= attempt.ranks.size()) return -1;
  return static_cast<std::int32_t>(attempt.ranks[rank].task);
}

bool speaksOf(const model::LifecycleRule& rule, std::int32_t task,
              std::optional<std::int32_t> code) {
  if (rule.task >= 0 && rule.task != task) return false;
  switch (rule.event) {
    case model::PolicyEvent::kAny:
    case model::PolicyEvent::kPodFailed:
    case model::PolicyEvent::kTaskFailed:
      return true;
    case model::PolicyEvent::kExitCode:
      return code == rule.exitCode;
    default:
      return false;
  }
}

// Volcano's order: a task's own rules before the job's, a rule for the exit code before a general
// one.
const model::LifecycleRule* ruleFor(const model::JobShape& shape, std::int32_t task,
                                    std::optional<std::int32_t> code) {
  const model::LifecycleRule* best = nullptr;
  const auto rank = [](const model::LifecycleRule& rule) {
    return (rule.task >= 0 ? 2 : 0) + (rule.event == model::PolicyEvent::kExitCode ? 1 : 0);
  };
  for (const auto& rule : shape.rules) {
    if (speaksOf(rule, task, code) && (!best || rank(rule) > rank(*best))) best = &rule;
  }
  return best;
}

// Whether a failed attempt is followed by another, and in what state the job ends if not.
struct Verdict {
  bool again = false;
  model::JobState end = model::JobState::kFailed;
};

Verdict afterFailure(const model::JobRecord& job, const model::AttemptRecord& attempt,
                     const ports::AttemptFinished& report) {
  const bool left = job.retries < job.shape->restart.maxRetries;
  if (const auto* rule = ruleFor(*job.shape, failedTask(attempt, report), failedCode(report))) {
    switch (rule->action) {
      case model::PolicyAction::kRestartJob:
      case model::PolicyAction::kRestartTask:
      case model::PolicyAction::kRestartPod:
        return {left, model::JobState::kFailed};
      case model::PolicyAction::kCompleteJob:
        return {false, model::JobState::kSucceeded};
      default:
        return {false, model::JobState::kFailed};
    }
  }
  return {job.shape->restart.kind == model::RestartKind::kOnFailure && left,
          model::JobState::kFailed};
}

Duration backoffOf(const model::RestartPolicy& policy, std::uint32_t retries) {
  auto wait = policy.backoff;
  for (std::uint32_t i = 0; i < retries && wait < policy.maxBackoff; ++i) wait = wait * 2;
  return std::min(wait, policy.maxBackoff);
}

}  // namespace

void Controller::handle(Batch& batch, const ports::EngineReport& message) {
  // A report that does not fit the state is of no use to anyone: it is dropped, the state stands as
  // it was.
  static_cast<void>(std::visit([&](const auto& report) { return take(batch, report); }, message));
}

Result<void> Controller::take(Batch& batch, const ports::AttemptRunning& report) {
  const auto* attempt = state_.tables().attempts.find(report.attempt);
  if (!attempt || !attempt->live || attempt->startedAt.micros != 0) return {};
  const auto* job = state_.tables().jobs.find(attempt->job);
  return emit(batch, model::AttemptStarted{report.attempt}, kEngine, job->project);
}

Result<void> Controller::take(Batch& batch, const ports::CheckpointSeen& report) {
  const auto* attempt = state_.tables().attempts.find(report.attempt);
  if (!attempt || report.epoch <= attempt->checkpointEpoch) return {};
  const auto* job = state_.tables().jobs.find(attempt->job);
  std::vector<ports::SideValue> side;
  model::CheckpointRecorded event{report.attempt, report.epoch, report.size, SideId()};
  event.path = addSide(side, report.path);
  names_.put(event.path, std::make_shared<const std::string>(report.path));
  return emit(batch, event, kEngine, job->project, std::move(side));
}

Result<void> Controller::take(Batch& batch, const ports::AttemptFinished& report) {
  const auto forget = [id = report.attempt](ports::Engine& engine) { engine.forget(id); };
  const auto* attempt = state_.tables().attempts.find(report.attempt);
  if (!attempt || !attempt->live) {  // told again: it is durable already
    batch.effects.push_back(forget);
    return {};
  }
  const auto jobId = attempt->job;
  const auto project = state_.tables().jobs.find(jobId)->project;
  std::vector<ports::SideValue> side;
  model::AttemptEnded event{report.attempt, report.outcome, report.firstFailed, report.ranks,
                            SideId()};
  if (!report.note.empty()) {
    event.note = addSide(side, report.note);
    names_.put(event.note, std::make_shared<const std::string>(report.note));
  }
  BOLE_TRY(emit(batch, std::move(event), kEngine, project, std::move(side)));
  batch.effects.push_back(forget);
  wholeQueue_ = true;
  return settle(batch, jobId, report);
}

Result<void> Controller::settle(Batch& batch, JobId id, const ports::AttemptFinished& report) {
  using model::JobState;
  using model::StopReason;
  const auto& job = *state_.tables().jobs.find(id);
  const auto& attempt = *state_.tables().attempts.find(job.attempt);
  const auto project = job.project;
  const auto end = [&](JobState state, StopReason reason) {
    return emit(batch, model::JobEnded{id, state, reason}, kEngine, project);
  };
  if (report.outcome == model::AttemptOutcome::kCompleted) {
    return end(JobState::kSucceeded, StopReason::kNone);
  }
  const auto asked = job.stop != StopReason::kNone ? job.stop : report.stop;
  if (asked == StopReason::kCancelled || asked == StopReason::kServerDown) {
    return end(JobState::kCancelled, asked);
  }
  if (report.outcome == model::AttemptOutcome::kTimeLimit || asked == StopReason::kTimeLimit) {
    return end(JobState::kFailed, StopReason::kTimeLimit);
  }
  if (asked == StopReason::kPreempted || asked == StopReason::kNodeDown) {
    return emit(batch, model::JobRequeued{id, batch.now, job.retries}, kEngine, project);
  }
  if (didNotFail(report.outcome)) return end(JobState::kCancelled, asked);
  const auto verdict = afterFailure(job, attempt, report);
  if (!verdict.again) return end(verdict.end, StopReason::kNone);
  const auto wait = backoffOf(job.shape->restart, job.retries);
  return emit(batch, model::JobRequeued{id, batch.now + wait, job.retries + 1}, kEngine, project);
}

}  // namespace bole::controller
