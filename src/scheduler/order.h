// Who is next: the tree of queues from the top down, and within a queue priority, then age.
//
// At each branching the queue that has the better right goes first: the one that uses less of what
// it is guaranteed, while it does; then the one whose share for its weight is smallest. Jobs that
// the scheduler cannot tell apart but by their age are one class: refused once, refused for all of
// them.
#pragma once

#include <map>
#include <set>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "model/tables.h"
#include "scheduler/queues.h"

namespace bole::scheduler {

// Are jobs of these shapes the same to the scheduler?
[[nodiscard]] bool areAlike(const model::JobShape& a, const model::JobShape& b);

// Within a queue: higher priority first, then who waits longer, then the lower number.
using Turn = std::tuple<std::int32_t, Timestamp, JobId>;
[[nodiscard]] Turn turnOf(const model::JobRecord& job);

class Order {
 public:
  struct Class {
    const model::JobShape* shape = nullptr;
    UserId user;  // unset where the queue asks for no one's name
    std::size_t queue = 0;
    std::map<Turn, const model::JobRecord*> jobs;  // that have not started
  };

  explicit Order(const Queues& queues);  // outlives it; only its tree is read from there

  void add(const model::JobRecord& job);

  // The class whose first job is next; nullptr: all are refused or have started.
  [[nodiscard]] Class* next(const Queues& queues);

  // The first job of the class has been given what it asked for.
  void started(Class& of);
  // None of the class is to be looked at again.
  void refused(Class& of);

 private:
  struct Key {
    const model::JobShape* shape;
    UserId user;
    bool operator==(const Key& other) const;
  };
  struct HashKey {
    std::size_t operator()(const Key& key) const;
  };
  struct Branch {
    std::size_t parent = 0;
    std::vector<std::size_t> children;
    bool usersCount = false;  // there or above it: users are told apart
    std::set<std::pair<Turn, Class*>> open;
    std::size_t below = 0;  // open classes at and below it
  };
  void count(std::size_t queue, std::ptrdiff_t more);
  void close(Class& of, const Turn& turn);

  const Queues& tree_;
  std::vector<Branch> branches_;                     // as Queues numbers them
  std::unordered_map<Key, Class, HashKey> classes_;  // never iterated
};

}  // namespace bole::scheduler
