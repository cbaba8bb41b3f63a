// Events for people, read from the ledger beside the one writer.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "controller/snapshot.h"
#include "ledger/sqlite_ledger.h"
#include "model/views.h"

namespace bole::app {

class EventReader {
 public:
  // `names`: a snapshot to take the names of users and projects from. `random` outlives this.
  EventReader(std::string home, Rng& random,
              std::function<std::shared_ptr<const controller::Snapshot>()> names)
      : home_(std::move(home)), random_(random), names_(std::move(names)) {}

  // At most `limit` events with sequence >= from, in order. From several threads at once; blocks.
  [[nodiscard]] Result<model::EventList> read(std::uint64_t from, std::size_t limit);

 private:
  std::string home_;
  Rng& random_;
  std::function<std::shared_ptr<const controller::Snapshot>()> names_;
  std::mutex mutex_;
  std::unique_ptr<ledger::SqliteLedger> ledger_;  // read-only; opened when first asked
};

// One line about an event: "job 3: rank 2 failed first". Of what only ids are known, ids are said.
[[nodiscard]] std::string summaryOf(const model::Event& event);

}  // namespace bole::app
