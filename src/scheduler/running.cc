#include "scheduler/running.h"

#include <algorithm>

namespace bole::scheduler {
namespace {

Timestamp sinceOf(const model::AttemptRecord& attempt) {
  return attempt.startedAt.micros != 0 ? attempt.startedAt : attempt.plannedAt;
}

template <class Set, class Value>
void change(Set& set, const Value& value, bool isAdded) {
  if (isAdded)
    set.insert(value);
  else
    set.erase(value);
}

Timestamp endOfEndless(Timestamp since, Timestamp now) {
  return now + std::max(now - since, kLeastExpected);
}

}  // namespace

Timestamp expectedEnd(const model::JobRecord& job, const model::AttemptRecord& attempt,
                      Timestamp now) {
  const auto since = sinceOf(attempt);
  if (job.shape->timeLimit.value > 0) return std::max(since + job.shape->timeLimit, now);
  return endOfEndless(since, now);
}

void Running::add(const model::JobRecord& job, const model::AttemptRecord& attempt) {
  change(job, attempt, true);
}

void Running::remove(const model::JobRecord& job, const model::AttemptRecord& attempt) {
  change(job, attempt, false);
}

void Running::change(const model::JobRecord& job, const model::AttemptRecord& attempt,
                     bool isAdded) {
  const auto& shape = *job.shape;
  if (shape.spot) spot_ += isAdded ? 1 : std::size_t(-1);
  if (job.state == model::JobState::kStopping) {
    scheduler::change(stopping_, attempt.id, isAdded);
    if (!job.freedFor.isSet()) return;
    auto& count = stoppingFor_[job.freedFor];
    count += isAdded ? 1 : std::size_t(-1);
    if (count == 0) stoppingFor_.erase(job.freedFor);
    return;
  }
  if (shape.preemptible || shape.spot) {
    const Group group{shape.queue, shape.spot};
    auto& attempts = victims_[group];
    scheduler::change(attempts, attempt.id, isAdded);
    if (attempts.empty()) victims_.erase(group);
  }
  const auto since = sinceOf(attempt);
  if (shape.timeLimit.value > 0)
    scheduler::change(limited_, std::pair((since + shape.timeLimit).micros, attempt.id), isAdded);
  else
    scheduler::change(endless_, std::pair(-since.micros, attempt.id), isAdded);
}

Running::Releases::Releases(const Running& running, Timestamp now)
    : running_(running),
      now_(now),
      stopping_(running.stopping_.begin()),
      limited_(running.limited_.begin()),
      endless_(running.endless_.begin()) {}

std::optional<Running::Releases::Release> Running::Releases::next() {
  if (stopping_ != running_.stopping_.end()) return Release{now_, *stopping_++};
  const bool isLimited = limited_ != running_.limited_.end();
  const bool isEndless = endless_ != running_.endless_.end();
  if (!isLimited && !isEndless) return std::nullopt;
  const auto limited = isLimited ? std::max(Timestamp{limited_->first}, now_) : Timestamp();
  const auto endless = isEndless ? endOfEndless(Timestamp{-endless_->first}, now_) : Timestamp();
  if (!isEndless || (isLimited && limited <= endless))
    return Release{limited, (limited_++)->second};
  return Release{endless, (endless_++)->second};
}

}  // namespace bole::scheduler
