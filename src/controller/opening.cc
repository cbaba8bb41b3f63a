// From the ledger to a state: the newest snapshot, the tail behind it, and the texts that readers
// want to see.
#include <fmt/format.h>

#include "codec/codec.h"
#include "controller/controller.h"

namespace bole::controller {

Result<std::unique_ptr<Controller>> Controller::open(ControllerOptions options,
                                                     ports::Ledger& ledger, ports::Engine& engine,
                                                     Clock& clock) {
  std::unique_ptr<Controller> controller(new Controller(std::move(options), ledger, engine, clock));
  BOLE_TRY(controller->replay());
  controller->inUse_ = engine.numbersInUse();
  auto& seen = controller->seen_;
  seen = {clock.wall(), clock.monotonic(), clock.boottime(), Timestamp()};
  seen.ledger = std::max(seen.wall, controller->state_.tables().time);
  controller->loadTexts();
  controller->noteHealth();
  controller->publish();
  return controller;
}

Controller::Controller(ControllerOptions options, ports::Ledger& ledger, ports::Engine& engine,
                       Clock& clock)
    : options_(std::move(options)), ledger_(ledger), engine_(engine), clock_(clock) {}

Result<void> Controller::replay() {
  BOLE_ASSIGN(auto snapshot, ledger_.newestSnapshot());
  if (snapshot) {
    BOLE_ASSIGN(auto tables, codec::decodeTables(snapshot->state));
    if (tables.sequence != snapshot->sequence) {
      return fail(makeError(ErrorCode::kCorrupt, "a snapshot is not of the event it stands at")
                      .at(fmt::format("event {}", snapshot->sequence))
                      .foundValue(fmt::format("event {}", tables.sequence)));
    }
    state_ = state::State(std::move(tables));
    sealedAt_ = snapshot->sequence;
  }
  return ledger_.read(
      state_.tables().sequence + 1, [this](const ports::StoredEvent& stored) -> Result<void> {
        const auto& envelope = stored.envelope;
        const auto place = fmt::format("event {} ({})", envelope.sequence, envelope.kind);
        const auto event = codec::decodeEvent(envelope.kind, envelope.version, stored.body);
        if (!event) return fail(Error(event.error()).at(place));
        auto folded = state_.apply(*event, envelope.sequence, envelope.time);
        if (folded) return {};
        return fail(
            makeError(ErrorCode::kCorrupt,
                      "the ledger tells of something that cannot be: " + folded.error().message())
                .at(place)
                .withHint("run `bole fsck`; restore a backup if it finds damage"));
      });
}

void Controller::loadTexts() {
  const auto& tables = state_.tables();
  tables.projects.forEach([&](ProjectId id, SideId name) {
    loadName(name);
    if (const auto* text = names_.find(name)) projectIds_[**text] = id;
    return true;
  });
  tables.users.forEach([&](UserId id, SideId name) {
    loadName(name);
    if (const auto* text = names_.find(name)) userIds_[**text] = id;
    return true;
  });
  tables.attempts.forEach([&](AttemptId, const model::AttemptRecord& attempt) {
    loadName(attempt.note);
    return true;
  });
  tables.jobs.forEach([&](JobId id, const model::JobRecord& job) {
    loadName(job.checkpointPath);
    if (texts_.find(job.text)) return true;  // of an array: the first element brought it
    auto value = ledger_.side(job.text);
    if (!value) return true;  // erased: the job stands without its text
    auto text = codec::fromJson<model::JobText>(*value, fmt::format("text of job {}", id.value));
    if (!text) return true;
    if (!text->requestId.empty()) requests_[text->user + '\n' + text->requestId].push_back(id);
    texts_.put(job.text, std::make_shared<const model::JobText>(std::move(*text)));
    return true;
  });
}

void Controller::loadName(SideId id) {
  if (!id.isSet()) return;
  if (auto value = ledger_.side(id)) {
    names_.put(id, std::make_shared<const std::string>(std::move(*value)));
  }
}

}  // namespace bole::controller
