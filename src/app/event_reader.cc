#include "app/event_reader.h"

#include <fmt/format.h>

#include "codec/codec.h"

namespace bole::app {
namespace {

const char* nameOf(model::AttemptOutcome outcome) {
  switch (outcome) {
    case model::AttemptOutcome::kCompleted:
      return "completed";
    case model::AttemptOutcome::kFailed:
      return "failed";
    case model::AttemptOutcome::kStopped:
      return "stopped";
    case model::AttemptOutcome::kTimeLimit:
      return "reached its time limit";
    case model::AttemptOutcome::kLaunchFailed:
      return "could not be started";
    case model::AttemptOutcome::kRankLost:
      return "lost a rank";
    case model::AttemptOutcome::kSupervisorLost:
      return "lost its supervisor";
  }
  return "";
}

const char* nameOf(model::StopReason reason) {
  switch (reason) {
    case model::StopReason::kNone:
      return "no reason";
    case model::StopReason::kCancelled:
      return "cancelled";
    case model::StopReason::kTimeLimit:
      return "time limit";
    case model::StopReason::kPreempted:
      return "preempted";
    case model::StopReason::kRankFailed:
      return "a rank failed";
    case model::StopReason::kServerDown:
      return "bole down --stop-jobs";
    case model::StopReason::kDependency:
      return "what it waited for can never come";
    case model::StopReason::kNodeDown:
      return "what it ran on was declared dead";
  }
  return "";
}

const char* nameOf(model::JobState state) {
  switch (state) {
    case model::JobState::kQueued:
      return "QUEUED";
    case model::JobState::kStarting:
      return "STARTING";
    case model::JobState::kRunning:
      return "RUNNING";
    case model::JobState::kStopping:
      return "STOPPING";
    case model::JobState::kSucceeded:
      return "SUCCEEDED";
    case model::JobState::kFailed:
      return "FAILED";
    case model::JobState::kCancelled:
      return "CANCELLED";
  }
  return "";
}

struct Summary {
  std::string operator()(const model::ServerStarted& e) const {
    return fmt::format("bole {} started", e.version);
  }
  std::string operator()(const model::ClockAdjusted& e) const {
    return fmt::format("the machine's clock moved by {}{}{}", e.jump.value < 0 ? "-" : "",
                       formatDuration(e.jump.value < 0 ? e.jump * -1 : e.jump),
                       e.suspended.value > 0 ? ", asleep " + formatDuration(e.suspended) : "");
  }
  std::string operator()(const model::ProjectCreated& e) const {
    return fmt::format("project {} created", e.project.value);
  }
  std::string operator()(const model::UserSeen& e) const {
    return fmt::format("user {} seen for the first time", e.user.value);
  }
  std::string operator()(const model::NodeRegistered& e) const {
    return fmt::format("node {} with {} GPUs{}", e.node.name, e.node.gpus.size(),
                       e.node.emulated ? " (emulated)" : "");
  }
  std::string operator()(const model::NodeLost& e) const {
    return fmt::format("node {} is not there any more", e.id.value);
  }
  std::string operator()(const model::HealthSet& e) const {
    auto what = e.gpu < 0 ? fmt::format("node {}", e.node.value)
                          : fmt::format("GPU {} of node {}", e.gpu, e.node.value);
    what += fmt::format(" is {}", codec::enumName(e.health));
    if (e.until.micros != 0) what += fmt::format(" until {} UTC", formatTimestamp(e.until));
    return what;
  }
  std::string operator()(const model::NodeLabelled& e) const {
    return fmt::format("node {} is given {} labels", e.node.value, e.labels.size());
  }
  std::string operator()(const model::JobSubmitted& e) const {
    return fmt::format("job {} submitted: {} ranks", e.job.value, e.shape.replicas());
  }
  std::string operator()(const model::AttemptPlanned& e) const {
    std::size_t gpus = 0;
    for (const auto& rank : e.ranks) gpus += rank.gpus.size();
    return fmt::format("job {}: attempt {} placed, {} ranks on {} GPUs", e.job.value, e.number,
                       e.ranks.size(), gpus);
  }
  std::string operator()(const model::AttemptStarted& e) const {
    return fmt::format("attempt {} runs", e.attempt.value);
  }
  std::string operator()(const model::StopRequested& e) const {
    auto text = fmt::format("job {} is to stop: {}", e.job.value, nameOf(e.reason));
    if (e.beneficiary.isSet()) text += fmt::format(" for job {}", e.beneficiary.value);
    return text;
  }
  std::string operator()(const model::AttemptEnded& e) const {
    auto text = fmt::format("attempt {} {}", e.attempt.value, nameOf(e.outcome));
    if (e.firstFailed >= 0) text += fmt::format("; rank {} first", e.firstFailed);
    return text;
  }
  std::string operator()(const model::JobRequeued& e) const {
    return fmt::format("job {} waits for another try, not before {} UTC", e.job.value,
                       formatTimestamp(e.notBefore));
  }
  std::string operator()(const model::JobEnded& e) const {
    return fmt::format("job {} {}", e.job.value, nameOf(e.state));
  }
  std::string operator()(const model::CheckpointRecorded& e) const {
    return fmt::format("attempt {}: checkpoint at epoch {}", e.attempt.value, e.epoch);
  }
  std::string operator()(const model::ReservationMade& e) const {
    return e.nodes.empty()
               ? fmt::format("nothing is kept for job {} any more", e.job.value)
               : fmt::format("{} nodes are being drained for job {}", e.nodes.size(), e.job.value);
  }
  std::string operator()(const model::PolicySet& e) const {
    return fmt::format("the cloud is shared among {} queues", e.policy.queues.size());
  }
  std::string operator()(const model::JobForgotten& e) const {
    return fmt::format("job {} leaves the listings", e.job.value);
  }
};

template <class Id>
std::string nameIn(const CowTable<Id, SideId>& table, Id id, const controller::Snapshot& names) {
  const auto* side = table.find(id);
  return side ? names.name(*side) : std::string();
}

// Ends the reading of a ledger without being an error.
Error enough() {
  return makeError(ErrorCode::kConflict, "enough");
}

}  // namespace

std::string summaryOf(const model::Event& event) {
  return std::visit(Summary{}, event);
}

Result<model::EventList> EventReader::read(std::uint64_t from, std::size_t limit) {
  const auto names = names_();
  const std::lock_guard lock(mutex_);
  // A reader sees the ledger as it was when it was opened.
  if (!ledger_ || ledger_->status().lastSequence < names->tables.sequence) {
    ledger_.reset();
    ledger::LedgerOptions options{home_, random_};
    options.mode = ledger::OpenMode::kReadOnly;
    BOLE_ASSIGN(ledger_, ledger::openLedger(options));
  }
  model::EventList list;
  const auto visit = [&](const ports::StoredEvent& stored) -> Result<void> {
    if (list.events.size() >= limit) return fail(enough());
    model::EventView view;
    view.sequence = stored.envelope.sequence;
    view.time = stored.envelope.time;
    view.kind = stored.envelope.kind;
    view.actor = nameIn(names->tables.users, stored.envelope.actor, *names);
    if (view.actor.empty()) view.actor = "bole";
    view.project = nameIn(names->tables.projects, stored.envelope.project, *names);
    view.source = stored.envelope.source;
    view.body = stored.body;
    if (auto event = codec::decodeEvent(view.kind, stored.envelope.version, stored.body)) {
      view.summary = summaryOf(*event);
    }
    list.events.push_back(std::move(view));
    return {};
  };
  if (auto done = ledger_->read(std::max<std::uint64_t>(from, 1), visit);
      !done && list.events.size() < limit) {
    ledger_.reset();  // opened anew the next time
    return fail(done.error());
  }
  return list;
}

}  // namespace bole::app
