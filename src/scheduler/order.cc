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

bool ShapeLess::operator()(const model::JobShape* a, const model::JobShape* b) const {
  if (keyOf(*a) != keyOf(*b)) return keyOf(*a) < keyOf(*b);
  return std::lexicographical_compare(
      a->tasks.begin(), a->tasks.end(), b->tasks.begin(), b->tasks.end(),
      [](const model::TaskShape& x, const model::TaskShape& y) { return keyOf(x) < keyOf(y); });
}

Turn turnOf(const model::JobRecord& job) {
  return {-job.shape->priority, job.queuedAt, job.id};
}

bool Order::ClassLess::operator()(const Key& a, const Key& b) const {
  const ShapeLess less;
  if (less(std::get<0>(a), std::get<0>(b))) return true;
  if (less(std::get<0>(b), std::get<0>(a))) return false;
  return std::get<1>(a) < std::get<1>(b);
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
  auto& own = classes_[{job.shape.get(), user}];
  if (!own.shape) {
    own.shape = job.shape.get();
    own.user = user;
    own.queue = queue;
  }
  const auto turn = turnOf(job);
  const bool first = own.jobs.empty() || turn < own.jobs.begin()->first;
  if (first && !own.jobs.empty()) branch.open.erase({own.jobs.begin()->first, &own});
  if (own.jobs.empty()) count(queue, 1);
  own.jobs.emplace(turn, &job);
  if (first) branch.open.insert({turn, &own});
}

Order::Class* Order::next(const Queues& queues) {
  std::size_t at = 0;
  if (branches_[at].below == 0) return nullptr;
  for (;;) {
    if (!branches_[at].open.empty()) return branches_[at].open.begin()->second;
    std::size_t best = 0;
    for (const auto child : branches_[at].children) {
      if (branches_[child].below == 0) continue;
      if (best == 0 || rightOf(queues, child) < rightOf(queues, best)) best = child;
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
