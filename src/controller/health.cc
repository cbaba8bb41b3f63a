// What operators say of nodes and GPUs.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "controller/batch.h"

namespace bole::controller {
namespace {

constexpr std::size_t kMostLabels = 64;
constexpr std::size_t kLongestLabel = 253;

const Caller kServer{"", "server", ""};

bool isLabel(const std::string& text) {
  return !text.empty() && text.size() <= kLongestLabel &&
         std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return c > 0x20 && c != 0x7F && c != '='; });
}

}  // namespace

const model::NodeRecord* Controller::nodeNamed(const std::string& name) const {
  const model::NodeRecord* found = nullptr;
  state_.tables().nodes.forEach([&](NodeId, const model::NodeRecord& record) {
    if (record.node->name == name && (!found || record.present)) found = &record;
    return true;
  });
  return found;
}

void Controller::handle(Batch& batch, const SetHealth& message) {
  auto done = setHealth(batch, message);
  if (!message.reply) return;
  batch.outcomes.push_back([reply = message.reply, done = std::move(done)](const Error* failed) {
    reply(failed ? Result<void>(fail(*failed)) : done);
  });
}

Result<void> Controller::setHealth(Batch& batch, const SetHealth& message) {
  const auto* node = nodeNamed(message.node);
  if (!node) {
    return fail(makeError(ErrorCode::kNotFound, "no such node")
                    .foundValue(message.node)
                    .withHint("`bole nodes` lists them"));
  }
  const auto gpus = node->node->gpus.size();
  if (message.gpu < -1 || message.gpu >= static_cast<std::int64_t>(gpus)) {
    return fail(makeError(ErrorCode::kNotFound, "the node has no such GPU")
                    .at(message.node)
                    .foundValue(std::to_string(message.gpu))
                    .expectedValue(gpus == 0 ? "no GPU" : fmt::format("0 to {}", gpus - 1)));
  }
  BOLE_TRY(userNamed(batch, message.caller.user));
  const auto id = node->id;
  std::vector<ports::SideValue> side;
  model::HealthSet event{id, message.gpu, message.health, Timestamp(), SideId()};
  if (message.lasts.value > 0) event.until = batch.now + message.lasts;
  if (!message.why.empty()) {
    event.why = addSide(side, message.why);
    names_.put(event.why, std::make_shared<const std::string>(message.why));
  }
  BOLE_TRY(emit(batch, event, message.caller, ProjectId(), std::move(side)));
  wholeQueue_ = true;
  noteHealth();
  if (message.health == model::GpuHealth::kDown) stopWhatRunsOn(batch, id, message.gpu);
  return {};
}

// They are not to blame: each is queued again at its old place.
void Controller::stopWhatRunsOn(Batch& batch, NodeId node, std::int32_t gpu) {
  const auto uses = [&](const model::RankPlacement& rank) {
    if (rank.node != node) return false;
    return gpu < 0 || std::find(rank.gpus.begin(), rank.gpus.end(),
                                static_cast<std::uint32_t>(gpu)) != rank.gpus.end();
  };
  const auto live = state_.liveAttempts();
  for (const auto id : live) {
    const auto& attempt = *state_.tables().attempts.find(id);
    const auto& job = *state_.tables().jobs.find(attempt.job);
    if (job.state == model::JobState::kStopping ||
        std::none_of(attempt.ranks.begin(), attempt.ranks.end(), uses))
      continue;
    const auto grace = job.shape->grace;
    if (!emit(batch, model::StopRequested{job.id, model::StopReason::kNodeDown, grace, JobId()},
              kServer, job.project))
      continue;
    batch.effects.push_back([id, grace](ports::Engine& engine) {
      engine.stop(id, model::StopReason::kNodeDown, grace);
    });
  }
}

void Controller::handle(Batch& batch, const SetLabels& message) {
  auto done = setLabels(batch, message);
  if (!message.reply) return;
  batch.outcomes.push_back([reply = message.reply, done = std::move(done)](const Error* failed) {
    reply(failed ? Result<void>(fail(*failed)) : done);
  });
}

Result<void> Controller::setLabels(Batch& batch, const SetLabels& message) {
  const auto* node = nodeNamed(message.node);
  if (!node) {
    return fail(makeError(ErrorCode::kNotFound, "no such node")
                    .foundValue(message.node)
                    .withHint("`bole nodes` lists them"));
  }
  std::map<std::string, std::string> labels(node->labels.begin(), node->labels.end());
  for (const auto& [name, value] : message.set) {
    if (!isLabel(name) || !isLabel(value)) {
      return fail(makeError(ErrorCode::kInvalid, "not a label")
                      .foundValue(name + "=" + value)
                      .expectedValue("name=value, each 1 to 253 bytes without spaces"));
    }
    labels[name] = value;
  }
  for (const auto& name : message.remove) {
    if (labels.erase(name) > 0) continue;
    return fail(makeError(ErrorCode::kNotFound, "the node was not given this label")
                    .at(message.node)
                    .foundValue(name));
  }
  if (labels.size() > kMostLabels) {
    return fail(makeError(ErrorCode::kInvalid, "too many labels on one node")
                    .foundValue(std::to_string(labels.size()))
                    .expectedValue(fmt::format("at most {}", kMostLabels)));
  }
  BOLE_TRY(userNamed(batch, message.caller.user));
  wholeQueue_ = true;
  return emit(batch, model::NodeLabelled{node->id, {labels.begin(), labels.end()}}, message.caller,
              ProjectId());
}

// Who was to be out for a while only is healthy again.
void Controller::admitAgain(Batch& batch) {
  std::vector<std::pair<NodeId, std::int32_t>> due;
  state_.tables().nodes.forEach([&](NodeId id, const model::NodeRecord& record) {
    for (const auto& mark : record.marks)
      if (mark.until.micros != 0 && mark.until <= batch.now) due.emplace_back(id, mark.gpu);
    return true;
  });
  for (const auto& [node, gpu] : due) {
    static_cast<void>(
        emit(batch, model::HealthSet{node, gpu, model::GpuHealth::kHealthy, Timestamp(), SideId()},
             kServer, ProjectId()));
    wholeQueue_ = true;
  }
  noteHealth();
}

void Controller::noteHealth() {
  nextHealthy_ = Timestamp();
  state_.tables().nodes.forEach([&](NodeId, const model::NodeRecord& record) {
    for (const auto& mark : record.marks) {
      if (mark.until.micros == 0) continue;
      if (nextHealthy_.micros == 0 || mark.until < nextHealthy_) nextHealthy_ = mark.until;
    }
    return true;
  });
}

}  // namespace bole::controller
