#include "scheduler/value/class_index.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "base/result.h"
#include "scheduler/value/scramble.h"

namespace bole::scheduler {
namespace {

constexpr std::size_t kMostKinds = 4096;   // asked for; beyond it all are ranked anew
constexpr std::size_t kLeastBorn = 16384;  // likewise

}  // namespace

ClassIndex::ClassIndex(const Mix& mix, FillValue& value, Tolerances tolerances, Stakes stakes)
    : value_(value), scarcity_(mix, value.scale(), stakes), tolerances_(tolerances) {}

void ClassIndex::put(std::uint32_t node, const FreeState& state) {
  if (trying_) changes_.push_back({node, stateOf(node)});
  leave(node);
  enter(node, state);
  boundMemory();
}

void ClassIndex::remove(std::uint32_t node) {
  if (trying_) changes_.push_back({node, stateOf(node)});
  leave(node);
}

std::optional<FreeState> ClassIndex::stateOf(std::uint32_t node) const {
  if (node >= nodes_.size() || nodes_[node] == kNoClass) return std::nullopt;
  return places_[nodes_[node]].state;
}

void ClassIndex::leave(std::uint32_t node) {
  if (node >= nodes_.size() || nodes_[node] == kNoClass) return;
  const auto at = std::exchange(nodes_[node], kNoClass);
  auto& place = places_[at];
  scarcity_.count(place.state, place.wide, -1);
  place.nodes.erase(
      std::lower_bound(place.nodes.begin(), place.nodes.end(), node, std::greater<>()));
  --known_;
  if (!place.nodes.empty()) return;
  ++place.life;
  classOf_.erase(place.state);
  unused_.push_back(at);
}

void ClassIndex::enter(std::uint32_t node, const FreeState& state) {
  if (node >= nodes_.size()) nodes_.resize(node + std::size_t{1}, kNoClass);
  const auto at = nodes_[node] = classFor(state);
  auto& place = places_[at];
  scarcity_.count(state, place.wide, 1);
  place.nodes.insert(
      std::lower_bound(place.nodes.begin(), place.nodes.end(), node, std::greater<>()), node);
  ++known_;
}

ClassIndex::ClassId ClassIndex::classFor(const FreeState& state) {
  const auto next = unused_.empty() ? static_cast<ClassId>(places_.size()) : unused_.back();
  const auto [known, isNew] = classOf_.try_emplace(state, next);
  if (!isNew) return known->second;
  if (unused_.empty()) {
    places_.emplace_back();
  } else {
    unused_.pop_back();
  }
  auto& place = places_[next];
  place.state = state;
  place.value = value_.of(state);
  place.wide = scarcity_.wideFits(state);
  born_.push_back({next, place.life});
  return next;
}

// What was born and is no more is dropped from time to time; every kind then starts anew.
void ClassIndex::boundMemory() {
  if (born_.size() < std::max(kLeastBorn, 8 * known_) && kinds_.size() <= kMostKinds) return;
  std::erase_if(born_, [&](const Birth& birth) { return !lives(birth.at, birth.life); });
  kinds_.clear();
}

bool ClassIndex::lives(ClassId at, std::uint32_t life) const {
  return places_[at].life == life;
}

// The cheapest of the distinct ways to place the request on a node of the class; it fits.
ClassIndex::Entry ClassIndex::price(const Request& request, ClassId at) {
  const auto& place = places_[at];
  const auto& gpus = place.state.gpus;
  Entry entry{std::numeric_limits<std::int64_t>::max(), at, place.life, 0};
  if (request.gpus == 0) {
    entry.cost = value_.of(after(place.state, request, 0)) - place.value;
    return entry;
  }
  const auto tight = tightest(place.state, request);
  for (auto last = tight;; --last) {
    // A whole GPU is like any other; of several parts only the tightest are tried.
    const bool isSame = last != tight && gpus[last] == gpus[last + 1];
    if (!isSame) {
      const auto cost = value_.of(after(place.state, request, last)) - place.value;
      if (cost < entry.cost) {
        entry.cost = cost;
        entry.lastGpu = static_cast<std::uint32_t>(last);
      }
    }
    if (last == 0 || !request.isShare()) return entry;
  }
}

void ClassIndex::rank(const Request& request, KindIndex& kind, ClassId at) {
  const auto& place = places_[at];
  if (!fits(place.state, request)) return;
  const auto entry = price(request, at);
  const auto left = after(place.state, request, entry.lastGpu);
  const auto lost = place.wide == 0 ? 0 : place.wide & ~scarcity_.wideFits(left);
  const auto model = request.gpus == 0 ? std::uint8_t{0} : place.state.model;
  auto bucket = std::find_if(kind.buckets.begin(), kind.buckets.end(),
                             [&](const Bucket& b) { return b.lost == lost && b.model == model; });
  if (bucket == kind.buckets.end()) bucket = kind.buckets.insert(bucket, Bucket{lost, model, {}});
  auto& entries = bucket->entries;
  if (entries.size() > 2 * classes() + 16)
    std::erase_if(entries, [&](const Entry& e) { return !lives(e.at, e.life); });
  entries.insert(std::upper_bound(entries.begin(), entries.end(), entry,
                                  [](const Entry& a, const Entry& b) { return a.cost < b.cost; }),
                 entry);
}

void ClassIndex::refresh(const Request& request, KindIndex& kind) {
  for (; kind.seen < born_.size(); ++kind.seen) {
    const auto& birth = born_[kind.seen];
    if (lives(birth.at, birth.life)) rank(request, kind, birth.at);
  }
}

std::int64_t ClassIndex::toleranceFor(const Request& request) const {
  const auto milli = request.gpus == 0   ? tolerances_.cpuOnly
                     : request.isShare() ? tolerances_.share
                                         : tolerances_.whole;
  return milli * value_.scale();
}

const ClassIndex::Entry* ClassIndex::cheapest(Bucket& bucket) const {
  auto& entries = bucket.entries;
  const auto first = std::find_if(entries.begin(), entries.end(),
                                  [&](const Entry& e) { return lives(e.at, e.life); });
  entries.erase(entries.begin(), first);
  return entries.empty() ? nullptr : &entries.front();
}

bool ClassIndex::better(const Request& request, const Entry& one, const Entry& other) const {
  const auto& a = places_[one.at];
  const auto& b = places_[other.at];
  if (request.gpus == 0 && a.state.cpus != b.state.cpus) return a.state.cpus < b.state.cpus;
  return a.nodes.back() < b.nodes.back();
}

std::optional<Choice> ClassIndex::best(const Request& request) {
  auto& kind = kinds_[request];
  refresh(request, kind);
  const auto byModel = scarcity_.pricesByModel(request);
  auto least = std::numeric_limits<std::int64_t>::max();
  const auto priceOf = [&](const Bucket& bucket) {
    return scarcity_.priceOfLosing(bucket.lost) + byModel[bucket.model];
  };
  for (auto& bucket : kind.buckets) {
    if (const auto* entry = cheapest(bucket))
      least = std::min(least, entry->cost + priceOf(bucket));
  }
  const auto tolerance = toleranceFor(request);
  const Entry* chosen = nullptr;
  std::int64_t cost = 0;
  for (const auto& bucket : kind.buckets) {
    const auto price = priceOf(bucket);
    for (const auto& entry : bucket.entries) {
      if (entry.cost + price - tolerance > least) break;
      if (!lives(entry.at, entry.life)) continue;
      if (chosen != nullptr && !better(request, entry, *chosen)) continue;
      chosen = &entry;
      cost = entry.cost + price;
    }
  }
  if (chosen == nullptr) return std::nullopt;
  return Choice{places_[chosen->at].nodes.back(), chosen->lastGpu, cost};
}

std::size_t ClassIndex::mark() {
  trying_ = true;
  return changes_.size();
}

void ClassIndex::undo(std::size_t mark) {
  BOLE_ASSERT(trying_ && mark <= changes_.size());
  for (; changes_.size() > mark; changes_.pop_back()) {
    const auto& [node, before] = changes_.back();
    leave(node);
    if (before) enter(node, *before);
  }
}

void ClassIndex::keep() {
  trying_ = false;
  changes_.clear();
}

}  // namespace bole::scheduler
