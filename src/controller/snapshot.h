// What readers see: the state after a durable batch, joined with the texts of live and recent jobs.
// Immutable; holding one costs the writer nothing but the chunks that change meanwhile.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/cow_table.h"
#include "model/plan.h"
#include "model/tables.h"

namespace bole::controller {

struct Snapshot {
  std::uint64_t revision = 0;  // grows with each one published
  model::Tables tables;
  CowTable<JobId, std::vector<model::Reason>> waiting;            // why each queued job waits
  CowTable<SideId, std::shared_ptr<const model::JobText>> texts;  // of jobs in the tables
  CowTable<SideId, std::shared_ptr<const std::string>>
      names;  // of projects, users, notes, checkpoint paths
  bool writable = true;
  std::string problem;  // why new commands are refused, where they are

  [[nodiscard]] std::shared_ptr<const model::JobText> text(const model::JobRecord& job) const {
    const auto* found = texts.find(job.text);
    return found ? *found : nullptr;
  }
  [[nodiscard]] std::string name(SideId id) const {
    const auto* found = names.find(id);
    return found && *found ? **found : std::string();
  }
};

}  // namespace bole::controller
