// What is true now: a fold of events, and which commands are legal on it.
//
// Pure: no clock, no file, no randomness. apply() is the only way to change a State; an event that
// does not fit is a fault of the caller's (kInternal) or a damaged ledger, and leaves the state
// untouched.
#pragma once

#include <set>
#include <tuple>

#include "base/result.h"
#include "model/event.h"
#include "model/tables.h"

namespace bole::state {

// The order in which jobs are looked at: priority, then when they first queued, then number.
struct QueueKey {
  std::int32_t negativePriority = 0;
  Timestamp queuedAt;
  JobId job;
  auto operator<=>(const QueueKey&) const = default;
};

class State {
 public:
  State() = default;
  explicit State(model::Tables tables);  // derives the indices

  // Folds one event. `sequence` and `time` are those of its envelope.
  [[nodiscard]] Result<void> apply(const model::Event& event, std::uint64_t sequence,
                                   Timestamp time);

  [[nodiscard]] const model::Tables& tables() const { return tables_; }
  [[nodiscard]] const std::set<QueueKey>& queued() const { return queued_; }
  [[nodiscard]] const std::set<AttemptId>& liveAttempts() const { return live_; }
  [[nodiscard]] const std::set<std::pair<Timestamp, JobId>>& finished() const {
    return finished_;
  }  // oldest first

  // Ids are handed out here, so that a rolled back batch hands them out again.
  [[nodiscard]] std::uint64_t nextSide() { return ++tables_.lastSide; }

 private:
  friend struct Folder;
  void countUse();

  model::Tables tables_;
  std::set<QueueKey> queued_;  // QUEUED jobs
  std::set<AttemptId> live_;
  std::set<std::pair<Timestamp, JobId>> finished_;
};

// What a policy must be to be set; the first thing that is not so, in the terms of who wrote it
// (kInvalid). Jobs that exist are not looked at.
[[nodiscard]] Result<void> checkPolicy(const model::Policy& policy);

// The invariants of docs/design/DESIGN.md that concern one state. The first that does not hold,
// named with its numbers.
[[nodiscard]] Result<void> checkInvariants(const model::Tables& tables);

}  // namespace bole::state
