// Which node a rank is given, by what the node is worth to the jobs to come (value/): the bridge
// between the live cloud and the value of plain numbers.
//
// What will come is learnt from the jobs that stand in the tables, those that have ended among
// them: a pure function of the tables, renewed in steps. Numbers are coarse on purpose, so that
// nodes and requests fall into few classes: what is free is rounded down, what is asked up. So what
// is found here always fits; what is not found here may fit all the same.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "model/tables.h"
#include "scheduler/shelves.h"
#include "scheduler/value/class_index.h"

namespace bole::scheduler {

// Of which jobs the mix is learnt: those with ids above `after` and up to `last`, so far as they
// stand in the tables. None: nothing is learnt yet.
struct Lesson {
  std::uint64_t after = 0;
  std::uint64_t last = 0;
  bool operator==(const Lesson&) const = default;
  [[nodiscard]] bool has(JobId job) const { return job.value > after && job.value <= last; }
};
// The newest; nothing before the job with the number `learnFrom` has come.
[[nodiscard]] Lesson lessonOf(const model::Tables& tables, std::size_t learnFrom);

class Appraiser {
 public:
  // Nothing: there is nothing to choose, or these nodes and jobs are not such as can be valued.
  // The shelves outlive it; their kinds of node do not change.
  [[nodiscard]] static std::unique_ptr<Appraiser> make(const model::Tables& tables,
                                                       const Lesson& lesson, Shelves& shelves,
                                                       std::size_t nodes);

  // The node has so much free now.
  void put(std::uint32_t node, const GpuState& state, const Beside& free);

  // For so many replicas together on one node; nothing where none is known to take them.
  [[nodiscard]] std::optional<std::uint32_t> best(Ask& ask, const Beside& each, std::int64_t ranks);

 private:
  explicit Appraiser(Shelves& shelves) : shelves_(shelves) {}
  [[nodiscard]] std::optional<Request> requestOf(Ask& ask, const Beside& each, std::int64_t ranks);
  [[nodiscard]] Mix learn(const model::Tables& tables, const Lesson& lesson);

  Shelves& shelves_;
  std::vector<bool> isValued_;  // by kind of node
  Mix mix_;
  std::unique_ptr<FillValue> value_;
  std::unique_ptr<ClassIndex> index_;
};

}  // namespace bole::scheduler
