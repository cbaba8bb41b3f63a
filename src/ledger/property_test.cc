// Any sequence of operations, against a model that is a few vectors: what the ledger says is what
// the model says, after every operation and after every reopening, and the check finds nothing.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <rapidcheck/state.h>

#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "ledger/sqlite_ledger.h"
#include "ledger/test_support.h"

namespace bole::ledger {
namespace {

using namespace test;

struct Model {
  std::vector<std::string> bodies;  // of event 1, 2, ...
  std::map<std::uint64_t, std::string> side;
  std::set<std::uint64_t> erased;
  std::optional<ports::StoredSnapshot> snapshot;
  std::uint64_t segments = 1;
};

struct World {
  World() { reopen(); }
  void reopen() {
    ledger.reset();
    auto options = optionsFor(home.path(), random);
    options.checkpointFrames = 7;
    auto opened = openLedger(options);
    RC_ASSERT(opened.has_value());
    ledger = std::move(*opened);
    RC_ASSERT(ledger->notices().empty());
  }
  TempHome home{Medium::kMemory};
  TestRng random;
  std::unique_ptr<SqliteLedger> ledger;
};

using Command = rc::state::Command<Model, World>;

void expectSame(const Model& model, World& world) {
  const auto status = world.ledger->status();
  RC_ASSERT(status.lastSequence == model.bodies.size());
  RC_ASSERT(status.segments == model.segments);
  RC_ASSERT(status.writable);
  std::vector<std::string> bodies;
  for (const auto& event : readAll(*world.ledger)) bodies.push_back(event.body);
  RC_ASSERT(bodies == model.bodies);
  for (const auto& [id, value] : model.side) {
    const auto stored = world.ledger->side(SideId(id));
    if (model.erased.count(id) != 0)
      RC_ASSERT(stored.error().code == ErrorCode::kNotFound);
    else
      RC_ASSERT(stored.value() == value);
  }
  const auto snapshot = world.ledger->newestSnapshot();
  RC_ASSERT(snapshot.has_value());
  RC_ASSERT(snapshot->has_value() == model.snapshot.has_value());
  if (model.snapshot) {
    RC_ASSERT((*snapshot)->sequence == model.snapshot->sequence);
    RC_ASSERT((*snapshot)->state == model.snapshot->state);
  }
}

std::string textOf(std::size_t size, char fill) {
  return std::string(size, fill);
}

struct Append : Command {
  std::vector<std::pair<std::size_t, std::optional<std::uint64_t>>>
      events;  // size, side value's id
  bool urgent = *rc::gen::arbitrary<bool>();

  explicit Append(const Model& model) {
    const auto count = *rc::gen::inRange<std::size_t>(0, 6);
    std::set<std::uint64_t> taken;
    for (std::size_t i = 0; i < count; ++i) {
      const auto size =
          *rc::gen::weightedOneOf<std::size_t>({{8, rc::gen::inRange<std::size_t>(0, 300)},
                                                {1, rc::gen::inRange<std::size_t>(0, 20'000)}});
      std::optional<std::uint64_t> id = *rc::gen::inRange<std::uint64_t>(1, 200);
      if (model.side.count(*id) != 0 || !taken.insert(*id).second) id.reset();
      events.emplace_back(size, id);
    }
  }
  void checkPreconditions(const Model& model) const override {
    for (const auto& [size, id] : events) RC_PRE(!id || model.side.count(*id) == 0);
  }
  void apply(Model& model) const override {
    for (const auto& [size, id] : events) {
      model.bodies.push_back(textOf(size, 'b'));
      if (id) model.side[*id] = textOf(size, 's') + std::to_string(*id);
    }
  }
  void run(const Model& model, World& world) const override {
    std::vector<ports::NewEvent> batch;
    auto next = model.bodies.size();
    for (const auto& [size, id] : events) {
      batch.push_back(makeEvent(++next, textOf(size, 'b')));
      if (id) batch.back().side.push_back({SideId(*id), textOf(size, 's') + std::to_string(*id)});
    }
    const auto done = urgent ? world.ledger->appendUrgent(batch) : world.ledger->append(batch);
    RC_ASSERT(done.has_value());
    auto after = model;
    apply(after);
    expectSame(after, world);
  }
  void show(std::ostream& out) const override { out << "append " << events.size(); }
};

// A batch whose last event is wrong: nothing of it may stay.
struct AppendWrong : Command {
  int kind = *rc::gen::inRange(0, 3);
  bool urgent = *rc::gen::arbitrary<bool>();
  void run(const Model& model, World& world) const override {
    const auto next = model.bodies.size() + 1;
    auto batch = std::vector{withSide(makeEvent(next), 900, "never"), makeEvent(next + 1)};
    if (kind == 0) batch[1].envelope.sequence += 1;
    if (kind == 1) batch[1] = withSide(batch[1], 900, "again");
    if (kind == 2) batch[1].envelope.time = Timestamp{0};
    const auto refused = urgent ? world.ledger->appendUrgent(batch) : world.ledger->append(batch);
    RC_ASSERT(refused.error().code == ErrorCode::kInternal);
    RC_ASSERT(world.ledger->side(SideId(900)).error().code == ErrorCode::kNotFound);
    expectSame(model, world);
  }
  void show(std::ostream& out) const override { out << "append a wrong batch, kind " << kind; }
};

struct Seal : Command {
  std::size_t size = *rc::gen::inRange<std::size_t>(0, 30'000);
  void checkPreconditions(const Model& model) const override { RC_PRE(!model.bodies.empty()); }
  void apply(Model& model) const override {
    const auto last = model.bodies.size();
    if (!model.snapshot || model.snapshot->sequence != last) ++model.segments;
    model.snapshot = ports::StoredSnapshot{last, textOf(size, 'z')};
  }
  void run(const Model& model, World& world) const override {
    const auto last = model.bodies.size();
    RC_ASSERT(world.ledger->seal(last - 1, "too early").error().code == ErrorCode::kInvalid);
    RC_ASSERT(world.ledger->seal(last + 1, "too late").error().code == ErrorCode::kInvalid);
    RC_ASSERT(world.ledger->seal(last, textOf(size, 'z')).has_value());
    auto after = model;
    apply(after);
    expectSame(after, world);
  }
  void show(std::ostream& out) const override { out << "seal with " << size << " bytes"; }
};

struct Erase : Command {
  std::uint64_t id = *rc::gen::inRange<std::uint64_t>(1, 200);
  void apply(Model& model) const override {
    if (model.side.count(id) != 0) model.erased.insert(id);
  }
  void run(const Model& model, World& world) const override {
    const auto erased = world.ledger->eraseSide(SideId(id));
    RC_ASSERT(erased.has_value() == (model.side.count(id) != 0));
    auto after = model;
    apply(after);
    expectSame(after, world);
  }
  void show(std::ostream& out) const override { out << "erase " << id; }
};

struct Reopen : Command {
  void run(const Model& model, World& world) const override {
    world.reopen();
    expectSame(model, world);
  }
  void show(std::ostream& out) const override { out << "reopen"; }
};

struct Verify : Command {
  bool full = *rc::gen::arbitrary<bool>();
  void run(const Model& model, World& world) const override {
    const auto report = verifyLedger(world.home.path(), full);
    RC_ASSERT(report.has_value());
    RC_ASSERT(!report->firstFault);
    if (!full) return;
    RC_ASSERT(report->events == model.bodies.size());
    RC_ASSERT(report->segments == model.segments);
    RC_ASSERT(report->sideValues == model.side.size());
    RC_ASSERT(report->erased == model.erased.size());
  }
  void show(std::ostream& out) const override { out << "verify"; }
};

// The copy stands in for the ledger from here on.
struct BackUpAndRestore : Command {
  void run(const Model& model, World& world) const override {
    const auto backup = world.home.file("backup.db");
    RC_ASSERT(backupLedger(world.home.path(), backup).has_value());
    world.ledger.reset();
    std::filesystem::remove(world.home.file("ledger.db"));
    RC_ASSERT(restoreLedger(backup, world.home.path()).has_value());
    std::filesystem::remove(backup);
    std::filesystem::remove(backup + ".pub");
    world.reopen();
    expectSame(model, world);
  }
  void show(std::ostream& out) const override { out << "back up and restore"; }
};

RC_GTEST_PROP(LedgerProperty, AgreesWithItsModel, ()) {
  World world;
  rc::state::check(Model{}, world,
                   rc::state::gen::execOneOfWithArgs<Append, Append, Append, AppendWrong, Seal,
                                                     Erase, Reopen, Verify, BackUpAndRestore>());
}

}  // namespace
}  // namespace bole::ledger
