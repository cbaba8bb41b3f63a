// Makes one plan after the other of tables that change little in between: what a decision costs is
// what has changed, not how large the cloud is.
//
// Each plan is the one that scheduler::plan makes of the same tables. Not for several threads at
// once. Holds a copy of the last tables: a few pointers, and the chunks that have changed since.
#pragma once

#include <memory>
#include <vector>

#include "base/result.h"
#include "model/plan.h"
#include "model/tables.h"
#include "scheduler/scheduler.h"

namespace bole::scheduler {

class Outlook;
class World;

class Planner {
 public:
  Planner();
  ~Planner();
  Planner(const Planner&) = delete;
  Planner& operator=(const Planner&) = delete;

  // As scheduler::plan. The tables need only live as long as the call.
  [[nodiscard]] model::Plan plan(const model::Tables& tables, const std::vector<JobId>& queue,
                                 Timestamp now, const Options& options);
  // As scheduler::canEverRun.
  [[nodiscard]] Result<void> canEverRun(const model::Tables& tables, const model::JobShape& shape);

 private:
  [[nodiscard]] bool isSameCloud(const model::Tables& tables) const;

  std::unique_ptr<Outlook> outlook_;
  // As if nothing ran, of these nodes and this policy.
  std::unique_ptr<World> empty_;
  CowTable<NodeId, model::NodeRecord> nodes_;
  std::shared_ptr<const model::Policy> policy_;
};

}  // namespace bole::scheduler
