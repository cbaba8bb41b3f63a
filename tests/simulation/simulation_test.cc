// The real controller, state, scheduler and codec in a world of chance: jobs come and go, ranks
// fail, the disk fills, clocks jump, and the server dies between any two of its acts. What must
// hold is checked after every step.
//
// A failing seed is printed with the command that replays it: BOLE_SIM_SEED=<n> simulation_test.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <random>
#include <set>

#include "codec/codec.h"
#include "controller/controller.h"
#include "support/memory_ledger.h"
#include "support/scripted_engine.h"
#include "support/virtual_clock.h"
#include "support/worlds.h"

namespace bole::test {
namespace {

using controller::Controller;
using model::AttemptOutcome;

class World {
 public:
  explicit World(std::uint64_t seed) : random_(seed) { boot(); }

  void step() {
    switch (pick(20)) {
      case 0:
      case 1:
      case 2:
      case 3:
      case 4:
        submit();
        break;
      case 5:
      case 6:
        stopOne();
        break;
      case 7:
      case 8:
      case 9:
      case 10:
        runOne();
        break;
      case 11:
      case 12:
      case 13:
        finishOne();
        break;
      case 14:
        checkpointOne();
        break;
      case 15:
        clock_.advance(seconds(static_cast<std::int64_t>(pick(900))));
        break;
      case 16:
        strangeTime();
        break;
      case 17:
        changeDisk();
        break;
      case 18:
        crash();
        break;
      default:
        deliver();
        break;
    }
    if (pick(3) != 0) deliver();
    check();
  }

  // Lets everything end, and looks whether all that was promised came true.
  void settle() {
    ledger_.setDisk(MemoryLedger::Disk::kFine);
    for (int round = 0; round < 3000 && !allEnded(); ++round) {
      clock_.advance(seconds(700));
      deliver();
      for (const auto id : engine_.alive()) finish(id, AttemptOutcome::kCompleted);
      deliver();
      check();
    }
    EXPECT_TRUE(allEnded()) << "jobs are left that never end";
    for (const auto id : accepted_) {
      EXPECT_NE(controller_->state().tables().jobs.find(id), nullptr)
          << "job " << id.value << " is lost";
    }
    for (const auto id : stopped_) {
      const auto state = controller_->state().tables().jobs.find(id)->state;
      EXPECT_TRUE(model::isTerminal(state)) << "job " << id.value << " was stopped and lives";
    }
    for (const auto& [id, times] : engine_.starts())
      EXPECT_EQ(times, 1) << "attempt " << id.value << " was ordered to start that often";
    recordsAgree();
    replayAgrees();
  }

 private:
  std::uint64_t pick(std::uint64_t below) { return random_() % below; }

  void boot() {
    controller::ControllerOptions options;
    options.version = "test";
    options.sealAfterEvents = 40;
    options.keepFinishedJobs = 100'000;
    auto opened = Controller::open(options, ledger_, engine_, clock_);
    ASSERT_TRUE(opened) << opened.error().message();
    controller_ = std::move(*opened);
    reports_.clear();
    engine_.open([this](ports::EngineReport report) { reports_.push_back(std::move(report)); });
    const auto started = controller_->start({node("a", 4), node("b", 2, "T4"), node("c", 0)});
    ASSERT_TRUE(started) << started.error().message();
  }

  void deliver() {
    std::vector<controller::Message> batch;
    for (auto& report : reports_) {
      if (pick(8) == 0) batch.push_back(report);  // told twice
      batch.push_back(std::move(report));
    }
    reports_.clear();
    for (auto& message : mailbox_) batch.push_back(std::move(message));
    mailbox_.clear();
    batch.push_back(controller::Tick{});
    controller_->process(std::move(batch));
  }

  void submit() {
    controller::SubmitJobs message;
    message.caller.user = pick(2) ? "ana" : "bo";
    message.project = pick(2) ? "vision" : "default";
    if (pick(2)) message.caller.requestId = "r" + std::to_string(pick(4));
    auto spec = job(static_cast<std::uint32_t>(1 + pick(4)), static_cast<std::uint32_t>(pick(3)));
    spec.shape.priority = static_cast<std::int32_t>(pick(3));
    if (pick(3) == 0) spec.shape.tasks[0].gpus.models = {pick(2) ? "T4" : "A100"};
    if (pick(2)) {
      spec.shape.restart.kind = model::RestartKind::kOnFailure;
      spec.shape.restart.maxRetries = static_cast<std::uint32_t>(pick(4));
    }
    message.jobs.push_back(spec);
    message.reply = [this, request = message.caller.requestId](Result<model::SubmitAnswer> answer) {
      if (!answer) return;
      for (const auto& submitted : answer->jobs) {
        accepted_.insert(submitted.id);
        if (submitted.existed) {
          EXPECT_EQ(requestOf(submitted.id), request);
        }
      }
    };
    mailbox_.push_back(std::move(message));
  }

  void stopOne() {
    if (accepted_.empty()) return;
    auto it = accepted_.begin();
    std::advance(it, static_cast<std::ptrdiff_t>(pick(accepted_.size())));
    controller::StopJob message;
    message.caller.user = "ana";
    message.job = *it;
    message.reply = [this, id = *it](Result<void> done) {
      if (done) stopped_.insert(id);
    };
    mailbox_.push_back(std::move(message));
  }

  std::string requestOf(JobId id) {
    const auto snapshot = controller_->snapshot();
    const auto* record = snapshot->tables.jobs.find(id);
    return record ? snapshot->text(*record)->requestId : "no such job";
  }

  std::optional<AttemptId> anyAlive() {
    const auto alive = engine_.alive();
    if (alive.empty()) return std::nullopt;
    return alive[pick(alive.size())];
  }

  void runOne() {
    if (const auto id = anyAlive()) engine_.run(*id);
  }

  void finishOne() {
    const auto id = anyAlive();
    if (!id) return;
    const auto& attempt = engine_.attempts().at(*id);
    if (attempt.stopAsked) return finish(*id, AttemptOutcome::kStopped);
    const AttemptOutcome outcomes[] = {AttemptOutcome::kCompleted, AttemptOutcome::kFailed,
                                       AttemptOutcome::kTimeLimit, AttemptOutcome::kLaunchFailed,
                                       AttemptOutcome::kRankLost,  AttemptOutcome::kSupervisorLost};
    finish(*id, outcomes[pick(6)]);
  }

  void finish(AttemptId id, AttemptOutcome outcome) {
    const auto& attempt = engine_.attempts().at(id);
    ports::AttemptFinished end;
    end.outcome = outcome;
    end.stop = attempt.stopReason;
    exitsOf(end, static_cast<std::uint32_t>(attempt.order.ranks.size()));
    if (pick(2)) end.note = "as the dice fell";
    told_[id] = end;
    engine_.finish(id, end);
  }

  // What the ranks of an attempt that ended so leave behind: a status is known only where somebody
  // lived to write it down.
  void exitsOf(ports::AttemptFinished& end, std::uint32_t ranks) {
    const bool killed =
        end.outcome == AttemptOutcome::kStopped || end.outcome == AttemptOutcome::kTimeLimit;
    if (end.outcome == AttemptOutcome::kLaunchFailed) return;  // nothing of it ran
    for (std::uint32_t i = 0; i < ranks; ++i) {
      const bool known = end.outcome != AttemptOutcome::kSupervisorLost || pick(3) == 0;
      end.ranks.push_back({i, known, known && killed ? static_cast<std::int32_t>(9 + pick(7)) : 0});
    }
    if (end.outcome != AttemptOutcome::kFailed && end.outcome != AttemptOutcome::kRankLost) return;
    const auto first = pick(ranks);
    end.firstFailed = static_cast<std::int32_t>(first);
    if (end.outcome == AttemptOutcome::kFailed)
      end.ranks[first].status = static_cast<std::int32_t>(1 + pick(255)) << 8;
    else
      end.ranks[first] = {end.ranks[first].rank, false, 0};
  }

  void checkpointOne() {
    if (const auto id = anyAlive()) {
      reports_.push_back(ports::CheckpointSeen{*id, pick(50), kMiB, "/ckpt/epoch"});
    }
  }

  void strangeTime() {
    const auto amount = seconds(static_cast<std::int64_t>(pick(100'000)));
    switch (pick(3)) {
      case 0:
        clock_.jump(amount);
        break;
      case 1:
        clock_.jump(amount * -1);
        break;
      default:
        clock_.suspend(amount);
        break;
    }
  }

  void changeDisk() {
    const auto n = pick(4);
    ledger_.setDisk(n == 0   ? MemoryLedger::Disk::kFull
                    : n == 1 ? MemoryLedger::Disk::kDead
                             : MemoryLedger::Disk::kFine);
  }

  // The server dies: between the commit and its effects, or with reports undelivered.
  void crash() {
    engine_.setDeaf(pick(2) == 0);
    deliver();
    engine_.setDeaf(false);
    if (pick(2)) mailbox_.clear();
    ledger_.setDisk(MemoryLedger::Disk::kFine);
    const auto before = codec::encodeTables(durableTables());
    controller_.reset();
    auto after = replayed();
    EXPECT_EQ(before, codec::encodeTables(after.tables()));
    boot();
  }

  const model::Tables& durableTables() const { return controller_->snapshot()->tables; }

  // A State folded from the ledger without a controller.
  state::State replayed() {
    state::State state;
    const auto done = ledger_.read(1, [&](const ports::StoredEvent& stored) -> Result<void> {
      BOLE_ASSIGN(const auto event, codec::decodeEvent(stored.envelope.kind, 1, stored.body));
      return state.apply(event, stored.envelope.sequence, stored.envelope.time);
    });
    EXPECT_TRUE(done) << done.error().message();
    return state;
  }

  void check() {
    const auto sound = state::checkInvariants(controller_->state().tables());
    EXPECT_TRUE(sound) << sound.error().message();
    for (const auto& fault : engine_.faults()) ADD_FAILURE() << fault;
    const auto snapshot = controller_->snapshot();
    EXPECT_EQ(snapshot->tables.sequence, ledger_.events().size()) << "shown before it was durable";
    for (const auto& key : controller_->state().queued()) {
      const auto* reasons = snapshot->waiting.find(key.job);
      const bool explained = reasons && !reasons->empty();
      EXPECT_TRUE(explained || !snapshot->writable)
          << "job " << key.job.value << " waits without a reason";
    }
  }

  void replayAgrees() {
    const auto live = codec::encodeTables(controller_->state().tables());
    EXPECT_EQ(live, codec::encodeTables(replayed().tables())) << "from zero";
    auto again = Controller::open({}, ledger_, engine_, clock_);
    ASSERT_TRUE(again) << again.error().message();
    EXPECT_EQ(live, codec::encodeTables((*again)->state().tables())) << "from the newest snapshot";
  }

  // Every attempt on record ended as the engine said, and of every end that it told there is a
  // record.
  void recordsAgree() {
    const auto snapshot = controller_->snapshot();
    const auto& attempts = snapshot->tables.attempts;
    EXPECT_EQ(attempts.size(), told_.size());
    for (const auto& [id, told] : told_) {
      const auto* record = attempts.find(id);
      ASSERT_TRUE(record) << "the end of attempt " << id.value << " is lost";
      EXPECT_FALSE(record->live) << "attempt " << id.value;
      EXPECT_EQ(record->outcome, told.outcome) << "attempt " << id.value;
      EXPECT_EQ(record->exits, told.ranks) << "attempt " << id.value;
      EXPECT_EQ(record->firstFailed, told.firstFailed) << "attempt " << id.value;
      EXPECT_EQ(record->note.isSet(), !told.note.empty()) << "attempt " << id.value;
    }
    jobsAgree(snapshot->tables);
  }

  // A job ended as its last attempt did, unless somebody stopped it.
  void jobsAgree(const model::Tables& tables) {
    tables.jobs.forEach([&](JobId id, const model::JobRecord& job) {
      const auto told = told_.find(job.attempt);
      if (told == told_.end() || job.state == model::JobState::kCancelled) return true;
      EXPECT_EQ(job.state == model::JobState::kSucceeded,
                told->second.outcome == AttemptOutcome::kCompleted)
          << "job " << id.value;
      const auto first = told->second.firstFailed;
      EXPECT_EQ(job.firstFailed, first) << "job " << id.value;
      if (first >= 0) {
        EXPECT_EQ(job.failure, told->second.ranks[static_cast<std::size_t>(first)]);
      }
      return true;
    });
  }

  bool allEnded() const {
    const auto& state = controller_->state();
    return mailbox_.empty() && state.finished().size() == state.tables().jobs.size();
  }

  std::mt19937_64 random_;
  VirtualClock clock_;
  MemoryLedger ledger_;
  ScriptedEngine engine_;
  std::unique_ptr<Controller> controller_;
  std::vector<ports::EngineReport> reports_;
  std::vector<controller::Message> mailbox_;
  std::set<JobId> accepted_;
  std::set<JobId> stopped_;
  std::map<AttemptId, ports::AttemptFinished> told_;  // what the engine said of each end
};

std::uint64_t number(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

void runSeed(std::uint64_t seed) {
  SCOPED_TRACE("replay with BOLE_SIM_SEED=" + std::to_string(seed));
  World world(seed);
  for (int i = 0; i < 250 && !::testing::Test::HasFailure(); ++i) world.step();
  if (!::testing::Test::HasFailure()) world.settle();
}

TEST(Simulation, NothingIsLostDoubledOrInvented) {
  if (const auto seed = number("BOLE_SIM_SEED", 0)) return runSeed(seed);
  const auto seeds = number("BOLE_SIM_SEEDS", 300);
  for (std::uint64_t seed = 1; seed <= seeds && !HasFailure(); ++seed) runSeed(seed);
}

}  // namespace
}  // namespace bole::test
