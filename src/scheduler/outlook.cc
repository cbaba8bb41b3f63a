#include "scheduler/outlook.h"

namespace bole::scheduler {
namespace {

bool isLive(const model::AttemptRecord* attempt) {
  return attempt && attempt->live;
}

// Is all of the attempt the same that planning looks at?
bool isSame(const model::AttemptRecord& a, const model::AttemptRecord& b) {
  return a.startedAt == b.startedAt && a.plannedAt == b.plannedAt && a.ranks == b.ranks;
}

bool isSame(const model::JobRecord& a, const model::JobRecord& b) {
  return a.state == b.state && a.shape == b.shape && a.user == b.user && a.attempt == b.attempt &&
         a.freedFor == b.freedFor;
}

}  // namespace

Outlook::Changes Outlook::changesTo(const model::Tables& tables) const {
  Changes changes;
  if (!before_ || before_->policy != tables.policy || now_->shelves().areMany()) {
    changes.isAnother = true;
    return changes;
  }
  tables.nodes.forEachChanged(
      before_->nodes, [&](NodeId id, const model::NodeRecord* was, const model::NodeRecord* is) {
        const auto* one = was && was->present ? was->node.get() : nullptr;
        const auto* other = is && is->present ? is->node.get() : nullptr;
        if (one != other) changes.isAnother = true;
        if (one && other) changes.nodes.insert(id);
      });
  if (changes.isAnother) return changes;
  tables.attempts.forEachChanged(
      before_->attempts,
      [&](AttemptId id, const model::AttemptRecord* was, const model::AttemptRecord* is) {
        if (isLive(was) != isLive(is) || (isLive(was) && isLive(is) && !isSame(*was, *is)))
          changes.attempts.insert(id);
      });
  tables.jobs.forEachChanged(before_->jobs,
                             [&](JobId, const model::JobRecord* was, const model::JobRecord* is) {
                               if (was && is && isSame(*was, *is)) return;
                               for (const auto* job : {was, is})
                                 if (job && job->attempt.isSet())
                                   changes.attempts.insert(job->attempt);
                             });
  return changes;
}

void Outlook::begin(const model::Tables& tables) {
  now_ = std::make_unique<World>(tables, Of::kNow, time_);
  later_.reset();
  unkept_.reset();
  running_ = Running();
  tables.attempts.forEach([&](AttemptId, const model::AttemptRecord& attempt) {
    if (attempt.live) running_.add(*tables.jobs.find(attempt.job), attempt);
    return true;
  });
}

void Outlook::follow(const model::Tables& tables, const Changes& changes) {
  std::vector<World*> worlds = {now_.get()};
  for (auto* world : {later_.get(), unkept_.get()})
    if (world) worlds.push_back(world);
  for (const auto id : changes.nodes)
    for (auto* world : worlds) world->update(id, *tables.nodes.find(id));
  for (const auto id : changes.attempts) {
    if (const auto* was = before_->attempts.find(id); isLive(was)) {
      const auto& job = *before_->jobs.find(was->job);
      for (auto* world : worlds) world->countOut(job, *was);
      running_.remove(job, *was);
    }
    if (const auto* is = tables.attempts.find(id); isLive(is)) {
      const auto& job = *tables.jobs.find(is->job);
      for (auto* world : worlds) world->countIn(job, *is);
      running_.add(job, *is);
    }
  }
  for (auto* world : worlds) {
    if (!tables.policy->bookings.empty()) world->recount(tables, time_);
    world->remember(tables, time_);
  }
}

void Outlook::bring(const model::Tables& tables, Timestamp now, std::size_t learnFrom) {
  time_ = now;
  tables_ = &tables;
  const auto changes = changesTo(tables);
  if (changes.isAnother)
    begin(tables);
  else
    follow(tables, changes);
  const auto lesson = lessonOf(tables, learnFrom);
  if (lesson == lesson_ && !changes.isAnother && !changes.isLearntFrom) return;
  lesson_ = lesson;
  now_->value(tables, lesson);
}

std::unique_ptr<World> Outlook::make() const {
  return std::make_unique<World>(*tables_, Of::kNow, time_);
}

World& Outlook::later() {
  if (!later_) later_ = make();
  if (!isLater_) {
    for (const auto id : running_.stopping()) {
      const auto& attempt = *tables_->attempts.find(id);
      later_->giveBack(*tables_->jobs.find(attempt.job), attempt.ranks);
    }
  }
  isLater_ = true;
  return *later_;
}

World& Outlook::unkept() {
  if (!unkept_) unkept_ = make();
  return *unkept_;
}

void Outlook::restore() {
  for (auto* world : {now_.get(), later_.get(), unkept_.get()}) {
    if (!world) continue;
    world->openAll();
    world->rollBack(0);
    world->forget();
  }
  isLater_ = false;
}

}  // namespace bole::scheduler
