#include "scheduler/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "scheduler/cycle.h"
#include "scheduler/obstacles.h"
#include "scheduler/order.h"
#include "scheduler/place.h"
#include "scheduler/reclaim.h"
#include "scheduler/reserve.h"
#include "scheduler/window.h"
#include "scheduler/world.h"

namespace bole::scheduler {
namespace {

// Does anything in the policy or among the jobs ever stop one job for another?
bool mayReclaim(const model::Tables& tables) {
  const auto& queues = tables.policy->queues;
  if (!tables.policy->bookings.empty()) return true;
  return std::any_of(queues.begin(), queues.end(), [](const model::Queue& queue) {
    return queue.guaranteed != model::Amounts() || queue.preemption != model::Preemption::kNever;
  });
}

// One planning cycle. `now_` is what is free, `later_` what will be when all that is being stopped
// has gone; what is taken from the one is taken from the other. Both are the outlook's, and are
// left as they were found.
class Cycle {
 public:
  Cycle(Outlook& outlook, const model::Tables& tables, Timestamp now, const Options& options)
      : tables_(tables),
        time_(now),
        options_(options),
        outlook_(outlook),
        now_(outlook.now()),
        order_(now_.queues()),
        elements_(outlook.running().elements()),
        stoppingFor_(outlook.running().stoppingFor()),
        reclaim_(tables, outlook.running(), now),
        reclaims_(mayReclaim(tables) || outlook.running().areSpot()),
        reserve_(tables, outlook.running(), now) {
    if (reclaims_ || !stoppingFor_.empty()) later_ = &outlook.later();
  }

  model::Plan run(const std::vector<JobId>& queue) {
    std::map<Turn, const model::JobRecord*> promised;
    for (const auto id : queue) {
      const auto* job = tables_.jobs.find(id);
      if (!job) continue;
      if (!job->waitsFor.empty())
        waitForOthers(*job);
      else if (job->notBefore > time_)
        backOff(*job);
      else if (!job->promised && closed(*job))
        continue;
      else if (job->promised)
        promised.emplace(turnOf(*job), job);
      else
        order_.add(*job);
    }
    for (const auto& [turn, job] : promised) resume(*job);
    while (auto* next = order_.next(now_.queues())) {
      if (looked_ >= options_.maxJobs) break;
      ++looked_;
      look(*next);
      now_.forget();
    }
    // What has started just now can be stopped or waited for only once that is on record.
    if (!plan_.starts.empty() && !refused_.empty() && (reclaims_ || startsSpot_ || unkeptFor_))
      lookAgainAt(time_);
    waiting_.reserve(queue.size() - std::min(queue.size(), started_.size()));
    for (const auto* of : refused_) explainTo(*of);
    for (const auto& booking : tables_.policy->bookings) {
      for (const auto at : {booking.from, booking.to})
        if (at > time_ && started_.size() < queue.size()) lookAgainAt(at);
    }
    plan_.waiting.reserve(queue.size() - std::min(queue.size(), started_.size()));
    for (const auto id : queue) {
      if (started_.contains(id) || !tables_.jobs.find(id)) continue;
      const auto why = waiting_.find(id);
      auto reasons = why == waiting_.end() ? std::vector<model::Reason>(1) : std::move(why->second);
      plan_.waiting.push_back({id, std::move(reasons)});
    }
    return std::move(plan_);
  }

 private:
  void look(Order::Class& of) {
    const auto& job = *of.jobs.begin()->second;
    if (arrayIsFull(job)) return refuseElements(of);
    if (start(job) || backfill(job) || makeRoom(job)) return order_.started(of);
    reserveIfImpatient(job);
    order_.refused(of);
    refused_.push_back(&of);
  }

  // By what is free when all is decided: others may have taken since what was there when it was
  // asked for.
  void explainTo(const Order::Class& of) {
    const auto& job = *of.jobs.begin()->second;
    // What is kept for itself is free to it.
    const bool kept = std::any_of(reserved_.begin(), reserved_.end(),
                                  [&](const Reserved& own) { return own.job == job.id; });
    auto why = obstacles(kept ? *unkept_ : now_, job);
    if (auto ahead = aheadOf(job)) why = {std::move(*ahead)};
    for (const auto& [turn, other] : of.jobs)
      if (other != &job) waiting_[other->id] = why;
    waiting_[job.id] = std::move(why);
  }

  bool start(const model::JobRecord& job) {
    auto ranks = placeGang(now_, job);
    if (!ranks) return false;
    if (later_) later_->take(job, *ranks);
    if (unkept_) unkept_->take(job, *ranks);
    begin(job, std::move(*ranks));
    return true;
  }

  // What has been decided so far is decided there too.
  void openUnkept() {
    if (unkept_) return;
    unkept_ = &outlook_.unkept();
    auto held = held_.begin();
    for (std::size_t i = 0; i <= plan_.starts.size(); ++i) {
      for (; held != held_.end() && held->startsBefore == i; ++held)
        unkept_->hold(*held->job, held->ranks);
      if (i == plan_.starts.size()) return;
      unkept_->take(*tables_.jobs.find(plan_.starts[i].job), plan_.starts[i].ranks);
    }
  }

  void begin(const model::JobRecord& job, std::vector<model::RankPlacement> ranks) {
    countElement(job);
    started_.insert(job.id);
    startsSpot_ = startsSpot_ || job.shape->spot;
    plan_.starts.push_back({job.id, std::move(ranks)});
  }

  // By stopping others, or by what is being stopped already. Its place is held until it is free.
  bool makeRoom(const model::JobRecord& job) {
    if (!reclaims_ || !later_) return false;
    const auto room = reclaim_.find(*later_, job);
    if (!room) return false;
    for (const auto victim : room->victims) plan_.evictions.push_back({victim, job.id});
    if (!room->victims.empty())
      plan_.reservations.push_back({job.id, nodesOf(room->ranks), Timestamp()});
    holdFor(job, room->ranks, room->victims.size());
    return true;
  }

  // A job for which others were stopped comes before everyone.
  void resume(const model::JobRecord& job) {
    // First where it was to be: elsewhere it might take what others were promised.
    now_.openOnly(job.reservedOn);
    const bool there = start(job);
    now_.openAll();
    if (there || start(job)) return;
    const auto stopping = stoppingFor_.find(job.id);
    if (stopping != stoppingFor_.end()) {
      later_->openOnly(job.reservedOn);
      auto ranks = placeGang(*later_, job);
      later_->openAll();
      if (!ranks) ranks = placeGang(*later_, job);
      if (ranks) return holdFor(job, *ranks, stopping->second);
    }
    order_.add(job);  // what was to be freed has gone another way: it asks again
  }

  void holdFor(const model::JobRecord& job, const std::vector<model::RankPlacement>& ranks,
               std::size_t stopping) {
    plan_.keeps = true;
    countElement(job);
    now_.hold(job, ranks);
    if (unkept_)
      unkept_->hold(job, ranks);
    else
      held_.push_back({&job, ranks, plan_.starts.size()});
    model::Reason reason;
    reason.obstacle = model::Obstacle::kStopping;
    reason.needed = static_cast<std::int64_t>(stopping);
    waiting_[job.id] = {reason};
  }

  // One job a pool, and one a queue that is at its limit, has a place kept for it: the first of
  // those that have lost patience.
  void reserveIfImpatient(const model::JobRecord& job) {
    if (time_ - job.queuedAt < tables_.policy->patience)
      return lookAgainAt(job.queuedAt + tables_.policy->patience);
    if (!pools_.insert(poolOf(job)).second) return;
    auto found = reserve_.find(now_, job);
    if (!found) {
      unkeptFor_ = true;
      return;
    }
    plan_.keeps = true;
    plan_.reservations.push_back({job.id, nodesOf(found->ranks), found->start});
    openUnkept();
    keepReserved(now_, job, *found);
    if (later_) keepReserved(*later_, job, *found);
    reserved_.push_back(std::move(*found));
  }

  // What could ever serve the job, and the queue or user whose limit keeps it from more, if one
  // does.
  using Pool = std::tuple<std::vector<bool>, std::size_t, UserId>;
  [[nodiscard]] Pool poolOf(const model::JobRecord& job) {
    std::vector<bool> nodes;  // by kind of node
    for (HardwareId id = 0; id < now_.shelves().hardwareCount(); ++id)
      nodes.push_back(now_.couldServe(id, *job.shape));
    const auto why = obstacles(now_, job);
    const auto first = why.front().obstacle;
    const bool byUser = first == model::Obstacle::kUserLimit;
    const bool byQueue = byUser || first == model::Obstacle::kQueueLimit ||
                         first == model::Obstacle::kGuaranteed || first == model::Obstacle::kBooked;
    return {std::move(nodes), byQueue ? now_.queues().indexOf(job.shape->queue) : 0,
            byUser ? job.user : UserId()};
  }

  // Into what is kept for others goes only what is sure to have ended before they start.
  bool backfill(const model::JobRecord& job) {
    if (reserved_.empty() || job.shape->timeLimit.value == 0) return false;
    const auto mark = unkept_->mark();
    auto ranks = placeGang(*unkept_, job);
    if (!ranks) return false;
    const auto end = time_ + job.shape->timeLimit + job.shape->grace;
    const bool early = std::all_of(reserved_.begin(), reserved_.end(), [&](const Reserved& kept) {
      return end <= kept.start || !kept.touches(*unkept_, *ranks);
    });
    if (!early) {
      unkept_->rollBack(mark);
      return false;
    }
    now_.hold(job, *ranks);
    if (later_) later_->hold(job, *ranks);
    begin(job, std::move(*ranks));
    return true;
  }

  // For whom is kept what the job would otherwise be given?
  [[nodiscard]] std::optional<model::Reason> aheadOf(const model::JobRecord& job) {
    if (!unkept_) return std::nullopt;
    const auto mark = unkept_->mark();
    const auto ranks = placeGang(*unkept_, job);
    unkept_->rollBack(mark);
    if (!ranks) return std::nullopt;
    const auto kept = std::find_if(reserved_.begin(), reserved_.end(), [&](const Reserved& other) {
      return other.touches(*unkept_, *ranks);
    });
    const auto& who = kept == reserved_.end() ? reserved_.front() : *kept;
    model::Reason reason;
    reason.obstacle = model::Obstacle::kAhead;
    reason.ahead = who.job;
    reason.until = who.start;
    return reason;
  }

  void countElement(const model::JobRecord& job) {
    if (job.shape->array && job.shape->array->most > 0) ++elements_[job.shape->array->first];
  }

  [[nodiscard]] bool arrayIsFull(const model::JobRecord& job) const {
    if (!job.shape->array || job.shape->array->most == 0) return false;
    const auto running = elements_.find(job.shape->array->first);
    return running != elements_.end() && running->second >= job.shape->array->most;
  }

  void refuseElements(Order::Class& of) {
    const auto& array = *of.jobs.begin()->second->shape->array;
    model::Reason reason;
    reason.obstacle = model::Obstacle::kArrayLimit;
    reason.needed = 1;
    reason.available = elements_.at(array.first);
    for (const auto& [turn, other] : of.jobs) waiting_[other->id] = {reason};
    order_.refused(of);
  }

  void waitForOthers(const model::JobRecord& job) {
    model::Reason reason;
    reason.obstacle = model::Obstacle::kDependency;
    reason.needed = static_cast<std::int64_t>(job.waitsFor.size());
    reason.ahead = job.waitsFor.front().job;
    waiting_[job.id] = {reason};
  }

  // Its queue starts no jobs at this hour.
  bool closed(const model::JobRecord& job) {
    const auto queue = job.shape->queue;
    auto known = opens_.find(queue);
    if (known == opens_.end())
      known = opens_.emplace(queue, opensAt(*tables_.policy, queue, time_)).first;
    if (!known->second) return false;
    model::Reason reason;
    reason.obstacle = model::Obstacle::kWindow;
    reason.queue = now_.queues().at(now_.queues().indexOf(queue)).name;
    reason.until = *known->second;
    lookAgainAt(reason.until);
    waiting_[job.id] = {reason};
    return true;
  }

  void backOff(const model::JobRecord& job) {
    model::Reason reason;
    reason.obstacle = job.attempts == 0 ? model::Obstacle::kBegin : model::Obstacle::kBackoff;
    reason.until = job.notBefore;
    lookAgainAt(job.notBefore);
    waiting_[job.id] = {reason};
  }

  void lookAgainAt(Timestamp time) {
    if (plan_.nextLook.micros == 0 || time < plan_.nextLook) plan_.nextLook = time;
  }

  const model::Tables& tables_;
  const Timestamp time_;
  const Options& options_;
  Outlook& outlook_;
  World& now_;
  World* later_ = nullptr;  // set where anything is or may be stopped for another
  Order order_;
  std::map<JobId, std::uint32_t> elements_;  // of arrays with a most: how many hold capacity
  const std::map<JobId, std::size_t>& stoppingFor_;  // how many are being stopped for a job
  Reclaim reclaim_;
  bool reclaims_;
  std::map<QueueId, std::optional<Timestamp>> opens_;
  model::Plan plan_;
  std::unordered_set<JobId> started_;
  bool startsSpot_ = false;
  bool unkeptFor_ = false;  // no place was found to keep for one that has lost patience
  std::unordered_map<JobId, std::vector<model::Reason>> waiting_;
  std::size_t looked_ = 0;
  std::vector<const Order::Class*> refused_;
  Reserve reserve_;
  std::vector<Reserved> reserved_;
  std::set<Pool> pools_;     // that have a reservation
  World* unkept_ = nullptr;  // as if nothing were reserved; set once something is
  struct Held {
    const model::JobRecord* job;
    std::vector<model::RankPlacement> ranks;
    std::size_t startsBefore;
  };
  std::vector<Held> held_;  // before that
};

}  // namespace

model::Plan plan(const model::Tables& tables, const std::vector<JobId>& queue, Timestamp now,
                 const Options& options) {
  Outlook outlook;
  outlook.bring(tables, now, options.learnFrom);
  return planFrom(outlook, tables, queue, now, options);
}

model::Plan planFrom(Outlook& outlook, const model::Tables& tables, const std::vector<JobId>& queue,
                     Timestamp now, const Options& options) {
  auto made = Cycle(outlook, tables, now, options).run(queue);
  outlook.restore();
  return made;
}

Result<void> canEverRun(const model::Tables& tables, const model::JobShape& shape) {
  World all(tables, Of::kEmpty, Timestamp());
  return canEverRunIn(all, shape);
}

Result<void> canEverRunIn(World& all, const model::JobShape& shape) {
  if (all.nodes().empty()) return {};  // none has joined yet: it may
  Claim claim(shape);
  claim.user = UserId(UINT64_MAX);  // anyone, who has nothing yet
  const auto mark = all.mark();
  const bool fits = placeGang(all, claim).has_value();
  all.rollBack(mark);
  all.forget();
  if (fits) return {};
  std::string why;
  for (const auto& reason : obstacles(all, claim))
    why += (why.empty() ? "" : "; ") + neverSentence(reason);
  return fail(makeError(ErrorCode::kRefused, "this can never start here: " + why)
                  .withHint("`bole gpus` and `bole nodes` show what there is"));
}

std::string explain(const std::vector<model::Reason>& reasons) {
  std::string text;
  for (const auto& reason : reasons) text += (text.empty() ? "" : "; ") + sentence(reason);
  return text;
}

}  // namespace bole::scheduler
