// A large cloud of several kinds of node, queues and jobs, as tables that plans are made of and
// that follow them. Deterministic: the same sizes and seed give the same tables everywhere.
#pragma once

#include <cstdint>
#include <vector>

#include "model/plan.h"
#include "model/tables.h"

namespace bole::bench {

// Splitmix64 (Steele, Lea, Flood 2014).
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed) {}
  std::uint64_t below(std::uint64_t bound);
  bool chance(std::uint64_t percent) { return below(100) < percent; }

 private:
  std::uint64_t state_;
};

class LargeCloud {
 public:
  // Nodes of 8 GPUs: half A100, three tenths H100, the rest L40S; a quarter have fast local disks.
  LargeCloud(std::size_t nodes, std::uint64_t seed);

  // One job more waits: single GPUs, parts, several on a node, gangs over nodes, CPUs only.
  JobId submit();
  // One of a shape that is no other's.
  JobId submitOdd();
  // One node's GPUs, for a queue that is guaranteed some from now on.
  JobId submitEntitled();
  // As many single GPUs as there are.
  void fill();
  // What the plan starts runs.
  void follow(const model::Plan& plan);
  // A job that runs ends, drawn by chance.
  void endOne();

  [[nodiscard]] const model::Tables& tables() const { return tables_; }
  [[nodiscard]] const std::vector<JobId>& queue() const { return queue_; }
  [[nodiscard]] std::vector<JobId>& queue() { return queue_; }
  [[nodiscard]] Timestamp now() const { return now_; }
  void pass(Duration time) { now_ = now_ + time; }

 private:
  void addQueues();
  JobId add(model::JobShape shape);
  JobId add(model::JobShape shape, QueueId queue);
  [[nodiscard]] model::TaskShape anyTask();
  void hold(const model::JobShape& shape, const std::vector<model::RankPlacement>& ranks,
            std::int64_t sign);

  Dice dice_;
  model::Tables tables_;
  std::vector<JobId> queue_;
  std::vector<JobId> running_;
  std::vector<QueueId> leaves_;
  std::uint64_t odd_ = 0;
  Timestamp now_{1'000'000'000};
};

}  // namespace bole::bench
