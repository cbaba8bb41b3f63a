// What people ask for: new jobs and stops.
#include <fmt/format.h>

#include <algorithm>

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
        answer.jobs.push_back({id, text ? (*text)->name : "", {}, true});
      }
      return answer;
    }
  }
  if (message.jobs.empty()) return fail(ErrorCode::kInvalid, "there is no job in this");
  if (state_.tables().jobs.size() - state_.finished().size() + message.jobs.size() >
      options_.maxLiveJobs) {
    return fail(makeError(ErrorCode::kUnavailable, "too many jobs wait already")
                    .foundValue(std::to_string(state_.queued().size()))
                    .expectedValue(fmt::format("at most {}", options_.maxLiveJobs))
                    .withHint("wait until some have run"));
  }
  std::vector<QueueId> queues;
  for (const auto& job : message.jobs) {
    BOLE_ASSIGN(const auto queue, queueNamed(job.text.queue));
    auto shape = job.shape;
    shape.queue = queue;
    BOLE_TRY(planner_.canEverRun(state_.tables(), shape));
    queues.push_back(queue);
  }
  if (message.dryRun) {
    for (std::size_t i = 0; i < message.jobs.size(); ++i) {
      answer.jobs.push_back(
          {JobId(), message.jobs[i].text.name,
           i < message.warnings.size() ? message.warnings[i] : std::vector<std::string>(), false});
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
  auto text = std::make_shared<model::JobText>(message.jobs[index].text);
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
  model::JobSubmitted event;
  event.job = JobId(std::max(state_.tables().lastJob, inUse_.job.value) + 1);
  event.project = project;
  event.user = user;
  event.shape = message.jobs[index].shape;
  event.shape.queue = queue;
  std::vector<ports::SideValue> side;
  event.text = addSide(side, std::move(json));
  texts_.put(event.text, text);
  const auto id = event.job;
  BOLE_TRY(emit(batch, std::move(event), message.caller, project, std::move(side)));
  batch.newJobs.push_back(id);
  answer.jobs.push_back(
      {id, text->name,
       index < message.warnings.size() ? message.warnings[index] : std::vector<std::string>(),
       false});
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

Result<void> Controller::stopOne(Batch& batch, const StopJob& message) {
  const auto* job = state_.tables().jobs.find(message.job);
  if (!job) return fail(noSuchJob(message.job));
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
  if (nextLook_.micros != 0 && nextLook_ <= batch.now) wholeQueue_ = true;
}

}  // namespace bole::controller
