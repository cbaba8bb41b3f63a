// What plans are made from: the world as it is, as it will be when all that is being stopped has
// gone, and as it would be if nothing were kept for anyone; and who runs. Lives from one plan to
// the next and is brought up to what has changed in the tables since.
//
// A plan takes and gives back in these worlds as it likes; all of that is undone before the next.
#pragma once

#include <memory>
#include <optional>
#include <set>

#include "model/tables.h"
#include "scheduler/appraiser.h"
#include "scheduler/running.h"
#include "scheduler/world.h"

namespace bole::scheduler {

class Outlook {
 public:
  // The tables outlive the plan. Nodes are valued from the job with the number `learnFrom` on.
  void bring(const model::Tables& tables, Timestamp now, std::size_t learnFrom);
  // A copy of the tables is kept, to find what differs next time; without that the outlook serves
  // one plan.
  void remember() { before_ = *tables_; }

  [[nodiscard]] World& now() { return *now_; }
  [[nodiscard]] World& later();
  [[nodiscard]] World& unkept();
  [[nodiscard]] const Running& running() const { return running_; }

  // Undoes what a plan has done.
  void restore();

 private:
  struct Changes {
    bool isAnother = false;  // other nodes or another policy: all begins anew
    std::set<NodeId> nodes;
    std::set<AttemptId> attempts;
    bool isLearntFrom = false;  // a job from which nodes are valued
  };
  [[nodiscard]] Changes changesTo(const model::Tables& tables) const;
  void begin(const model::Tables& tables);
  void follow(const model::Tables& tables, const Changes& changes);
  [[nodiscard]] std::unique_ptr<World> make() const;

  const model::Tables* tables_ = nullptr;
  Timestamp time_;
  std::optional<model::Tables> before_;
  std::unique_ptr<World> now_;
  std::unique_ptr<World> later_;  // made when first asked for, like the next
  std::unique_ptr<World> unkept_;
  Lesson lesson_;         // by which nodes are valued
  bool isLater_ = false;  // later_ has what is being stopped given back
  Running running_;
};

}  // namespace bole::scheduler
