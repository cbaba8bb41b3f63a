#include "scheduler/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "scheduler/free.h"
#include "scheduler/match.h"
#include "scheduler/place.h"

namespace bole::scheduler {
namespace {

// Jobs alike in everything that placing reads are tried once a cycle.
struct ShapeLess {
  static auto key(const model::TaskShape& task) {
    return std::tie(task.replicas, task.gpus.count, task.gpus.share, task.gpus.models,
                    task.gpus.memoryMin, task.gpus.memoryMax, task.cpus, task.memory);
  }
  bool operator()(const model::JobShape* a, const model::JobShape* b) const {
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
      plan_.starts.push_back({job.id, std::move(*ranks)});
      return;
    }
    auto why = obstacles(free_, *job.shape);
    if (keeper_.isSet() && keptWouldDo(job)) why = {keptFor()};
    blocked_.emplace(job.shape.get(), why);
    wait(job.id, std::move(why));
    if (!keeper_.isSet() && now_ - job.queuedAt >= policy_.patience)
      keepFor(job);
    else if (!keeper_.isSet())
      lookAgainAt(job.queuedAt + policy_.patience);
  }

  // The oldest blocked job that has lost patience gets every node that could serve a rank of it,
  // until it starts.
  void keepFor(const model::JobRecord& job) {
    keeper_ = job.id;
    plan_.keeps = true;
    const auto& nodes = free_.nodes();
    for (std::size_t n = 0; n < nodes.size(); ++n) {
      for (const auto& task : job.shape->tasks) {
        std::vector<std::uint32_t> gpus;
        for (std::uint32_t i = 0; i < nodes[n].idle.size(); ++i) {
          if (task.gpus.count > 0 && nodes[n].idle[i] && matches(task.gpus, nodes[n].node->gpus[i]))
            gpus.push_back(i);
        }
        if (!gpus.empty()) free_.take(n, kept_, gpus);
      }
      if (job.shape->tasks.front().gpus.count == 0) {
        everything_.cpus = nodes[n].cpus;
        everything_.memory = nodes[n].memory;
        free_.take(n, everything_, {});
      }
    }
  }

  // Would the job fit if nothing were kept? Asked of the tables as they are, after this cycle's
  // starts.
  [[nodiscard]] bool keptWouldDo(const model::JobRecord& job) const {
    FreeCapacity all(tables_, false);
    for (const auto& start : plan_.starts) {
      const auto& shape = *tables_.jobs.find(start.job)->shape;
      for (const auto& rank : start.ranks) {
        for (std::size_t n = 0; n < all.nodes().size(); ++n) {
          if (all.nodes()[n].id == rank.node) all.take(n, shape.tasks[rank.task], rank.gpus);
        }
      }
    }
    return placeGang(all, *job.shape).has_value();
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
  model::TaskShape kept_ = [] {
    model::TaskShape nothing;
    nothing.cpus = MilliCpu(0);
    return nothing;
  }();
  model::TaskShape everything_;
};

std::string sentence(const model::Reason& reason) {
  using model::Obstacle;
  switch (reason.obstacle) {
    case Obstacle::kGpus:
      return fmt::format("waits for {} {}{}: {} free now", reason.needed,
                         reason.detail.empty() ? "GPU" : reason.detail,
                         reason.needed == 1 || reason.detail.find(' ', reason.detail.find("GPU")) !=
                                                   std::string::npos
                             ? ""
                             : "s",
                         reason.available);
    case Obstacle::kGpusPerNode:
      return fmt::format("waits for a node with {} free {}s: the most on one node is {}",
                         reason.needed, reason.detail.empty() ? "GPU" : reason.detail,
                         reason.available);
    case Obstacle::kCpus:
      return fmt::format("waits for {:g} CPUs: {:g} free now",
                         static_cast<double>(reason.needed) / 1000,
                         static_cast<double>(reason.available) / 1000);
    case Obstacle::kMemory:
      return fmt::format("waits for {} of memory: {} free now", formatBytes(Bytes(reason.needed)),
                         formatBytes(Bytes(reason.available)));
    case Obstacle::kAhead:
      return fmt::format("waits behind job {}, for which capacity is being kept",
                         reason.ahead.value);
    case Obstacle::kBackoff:
      return fmt::format("waits until {} UTC before trying again", formatTimestamp(reason.until));
    case Obstacle::kNoNodes:
      return "waits for a node: none is present";
    case Obstacle::kNotLookedAt:
      return "waits for the scheduler to come to it";
  }
  return {};
}

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
  for (const auto& reason : obstacles(all, shape)) {
    std::string part;
    switch (reason.obstacle) {
      case model::Obstacle::kGpus:
        part = fmt::format("needs {} {}{}, this cloud has {}", reason.needed, reason.detail,
                           reason.needed == 1 ? "" : "s", reason.available);
        break;
      case model::Obstacle::kGpusPerNode:
        part = fmt::format("needs {} {}{} in one node, the largest has {}", reason.needed,
                           reason.detail, reason.needed == 1 ? "" : "s", reason.available);
        break;
      case model::Obstacle::kCpus:
        part = fmt::format("needs {:g} CPUs, this cloud has {:g}",
                           static_cast<double>(reason.needed) / 1000,
                           static_cast<double>(reason.available) / 1000);
        break;
      case model::Obstacle::kMemory:
        part = fmt::format("needs {} of memory, this cloud has {}",
                           formatBytes(Bytes(reason.needed)), formatBytes(Bytes(reason.available)));
        break;
      default:
        part = sentence(reason);
        break;
    }
    why += (why.empty() ? "" : "; ") + part;
  }
  return fail(makeError(ErrorCode::kRefused, "this can never start here: " + why)
                  .withHint("`bole gpus` and `bole nodes` show what there is"));
}

std::string explain(const std::vector<model::Reason>& reasons) {
  std::string text;
  for (const auto& reason : reasons) text += (text.empty() ? "" : "; ") + sentence(reason);
  return text;
}

}  // namespace bole::scheduler
