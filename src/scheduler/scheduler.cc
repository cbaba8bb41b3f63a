#include "scheduler/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "scheduler/free.h"
#include "scheduler/keep.h"
#include "scheduler/obstacles.h"
#include "scheduler/place.h"

namespace bole::scheduler {
namespace {

// Jobs alike in everything that placing reads are tried once a cycle.
struct ShapeLess {
  static auto key(const model::TaskShape& task) {
    return std::tie(task.replicas, task.minAvailable, task.gpus.count, task.gpus.share,
                    task.gpus.models, task.gpus.memoryMin, task.gpus.memoryMax, task.cpus,
                    task.memory);
  }
  bool operator()(const model::JobShape* a, const model::JobShape* b) const {
    if (a->minAvailable != b->minAvailable) return a->minAvailable < b->minAvailable;
    return std::lexicographical_compare(
        a->tasks.begin(), a->tasks.end(), b->tasks.begin(), b->tasks.end(),
        [](const model::TaskShape& x, const model::TaskShape& y) { return key(x) < key(y); });
  }
};

// One planning cycle.
class Cycle {
 public:
  Cycle(const model::Tables& tables, Timestamp now, const Policy& policy)
      : tables_(tables), now_(now), policy_(policy), free_(tables, false) {}

  void look(JobId id) {
    const auto* job = tables_.jobs.find(id);
    if (!job) return;
    if (job->notBefore > now_) {
      backOff(*job);
    } else if (looked_ >= policy_.maxJobs) {
      wait(id, {model::Reason{}});
    } else if (const auto known = blocked_.find(job->shape.get()); known != blocked_.end()) {
      wait(id, known->second);
    } else {
      place(*job);
    }
  }

  [[nodiscard]] model::Plan take() { return std::move(plan_); }

 private:
  void place(const model::JobRecord& job) {
    ++looked_;
    auto ranks = placeGang(free_, *job.shape);
    if (ranks) {
      if (unkept_) unkept_->take(*job.shape, *ranks);
      plan_.starts.push_back({job.id, std::move(*ranks)});
      return;
    }
    auto why = obstacles(free_, *job.shape);
    if (unkept_ && keptWouldDo(job)) why = {keptFor()};
    blocked_.emplace(job.shape.get(), why);
    wait(job.id, std::move(why));
    if (unkept_) return;
    if (now_ - job.queuedAt >= policy_.patience)
      keep(job);
    else
      lookAgainAt(job.queuedAt + policy_.patience);
  }

  // The first blocked job that has lost patience is kept what it could use, until it starts.
  void keep(const model::JobRecord& job) {
    keeper_ = job.id;
    plan_.keeps = true;
    unkept_ = free_;
    keepFor(free_, *job.shape);
  }

  // Would the job fit if nothing were kept?
  [[nodiscard]] bool keptWouldDo(const model::JobRecord& job) {
    const auto mark = unkept_->mark();
    const bool fits = placeGang(*unkept_, *job.shape).has_value();
    unkept_->rollBack(mark);
    return fits;
  }

  [[nodiscard]] model::Reason keptFor() const {
    model::Reason reason;
    reason.obstacle = model::Obstacle::kAhead;
    reason.ahead = keeper_;
    return reason;
  }

  void backOff(const model::JobRecord& job) {
    model::Reason reason;
    reason.obstacle = model::Obstacle::kBackoff;
    reason.until = job.notBefore;
    lookAgainAt(job.notBefore);
    wait(job.id, {reason});
  }

  void wait(JobId id, std::vector<model::Reason> reasons) {
    plan_.waiting.push_back({id, std::move(reasons)});
  }

  void lookAgainAt(Timestamp time) {
    if (plan_.nextLook.micros == 0 || time < plan_.nextLook) plan_.nextLook = time;
  }

  const model::Tables& tables_;
  Timestamp now_;
  const Policy& policy_;
  FreeCapacity free_;
  model::Plan plan_;
  std::map<const model::JobShape*, std::vector<model::Reason>, ShapeLess> blocked_;
  std::size_t looked_ = 0;
  JobId keeper_;
  std::optional<FreeCapacity> unkept_;  // as if nothing were kept; set once there is a keeper
};

}  // namespace

model::Plan plan(const model::Tables& tables, const std::vector<JobId>& queue, Timestamp now,
                 const Policy& policy) {
  Cycle cycle(tables, now, policy);
  for (const auto id : queue) cycle.look(id);
  return cycle.take();
}

Result<void> canEverRun(const model::Tables& tables, const model::JobShape& shape) {
  for (const auto& task : shape.tasks) {
    if (task.gpus.count > 0 && task.gpus.share != kWholeGpu) {
      return fail(makeError(ErrorCode::kUnsupported, "shares of a GPU are not served yet")
                      .foundValue(fmt::format("{} thousandths", task.gpus.share.value))
                      .withHint("ask for whole GPUs"));
    }
  }
  FreeCapacity all(tables, true);
  if (all.nodes().empty()) return {};  // none has joined yet: it may
  if (placeGang(all, shape)) return {};
  std::string why;
  for (const auto& reason : obstacles(all, shape))
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
