#include "scheduler/shelf.h"

#include <algorithm>
#include <map>
#include <utility>

namespace bole::scheduler {

std::int64_t Beside::times(const Beside& asked, std::int64_t most) const {
  if (cpus < asked.cpus || memory < asked.memory) return 0;
  if (most <= 1) return most;
  if (asked.cpus > 0) most = std::min(most, cpus / asked.cpus);
  if (asked.memory > 0) most = std::min(most, memory / asked.memory);
  return most;
}

void Shelf::measure(Block& block) {
  block.most = {kNothing, kNothing};
  for (const auto& spot : block.spots) {
    block.most.cpus = std::max(block.most.cpus, spot.free.cpus);
    block.most.memory = std::max(block.most.memory, spot.free.memory);
  }
}

// The block where the node is or belongs.
std::size_t Shelf::blockOf(std::uint32_t node) const {
  const auto after = std::upper_bound(
      blocks_.begin(), blocks_.end(), node,
      [](std::uint32_t n, const Block& block) { return n < block.spots.front().node; });
  return after == blocks_.begin() ? 0 : static_cast<std::size_t>(after - blocks_.begin()) - 1;
}

namespace {
constexpr auto kBefore = [](const auto& spot, std::uint32_t node) { return spot.node < node; };
}  // namespace

void Shelf::add(std::uint32_t node, const Beside& free) {
  ++size_;
  if (blocks_.empty()) {
    blocks_.push_back({{{node, free}}, free});
    return;
  }
  const auto at = blockOf(node);
  auto& spots = blocks_[at].spots;
  spots.insert(std::lower_bound(spots.begin(), spots.end(), node, kBefore), {node, free});
  auto& most = blocks_[at].most;
  most = {std::max(most.cpus, free.cpus), std::max(most.memory, free.memory)};
  if (spots.size() <= kBlock) return;
  Block upper;
  const auto half = spots.begin() + kBlock / 2;
  upper.spots.assign(half, spots.end());
  spots.erase(half, spots.end());
  measure(blocks_[at]);
  measure(upper);
  blocks_.insert(blocks_.begin() + static_cast<std::ptrdiff_t>(at) + 1, std::move(upper));
}

void Shelf::remove(std::uint32_t node) {
  --size_;
  const auto at = blockOf(node);
  auto& block = blocks_[at];
  const auto spot = std::lower_bound(block.spots.begin(), block.spots.end(), node, kBefore);
  const auto free = spot->free;
  block.spots.erase(spot);
  if (block.spots.empty())
    blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(at));
  else if (free.cpus == block.most.cpus || free.memory == block.most.memory)
    measure(block);
}

std::optional<std::uint32_t> Shelf::first(const Beside& asked) const {
  for (const auto& block : blocks_) {
    if (!block.most.holds(asked)) continue;
    for (const auto& spot : block.spots)
      if (spot.free.holds(asked)) return spot.node;
  }
  return std::nullopt;
}

std::optional<Shelf::Roomiest> Shelf::roomiest(const Beside& each, std::int64_t most) const {
  Roomiest best;
  for (const auto& block : blocks_) {
    if (block.most.times(each, most) <= best.times) continue;
    for (const auto& spot : block.spots) {
      const auto times = spot.free.times(each, most);
      if (times <= best.times) continue;
      best = {spot.node, times};
      if (times == most) return best;
    }
  }
  if (best.times == 0) return std::nullopt;
  return best;
}

void Shelf::examples(const Beside& asked, std::size_t most, std::vector<std::size_t>& out) const {
  std::map<std::pair<std::int64_t, std::int64_t>, std::size_t> seen;
  for (const auto& block : blocks_) {
    if (!block.most.holds(asked)) continue;
    for (const auto& spot : block.spots) {
      if (!spot.free.holds(asked)) continue;
      if (++seen[{spot.free.cpus, spot.free.memory}] <= most) out.push_back(spot.node);
    }
  }
}

std::int64_t Shelf::fitting(const Beside& each, std::int64_t onOne, std::int64_t enough) const {
  std::int64_t all = 0;
  for (const auto& block : blocks_) {
    if (!block.most.holds(each)) continue;
    for (const auto& spot : block.spots) {
      all += spot.free.times(each, std::min(onOne, enough - all));
      if (all >= enough) return enough;
    }
  }
  return all;
}

std::int64_t Shelf::mostMemory() const {
  auto most = kNothing;
  for (const auto& block : blocks_) most = std::max(most, block.most.memory);
  return most;
}

std::int64_t Shelf::mostCpus(std::int64_t memory) const {
  auto most = kNothing;
  for (const auto& block : blocks_) {
    if (block.most.cpus <= most || block.most.memory < memory) continue;
    for (const auto& spot : block.spots)
      if (spot.free.memory >= memory) most = std::max(most, spot.free.cpus);
  }
  return most;
}

}  // namespace bole::scheduler
