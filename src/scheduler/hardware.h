// Kinds of node: those with the same hardware and labels are one, so that what a request means
// there is found out once for all of them.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "model/job.h"
#include "model/node.h"

namespace bole::scheduler {

using HardwareId = std::uint32_t;

struct Hardware {
  const model::Node* like = nullptr;  // one of them
  // The GPUs with those next to one another that are alike but for their place; and of each of
  // these places the first that is alike.
  std::vector<std::uint32_t> order;
  std::vector<std::uint32_t> alike;
  bool isMixed = false;                 // GPUs of several kinds
  std::vector<std::int32_t> linkScore;  // as Node::links: higher is nearer

  [[nodiscard]] std::int32_t score(std::size_t a, std::size_t b) const {
    return linkScore[a * order.size() + b];
  }
};

class HardwareTable {
 public:
  // The node outlives the table.
  HardwareId idOf(const model::Node& node);
  [[nodiscard]] const Hardware& at(HardwareId id) const { return all_[id]; }
  [[nodiscard]] std::size_t size() const { return all_.size(); }

 private:
  std::vector<Hardware> all_;
  std::unordered_multimap<std::size_t, HardwareId> byHash_;
};

}  // namespace bole::scheduler
