#include "controller/controller.h"

#include <fmt/format.h>

#include <algorithm>

#include "codec/codec.h"
#include "controller/batch.h"

namespace bole::controller {
namespace {

const Caller kScheduler{"", "scheduler", ""};
const Caller kServer{"", "server", ""};
constexpr Duration kNoticedJump = seconds(1);  // smaller ones are the slewing of NTP
constexpr Duration kRetryAppend = seconds(1);  // a full disk is not asked more often than this
constexpr Duration kRetryReports = seconds(5);

void earliest(Timestamp& kept, Timestamp other) {
  if (other.micros != 0 && (kept.micros == 0 || other < kept)) kept = other;
}

// What may be refused while the ledger cannot be written.
bool isNew(const Message& message) {
  return std::holds_alternative<SubmitJobs>(message) ||
         std::holds_alternative<SetPolicy>(message) || std::holds_alternative<SetHealth>(message) ||
         std::holds_alternative<SetLabels>(message);
}

// Elements of an array share one.
bool othersHaveItsText(const model::Tables& tables, const model::JobRecord& job) {
  if (!job.shape->array) return false;
  for (std::uint32_t i = 0; i < job.shape->array->count; ++i) {
    const JobId other(job.shape->array->first.value + i);
    if (other != job.id && tables.jobs.find(other)) return true;
  }
  return false;
}

}  // namespace

Result<void> Controller::start(const std::vector<model::Node>& nodes) {
  Batch batch;
  BOLE_TRY(beginLife(batch, nodes));
  endBroken(batch);
  schedule(batch);
  forgetOld(batch);
  const auto kept = ledger_.append(batch.events);
  if (kept) {
    commit(batch);
    return {};
  }
  rollBack(batch);
  return startUrgently(nodes, kept.error());
}

// On a full disk: what runs is taken over, its ends are recorded with the reserve, nothing new is
// begun.
Result<void> Controller::startUrgently(const std::vector<model::Node>& nodes, const Error& why) {
  Batch batch;
  BOLE_TRY(beginLife(batch, nodes));
  if (!ledger_.appendUrgent(batch.events)) {
    rollBack(batch);
    return fail(why);
  }
  writable_ = false;
  problem_ = why;
  triedAt_ = clock_.monotonic();
  publish();
  for (const auto& effect : batch.effects) effect(engine_);
  return {};
}

Result<void> Controller::beginLife(Batch& batch, const std::vector<model::Node>& nodes) {
  batch.before = state_.tables();
  batch.seenBefore = seen_;
  batch.now = seen_.ledger;
  BOLE_TRY(
      emit(batch, model::ServerStarted{options_.version, options_.bootId}, kServer, ProjectId()));
  for (const auto id : state_.liveAttempts()) {
    const auto& attempt = *state_.tables().attempts.find(id);
    const auto& job = *state_.tables().jobs.find(attempt.job);
    auto order = orderOf(attempt);
    batch.effects.push_back(
        [order = std::move(order)](ports::Engine& engine) { engine.adopt(order); });
    if (job.state == model::JobState::kStopping) {
      batch.effects.push_back([id, reason = job.stop, grace = job.shape->grace](
                                  ports::Engine& engine) { engine.stop(id, reason, grace); });
    }
  }
  takeInventory(batch, nodes);
  return {};
}

void Controller::process(std::vector<Message> messages) {
  if (!deferred_.empty()) {
    std::move(messages.begin(), messages.end(), std::back_inserter(deferred_));
    messages = std::exchange(deferred_, {});
  }
  if (!writable_ && clock_.monotonic() - triedAt_ < kRetryAppend) {
    processUrgent(messages, Error(problem_));
    return;
  }
  Batch batch;
  batch.before = state_.tables();
  batch.seenBefore = seen_;
  readClock(batch);
  for (const auto& message : messages) {
    std::visit([&](const auto& body) { handle(batch, body); }, message);
  }
  endBroken(batch);
  schedule(batch);
  forgetOld(batch);
  if (!batch.events.empty()) {
    if (auto kept = ledger_.append(batch.events); !kept) {
      triedAt_ = clock_.monotonic();
      rollBack(batch);
      processUrgent(messages, kept.error());
      return;
    }
  }
  commit(batch);
  sealIfLong();
}

// The events are durable: now the world may hear of them.
void Controller::commit(Batch& batch) {
  const bool recovered = !writable_ && !batch.events.empty();
  if (recovered) writable_ = true;
  if (recovered || !batch.events.empty() || batch.reasonsChanged) publish();
  for (const auto& outcome : batch.outcomes) outcome(nullptr);
  for (const auto& effect : batch.effects) effect(engine_);
}

void Controller::rollBack(Batch& batch) {
  state_ = state::State(batch.before);
  seen_ = batch.seenBefore;
  for (const auto& name : batch.newProjects) projectIds_.erase(name);
  for (const auto& name : batch.newUsers) userIds_.erase(name);
  for (const auto& key : batch.newRequests) requests_.erase(key);
  noteHealth();
  waiting_ = snapshot_->waiting;
  texts_ = snapshot_->texts;
  names_ = snapshot_->names;
  wholeQueue_ = true;
}

// The ledger took nothing. What must never be refused is tried again with the reserve; what is new
// is refused.
void Controller::processUrgent(std::vector<Message>& messages, const Error& why) {
  writable_ = false;
  problem_ = why;
  Batch batch;
  batch.before = state_.tables();
  batch.seenBefore = seen_;
  readClock(batch);
  std::vector<Message> kept;
  for (auto& message : messages) {
    if (isNew(message)) continue;
    if (!std::holds_alternative<Tick>(message)) {
      std::visit([&](const auto& body) { handle(batch, body); }, message);
      kept.push_back(std::move(message));
    }
  }
  endBroken(batch);
  // Who is refused finds in the snapshot why.
  const auto publishAndRefuse = [&] {
    publish();
    for (const auto& message : messages) {
      const auto* submit = std::get_if<SubmitJobs>(&message);
      if (submit && submit->reply) submit->reply(fail(why));
      const auto* policy = std::get_if<SetPolicy>(&message);
      if (policy && policy->reply) policy->reply(fail(why));
      const auto* health = std::get_if<SetHealth>(&message);
      if (health && health->reply) health->reply(fail(why));
      const auto* labels = std::get_if<SetLabels>(&message);
      if (labels && labels->reply) labels->reply(fail(why));
    }
  };
  const auto done = batch.events.empty() ? Result<void>() : ledger_.appendUrgent(batch.events);
  if (done) {
    publishAndRefuse();
    for (const auto& outcome : batch.outcomes) outcome(nullptr);
    for (const auto& effect : batch.effects) effect(engine_);
    return;
  }
  rollBack(batch);
  publishAndRefuse();
  for (auto& message : kept) {
    if (const auto* stop = std::get_if<StopJob>(&message))
      passStopOn(*stop, done.error());
    else
      deferred_.push_back(std::move(message));
  }
}

// Stopping is always possible: what cannot be recorded is done all the same, and its end is
// recorded when that is possible.
void Controller::passStopOn(const StopJob& message, const Error& why) {
  const auto stop = [&](JobId id) {
    const auto* job = state_.tables().jobs.find(id);
    if (!job || !model::holdsCapacity(job->state)) return false;
    engine_.stop(job->attempt, message.reason,
                 message.grace.value < 0 ? job->shape->grace : message.grace);
    return true;
  };
  const auto* job = state_.tables().jobs.find(message.job);
  bool live = false;
  if (job && job->shape->array && message.wholeArray) {
    const auto& array = *job->shape->array;
    for (std::uint32_t i = 0; i < array.count; ++i)
      live = stop(JobId(array.first.value + i)) || live;
  } else {
    live = stop(message.job);
  }
  if (message.reply) message.reply(live ? Result<void>() : Result<void>(fail(why)));
}

void Controller::close() {
  if (state_.tables().sequence == sealedAt_) return;
  if (ledger_.seal(state_.tables().sequence, codec::encodeTables(state_.tables()))) {
    sealedAt_ = state_.tables().sequence;
  }
}

void Controller::sealIfLong() {
  const auto length =
      std::max<std::uint64_t>(options_.sealAfterEvents, state_.tables().jobs.size());
  if (state_.tables().sequence - sealedAt_ < length) return;
  // Where it fails the segment grows on and the next batch but many tries again: nothing is lost by
  // it.
  static_cast<void>(ledger_.seal(state_.tables().sequence, codec::encodeTables(state_.tables())));
  sealedAt_ = state_.tables().sequence;
}

Duration Controller::untilNextTick() {
  Timestamp next = nextLook_;
  earliest(next, nextExpiry_);
  earliest(next, nextHealthy_);
  const auto now = seen_.ledger + (clock_.monotonic() - seen_.monotonic);
  Duration wait(-1);
  if (next.micros != 0) wait = std::max(next - now, Duration(0));
  if (!deferred_.empty() || (!writable_ && wholeQueue_)) {
    wait = wait.value < 0 ? kRetryReports : std::min(wait, kRetryReports);
  }
  return wait;
}

// Ledger time follows the monotonic clock, and the wall clock where that is ahead. A jump is
// written down.
void Controller::readClock(Batch& batch) {
  Readings read{clock_.wall(), clock_.monotonic(), clock_.boottime(), Timestamp()};
  const auto passed = read.monotonic - seen_.monotonic;
  const auto expected = seen_.ledger + passed;
  read.ledger = std::max(expected, read.wall);
  const auto jump = (read.wall - seen_.wall) - passed;
  const auto asleep = std::max((read.boottime - seen_.boottime) - passed, Duration(0));
  seen_ = read;
  batch.now = read.ledger;
  if (jump > kNoticedJump || jump < kNoticedJump * -1) {
    const auto leap = read.ledger - expected;
    // Its folding cannot fail: leap is never negative.
    static_cast<void>(emit(batch, model::ClockAdjusted{jump, asleep, leap}, kServer, ProjectId()));
    wholeQueue_ = true;
  }
}

Result<void> Controller::emit(Batch& batch, model::Event event, const Caller& caller,
                              ProjectId project, std::vector<ports::SideValue> side) {
  const auto sequence = state_.tables().sequence + 1;
  std::vector<JobId> dependents;
  if (const auto* ended = std::get_if<model::JobEnded>(&event)) {
    if (const auto* job = state_.tables().jobs.find(ended->job)) dependents = job->dependents;
  }
  BOLE_TRY(state_.apply(event, sequence, batch.now));
  for (const auto id : dependents) {
    wholeQueue_ = true;
    if (state_.tables().jobs.find(id)->brokenBy.isSet()) batch.broken.push_back(id);
  }
  ports::NewEvent row;
  row.envelope.sequence = sequence;
  row.envelope.time = batch.now;
  row.envelope.kind = model::kindOf(event);
  row.envelope.project = project;
  row.envelope.requestId = caller.requestId;
  row.envelope.source = caller.source;
  if (const auto user = userIds_.find(caller.user); user != userIds_.end()) {
    row.envelope.actor = user->second;
  }
  row.body = codec::encodeBody(event);
  row.side = std::move(side);
  batch.events.push_back(std::move(row));
  if (const auto* ended = std::get_if<model::JobEnded>(&event)) {
    const auto ttl = state_.tables().jobs.find(ended->job)->shape->ttlAfterFinished;
    if (ttl.value >= 0) earliest(nextExpiry_, batch.now + ttl);
  }
  return {};
}

SideId Controller::addSide(std::vector<ports::SideValue>& side, std::string value) {
  const SideId id(state_.nextSide());
  side.push_back({id, std::move(value)});
  return id;
}

// Nodes are known by their names. One that the probe does not see is lost; its attempts are the
// engine's to tell of.
void Controller::takeInventory(Batch& batch, const std::vector<model::Node>& nodes) {
  std::vector<NodeId> lost;
  state_.tables().nodes.forEach([&](NodeId id, const model::NodeRecord& record) {
    const auto same = [&](const model::Node& node) { return node.name == record.node->name; };
    if (record.present && std::none_of(nodes.begin(), nodes.end(), same)) lost.push_back(id);
    return true;
  });
  for (const auto id : lost) {
    static_cast<void>(emit(batch, model::NodeLost{id}, kServer, ProjectId()));
    wholeQueue_ = true;
  }
  for (const auto& node : nodes) {
    NodeId known(state_.tables().lastNode + 1);
    bool unchanged = false;
    state_.tables().nodes.forEach([&](NodeId id, const model::NodeRecord& record) {
      if (record.node->name != node.name) return true;
      known = id;
      unchanged = record.present && (record.probed ? *record.probed : *record.node) == node;
      return false;
    });
    if (unchanged) continue;
    static_cast<void>(emit(batch, model::NodeRegistered{known, node}, kServer, ProjectId()));
    wholeQueue_ = true;
  }
}

void Controller::schedule(Batch& batch) {
  if (!wholeQueue_ && batch.newJobs.empty()) return;
  const bool whole = wholeQueue_ || keeps_;
  std::vector<JobId> queue;
  if (whole) {
    for (const auto& key : state_.queued()) queue.push_back(key.job);
  } else {
    // Nothing was freed since the last plan, so whoever waited then waits still: only the new ones
    // are looked at.
    std::vector<state::QueueKey> keys;
    for (const auto id : batch.newJobs) {
      const auto* job = state_.tables().jobs.find(id);
      if (job && job->state == model::JobState::kQueued) {
        keys.push_back({-job->shape->priority, job->queuedAt, id});
      }
    }
    std::sort(keys.begin(), keys.end());
    for (const auto& key : keys) queue.push_back(key.job);
  }
  auto plan = planner_.plan(state_.tables(), queue, batch.now, options_.scheduling);
  if (whole) {
    nextLook_ = plan.nextLook;
    keeps_ = plan.keeps;
  } else {
    earliest(nextLook_, plan.nextLook);
    keeps_ = keeps_ || plan.keeps;
  }
  wholeQueue_ = false;
  for (const auto& start : plan.starts) {
    // State checks every placement again; one that it refuses waits for the next cycle.
    if (!startAttempt(batch, start)) batch.reasonsChanged |= setWaiting({start.job, {{}}});
  }
  for (const auto& eviction : plan.evictions) evict(batch, eviction);
  for (const auto& reservation : plan.reservations) {
    const auto* job = state_.tables().jobs.find(reservation.job);
    if (job->reservedOn == reservation.nodes) continue;
    static_cast<void>(emit(batch, model::ReservationMade{reservation.job, reservation.nodes},
                           kScheduler, job->project));
  }
  for (auto& waiting : plan.waiting) {
    if (setWaiting(std::move(waiting))) batch.reasonsChanged = true;
  }
}

// Its own grace is the notice that it gets; it waits again at its old place.
void Controller::evict(Batch& batch, const model::Eviction& eviction) {
  const auto& job = *state_.tables().jobs.find(eviction.job);
  const auto attempt = job.attempt;
  const auto grace = job.shape->grace;
  if (!emit(batch,
            model::StopRequested{eviction.job, model::StopReason::kPreempted, grace,
                                 eviction.beneficiary},
            kScheduler, job.project)) {
    return;
  }
  batch.effects.push_back([attempt, grace](ports::Engine& engine) {
    engine.stop(attempt, model::StopReason::kPreempted, grace);
  });
}

Result<void> Controller::startAttempt(Batch& batch, const model::Start& start) {
  const auto& job = *state_.tables().jobs.find(start.job);
  const AttemptId id(std::max(state_.tables().lastAttempt, inUse_.attempt.value) + 1);
  const auto project = job.project;
  BOLE_TRY(emit(batch, model::AttemptPlanned{id, start.job, job.attempts + 1, start.ranks},
                kScheduler, project));
  waiting_.erase(start.job);
  auto order = orderOf(*state_.tables().attempts.find(id));
  batch.effects.push_back(
      [order = std::move(order)](ports::Engine& engine) { engine.start(order); });
  return {};
}

bool Controller::setWaiting(model::Waiting waiting) {
  const auto* known = waiting_.find(waiting.job);
  if (known && *known == waiting.reasons) return false;
  waiting_.put(waiting.job, std::move(waiting.reasons));
  return true;
}

void Controller::forgetOld(Batch& batch) {
  std::vector<JobId> old;
  const auto& finished = state_.finished();
  const auto tooMany =
      finished.size() > options_.keepFinishedJobs ? finished.size() - options_.keepFinishedJobs : 0;
  for (auto it = finished.begin(); old.size() < tooMany; ++it) old.push_back(it->second);
  if (nextExpiry_.micros != 0 && nextExpiry_ <= batch.now) {
    nextExpiry_ = Timestamp();
    for (auto it = std::next(finished.begin(), static_cast<std::ptrdiff_t>(tooMany));
         it != finished.end(); ++it) {
      const auto ttl = state_.tables().jobs.find(it->second)->shape->ttlAfterFinished;
      if (ttl.value < 0) continue;
      if (it->first + ttl <= batch.now)
        old.push_back(it->second);
      else
        earliest(nextExpiry_, it->first + ttl);
    }
  }
  for (const auto id : old) {
    const auto& job = *state_.tables().jobs.find(id);
    if (!othersHaveItsText(state_.tables(), job)) {
      if (const auto* text = texts_.find(job.text)) {
        if (!(*text)->requestId.empty()) requests_.erase((*text)->user + '\n' + (*text)->requestId);
      }
      texts_.erase(job.text);
    }
    names_.erase(job.checkpointPath);
    static_cast<void>(emit(batch, model::JobForgotten{id}, kServer, job.project));
  }
}

ports::AttemptOrder Controller::orderOf(const model::AttemptRecord& attempt) const {
  const auto& job = *state_.tables().jobs.find(attempt.job);
  ports::AttemptOrder order;
  order.attempt = attempt.id;
  order.job = job.id;
  order.number = attempt.number;
  order.project = job.project;
  order.shape = job.shape;
  const auto* text = texts_.find(job.text);
  order.text = text ? *text : std::make_shared<const model::JobText>();
  order.began = attempt.startedAt.micros != 0;
  order.ranks = attempt.ranks;
  for (const auto& rank : attempt.ranks) {
    order.nodes.push_back(state_.tables().nodes.find(rank.node)->node);
  }
  return order;
}

void Controller::publish() {
  auto next = std::make_shared<Snapshot>();
  next->revision = ++revision_;
  next->tables = state_.tables();
  next->waiting = waiting_;
  next->texts = texts_;
  next->names = names_;
  next->writable = writable_;
  if (!writable_) next->problem = problem_.message();
  std::atomic_store(&snapshot_, std::shared_ptr<const Snapshot>(std::move(next)));
  if (published_) published_();
}

}  // namespace bole::controller
