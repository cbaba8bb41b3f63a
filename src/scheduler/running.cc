#include "scheduler/running.h"

#include <algorithm>

namespace bole::scheduler {
namespace {

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
  if (attempt.expected.value > 0 && since + attempt.expected > now) return since + attempt.expected;
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
  if (shape.array && shape.array->most > 0) {
    auto& count = elements_[shape.array->first];
    count += isAdded ? 1 : std::uint32_t(-1);
    if (count == 0) elements_.erase(shape.array->first);
  }
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
  if (attempt.expected.value > 0) {
    const auto end = since + attempt.expected;
    scheduler::change(learnt_, std::pair(end.micros, attempt.id), isAdded);
    if (isAdded)
      learntEnd_[attempt.id] = end;
    else
      learntEnd_.erase(attempt.id);
  }
  if (shape.timeLimit.value > 0)
    scheduler::change(limited_, std::pair((since + shape.timeLimit).micros, attempt.id), isAdded);
  else
    scheduler::change(endless_, std::pair(-since.micros, attempt.id), isAdded);
}

Running::Releases::Releases(const Running& running, Timestamp now)
    : running_(running),
      now_(now),
      stopping_(running.stopping_.begin()),
      learnt_(running.learnt_.upper_bound({now.micros, AttemptId(UINT64_MAX)})),
      limited_(pastLearnt(running.limited_.begin(), running.limited_)),
      endless_(pastLearnt(running.endless_.begin(), running.endless_)) {}

bool Running::Releases::isLearnt(AttemptId attempt) const {
  const auto end = running_.learntEnd_.find(attempt);
  return end != running_.learntEnd_.end() && end->second > now_;
}

Running::Releases::Ends::const_iterator Running::Releases::pastLearnt(Ends::const_iterator at,
                                                                      const Ends& of) const {
  while (at != of.end() && isLearnt(at->second)) ++at;
  return at;
}

std::optional<Running::Releases::Release> Running::Releases::next() {
  if (stopping_ != running_.stopping_.end()) return Release{now_, *stopping_++};
  std::optional<Release> best;
  const auto offer = [&](Timestamp at, AttemptId attempt) {
    if (!best || at < best->at) best = Release{at, attempt};
  };
  if (learnt_ != running_.learnt_.end()) offer(Timestamp{learnt_->first}, learnt_->second);
  if (limited_ != running_.limited_.end())
    offer(std::max(Timestamp{limited_->first}, now_), limited_->second);
  if (endless_ != running_.endless_.end())
    offer(endOfEndless(Timestamp{-endless_->first}, now_), endless_->second);
  if (!best) return std::nullopt;
  if (learnt_ != running_.learnt_.end() && learnt_->second == best->attempt)
    ++learnt_;
  else if (limited_ != running_.limited_.end() && limited_->second == best->attempt)
    limited_ = pastLearnt(std::next(limited_), running_.limited_);
  else
    endless_ = pastLearnt(std::next(endless_), running_.endless_);
  return best;
}

}  // namespace bole::scheduler
