#include "scheduler/planner.h"

#include "scheduler/cycle.h"
#include "scheduler/outlook.h"

namespace bole::scheduler {

Planner::Planner() : outlook_(std::make_unique<Outlook>()) {}
Planner::~Planner() = default;

model::Plan Planner::plan(const model::Tables& tables, const std::vector<JobId>& queue,
                          Timestamp now, const Options& options) {
  outlook_->bring(tables, now, options.learnFrom);
  outlook_->remember();
  return planFrom(*outlook_, tables, queue, now, options);
}

bool Planner::isSameCloud(const model::Tables& tables) const {
  if (!empty_ || policy_ != tables.policy) return false;
  bool isSame = true;
  tables.nodes.forEachChanged(
      nodes_, [&](NodeId, const model::NodeRecord* was, const model::NodeRecord* is) {
        isSame = isSame && was && is && was->present == is->present && was->node == is->node &&
                 was->marks.empty() == is->marks.empty() && was->probed == is->probed;
      });
  return isSame;
}

Result<void> Planner::canEverRun(const model::Tables& tables, const model::JobShape& shape) {
  if (!isSameCloud(tables)) empty_ = std::make_unique<World>(tables, Of::kEmpty, Timestamp());
  nodes_ = tables.nodes;
  policy_ = tables.policy;
  return canEverRunIn(*empty_, shape);
}

}  // namespace bole::scheduler
