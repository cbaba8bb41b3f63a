#include "controller/forecast.h"

#include <algorithm>
#include <set>
#include <utility>

#include "model/run_time.h"
#include "scheduler/reserve.h"
#include "state/state.h"

namespace bole::controller {
namespace {

class Ahead {
 public:
  Ahead(const model::Tables& tables, Timestamp now, const std::set<JobId>& wanted,
        const ForecastOptions& options)
      : state_(tables), start_(now), now_(now), wanted_(wanted), options_(options) {
    for (const auto id : state_.liveAttempts()) expectEnd(id);
    for (const auto& key : state_.queued()) {
      if (wanted.contains(key.job) || looked_.size() + 1 < options.mostJobs)
        looked_.insert(key.job);
    }
  }

  std::map<JobId, Expected> run() {
    for (std::size_t step = 0; step < options_.mostSteps && !done(); ++step) {
      const auto next = plan();
      if (!next || *next > start_ + options_.horizon) break;
      now_ = *next;
      endWhatIsDue();
    }
    return std::move(found_);
  }

 private:
  [[nodiscard]] bool done() const {
    if (wanted_.empty()) return found_.size() == looked_.size();
    return std::all_of(wanted_.begin(), wanted_.end(),
                       [&](JobId id) { return found_.contains(id); });
  }

  bool apply(const model::Event& event) {
    return state_.apply(event, state_.tables().sequence + 1, now_).has_value();
  }

  void expectEnd(AttemptId id) {
    const auto& attempt = *state_.tables().attempts.find(id);
    const auto& job = *state_.tables().jobs.find(attempt.job);
    const bool stopping = job.state == model::JobState::kStopping;
    const auto end = stopping ? now_ + job.shape->grace
                              : scheduler::expectedEnd(state_.tables(), job, attempt, now_);
    ends_[id] = std::max(end, now_ + seconds(1));
  }

  // What is decided now, and when something happens next.
  std::optional<Timestamp> plan() {
    std::vector<JobId> queue;
    for (const auto& key : state_.queued())
      if (looked_.contains(key.job)) queue.push_back(key.job);
    const auto plan = scheduler::plan(state_.tables(), queue, now_, options_.scheduling);
    for (const auto& start : plan.starts) begin(start);
    for (const auto& eviction : plan.evictions) stop(eviction);
    for (const auto& reservation : plan.reservations)
      apply(model::ReservationMade{reservation.job, reservation.nodes});
    std::optional<Timestamp> next;
    if (plan.nextLook > now_) next = plan.nextLook;
    for (const auto& [id, end] : ends_)
      if (!next || end < *next) next = end;
    return next;
  }

  void begin(const model::Start& start) {
    const AttemptId id(state_.tables().lastAttempt + 1);
    const auto& job = *state_.tables().jobs.find(start.job);
    if (!apply(model::AttemptPlanned{id, start.job, job.attempts + 1, start.ranks})) return;
    apply(model::AttemptStarted{id});
    if (looked_.contains(start.job)) found_.try_emplace(start.job, Expected{now_, start.ranks});
    const auto& started = *state_.tables().jobs.find(start.job);
    const auto limit = started.shape->timeLimit;
    auto takes = model::learntRunTime(state_.tables(), started).value_or(options_.unknownRunTime);
    if (limit.value > 0) takes = std::min(takes, limit);
    ends_[id] = now_ + std::max(takes, seconds(1));
  }

  void stop(const model::Eviction& eviction) {
    const auto& job = *state_.tables().jobs.find(eviction.job);
    const auto attempt = job.attempt;
    const auto grace = job.shape->grace;
    if (!apply(model::StopRequested{eviction.job, model::StopReason::kPreempted, grace,
                                    eviction.beneficiary}))
      return;
    ends_[attempt] = now_ + std::max(grace, seconds(1));
  }

  void endWhatIsDue() {
    for (auto end = ends_.begin(); end != ends_.end();) {
      if (end->second > now_) {
        ++end;
        continue;
      }
      const auto id = end->first;
      end = ends_.erase(end);
      const auto& attempt = *state_.tables().attempts.find(id);
      const auto& job = *state_.tables().jobs.find(attempt.job);
      const auto jobId = job.id;
      const auto stop = job.stop;
      const auto retries = job.retries;
      const bool stopped = job.state == model::JobState::kStopping;
      apply(model::AttemptEnded{
          id,
          stopped ? model::AttemptOutcome::kStopped : model::AttemptOutcome::kCompleted,
          -1,
          {},
          {}});
      const bool again =
          stop == model::StopReason::kPreempted || stop == model::StopReason::kNodeDown;
      if (stopped && again) {
        looked_.insert(jobId);
        apply(model::JobRequeued{jobId, now_, retries});
      } else {
        finish(jobId, stopped ? model::JobState::kCancelled : model::JobState::kSucceeded);
      }
    }
  }

  // With it go those for whom what they wait for can never come.
  void finish(JobId id, model::JobState end) {
    const auto dependents = state_.tables().jobs.find(id)->dependents;
    if (!apply(model::JobEnded{id, end, model::StopReason::kNone})) return;
    for (const auto other : dependents) {
      const auto* job = state_.tables().jobs.find(other);
      if (job && job->state == model::JobState::kQueued && job->brokenBy.isSet())
        finish(other, model::JobState::kCancelled);
    }
  }

  state::State state_;
  const Timestamp start_;
  Timestamp now_;
  const std::set<JobId>& wanted_;
  const ForecastOptions& options_;
  std::set<JobId> looked_;
  std::map<AttemptId, Timestamp> ends_;
  std::map<JobId, Expected> found_;
};

}  // namespace

std::map<JobId, Expected> forecast(const model::Tables& tables, Timestamp now,
                                   const std::set<JobId>& wanted, const ForecastOptions& options) {
  return Ahead(tables, std::max(now, tables.time), wanted, options).run();
}

std::vector<std::optional<Expected>> forecastNew(model::Tables tables, Timestamp now,
                                                 const std::vector<model::JobShape>& shapes,
                                                 UserId user, const ForecastOptions& options) {
  state::State state(std::move(tables));
  now = std::max(now, state.tables().time);
  std::vector<JobId> ids;
  for (const auto& shape : shapes) {
    const JobId id(state.tables().lastJob + 1);
    const model::JobSubmitted event{id, ProjectId(), user, shape, SideId()};
    ids.push_back(state.apply(event, state.tables().sequence + 1, now) ? id : JobId());
  }
  const auto found = forecast(state.tables(), now, {ids.begin(), ids.end()}, options);
  std::vector<std::optional<Expected>> out;
  for (const auto id : ids) {
    const auto at = found.find(id);
    out.push_back(at == found.end() ? std::nullopt : std::optional(at->second));
  }
  return out;
}

}  // namespace bole::controller
