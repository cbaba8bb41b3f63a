// What the files of an attempt call for.
#include <algorithm>

#include "engine/local/engine_core.h"
#include "engine/local/outcome.h"
#include "engine/local/progress.h"

namespace bole::engine {

using model::AttemptOutcome;

namespace {

constexpr auto kFilesGone = "it ran, and its files are gone: what became of it is not known";

// Of checkpoints, at one look: a job must not hold up the engine by what it writes.
constexpr std::size_t kMostEntriesMeasured = 20'000;
constexpr Duration kMostTorn = seconds(2);

}  // namespace

void LocalEngine::Core::examine(Attempt& attempt) {
  if (attempt.finished) return;
  if (exists(attempt.directory)) watchDirectory(attempt);  // before looking: nothing is missed
  if (finishFromEnd(attempt)) return;
  observe(attempt);
  const auto found = findClaim(attempt.directory);
  switch (found.state) {
    case ClaimState::kNone:
      return unclaimed(attempt);
    case ClaimState::kAlive:
      return watchSupervisor(attempt, found.claim);
    case ClaimState::kAbandoned: {
      const auto stop = stopWanted(attempt);
      const bool began = attempt.order && attempt.order->began;
      const auto outcome = stop    ? AttemptOutcome::kStopped
                           : began ? AttemptOutcome::kSupervisorLost
                                   : AttemptOutcome::kLaunchFailed;
      return finish(attempt,
                    notStarted(attempt.id, outcome, stop.value_or(model::StopReason::kNone),
                               rankCount(attempt), began ? kFilesGone : "it was never started"));
    }
    case ClaimState::kTorn:
      // It is being written, or was when the machine went down: time tells.
      if (attempt.tornSince.value < 0) attempt.tornSince = clock_.monotonic();
      if (clock_.monotonic() - attempt.tornSince < kMostTorn) {
        return retryLater(attempt, milliseconds(20), milliseconds(200));
      }
      return clearAfter(attempt, found.claim);
    case ClaimState::kUnknown:
      return retryLater(attempt, milliseconds(100), seconds(5));
    case ClaimState::kDead:
      // Its last act may have come between the two looks.
      if (!finishFromEnd(attempt)) clearAfter(attempt, found.claim);
      return;
  }
}

// True if that settled it, or if it cannot be found out now.
bool LocalEngine::Core::finishFromEnd(Attempt& attempt) {
  const auto end = supervise::readEnd(attempt.directory);
  if (!end && end.error().code != ErrorCode::kCorrupt && exists(attempt.directory + "/end.json")) {
    retryLater(attempt, milliseconds(100), seconds(5));
    return true;
  }
  if (!end || !*end)
    return false;  // one that makes no sense says nothing: the claim tells the rest
  auto finished = finishedFrom(attempt.id, **end, attempt.notes);
  // A stop that could not be written down was sent as a signal.
  if ((*end)->cause == supervise::EndCause::kStopped && attempt.stop) {
    finished.outcome = AttemptOutcome::kStopped;
    if (finished.stop == model::StopReason::kNone) finished.stop = *attempt.stop;
  }
  finish(attempt, std::move(finished));
  return true;
}

void LocalEngine::Core::finish(Attempt& attempt, ports::AttemptFinished finished) {
  observe(attempt);
  unwatch(attempt);
  attempt.ports.clear();
  attempt.finished = std::move(finished);
  report_(*attempt.finished);
}

// ---- while it runs
// ------------------------------------------------------------------------------------------------

void LocalEngine::Core::observe(Attempt& attempt) {
  if (!attempt.runningTold) {
    const auto started = supervise::readStarted(attempt.directory);
    if (started && *started) {
      attempt.runningTold = true;
      if (!(*started)->note.empty()) attempt.notes.push_back((*started)->note);
      report_(ports::AttemptRunning{attempt.id});
    }
  }
  const auto progress = supervise::readProgress(attempt.directory);
  if (!progress || !*progress) return;
  tellCheckpoints(attempt, **progress);
  if (auto view = progressOf(**progress)) {
    const std::lock_guard lock(progressMutex_);
    progress_[attempt.id] = std::move(*view);
  }
}

void LocalEngine::Core::tellCheckpoints(Attempt& attempt, const supervise::Progress& progress) {
  if (progress.checkpoints.empty()) return;
  const auto& newest = progress.checkpoints.back();
  auto seen = std::to_string(progress.checkpoints.size()) + "@" + std::to_string(newest.at.micros) +
              newest.path;
  if (seen == attempt.checkpointsSeen) return;
  attempt.checkpointsSeen = std::move(seen);
  const auto launch = supervise::readLaunch(attempt.directory);
  const auto* known = launch && *launch ? &**launch : nullptr;
  std::set<std::string> present;
  auto entries = kMostEntriesMeasured;
  for (const auto& checkpoint : checkpointsOf(progress, known)) {
    present.insert(checkpoint.key);
    if (attempt.checkpointsTold.count(checkpoint.key) > 0) continue;
    attempt.checkpointsTold.insert(checkpoint.key);
    Bytes size;
    if (known) {
      // Only below the job's own directory: a job is not told how large other people's files are.
      const auto root = layout.work(JobId(known->job));
      const auto plain = known->runtime == supervise::RuntimeKind::kPlain;
      const auto& base = plain && !known->ranks.empty() ? known->ranks.front().cwd : root;
      if (checkpoint.path.compare(0, base.size() + 1, base + "/") == 0) {
        const auto found = sizeOfTree(base, checkpoint.path.substr(base.size() + 1), entries);
        if (!found) continue;  // announced, and not there: nothing can be resumed from it
        size = *found;
      }
    }
    report_(ports::CheckpointSeen{attempt.id, checkpoint.epoch, size, checkpoint.path});
  }
  attempt.checkpointsTold = std::move(present);
}

void LocalEngine::Core::watchSupervisor(Attempt& attempt, const supervise::Claim& claim) {
  attempt.retryAt = Duration(-1);
  if (attempt.watch < 0) retryLater(attempt, milliseconds(200), milliseconds(200));
  if (attempt.supervisor.isOpen()) return;
  auto opened = openProcess(claim.process.pid);
  // The number may have gone to another process in between: look again, now that it cannot any
  // more.
  if (opened && supervise::claimIsAlive(claim) &&
      watchProcess(*opened, tagOf(Source::kSupervisor, attempt.id.value))) {
    attempt.supervisor = std::move(*opened);
    return;
  }
  retryLater(attempt, milliseconds(10), milliseconds(500));
}

// ---- without a supervisor
// -----------------------------------------------------------------------------------------

void LocalEngine::Core::clearAfter(Attempt& attempt, const supervise::Claim& claim) {
  const auto left = supervise::killLeftovers(attempt.directory, launchOf(attempt));
  if (!left || *left > 0) return retryLater(attempt, milliseconds(20), seconds(1));
  std::vector<std::optional<supervise::RankStatus>> statuses(rankCount(attempt));
  for (std::uint32_t rank = 0; rank < statuses.size(); ++rank) {
    auto status = supervise::readRankStatus(attempt.directory, rank);
    if (!status) return retryLater(attempt, milliseconds(100), seconds(5));
    statuses[rank] = std::move(*status);
  }
  const bool rebooted = !options.bootId.empty() && claim.bootId != options.bootId;  // or torn by it
  auto note = rebooted ? std::string("the machine went down while it ran")
                       : "its supervisor (process " + std::to_string(claim.process.pid) +
                             ") died; what it had started was killed";
  const auto words = lastWords(attempt);
  if (!words.empty()) note += ": " + words;
  auto finished = finishedWithoutSupervisor(attempt.id, statuses, std::move(note));
  finished.stop = stopWanted(attempt).value_or(model::StopReason::kNone);
  finish(attempt, std::move(finished));
}

void LocalEngine::Core::unclaimed(Attempt& attempt) {
  if (stopWanted(attempt)) {
    return abandon(attempt, AttemptOutcome::kStopped, "it was stopped before it was started");
  }
  if (attempt.preparing) return;
  const auto own = std::find_if(children_.begin(), children_.end(), [&](const auto& child) {
    return child.second.attempt == attempt.id;
  });
  if (own != children_.end()) return;  // it will take the claim, or die
  if (attempt.spawned) {
    const auto words = lastWords(attempt);
    return abandon(attempt, AttemptOutcome::kLaunchFailed,
                   "its supervisor ended before it began" + (words.empty() ? "" : ": " + words));
  }
  if (!attempt.order) {
    return abandon(attempt, AttemptOutcome::kLaunchFailed, "nobody asked for it");
  }
  if (attempt.order->began) {
    if (exists(attempt.directory)) static_cast<void>(abandonClaim(attempt.directory));
    return finish(attempt, notStarted(attempt.id, AttemptOutcome::kSupervisorLost,
                                      model::StopReason::kNone, rankCount(attempt), kFilesGone));
  }
  prepare(attempt);
}

// What is needed to find its processes; of a launch that cannot be read, as it would be written
// again.
supervise::Launch LocalEngine::Core::launchOf(const Attempt& attempt) {
  auto launch = supervise::readLaunch(attempt.directory);
  if (launch && *launch) return std::move(**launch);
  supervise::Launch bare;
  bare.attempt = attempt.id.value;
  bare.cgroup = cgroupOf(attempt.id, host_);
  if (attempt.order) bare.job = attempt.order->job.value;
  return bare;
}

std::size_t LocalEngine::Core::rankCount(const Attempt& attempt) {
  return attempt.order ? attempt.order->ranks.size() : launchOf(attempt).ranks.size();
}

std::optional<model::StopReason> LocalEngine::Core::stopWanted(const Attempt& attempt) {
  if (attempt.stop) return attempt.stop;
  const auto stop = supervise::readStop(attempt.directory);
  // What cannot be read now, the supervisor will look at once more.
  if (stop ? !*stop : stop.error().code != ErrorCode::kCorrupt) return std::nullopt;
  const auto reason = stop ? stopReasonFromName((*stop)->reason) : model::StopReason::kNone;
  return reason == model::StopReason::kNone ? model::StopReason::kCancelled : reason;
}

}  // namespace bole::engine
