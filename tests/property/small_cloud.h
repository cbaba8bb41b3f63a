// Small random clouds, and an independent judge of what could start: it tries everything.
#pragma once

#include <map>
#include <random>

#include "scheduler/testing/cloud.h"

namespace bole::test {

using scheduler::Cloud;
using scheduler::kNow;

// What the clouds are made of.
struct Making {
  bool queues = true;     // several, with guarantees, limits and weights
  bool gangs = true;      // of several replicas, some elastic
  bool tasks = true;      // of several tasks
  bool evictions = true;  // priorities with preemption, spot, firm jobs
  bool limits = true;     // of time
  bool parts = true;      // of GPUs, in jobs of one task
  bool labels = true;     // of nodes
};

class SmallCloud {
 public:
  SmallCloud(std::uint64_t seed, Making making);

  Cloud cloud;

  // New jobs come, some that run end, time goes on.
  void turn();
  [[nodiscard]] Timestamp now() const { return now_; }
  // A GPU fails or is whole again, or a node joins.
  void changeHardware();
  // How long a user's jobs ran, and what a queue used.
  void learn();
  // Another patience or half-life, and something booked.
  void changePolicy();
  // Everything the plan decides happens, and what it stops is gone at once or later, by chance.
  void follow(const model::Plan& plan);
  [[nodiscard]] model::Plan plan() const { return cloud.plan(options(), now_); }
  // In every other cloud nodes are chosen by their value from the first job on.
  [[nodiscard]] scheduler::Options options() const { return options_; }

  [[nodiscard]] std::size_t below(std::size_t n) { return n == 0 ? 0 : random_() % n; }
  [[nodiscard]] bool chance(unsigned percent) { return below(100) < percent; }

 private:
  void addNodes();
  void addQueues();
  void addJob();

  std::mt19937_64 random_;
  Making making_;
  scheduler::Options options_;
  Timestamp now_ = kNow;
  std::vector<QueueId> leaves_;
};

// Of each node: what is not held by live attempts, counted from them alone.
struct Room {
  const model::Node* node = nullptr;
  std::vector<std::int64_t> share;  // of each GPU, thousandths; 0 of one that is not healthy
  std::int64_t cpus = 0;
  std::int64_t memory = 0;
};
[[nodiscard]] std::map<NodeId, Room> roomIn(const model::Tables& tables);

// Of each queue and all above it: GPUs (thousandths) of live attempts.
[[nodiscard]] std::map<QueueId, std::int64_t> gpusOfQueues(const model::Tables& tables,
                                                           bool withSpot = true);

// Could the gang be placed on this room, in any way at all? Tries everything.
[[nodiscard]] bool fitsSomehow(const std::map<NodeId, Room>& room, const model::JobShape& shape);

}  // namespace bole::test
