// What people ask for: new jobs and stops.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "codec/codec.h"
#include "controller/batch.h"

namespace bole::controller {
namespace {

constexpr std::size_t kMaxTextBytes = 1024 * 1024;

std::string requestKey(const Caller& caller) {
  return caller.user + '\n' + caller.requestId;
}

Error noSuchJob(JobId job) {
  return makeError(ErrorCode::kNotFound, "no such job")
      .foundValue(std::to_string(job.value))
      .withHint("`bole ps --all` lists the jobs");
}

const char* stateName(model::JobState state) {
  switch (state) {
    case model::JobState::kSucceeded:
      return "SUCCEEDED";
    case model::JobState::kFailed:
      return "FAILED";
    case model::JobState::kCancelled:
      return "CANCELLED";
    default:
      return "live";
  }
}

}  // namespace

void Controller::handle(Batch& batch, const SubmitJobs& message) {
  auto answer = submit(batch, message);
  if (!message.reply) return;
  batch.outcomes.push_back(
      [reply = message.reply, answer = std::move(answer)](const Error* failed) {
        reply(failed ? Result<model::SubmitAnswer>(fail(*failed)) : answer);
      });
}

Result<model::SubmitAnswer> Controller::submit(Batch& batch, const SubmitJobs& message) {
  model::SubmitAnswer answer;
  const bool named = !message.caller.requestId.empty() && !message.dryRun;
  if (named) {
    if (const auto seen = requests_.find(requestKey(message.caller)); seen != requests_.end()) {
      for (const auto id : seen->second) {
        const auto* job = state_.tables().jobs.find(id);
        const auto* text = job ? texts_.find(job->text) : nullptr;
        const auto count = job && job->shape->array ? job->shape->array->count : 1;
        answer.jobs.push_back({id, text ? (*text)->name : "", {}, true, count});
      }
      return answer;
    }
  }
  if (message.jobs.empty()) return fail(ErrorCode::kInvalid, "there is no job in this");
  std::size_t coming = 0;
  for (const auto& job : message.jobs) coming += std::max<std::size_t>(job.array.size(), 1);
  if (state_.tables().jobs.size() - state_.finished().size() + coming > options_.maxLiveJobs) {
    return fail(makeError(ErrorCode::kUnavailable, "too many jobs wait already")
                    .foundValue(std::to_string(state_.queued().size()))
                    .expectedValue(fmt::format("at most {}", options_.maxLiveJobs))
                    .withHint("wait until some have run"));
  }
  std::vector<QueueId> queues;
  std::vector<std::shared_ptr<const model::JobShape>> shapes;
  for (const auto& job : message.jobs) {
    BOLE_ASSIGN(const auto queue, queueNamed(job.text.queue));
    auto shape = job.shape;
    shape.queue = queue;
    BOLE_TRY(planner_.canEverRun(state_.tables(), shape));
    queues.push_back(queue);
    if (message.dryRun) shapes.push_back(std::make_shared<const model::JobShape>(shape));
  }
  if (message.dryRun) {
    for (std::size_t i = 0; i < message.jobs.size(); ++i) {
      BOLE_ASSIGN(auto after, dependenciesOf(message, i, answer));
      if (!after.empty()) {
        auto shape = *shapes[i];
        shape.after = std::move(after);
        shapes[i] = std::make_shared<const model::JobShape>(std::move(shape));
      }
      answer.jobs.push_back(
          {JobId(),
           message.jobs[i].text.name,
           i < message.warnings.size() ? message.warnings[i] : std::vector<std::string>(),
           false,
           static_cast<std::uint32_t>(std::max<std::size_t>(message.jobs[i].array.size(), 1)),
           {},
           shapes[i]});
    }
    return answer;
  }
  BOLE_ASSIGN(const auto project, projectNamed(batch, message.project, message.caller));
  BOLE_ASSIGN(const auto user, userNamed(batch, message.caller.user));
  for (std::size_t i = 0; i < message.jobs.size(); ++i) {
    BOLE_TRY(submitOne(batch, message, i, project, user, queues[i], answer));
  }
  if (named) {
    auto& ids = requests_[requestKey(message.caller)];
    for (const auto& job : answer.jobs) ids.push_back(job.id);
    batch.newRequests.push_back(requestKey(message.caller));
  }
  return answer;
}

Result<void> Controller::submitOne(Batch& batch, const SubmitJobs& message, std::size_t index,
                                   ProjectId project, UserId user, QueueId queue,
                                   model::SubmitAnswer& answer) {
  const auto& spec = message.jobs[index];
  BOLE_ASSIGN(auto after, dependenciesOf(message, index, answer));
  auto text = std::make_shared<model::JobText>(spec.text);
  text->user = message.caller.user;
  text->requestId = message.caller.requestId;
  auto json = codec::toJson(*text);
  if (json.size() > kMaxTextBytes) {
    return fail(
        makeError(ErrorCode::kInvalid, "the job's names, commands and environment are too large")
            .foundValue(formatBytes(Bytes(static_cast<std::int64_t>(json.size()))))
            .expectedValue("at most 1 MiB")
            .withHint("put large values into files and submit those along"));
  }
  const JobId first(std::max(state_.tables().lastJob, inUse_.job.value) + 1);
  const auto count = static_cast<std::uint32_t>(std::max<std::size_t>(spec.array.size(), 1));
  model::JobSubmitted event;
  event.project = project;
  event.user = user;
  event.shape = spec.shape;
  event.shape.queue = queue;
  event.shape.after = std::move(after);
  std::vector<ports::SideValue> side;
  event.text = addSide(side, std::move(json));
  texts_.put(event.text, text);
  for (std::uint32_t element = 0; element < count; ++element) {
    event.job = JobId(first.value + element);
    if (!spec.array.empty())
      event.shape.array = model::ArrayPlace{first, count, spec.array[element], spec.arrayMost};
    // All elements have one text.
    BOLE_TRY(emit(batch, event, message.caller, project, std::exchange(side, {})));
    batch.newJobs.push_back(event.job);
  }
  answer.jobs.push_back(
      {first, text->name,
       index < message.warnings.size() ? message.warnings[index] : std::vector<std::string>(),
       false, count});
  return {};
}

Result<ProjectId> Controller::projectNamed(Batch& batch, const std::string& name,
                                           const Caller& caller) {
  if (const auto known = projectIds_.find(name); known != projectIds_.end()) return known->second;
  const ProjectId id(state_.tables().lastProject + 1);
  std::vector<ports::SideValue> side;
  const auto nameId = addSide(side, name);
  names_.put(nameId, std::make_shared<const std::string>(name));
  BOLE_TRY(emit(batch, model::ProjectCreated{id, nameId}, caller, id, std::move(side)));
  projectIds_[name] = id;
  batch.newProjects.push_back(name);
  return id;
}

Result<UserId> Controller::userNamed(Batch& batch, const std::string& name) {
  if (name.empty()) return UserId();
  if (const auto known = userIds_.find(name); known != userIds_.end()) return known->second;
  const UserId id(state_.tables().lastUser + 1);
  std::vector<ports::SideValue> side;
  const auto nameId = addSide(side, name);
  names_.put(nameId, std::make_shared<const std::string>(name));
  BOLE_TRY(emit(batch, model::UserSeen{id, nameId}, Caller{"", "server", ""}, ProjectId(),
                std::move(side)));
  userIds_[name] = id;
  batch.newUsers.push_back(name);
  return id;
}

void Controller::handle(Batch& batch, const StopJob& message) {
  auto done = stopOne(batch, message);
  if (!message.reply) return;
  batch.outcomes.push_back([reply = message.reply, done = std::move(done)](const Error* failed) {
    reply(failed ? Result<void>(fail(*failed)) : done);
  });
}

// Those that have ended are passed over; at least one has not.
Result<void> Controller::stopArray(Batch& batch, const StopJob& message,
                                   const model::ArrayPlace& array) {
  bool any = false;
  for (std::uint32_t i = 0; i < array.count; ++i) {
    auto element = message;
    element.job = JobId(array.first.value + i);
    element.wholeArray = false;
    const auto* job = state_.tables().jobs.find(element.job);
    if (!job || model::isTerminal(job->state)) continue;
    BOLE_TRY(stopOne(batch, element));
    any = true;
  }
  if (any) return {};
  return fail(makeError(ErrorCode::kConflict, "all elements of the array have ended already")
                  .foundValue(fmt::format("job {}", array.first.value)));
}

Result<void> Controller::stopOne(Batch& batch, const StopJob& message) {
  const auto* job = state_.tables().jobs.find(message.job);
  if (!job) return fail(noSuchJob(message.job));
  if (message.wholeArray && job->shape->array)
    return stopArray(batch, message, model::ArrayPlace(*job->shape->array));
  if (model::isTerminal(job->state)) {
    return fail(
        makeError(ErrorCode::kConflict, fmt::format("job {} has ended already", job->id.value))
            .foundValue(stateName(job->state)));
  }
  const auto grace = message.grace.value < 0 ? job->shape->grace : message.grace;
  const auto attempt = job->attempt;
  const auto project = job->project;
  if (job->state == model::JobState::kQueued) {
    BOLE_TRY(emit(batch, model::StopRequested{message.job, message.reason, grace, JobId()},
                  message.caller, project));
    waiting_.erase(message.job);
    if (keeps_) wholeQueue_ = true;  // it may be what capacity was kept for
    return emit(batch, model::JobEnded{message.job, model::JobState::kCancelled, message.reason},
                message.caller, project);
  }
  // A person's stop outlives any other reason; the same one again only hurries the engine.
  if (job->state != model::JobState::kStopping || job->stop != message.reason) {
    BOLE_TRY(emit(batch, model::StopRequested{message.job, message.reason, grace, JobId()},
                  message.caller, project));
  }
  batch.effects.push_back([attempt, reason = message.reason, grace](ports::Engine& engine) {
    engine.stop(attempt, reason, grace);
  });
  return {};
}

Result<QueueId> Controller::queueNamed(const std::string& name) const {
  const auto& policy = *state_.tables().policy;
  const auto* queue = policy.find(name);
  if (queue && !policy.isParent(queue->id)) return queue->id;
  std::string known;
  for (const auto& other : policy.queues) {
    if (policy.isParent(other.id) || (queue && other.parent != queue->id)) continue;
    known += (known.empty() ? "" : ", ") + other.name;
  }
  return fail(makeError(queue ? ErrorCode::kInvalid : ErrorCode::kNotFound,
                        queue ? "jobs wait in the queues below this one" : "no such queue")
                  .at("queue")
                  .foundValue(name)
                  .expectedValue("one of " + known)
                  .withHint("`bole queues` lists them"));
}

void Controller::handle(Batch& batch, const SetPolicy& message) {
  auto done = setPolicy(batch, message);
  if (!message.reply) return;
  batch.outcomes.push_back([reply = message.reply, done = std::move(done)](const Error* failed) {
    reply(failed ? Result<void>(fail(*failed)) : done);
  });
}

Result<void> Controller::setPolicy(Batch& batch, const SetPolicy& message) {
  BOLE_TRY(state::checkPolicy(message.policy));
  const auto& old = *state_.tables().policy;
  auto policy = message.policy;
  std::unordered_map<std::uint64_t, QueueId> numbers;
  auto last = state_.tables().lastQueue;
  for (auto& queue : policy.queues) {
    const auto* known = old.find(queue.name);
    const auto number = known ? known->id : QueueId(++last);
    numbers[queue.id.value] = number;
    queue.id = number;
    if (queue.parent.isSet()) queue.parent = numbers[queue.parent.value];
  }
  for (auto& booking : policy.bookings) {
    if (const auto known = numbers.find(booking.queue.value); known != numbers.end())
      booking.queue = known->second;
  }
  if (policy == old) return {};
  Result<void> missed;
  state_.tables().jobs.forEach([&](JobId id, const model::JobRecord& job) {
    if (model::isTerminal(job.state)) return true;
    const auto* queue = policy.find(job.shape->queue);
    if (queue && !policy.isParent(queue->id)) return true;
    const auto* before = old.find(job.shape->queue);
    missed = fail(
        makeError(ErrorCode::kConflict, queue ? "a queue with jobs in it cannot get queues below it"
                                              : "a queue with jobs in it cannot be removed")
            .at("queue " + (before ? before->name : std::string("?")))
            .foundValue(fmt::format("job {}", id.value))
            .withHint("give it a limit of 0 GPUs, and remove it when its jobs have ended"));
    return false;
  });
  BOLE_TRY(missed);
  if (message.dryRun) return {};
  wholeQueue_ = true;
  BOLE_TRY(userNamed(batch, message.caller.user));
  return emit(batch, model::PolicySet{std::move(policy)}, message.caller, ProjectId());
}

void Controller::handle(Batch& batch, const NodesProbed& message) {
  takeInventory(batch, message.nodes);
}

void Controller::handle(Batch& batch, const Tick&) {
  if (nextHealthy_.micros != 0 && nextHealthy_ <= batch.now) admitAgain(batch);
  if (nextLook_.micros != 0 && nextLook_ <= batch.now) wholeQueue_ = true;
}

}  // namespace bole::controller
