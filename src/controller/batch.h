// What one batch of messages comes to: events folded but not yet durable, and what waits for their
// being so.
#pragma once

#include "controller/controller.h"

namespace bole::controller {

struct Controller::Batch {
  // Called with null once the events are durable, with the reason if they could not be made so.
  using Outcome = std::function<void(const Error*)>;

  Timestamp now;         // ledger time of every event of this batch
  model::Tables before;  // where to go back to
  Readings seenBefore;
  std::vector<ports::NewEvent> events;
  std::vector<Outcome> outcomes;
  std::vector<std::function<void(ports::Engine&)>> effects;
  std::vector<JobId> newJobs;
  std::vector<JobId> broken;    // what they wait for can never come
  bool reasonsChanged = false;  // why someone waits, which is no event

  // What was added to the controller's maps beside the tables.
  std::vector<std::string> newProjects;
  std::vector<std::string> newUsers;
  std::vector<std::string> newRequests;
};

}  // namespace bole::controller
