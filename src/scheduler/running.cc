#include "scheduler/running.h"

#include <algorithm>
#include <iterator>

#include "model/run_time.h"

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

// Where nothing is learnt, or it has run longer.
Timestamp endByLimit(Duration limit, Timestamp since, Timestamp now) {
  if (limit.value > 0) return std::max(since + limit, now);
  return now + std::max(now - since, kLeastExpected);
}

}  // namespace

Timestamp expectedEnd(const model::Tables& tables, const model::JobRecord& job,
                      const model::AttemptRecord& attempt, Timestamp now) {
  const auto since = sinceOf(attempt);
  const auto learnt = model::learntRunTime(tables, job);
  if (learnt && since + *learnt > now) return since + *learnt;
  return endByLimit(job.shape->timeLimit, since, now);
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
    auto& running = elements_[shape.array->first];
    running += isAdded ? 1 : std::uint32_t(-1);
    if (running == 0) elements_.erase(shape.array->first);
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
  const Kind kind{job.user, model::sizeOf(shape), shape.timeLimit};
  auto& begun = kinds_[kind];
  scheduler::change(begun, std::pair(sinceOf(attempt), attempt.id), isAdded);
  if (begun.empty()) kinds_.erase(kind);
}

std::optional<Duration> Running::Releases::learntOf(const Begun& begun) const {
  const auto& attempt = *tables_.attempts.find(begun.begin()->second);
  return model::learntRunTime(tables_, *tables_.jobs.find(attempt.job));
}

// Those that run longer than was learnt began first: with a limit the oldest of them goes first,
// without one the newest.
void Running::Releases::begin() {
  hasBegun_ = true;
  stopping_ = running_.stopping_.begin();
  for (const auto& [kind, begun] : running_.kinds_) {
    const auto learnt = learntOf(begun);
    const auto inTime =
        learnt ? begun.upper_bound({now_ - *learnt, AttemptId(UINT64_MAX)}) : begun.end();
    if (inTime != begun.end()) {
      const Release first{inTime->first + *learnt, inTime->second};
      add({first, &kind, &begun, inTime, learnt, begun.end()});
    }
    if (inTime == begun.begin()) continue;
    const auto over = kind.limit.value > 0 ? begun.begin() : std::prev(inTime);
    add({{endByLimit(kind.limit, over->first, now_), over->second},
         &kind,
         &begun,
         over,
         {},
         inTime});
  }
}

void Running::Releases::add(Lane lane) {
  lanes_.push_back(lane);
  std::push_heap(lanes_.begin(), lanes_.end());
}

std::optional<Running::Releases::Release> Running::Releases::next() {
  if (!hasBegun_) begin();
  if (stopping_ != running_.stopping_.end()) return Release{now_, *stopping_++};
  if (lanes_.empty()) return std::nullopt;
  std::pop_heap(lanes_.begin(), lanes_.end());
  auto lane = lanes_.back();
  lanes_.pop_back();
  const auto out = lane.first;
  const bool isBackwards = !lane.learnt && lane.kind->limit.value == 0;
  if (isBackwards ? lane.at == lane.begun->begin() : std::next(lane.at) == lane.end) return out;
  lane.at = isBackwards ? std::prev(lane.at) : std::next(lane.at);
  const auto since = lane.at->first;
  lane.first = {lane.learnt ? since + *lane.learnt : endByLimit(lane.kind->limit, since, now_),
                lane.at->second};
  add(lane);
  return out;
}

}  // namespace bole::scheduler
