// An execution engine: starts, stops and watches attempts. It decides nothing.
//
// Start and stop are idempotent and return at once; what happens is told through reports, at least
// once each, in any order across attempts. An engine holds no truth of its own: after a restart it
// is given the live attempts by adopt() and reports what became of them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "model/event.h"
#include "model/job.h"

namespace bole::ports {

// Everything an engine needs to run one attempt.
struct AttemptOrder {
  AttemptId attempt;
  JobId job;
  std::uint32_t number = 1;
  ProjectId project;
  std::shared_ptr<const model::JobShape> shape;
  std::shared_ptr<const model::JobText> text;
  std::vector<model::RankPlacement> ranks;
  std::vector<std::shared_ptr<const model::Node>>
      nodes;           // the node of each rank, parallel to ranks
  bool began = false;  // the ledger says that it ran: it is never started, whatever is found of it
};

// The highest numbers that anything bears which an engine still has.
struct NumbersInUse {
  AttemptId attempt;
  JobId job;
};

struct AttemptRunning {
  AttemptId attempt;
};

struct AttemptFinished {
  AttemptId attempt;
  model::AttemptOutcome outcome = model::AttemptOutcome::kCompleted;
  model::StopReason stop = model::StopReason::kNone;  // where it was asked to
  std::int32_t firstFailed = -1;
  std::vector<model::RankExit> ranks;
  std::string note;  // for people; may be empty
};

struct CheckpointSeen {
  AttemptId attempt;
  std::uint64_t epoch = 0;
  Bytes size;
  std::string path;
};

using EngineReport = std::variant<AttemptRunning, AttemptFinished, CheckpointSeen>;

class Engine {
 public:
  virtual ~Engine() = default;

  // Called once before anything else. `report` may be called from any thread; it never blocks.
  virtual void open(std::function<void(EngineReport)> report) = 0;

  // Runs the attempt, unless it was already started (also by an earlier life of the server).
  // Failing to start is a report (kLaunchFailed), not an error here.
  virtual void start(AttemptOrder order) = 0;

  // SIGTERM, `grace`, SIGKILL. Of an attempt that is gone: reports AttemptFinished again.
  virtual void stop(AttemptId attempt, model::StopReason reason, Duration grace) = 0;

  // After a restart: watch this attempt, which the ledger says is live. One whose supervisor never
  // claimed it is started, unless the ledger says that it ran: then it is lost.
  virtual void adopt(AttemptOrder order) = 0;

  // New attempts and jobs are numbered above these: what bears a number that a ledger which went
  // back (an older copy put in its place) gives once more is of another.
  [[nodiscard]] virtual NumbersInUse numbersInUse() const = 0;

  // The attempt's end is durable in the ledger: what the engine kept for it (but its logs) may go.
  virtual void forget(AttemptId attempt) = 0;
};

}  // namespace bole::ports
