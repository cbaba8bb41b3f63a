// A scenario file (tests/scenario/README.md) as plain data: a cloud, a policy, and steps on a
// virtual clock with the tables that are expected after them.
//
// Jobs are read by the reader of bole.yaml and policies by that of `bole policy apply`, so that a
// new field of either needs nothing here. Errors are of kInvalid and name FILE:LINE:COLUMN.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "model/event.h"
#include "model/job.h"
#include "model/node.h"
#include "model/policy.h"

namespace bole::test {

struct Submission {
  model::JobSpec spec;
  std::string project;
  std::string user = "ana";
  std::uint32_t count = 0;   // 0: one, known by its name alone; else NAME-1, NAME-2, ...
  Duration takes;            // completes so long after it runs; 0: when a step says so
  bool cannotStart = false;  // the engine fails to launch it, each time
};

struct Submit {
  std::vector<Submission> jobs;  // all at once
};
struct Pass {
  Duration time;
};
// What the engine tells of jobs that run or are being stopped.
struct End {
  std::vector<std::string> jobs;
  model::AttemptOutcome outcome = model::AttemptOutcome::kCompleted;
  std::uint32_t rank = 0;   // that failed or was lost
  std::int32_t code = 1;    // of a rank that failed
  bool ofStopping = false;  // "all" means those that were asked to stop
};
struct Checkpoint {
  std::vector<std::string> jobs;
};
struct Cancel {
  std::vector<std::string> jobs;
};
struct Share {
  model::Policy policy;
};
struct SetHealth {
  std::vector<std::string> gpus;  // "n1[3]", "n1[0-3]"
  model::GpuHealth health = model::GpuHealth::kHealthy;
};
struct SetPresence {
  std::vector<std::string> nodes;
  bool present = true;
};
struct Restart {};
struct Table {
  bool ofQueues = false;
  std::string text;        // as it stands in the file; empty: nothing was written yet
  std::size_t line = 1;    // of `expect:` or `queues:`
  std::size_t indent = 0;  // of the same, in characters
};
struct Repeat;
using RepeatBox = std::shared_ptr<const Repeat>;

struct Step {
  std::string place;  // FILE:LINE:COLUMN
  std::variant<Submit, Pass, End, Checkpoint, Cancel, Share, SetHealth, SetPresence, Restart, Table,
               RepeatBox>
      what;
};
struct Repeat {
  std::uint32_t times = 1;
  std::vector<Step> steps;
};

struct Scenario {
  std::string file;
  std::string title;
  std::string text;                // the whole file
  std::vector<model::Node> nodes;  // n1, n2, ...
  std::optional<model::Policy> policy;
  Duration stopsAfter{-1};  // who is asked to stop is gone so long after; negative: by a step
  std::vector<Step> steps;
};

[[nodiscard]] Result<Scenario> readScenario(const std::string& text, const std::string& file);

// The file with these texts in the places of its tables, in their order.
[[nodiscard]] std::string withTables(const Scenario& scenario,
                                     const std::vector<std::string>& tables);

// "small-[1-3,7]" to small-1, small-2, small-3, small-7; a name without brackets is itself.
[[nodiscard]] Result<std::vector<std::string>> namesIn(const std::string& pattern);

// "n1[0-3]" to n1 and 0, 1, 2, 3. Without brackets: kInvalid.
struct Numbered {
  std::string name;
  std::vector<std::uint32_t> numbers;
};
[[nodiscard]] Result<Numbered> numbersIn(const std::string& pattern);

}  // namespace bole::test
