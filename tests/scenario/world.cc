#include "scenario/world.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "codec/codec.h"
#include "scenario/view.h"
#include "scheduler/match.h"

namespace bole::test {
namespace {

using controller::Controller;
using controller::Message;
using model::AttemptOutcome;

constexpr Timestamp kBegin{1'893'974'400'000'000};  // 2030-01-07 00:00:00, a Monday
constexpr int kMostRounds = 1000;                   // of reports that lead to reports
constexpr int kSigterm = 15;

// A state folded from the ledger alone, from its first event.
Result<state::State> replayed(MemoryLedger& ledger) {
  state::State state;
  BOLE_TRY(ledger.read(1, [&](const ports::StoredEvent& stored) -> Result<void> {
    BOLE_ASSIGN(const auto event,
                codec::decodeEvent(stored.envelope.kind, stored.envelope.version, stored.body));
    return state.apply(event, stored.envelope.sequence, stored.envelope.time);
  }));
  return state;
}

Error noJob(const std::string& name) {
  return makeError(ErrorCode::kInvalid, "no job of this name was accepted").foundValue(name);
}

}  // namespace

ScenarioWorld::ScenarioWorld(const Scenario& scenario)
    : scenario_(scenario), nodes_(scenario.nodes) {
  clock_.jump(kBegin - clock_.wall());
}

Result<void> ScenarioWorld::start() {
  BOLE_TRY(boot());
  if (scenario_.policy) BOLE_TRY(run(Share{*scenario_.policy}));
  settle();
  return {};
}

Result<void> ScenarioWorld::boot() {
  controller::ControllerOptions options;
  options.version = "scenario";
  BOLE_ASSIGN(controller_, Controller::open(options, ledger_, engine_, clock_));
  reports_.clear();
  engine_.open([this](ports::EngineReport report) { reports_.push_back(std::move(report)); });
  BOLE_TRY(controller_->start(present()));
  snapshot_ = controller_->snapshot();
  return {};
}

Result<void> ScenarioWorld::take(const Step& step) {
  auto done = std::visit([&](const auto& what) { return run(what); }, step.what);
  if (!done) {
    auto error = std::move(done).error();
    if (error.where.empty()) error.where = step.place;
    return fail(std::move(error));
  }
  settle();
  look();
  return {};
}

void ScenarioWorld::process(std::vector<Message> batch) {
  controller_->process(std::move(batch));
  snapshot_ = controller_->snapshot();
}

// Until nobody has anything more to tell.
void ScenarioWorld::settle() {
  for (int round = 0; round < kMostRounds; ++round) {
    for (const auto id : engine_.alive()) live(id, engine_.attempts().at(id));
    const bool due = controller_->untilNextTick() == Duration(0);
    if (reports_.empty() && !due) return;
    std::vector<Message> batch;
    for (auto& report : std::exchange(reports_, {})) batch.push_back(std::move(report));
    batch.push_back(controller::Tick{});
    process(std::move(batch));
  }
  fault("the controller and its engine do not come to rest");
}

void ScenarioWorld::live(AttemptId id, const ScriptedEngine::Attempt& attempt) {
  const auto [known, isNew] = running_.try_emplace(id, Running{clock_.wall(), {}});
  if (isNew) lookAtPlacement(attempt);
  const auto doing = doing_.find(attempt.order.job);
  if (isNew && doing != doing_.end() && doing->second.cannotStart) {
    ports::AttemptFinished end;
    end.outcome = AttemptOutcome::kLaunchFailed;
    return engine_.finish(id, end);
  }
  if (attempt.stopAsked && !known->second.stopAskedAt) {
    known->second.stopAskedAt = clock_.wall();
    if (scenario_.stopsAfter == Duration(0)) return end(id, {{}, AttemptOutcome::kStopped});
  }
  if (!attempt.running) engine_.run(id);
}

// ---- what must hold

void ScenarioWorld::fault(const std::string& what) {
  if (said_.insert(what).second) faults_.push_back(what);
}

// By the engine's own eyes: nothing is started where it cannot run.
void ScenarioWorld::lookAtPlacement(const ScriptedEngine::Attempt& attempt) {
  const auto& order = attempt.order;
  const auto& who = names_.at(order.job).name;
  for (std::size_t r = 0; r < order.ranks.size(); ++r) {
    const auto& rank = order.ranks[r];
    const auto& task = order.shape->tasks[rank.task];
    const auto node = std::find_if(nodes_.begin(), nodes_.end(), [&](const model::Node& other) {
      return other.name == order.nodes[r]->name;
    });
    if (node == nodes_.end() || absent_.contains(node->name)) {
      fault(fmt::format("{} was started on {}, which is not there", who, order.nodes[r]->name));
      continue;
    }
    if (!scheduler::labelsMatch(task, *node))
      fault(fmt::format("{} was started on {}, which lacks its labels", who, node->name));
    for (const auto gpu : rank.gpus) {
      if (!scheduler::matches(task.gpus, node->gpus.at(gpu)))
        fault(fmt::format("{} was given {}[{}], which is not healthy or of another kind", who,
                          node->name, gpu));
    }
  }
}

void ScenarioWorld::look() {
  const auto& state = controller_->state();
  if (const auto sound = state::checkInvariants(state.tables()); !sound)
    fault(sound.error().message());
  for (const auto& what : engine_.faults()) fault(what);
  for (const auto& key : state.queued()) {
    const auto* reasons = snapshot_->waiting.find(key.job);
    if (!reasons || reasons->empty())
      fault(fmt::format("{} waits without a reason", names_.at(key.job).name));
  }
  state.tables().nodes.forEach([&](NodeId, const model::NodeRecord& record) {
    if (record.cpusUsed > record.node->cpus || record.memoryUsed > record.node->memory)
      fault(fmt::format("the CPUs or the memory of {} are given out twice", record.node->name));
    return true;
  });
}

Result<std::shared_ptr<const controller::Snapshot>> ScenarioWorld::asAfterRestart() {
  auto ledger = ledger_;
  BOLE_ASSIGN(const auto state, replayed(ledger));
  if (codec::encodeTables(state.tables()) != codec::encodeTables(snapshot_->tables))
    return fail(makeError(ErrorCode::kInternal, "the ledger, read anew, gives another state"));
  ScriptedEngine engine;
  engine.setDeaf(true);
  BOLE_ASSIGN(auto other, Controller::open({}, ledger, engine, clock_));
  BOLE_TRY(other->start(present()));
  return other->snapshot();
}

// ---- time

// What ends by itself, and when: the next of all.
std::optional<std::pair<Timestamp, AttemptId>> ScenarioWorld::nextEnd() const {
  std::optional<std::pair<Timestamp, AttemptId>> next;
  const auto offer = [&](Timestamp at, AttemptId id) {
    if (!next || std::pair(at, id) < *next) next = {at, id};
  };
  for (const auto& [id, attempt] : engine_.attempts()) {
    if (!attempt.alive) continue;
    const auto& running = running_.at(id);
    if (running.stopAskedAt) {
      if (scenario_.stopsAfter.value >= 0) offer(*running.stopAskedAt + scenario_.stopsAfter, id);
      continue;
    }
    const auto doing = doing_.find(attempt.order.job);
    const auto takes = doing == doing_.end() ? Duration() : doing->second.takes;
    const auto limit = attempt.order.shape->timeLimit;
    if (takes.value > 0) offer(running.since + takes, id);
    if (limit.value > 0) offer(running.since + limit, id);
  }
  return next;
}

void ScenarioWorld::advanceTo(Timestamp time) {
  clock_.advance(time - clock_.wall());
}

Result<void> ScenarioWorld::run(const Pass& step) {
  const auto target = clock_.wall() + step.time;
  while (true) {
    auto at = target;
    const auto ends = nextEnd();
    if (ends) at = std::min(at, std::max(ends->first, clock_.wall()));
    const auto wait = controller_->untilNextTick();
    if (wait.value > 0) at = std::min(at, clock_.wall() + wait);
    advanceTo(at);
    if (ends && ends->first <= at) {
      const auto& attempt = engine_.attempts().at(ends->second);
      const auto& running = running_.at(ends->second);
      const auto limit = attempt.order.shape->timeLimit;
      const bool tooLong = !attempt.stopAsked && limit.value > 0 &&
                           running.since + limit <= ends->first &&
                           doing_.at(attempt.order.job).takes != limit;
      end(ends->second, {{},
                         attempt.stopAsked ? AttemptOutcome::kStopped
                         : tooLong         ? AttemptOutcome::kTimeLimit
                                           : AttemptOutcome::kCompleted});
    } else {
      process({controller::Tick{}});
    }
    settle();
    look();
    const bool more = ends && ends->first <= at;
    if (at == target && !more) return {};
  }
}

// ---- what happens

std::vector<model::Node> ScenarioWorld::present() const {
  std::vector<model::Node> out;
  for (const auto& node : nodes_)
    if (!absent_.contains(node.name)) out.push_back(node);
  return out;
}

Result<JobName> ScenarioWorld::nameFor(const Submission& job) {
  const auto& base = job.spec.text.name;
  if (job.count == 0) {
    if (byName_.contains(base))
      return fail(makeError(ErrorCode::kInvalid, "two jobs of one name").foundValue(base));
    return JobName{base, {}, 0};
  }
  const auto number = ++counts_[base];
  return JobName{fmt::format("{}-{}", base, number), base, number};
}

void ScenarioWorld::submitOne(const Submission& job, const JobName& name,
                              std::vector<Message>& batch) {
  controller::SubmitJobs message;
  message.caller.user = job.user;
  message.project = job.project;
  message.jobs = {job.spec};
  message.jobs[0].text.name = name.name;
  message.reply = [this, name, doing = Doing{job.takes, job.cannotStart}](
                      const Result<model::SubmitAnswer>& answer) {
    if (!answer) {
      auto error = answer.error();
      error.hint.clear();
      refused_.push_back({name, error.message()});
      return;
    }
    const auto id = answer->jobs.at(0).id;
    names_[id] = name;
    byName_[name.name] = id;
    doing_[id] = doing;
  };
  batch.push_back(std::move(message));
}

Result<void> ScenarioWorld::run(const Submit& step) {
  std::vector<Message> batch;
  for (const auto& job : step.jobs) {
    for (std::uint32_t i = 0; i < std::max(job.count, 1U); ++i) {
      BOLE_ASSIGN(const auto name, nameFor(job));
      submitOne(job, name, batch);
    }
  }
  process(std::move(batch));
  return {};
}

Result<std::vector<JobId>> ScenarioWorld::jobsNamed(
    const std::vector<std::string>& patterns) const {
  std::vector<JobId> out;
  for (const auto& pattern : patterns) {
    BOLE_ASSIGN(const auto names, namesIn(pattern));
    for (const auto& name : names) {
      const auto found = byName_.find(name);
      if (found == byName_.end()) return fail(noJob(name));
      out.push_back(found->second);
    }
  }
  return out;
}

Result<std::vector<AttemptId>> ScenarioWorld::attemptsNamed(const End& step) const {
  std::vector<AttemptId> out;
  if (step.jobs == std::vector<std::string>{"all"}) {
    for (const auto id : engine_.alive()) {
      if (engine_.attempts().at(id).stopAsked == step.ofStopping) out.push_back(id);
    }
    if (!out.empty()) return out;
    return fail(makeError(ErrorCode::kInvalid,
                          step.ofStopping ? "no job is being stopped" : "no job runs"));
  }
  BOLE_ASSIGN(const auto jobs, jobsNamed(step.jobs));
  for (const auto job : jobs) {
    const auto id = snapshot_->tables.jobs.find(job)->attempt;
    const auto found = engine_.attempts().find(id);
    const auto& name = names_.at(job).name;
    if (found == engine_.attempts().end() || !found->second.alive)
      return fail(makeError(ErrorCode::kInvalid, "the job does not run").foundValue(name));
    if (step.ofStopping && !found->second.stopAsked)
      return fail(makeError(ErrorCode::kInvalid, "nobody asked the job to stop").foundValue(name));
    if (step.rank >= found->second.order.ranks.size()) {
      return fail(makeError(ErrorCode::kInvalid, "the job has no such rank")
                      .foundValue(fmt::format("{} of {}", step.rank, name))
                      .expectedValue(fmt::format("0 to {}", found->second.order.ranks.size() - 1)));
    }
    out.push_back(id);
  }
  return out;
}

void ScenarioWorld::end(AttemptId id, const End& how) {
  const auto& attempt = engine_.attempts().at(id);
  ports::AttemptFinished end;
  end.outcome = how.outcome;
  end.stop = attempt.stopReason;
  const bool lost = how.outcome == AttemptOutcome::kSupervisorLost;
  const bool stopped = how.outcome == AttemptOutcome::kStopped;
  const auto ranks = static_cast<std::uint32_t>(attempt.order.ranks.size());
  for (std::uint32_t r = 0; r < ranks; ++r) end.ranks.push_back({r, !lost, stopped ? kSigterm : 0});
  if (how.outcome == AttemptOutcome::kFailed || how.outcome == AttemptOutcome::kRankLost) {
    end.firstFailed = static_cast<std::int32_t>(how.rank);
    const bool known = how.outcome == AttemptOutcome::kFailed;
    end.ranks[how.rank] = {how.rank, known, known ? how.code << 8 : 0};
  }
  engine_.finish(id, end);
}

Result<void> ScenarioWorld::run(const End& step) {
  BOLE_ASSIGN(const auto attempts, attemptsNamed(step));
  for (const auto id : attempts) end(id, step);
  return {};
}

Result<void> ScenarioWorld::run(const Checkpoint& step) {
  BOLE_ASSIGN(const auto attempts, attemptsNamed({step.jobs}));
  for (const auto id : attempts) {
    const auto job = engine_.attempts().at(id).order.job;
    reports_.push_back(ports::CheckpointSeen{id, ++epochs_[job], kMiB, "checkpoints/epoch"});
  }
  return {};
}

Result<void> ScenarioWorld::run(const Cancel& step) {
  BOLE_ASSIGN(const auto jobs, jobsNamed(step.jobs));
  std::vector<Message> batch;
  for (const auto id : jobs) {
    controller::StopJob message;
    message.caller.user = "ana";
    message.job = id;
    message.reply = [this, id](const Result<void>& done) {
      if (done) return;
      refused_.push_back({{"cancel " + names_.at(id).name, {}, 0}, done.error().message()});
    };
    batch.push_back(std::move(message));
  }
  process(std::move(batch));
  return {};
}

Result<void> ScenarioWorld::run(const Share& step) {
  controller::SetPolicy message;
  message.caller.user = "root";
  message.policy = step.policy;
  message.reply = [this](const Result<void>& done) {
    if (!done) refused_.push_back({{"policy", {}, 0}, done.error().message()});
  };
  std::vector<Message> batch;
  batch.push_back(std::move(message));
  process(std::move(batch));
  return {};
}

Result<void> ScenarioWorld::run(const SetHealth& step) {
  for (const auto& pattern : step.gpus) {
    BOLE_ASSIGN(const auto gpus, numbersIn(pattern));
    const auto node = std::find_if(nodes_.begin(), nodes_.end(),
                                   [&](const auto& other) { return other.name == gpus.name; });
    for (const auto gpu : gpus.numbers) {
      if (node == nodes_.end() || gpu >= node->gpus.size())
        return fail(makeError(ErrorCode::kInvalid, "no such GPU").foundValue(pattern));
      node->gpus[gpu].health = step.health;
    }
  }
  process({controller::NodesProbed{present()}});
  return {};
}

Result<void> ScenarioWorld::run(const SetPresence& step) {
  for (const auto& name : step.nodes) {
    const bool known = std::any_of(nodes_.begin(), nodes_.end(),
                                   [&](const auto& node) { return node.name == name; });
    if (!known) return fail(makeError(ErrorCode::kInvalid, "no such node").foundValue(name));
    if (step.present)
      absent_.erase(name);
    else
      absent_.insert(name);
  }
  process({controller::NodesProbed{present()}});
  return {};
}

// The same ledger and the same world, another controller: nothing may be another for it.
Result<void> ScenarioWorld::run(const Restart&) {
  const auto before =
      jobTable(everyJob(snapshot_->tables), {*snapshot_, names_, now()}, whatDecides());
  controller_.reset();
  BOLE_TRY(boot());
  settle();
  const auto after =
      jobTable(everyJob(snapshot_->tables), {*snapshot_, names_, now()}, whatDecides());
  if (before != after) {
    fault("the restart of the server changed something. Before:\n" + markTable(before, after) +
          "  after:\n" + markTable(after, before));
  }
  return {};
}

Result<void> ScenarioWorld::run(const Table&) {
  return {};
}

Result<void> ScenarioWorld::run(const RepeatBox& step) {
  for (std::uint32_t i = 0; i < step->times; ++i) {
    for (const auto& inner : step->steps) BOLE_TRY(take(inner));
  }
  return {};
}

}  // namespace bole::test
