#include "state/state.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "model/run_time.h"
#include "model/use.h"

namespace bole::state {
namespace {

Error misfit(std::string what, std::uint64_t sequence) {
  return makeError(ErrorCode::kInternal, std::move(what)).at(fmt::format("event {}", sequence));
}

QueueKey keyOf(const model::JobRecord& job) {
  return QueueKey{-job.shape->priority, job.queuedAt, job.id};
}

// Thousandths of a GPU that a rank holds.
MilliGpu milliGpus(const model::RankPlacement& rank) {
  MilliGpu total;
  for (std::size_t i = 0; i < rank.gpus.size(); ++i) total += rank.grant(i).share;
  return total;
}

// What the queue holds from the time to which its use is reckoned.
void holdInQueue(model::Tables& tables, const model::JobShape& shape,
                 const model::RankPlacement& rank, int sign) {
  auto* use = tables.queueUse.edit(shape.queue);
  if (!use) {
    tables.queueUse.put(shape.queue, {shape.queue, tables.time});
    use = tables.queueUse.edit(shape.queue);
  }
  use->gpusHeld += milliGpus(rank) * sign;
  use->cpusHeld += shape.tasks[rank.task].cpus * sign;
  use->memoryHeld += shape.tasks[rank.task].memory * sign;
}

}  // namespace

// Folds each kind of event. Every function checks first and changes afterwards, so that a refused
// event changes nothing.
struct Folder {
  State& state;
  std::uint64_t sequence;
  Timestamp time;

  using Outcome = Result<void>;

  [[nodiscard]] Outcome refuse(std::string what) const {
    return fail(misfit(std::move(what), sequence));
  }

  Outcome operator()(const model::ServerStarted& event) {
    state.tables_.bootId = event.bootId;
    return {};
  }

  Outcome operator()(const model::ClockAdjusted& event) {
    if (event.leap.value < 0) return refuse("ledger time cannot leap back");
    state.tables_.leaps += event.leap;
    // What ledger time skipped is nobody's use, and no time in which use is forgotten.
    reckonUse(time - event.leap);
    return {};
  }

  Outcome operator()(const model::ProjectCreated& event) {
    state.tables_.projects.put(event.project, event.name);
    raise(state.tables_.lastProject, event.project.value);
    raise(state.tables_.lastSide, event.name.value);
    return {};
  }

  Outcome operator()(const model::UserSeen& event) {
    state.tables_.users.put(event.user, event.name);
    raise(state.tables_.lastUser, event.user.value);
    raise(state.tables_.lastSide, event.name.value);
    return {};
  }

  Outcome operator()(const model::NodeRegistered& event) {
    const auto gpus = event.node.gpus.size();
    if (event.node.links.size() != gpus * gpus)
      return refuse("a node's links are not GPU count squared");
    model::NodeRecord record;
    if (const auto* known = state.tables_.nodes.find(event.id)) record = *known;
    // GPUs that live attempts hold may be missing from a smaller inventory: what they hold stays
    // counted.
    const auto kept = std::max(gpus, highestHeld(record));
    record.id = event.id;
    record.present = true;
    show(record, event.node);
    record.gpuUsed.resize(kept);
    record.gpuMemoryUsed.resize(kept);
    record.gpuHolder.resize(kept);
    state.tables_.nodes.put(event.id, std::move(record));
    raise(state.tables_.lastNode, event.id.value);
    return {};
  }

  Outcome operator()(const model::NodeLost& event) {
    auto* node = state.tables_.nodes.edit(event.id);
    if (!node) return refuse(fmt::format("node {} was never registered", event.id.value));
    node->present = false;
    return {};
  }

  Outcome operator()(const model::HealthSet& event) {
    auto* node = state.tables_.nodes.edit(event.node);
    if (!node) return refuse(fmt::format("node {} was never registered", event.node.value));
    if (event.gpu < -1 || event.gpu >= static_cast<std::int64_t>(node->node->gpus.size()))
      return refuse(fmt::format("node {} has no GPU {}", event.node.value, event.gpu));
    std::erase_if(node->marks, [&](const auto& mark) { return mark.gpu == event.gpu; });
    if (event.health != model::GpuHealth::kHealthy)
      node->marks.push_back({event.gpu, event.health, event.until, event.why});
    show(*node, node->probed ? *node->probed : *node->node);
    raise(state.tables_.lastSide, event.why.value);
    return {};
  }

  Outcome operator()(const model::NodeLabelled& event) {
    auto* node = state.tables_.nodes.edit(event.node);
    if (!node) return refuse(fmt::format("node {} was never registered", event.node.value));
    node->labels = event.labels;
    show(*node, node->probed ? *node->probed : *node->node);
    return {};
  }

  Outcome operator()(const model::JobSubmitted& event) {
    if (state.tables_.jobs.find(event.job) || event.job.value <= state.tables_.lastJob) {
      return refuse(fmt::format("job {} exists already", event.job.value));
    }
    if (event.shape.tasks.empty()) return refuse("a job without tasks");
    for (const auto& dependency : event.shape.after) {
      if (!state.tables_.jobs.find(dependency.job))
        return refuse(fmt::format("job {} waits for a job that is not there", event.job.value));
    }
    model::JobRecord job;
    job.id = event.job;
    job.project = event.project;
    job.user = event.user;
    job.text = event.text;
    job.shape = std::make_shared<const model::JobShape>(event.shape);
    job.submittedAt = job.queuedAt = time;
    job.notBefore = std::max(event.shape.begin, Timestamp());
    if (event.shape.delay.value > 0)
      job.notBefore = std::max(job.notBefore, time + event.shape.delay);
    job.queuedAt = std::max(job.queuedAt, job.notBefore);
    for (const auto& dependency : event.shape.after) waitFor(job, dependency);
    state.queued_.insert(keyOf(job));
    state.tables_.jobs.put(event.job, std::move(job));
    raise(state.tables_.lastJob, event.job.value);
    raise(state.tables_.lastSide, event.text.value);
    return {};
  }

  Outcome operator()(const model::AttemptPlanned& event) {
    auto* job = state.tables_.jobs.edit(event.job);
    if (!job || job->state != model::JobState::kQueued) {
      return refuse(fmt::format("job {} is not queued", event.job.value));
    }
    if (!job->waitsFor.empty() || job->brokenBy.isSet())
      return refuse(fmt::format("job {} waits for another", event.job.value));
    if (event.attempt.value <= state.tables_.lastAttempt)
      return refuse("an attempt's id was given twice");
    if (auto fits = checkPlacement(*job->shape, event.ranks); !fits) return fits;
    for (const auto& rank : event.ranks) take(*job->shape, rank, event.attempt, 1);
    model::AttemptRecord attempt;
    attempt.id = event.attempt;
    attempt.job = event.job;
    attempt.number = event.number;
    attempt.ranks = event.ranks;
    attempt.plannedAt = time;
    attempt.leapsBefore = state.tables_.leaps;
    state.tables_.attempts.put(event.attempt, std::move(attempt));
    state.live_.insert(event.attempt);
    raise(state.tables_.lastAttempt, event.attempt.value);
    state.queued_.erase(keyOf(*job));
    job->state = model::JobState::kStarting;
    job->attempt = event.attempt;
    job->attempts = event.number;
    job->startedAt = time;
    job->runningAt = Timestamp{};
    job->reservedOn.clear();
    job->promised = false;
    job->notBefore = Timestamp{};
    job->stop = model::StopReason::kNone;
    return {};
  }

  Outcome operator()(const model::AttemptStarted& event) {
    auto* attempt = state.tables_.attempts.edit(event.attempt);
    if (!attempt || !attempt->live)
      return refuse(fmt::format("attempt {} is not live", event.attempt.value));
    attempt->startedAt = time;
    auto* job = state.tables_.jobs.edit(attempt->job);
    job->runningAt = time;
    if (job->state == model::JobState::kStarting) job->state = model::JobState::kRunning;
    return {};
  }

  Outcome operator()(const model::StopRequested& event) {
    auto* job = state.tables_.jobs.edit(event.job);
    if (!job || model::isTerminal(job->state)) {
      return refuse(fmt::format("job {} has ended", event.job.value));
    }
    job->stop = event.reason;
    job->freedFor = event.beneficiary;
    auto* waits = state.tables_.jobs.edit(event.beneficiary);
    if (waits && waits->state == model::JobState::kQueued) waits->promised = true;
    if (!model::holdsCapacity(job->state)) return {};
    job->state = model::JobState::kStopping;
    if (auto* attempt = state.tables_.attempts.edit(job->attempt)) {
      attempt->stop = event.reason;
      attempt->stoppedFor = event.beneficiary;
    }
    return {};
  }

  Outcome operator()(const model::AttemptEnded& event) {
    auto* attempt = state.tables_.attempts.edit(event.attempt);
    if (!attempt || !attempt->live)
      return refuse(fmt::format("attempt {} is not live", event.attempt.value));
    auto* job = state.tables_.jobs.edit(attempt->job);
    for (const auto& rank : attempt->ranks) take(*job->shape, rank, event.attempt, -1);
    attempt->live = false;
    attempt->endedAt = time;
    attempt->outcome = event.outcome;
    attempt->exits = event.ranks;
    attempt->firstFailed = event.firstFailed;
    attempt->note = event.note;
    state.live_.erase(event.attempt);
    raise(state.tables_.lastSide, event.note.value);
    job->outcome = event.outcome;
    job->firstFailed = event.firstFailed;
    job->failure.reset();
    for (const auto& exit : event.ranks) {
      if (static_cast<std::int64_t>(exit.rank) == event.firstFailed) job->failure = exit;
    }
    learn(*job, *attempt);
    const auto held = (time - attempt->plannedAt) - (state.tables_.leaps - attempt->leapsBefore);
    for (const auto& rank : attempt->ranks)
      job->milliGpuMicros += milliGpus(rank).value * held.value;
    return {};
  }

  Outcome operator()(const model::JobRequeued& event) {
    auto* job = state.tables_.jobs.edit(event.job);
    if (!job || !model::holdsCapacity(job->state) || attemptIsLive(*job)) {
      return refuse(fmt::format("job {} cannot be queued again", event.job.value));
    }
    job->state = model::JobState::kQueued;
    job->freedFor = JobId();
    job->notBefore = event.notBefore;
    job->retries = event.retries;
    state.queued_.insert(keyOf(*job));
    return {};
  }

  Outcome operator()(const model::JobEnded& event) {
    auto* job = state.tables_.jobs.edit(event.job);
    if (!job || model::isTerminal(job->state) || !model::isTerminal(event.state) ||
        attemptIsLive(*job)) {
      return refuse(fmt::format("job {} cannot end", event.job.value));
    }
    state.queued_.erase(keyOf(*job));
    job->state = event.state;
    job->reservedOn.clear();
    job->promised = false;
    job->stop = event.reason;
    job->freedFor = JobId();
    job->endedAt = time;
    state.finished_.insert({time, event.job});
    job->waitsFor.clear();
    const auto dependents = std::exchange(job->dependents, {});
    for (const auto id : dependents) tellEnded(id, event);
    return {};
  }

  Outcome operator()(const model::CheckpointRecorded& event) {
    auto* attempt = state.tables_.attempts.edit(event.attempt);
    auto* job = attempt ? state.tables_.jobs.edit(attempt->job) : nullptr;
    if (!job) return refuse(fmt::format("attempt {} is unknown", event.attempt.value));
    attempt->checkpointEpoch = event.epoch;
    attempt->checkpointAt = time;
    ++job->checkpoints;
    job->checkpointEpoch = event.epoch;
    job->checkpointPath = event.path;
    raise(state.tables_.lastSide, event.path.value);
    return {};
  }

  Outcome operator()(const model::PolicySet& event) {
    if (auto sound = checkPolicy(event.policy); !sound) return refuse(sound.error().message());
    for (const auto& queue : event.policy.queues) raise(state.tables_.lastQueue, queue.id.value);
    reckonUse(time);  // another half-life counts from here on
    state.tables_.policy = std::make_shared<const model::Policy>(event.policy);
    return {};
  }

  Outcome operator()(const model::ReservationMade& event) {
    auto* job = state.tables_.jobs.edit(event.job);
    if (!job || job->state != model::JobState::kQueued)
      return refuse(fmt::format("job {} is not queued", event.job.value));
    job->reservedOn = event.nodes;
    return {};
  }

  Outcome operator()(const model::JobForgotten& event) {
    const auto* job = state.tables_.jobs.find(event.job);
    if (!job || !model::isTerminal(job->state)) {
      return refuse(fmt::format("job {} has not ended", event.job.value));
    }
    state.finished_.erase({job->endedAt, event.job});
    std::vector<AttemptId> attempts;
    // Attempts of a job lie close together; there are few, and their ids stand in no other place.
    for (auto id = job->attempt; id.isSet();) {
      const auto* attempt = state.tables_.attempts.find(id);
      if (attempt && attempt->job == event.job) attempts.push_back(id);
      if (attempts.size() >= job->attempts) break;
      id.value -= 1;
    }
    for (const auto id : attempts) state.tables_.attempts.erase(id);
    state.tables_.jobs.erase(event.job);
    return {};
  }

 private:
  // What the probe saw, with what operators say of it.
  static void show(model::NodeRecord& record, const model::Node& probed) {
    auto node = probed;
    for (const auto& mark : record.marks) {
      if (mark.gpu < 0)
        node.health = std::max(node.health, mark.health);
      else if (static_cast<std::size_t>(mark.gpu) < node.gpus.size())
        node.gpus[static_cast<std::size_t>(mark.gpu)].health =
            std::max(node.gpus[static_cast<std::size_t>(mark.gpu)].health, mark.health);
    }
    for (const auto& [name, value] : record.labels) {
      std::erase_if(node.labels, [&, key = name](const auto& label) { return label.first == key; });
      node.labels.emplace_back(name, value);
    }
    auto seen = node == probed ? std::nullopt : std::optional<model::Node>(probed);
    record.node = std::make_shared<const model::Node>(std::move(node));
    record.probed = std::move(seen);
  }

  static bool satisfies(model::DependencyKind kind, model::JobState end) {
    return kind == model::DependencyKind::kAny ||
           (kind == model::DependencyKind::kOk) == (end == model::JobState::kSucceeded);
  }

  // Nothing more to wait for where the other has ended already.
  void waitFor(model::JobRecord& job, const model::Dependency& dependency) {
    auto* other = state.tables_.jobs.edit(dependency.job);
    if (!model::isTerminal(other->state)) {
      job.waitsFor.push_back(dependency);
      other->dependents.push_back(job.id);
    } else if (!satisfies(dependency.kind, other->state)) {
      job.brokenBy = dependency.job;
    }
  }

  // Waiting counts from when the last of them has ended.
  void tellEnded(JobId id, const model::JobEnded& event) {
    auto* job = state.tables_.jobs.edit(id);
    if (!job || job->state != model::JobState::kQueued) return;
    for (const auto& dependency : job->waitsFor) {
      if (dependency.job == event.job && !satisfies(dependency.kind, event.state))
        job->brokenBy = event.job;
    }
    std::erase_if(job->waitsFor, [&](const auto& other) { return other.job == event.job; });
    if (!job->waitsFor.empty()) return;
    state.queued_.erase(keyOf(*job));
    job->queuedAt = std::max(time, job->notBefore);
    state.queued_.insert(keyOf(*job));
  }

  static void raise(std::uint64_t& highest, std::uint64_t id) { highest = std::max(highest, id); }

  // Only of attempts that came to an end of their own.
  void learn(const model::JobRecord& job, const model::AttemptRecord& attempt) const {
    const bool own = attempt.outcome == model::AttemptOutcome::kCompleted ||
                     attempt.outcome == model::AttemptOutcome::kFailed;
    if (!own || !job.user.isSet() || attempt.startedAt.micros == 0) return;
    auto& runTimes = state.tables_.runTimes;
    if (!runTimes.find(job.user)) runTimes.put(job.user, {job.user, {}});
    const auto leapt = state.tables_.leaps - attempt.leapsBefore;
    const auto ran = std::max(time - attempt.startedAt - leapt, Duration(0));
    model::noteRunTime(*runTimes.edit(job.user), model::sizeOf(*job.shape), ran);
  }

  // All means as they were at `until`, and from now on.
  void reckonUse(Timestamp until) const {
    std::vector<model::QueueUse> uses;
    state.tables_.queueUse.forEach([&](QueueId, const model::QueueUse& use) {
      uses.push_back(model::useAt(use, until, state.tables_.policy->halfLife));
      uses.back().at = time;
      return true;
    });
    for (const auto& use : uses) state.tables_.queueUse.put(use.id, use);
  }

  static std::size_t highestHeld(const model::NodeRecord& node) {
    std::size_t held = 0;
    for (std::size_t i = 0; i < node.gpuUsed.size(); ++i) {
      if (node.gpuUsed[i].value > 0) held = i + 1;
    }
    return held;
  }

  bool attemptIsLive(const model::JobRecord& job) const {
    const auto* attempt = state.tables_.attempts.find(job.attempt);
    return attempt && attempt->live;
  }

  // Every rank once, on a present node, on GPUs that are there, each GPU once, and nothing above
  // what is free.
  Outcome checkPlacement(const model::JobShape& shape,
                         const std::vector<model::RankPlacement>& ranks) const {
    if (ranks.size() < shape.minAvailable)
      return refuse("a gang with fewer ranks than its minimum");
    std::set<std::tuple<std::uint32_t, std::uint32_t>> replicas;
    Given given;
    for (const auto& rank : ranks) {
      if (rank.task >= shape.tasks.size() || rank.replica >= shape.tasks[rank.task].replicas) {
        return refuse("a rank of no task");
      }
      const auto& task = shape.tasks[rank.task];
      if (!replicas.insert({rank.task, rank.replica}).second) return refuse("a rank placed twice");
      const auto* node = state.tables_.nodes.find(rank.node);
      if (!node || !node->present) return refuse("a rank on a node that is not there");
      if (rank.gpus.size() != task.gpus.count)
        return refuse("a rank with another number of GPUs than asked for");
      for (const auto gpu : rank.gpus) {
        if (gpu >= node->node->gpus.size()) return refuse("a rank on a GPU that is not there");
      }
      BOLE_TRY(checkGrants(task.gpus, rank, *node, given));
    }
    return {};
  }

  // What this attempt has been given so far of each GPU.
  using Given = std::map<std::tuple<NodeId, std::uint32_t>, model::GpuGrant>;

  Outcome checkGrants(const model::GpuRequest& request, const model::RankPlacement& rank,
                      const model::NodeRecord& node, Given& given) const {
    if (!rank.grants.empty() && rank.grants.size() != rank.gpus.size())
      return refuse("a rank with another number of grants than GPUs");
    for (std::size_t i = 0; i < rank.gpus.size(); ++i) {
      const auto gpu = rank.gpus[i];
      const auto grant = rank.grant(i);
      if (grant.share.value < 1 || grant.share > kWholeGpu || grant.memory.value < 0)
        return refuse("a grant that is no part of a GPU");
      if (grant.share < request.share || grant.memory < request.shareMemory.value_or(Bytes(0)))
        return refuse("a rank with less of a GPU than asked for");
      auto& before =
          given.try_emplace({rank.node, gpu}, model::GpuGrant{MilliGpu(0), {}}).first->second;
      before.share += grant.share;
      before.memory += grant.memory;
      if (node.gpuUsed[gpu] + before.share > kWholeGpu ||
          node.gpuMemoryUsed[gpu] + before.memory > node.node->gpus[gpu].memory) {
        return refuse(fmt::format("GPU {} of node {} is held already", gpu, node.node->name));
      }
      for (std::size_t j = 0; j < i; ++j)
        if (rank.gpus[j] == gpu) return refuse("a GPU given twice to one rank");
    }
    return {};
  }

  void take(const model::JobShape& shape, const model::RankPlacement& rank, AttemptId attempt,
            int sign) {
    const auto& task = shape.tasks[rank.task];
    auto* node = state.tables_.nodes.edit(rank.node);
    for (std::size_t i = 0; i < rank.gpus.size(); ++i) {
      const auto gpu = rank.gpus[i];
      const auto grant = rank.grant(i);
      node->gpuUsed[gpu] += grant.share * sign;
      node->gpuMemoryUsed[gpu] += grant.memory * sign;
      node->gpuHolder[gpu] = sign > 0 && grant == model::GpuGrant() ? attempt : AttemptId();
    }
    node->cpusUsed += task.cpus * sign;
    node->memoryUsed += task.memory * sign;
    reckonQueue(shape.queue);
    holdInQueue(state.tables_, shape, rank, sign);
  }

  void reckonQueue(QueueId queue) const {
    const auto* known = state.tables_.queueUse.find(queue);
    state.tables_.queueUse.put(queue,
                               known ? model::useAt(*known, time, state.tables_.policy->halfLife)
                                     : model::QueueUse{queue, time});
  }
};

State::State(model::Tables tables) : tables_(std::move(tables)) {
  tables_.jobs.forEach([&](JobId id, const model::JobRecord& job) {
    if (job.state == model::JobState::kQueued) queued_.insert(keyOf(job));
    if (model::isTerminal(job.state)) finished_.insert({job.endedAt, id});
    return true;
  });
  tables_.attempts.forEach([&](AttemptId id, const model::AttemptRecord& attempt) {
    if (attempt.live) live_.insert(id);
    return true;
  });
  if (tables_.queueUse.size() == 0) countUse();
}

// A snapshot of before use was counted knows only who holds what now.
void State::countUse() {
  for (const auto id : live_) {
    const auto& attempt = *tables_.attempts.find(id);
    const auto& shape = *tables_.jobs.find(attempt.job)->shape;
    for (const auto& rank : attempt.ranks) holdInQueue(tables_, shape, rank, 1);
  }
}

Result<void> State::apply(const model::Event& event, std::uint64_t sequence, Timestamp time) {
  if (sequence != tables_.sequence + 1) {
    return fail(
        misfit(fmt::format("out of order: the last one was {}", tables_.sequence), sequence));
  }
  if (time < tables_.time) return fail(misfit("ledger time went back", sequence));
  BOLE_TRY(std::visit(Folder{*this, sequence, time}, event));
  tables_.sequence = sequence;
  tables_.time = time;
  return {};
}

}  // namespace bole::state
