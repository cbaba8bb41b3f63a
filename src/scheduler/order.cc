#include "scheduler/order.h"

#include <algorithm>

namespace bole::scheduler {
namespace {

auto keyOf(const model::TaskShape& task) {
  return std::tie(task.replicas, task.minAvailable, task.gpus.count, task.gpus.share,
                  task.gpus.shareMemory, task.gpus.models, task.gpus.memoryMin, task.gpus.memoryMax,
                  task.gpus.computeMin, task.cpus, task.memory, task.nodeLabels);
}

// Elements of arrays of which only so many may run are no one else's like.
JobId cappedArray(const model::JobShape& shape) {
  return shape.array && shape.array->most > 0 ? shape.array->first : JobId();
}

auto keyOf(const model::JobShape& shape) {
  return std::tuple_cat(std::tie(shape.queue, shape.priority, shape.preemptible, shape.spot,
                                 shape.minAvailable, shape.timeLimit, shape.grace),
                        std::tuple(cappedArray(shape)));
}

// What is asked first at a branching: less goes first.
std::pair<double, double> rightOf(const Queues& queues, std::size_t queue) {
  return {std::min(queues.guaranteeUsed(queue), 1.0), queues.shareOf(queue)};
}

}  // namespace

bool areAlike(const model::JobShape& a, const model::JobShape& b) {
  return keyOf(a) == keyOf(b) &&
         std::equal(a.tasks.begin(), a.tasks.end(), b.tasks.begin(), b.tasks.end(),
                    [](const auto& x, const auto& y) { return keyOf(x) == keyOf(y); });
}

Turn turnOf(const model::JobRecord& job) {
  return {-job.shape->priority, job.queuedAt, job.id};
}

bool Order::Key::operator==(const Key& other) const {
  return user == other.user && areAlike(*shape, *other.shape);
}

// Of what mostly differs.
std::size_t Order::HashKey::operator()(const Key& key) const {
  auto hash = key.user.value;
  const auto mix = [&](std::int64_t value) {
    hash = (hash ^ static_cast<std::uint64_t>(value)) * 0x9E3779B97F4A7C15ULL;
    hash ^= hash >> 29U;
  };
  mix(static_cast<std::int64_t>(key.shape->queue.value));
  mix(key.shape->priority);
  mix(key.shape->timeLimit.value);
  for (const auto& task : key.shape->tasks) {
    mix(task.replicas);
    mix(task.gpus.count);
    mix(task.gpus.share.value);
    mix(task.cpus.value);
    mix(task.memory.value);
  }
  return hash;
}

Order::Order(const Queues& queues) : tree_(queues), branches_(queues.size()) {
  for (std::size_t q = 0; q < queues.size(); ++q) {
    branches_[q].parent = queues.at(q).parent;
    branches_[q].children = queues.at(q).children;
    branches_[q].usersCount = queues.at(q).usersCount || branches_[branches_[q].parent].usersCount;
  }
}

void Order::count(std::size_t queue, std::ptrdiff_t more) {
  for (auto q = queue;; q = branches_[q].parent) {
    branches_[q].below =
        static_cast<std::size_t>(static_cast<std::ptrdiff_t>(branches_[q].below) + more);
    if (q == 0) return;
  }
}

void Order::add(const model::JobRecord& job) {
  const auto queue = tree_.indexOf(job.shape->queue);
  auto& branch = branches_[queue];
  const auto user = branch.usersCount ? job.user : UserId();
  auto& own = classes_[Key{job.shape.get(), user}];
  if (!own.shape) {
    own.shape = job.shape.get();
    own.user = user;
    own.queue = queue;
  }
  const auto turn = turnOf(job);
  const bool first = own.jobs.empty() || turn < own.jobs.begin()->first;
  if (first && !own.jobs.empty()) branch.open.erase({own.jobs.begin()->first, &own});
  if (own.jobs.empty()) count(queue, 1);
  own.jobs.emplace_hint(own.jobs.end(), turn, &job);  // mostly they come in order
  if (first) branch.open.insert({turn, &own});
}

Order::Class* Order::next(const Queues& queues) {
  std::size_t at = 0;
  if (branches_[at].below == 0) return nullptr;
  for (;;) {
    if (!branches_[at].open.empty()) return branches_[at].open.begin()->second;
    std::size_t best = 0;
    std::pair<double, double> bestRight;
    for (const auto child : branches_[at].children) {
      if (branches_[child].below == 0) continue;
      const auto right = rightOf(queues, child);
      if (best != 0 && right >= bestRight) continue;
      best = child;
      bestRight = right;
    }
    at = best;
  }
}

void Order::close(Class& of, const Turn& turn) {
  branches_[of.queue].open.erase({turn, &of});
}

void Order::started(Class& of) {
  close(of, of.jobs.begin()->first);
  of.jobs.erase(of.jobs.begin());
  if (of.jobs.empty())
    count(of.queue, -1);
  else
    branches_[of.queue].open.insert({of.jobs.begin()->first, &of});
}

void Order::refused(Class& of) {
  close(of, of.jobs.begin()->first);
  count(of.queue, -1);
}

}  // namespace bole::scheduler
