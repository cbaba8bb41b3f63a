#include "scheduler/shelves.h"

#include <algorithm>
#include <functional>

namespace bole::scheduler {
namespace {

constexpr std::size_t kMostListings = 1024;
constexpr std::size_t kManyShelves = 8192;

}  // namespace

std::size_t Shelves::HashAsk::operator()(const AskKey& key) const {
  auto hash =
      std::uint64_t{key.gpus->count} << 16U ^ static_cast<std::uint64_t>(key.gpus->share.value);
  hash = hash * 0x9E3779B97F4A7C15ULL +
         static_cast<std::uint64_t>(key.gpus->memoryMin.value_or(Bytes()).value);
  for (const auto& gpuModel : key.gpus->models)
    hash = hash * 0xBF58476D1CE4E5B9ULL + std::hash<std::string>()(gpuModel);
  return hash ^ hash >> 31U ^ key.labels->size();
}

void Shelves::put(std::uint32_t node, const GpuState& state, const Beside& free) {
  if (node >= at_.size()) at_.resize(node + std::size_t{1}, kNowhere);
  if (at_[node] != kNowhere) shelves_[at_[node]].nodes.remove(node);
  const auto [known, isNew] = byState_.try_emplace(state, static_cast<ShelfId>(shelves_.size()));
  if (isNew) shelves_.push_back({&known->first, {}});
  at_[node] = known->second;
  shelves_[at_[node]].nodes.add(node, free);
}

Listing& Shelves::listingOf(const model::TaskShape& task) {
  auto known = listings_.find(AskKey{&task.gpus, &task.nodeLabels});
  if (known == listings_.end()) {
    auto listing = std::make_unique<Listing>(Listing{Ask(task.gpus, task.nodeLabels), {}, {}, {}});
    const AskKey key{&listing->ask.gpus(), &listing->ask.labels()};
    known = listings_.emplace(key, std::move(listing)).first;
  }
  catchUp(*known->second);
  return *known->second;
}

void Shelves::catchUp(Listing& listing) {
  if (listing.fits.size() == shelves_.size()) return;
  const auto before = listing.order.size();
  const auto isBetter = [&](ShelfId a, ShelfId b) {
    return listing.fits[a].preference < listing.fits[b].preference;
  };
  for (auto id = static_cast<ShelfId>(listing.fits.size()); id < shelves_.size(); ++id) {
    const auto& state = *shelves_[id].state;
    listing.fits.push_back(listing.ask.fitOf(state, hardware_.at(state.hardware)));
    if (listing.fits.back().ranks > 0)
      listing.order.push_back(id);
    else if (listing.fits.back().gpus > 0)
      listing.tooFew.push_back(id);
  }
  const auto middle = listing.order.begin() + static_cast<std::ptrdiff_t>(before);
  std::sort(middle, listing.order.end(), isBetter);
  std::inplace_merge(listing.order.begin(), middle, listing.order.end(), isBetter);
}

Shelves::GpusFree Shelves::gpusFree(const Listing& listing) const {
  GpusFree free;
  for (const auto* list : {&listing.order, &listing.tooFew}) {
    for (const auto id : *list) {
      const auto nodes = static_cast<std::int64_t>(shelves_[id].nodes.size());
      if (nodes == 0) continue;
      free.total += nodes * listing.fits[id].parts;
      free.mostOnOne = std::max<std::int64_t>(free.mostOnOne, listing.fits[id].gpus);
    }
  }
  return free;
}

std::int64_t Shelves::mostCpus(const Listing& listing, std::int64_t memory) const {
  std::int64_t most = 0;
  for (const auto id : listing.order) most = std::max(most, shelves_[id].nodes.mostCpus(memory));
  return most;
}

std::int64_t Shelves::mostMemory(const Listing& listing) const {
  std::int64_t most = 0;
  for (const auto id : listing.order) most = std::max(most, shelves_[id].nodes.mostMemory());
  return most;
}

void Shelves::forget() {
  if (listings_.size() > kMostListings) listings_.clear();
}

bool Shelves::areMany() const {
  return shelves_.size() > kManyShelves + at_.size();
}

}  // namespace bole::scheduler
