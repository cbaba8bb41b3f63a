#include "scheduler/value/scarcity.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>

namespace bole::scheduler {
namespace {

// The first `most` of them, by weight; ties by their order.
template <class T, class Weight>
void keepHeaviest(std::vector<T>& values, std::size_t most, Weight weight) {
  std::stable_sort(values.begin(), values.end(),
                   [&](const T& a, const T& b) { return weight(a) > weight(b); });
  if (values.size() > most) values.resize(most);
}

}  // namespace

double normalTail(double z) {
  const auto x = std::abs(z);
  const auto base = 1 + x * (0.196854 + x * (0.115194 + x * (0.000344 + x * 0.019527)));
  const auto tail = 0.5 / (base * base * base * base);
  return z < 0 ? 1 - tail : tail;
}

Scarcity::Scarcity(const Mix& mix, std::int64_t scale, Stakes stakes)
    : scale_(static_cast<double>(scale)),
      stakes_(stakes),
      requests_(static_cast<double>(mix.weight())) {
  for (const auto& [request, weight] : mix.kinds)
    meanMilli_ += static_cast<double>(weight) * request.gpuMilli() / requests_;
  followWide(mix);
  followBound(mix);
}

void Scarcity::followWide(const Mix& mix) {
  std::map<std::uint16_t, double> ofWidth;
  std::vector<Kind> kinds;
  for (const auto& kind : mix.kinds) {
    if (kind.request.gpus < 2) continue;
    ofWidth[kind.request.gpus] += static_cast<double>(kind.weight);
    kinds.push_back(kind);
  }
  keepHeaviest(kinds, kMostWide, [](const Kind& k) { return k.weight * k.request.gpuMilli(); });
  for (const auto& [request, weight] : kinds) {
    const auto all = ofWidth.at(request.gpus);
    wide_.push_back({request, static_cast<double>(weight) / all, all / requests_, 0, 0});
  }
}

void Scarcity::followBound(const Mix& mix) {
  std::map<std::uint64_t, BoundSet> sets;
  for (const auto& [request, weight] : mix.kinds) {
    if (request.gpus > 0 && request.models != ~0ULL) sets[request.models].models = request.models;
  }
  for (auto& [models, set] : sets) {
    for (const auto& [request, weight] : mix.kinds) {
      if (request.gpus == 0 || (request.models & ~models) != 0) continue;
      const auto share = static_cast<double>(weight) / requests_;
      set.mean += share * request.gpuMilli();
      set.square += share * request.gpuMilli() * request.gpuMilli();
    }
    bound_.push_back(set);
  }
  keepHeaviest(bound_, kMostBound, [](const BoundSet& set) { return set.mean; });
}

Scarcity::Wide Scarcity::wideFits(const FreeState& state) const {
  Wide fitting = 0;
  for (std::size_t i = 0; i < wide_.size(); ++i) {
    if (fits(state, wide_[i].request)) fitting |= 1ULL << i;
  }
  return fitting;
}

void Scarcity::count(const FreeState& state, Wide wide, int times) {
  const auto milli = std::int64_t{state.gpuMilli()} * times;
  freeMilli_ += milli;
  for (auto left = wide; left != 0; left &= left - 1)
    wide_[static_cast<std::size_t>(std::countr_zero(left))].fitting += times;
  for (auto& set : bound_) {
    if ((set.models >> state.model & 1U) != 0) set.free += milli;
  }
  fresh_ = false;
}

double Scarcity::coming() const {
  return meanMilli_ > 0 ? static_cast<double>(freeMilli_) / meanMilli_ : 0;
}

void Scarcity::refresh() {
  if (fresh_) return;
  fresh_ = true;
  for (auto& kind : wide_) {
    const auto expected = coming() * kind.widthPerOne;
    const auto missed = normalTail((static_cast<double>(kind.fitting) - 0.5 - expected) /
                                   std::sqrt(expected + 1e-9));
    kind.price = static_cast<std::int64_t>(missed * stakes_.wide * kind.shareOfWidth *
                                           kind.request.gpuMilli() * scale_);
  }
}

std::int64_t Scarcity::priceOfLosing(Wide lost) {
  if (lost == 0) return 0;
  refresh();
  std::int64_t price = 0;
  for (; lost != 0; lost &= lost - 1)
    price += wide_[static_cast<std::size_t>(std::countr_zero(lost))].price;
  return price;
}

Scarcity::ByModel Scarcity::pricesByModel(const Request& request) const {
  ByModel prices{};
  if (request.gpus == 0) return prices;
  for (const auto& set : bound_) {
    if ((request.models & ~set.models) == 0) continue;  // it is one of those bound to it
    const auto missed = normalTail((static_cast<double>(set.free) - coming() * set.mean) /
                                   std::sqrt(coming() * set.square + 1e-9));
    const auto price =
        static_cast<std::int64_t>(missed * stakes_.bound * request.gpuMilli() * scale_);
    for (std::size_t m = 0; m < prices.size(); ++m) {
      if ((set.models >> m & 1U) != 0) prices[m] = std::max(prices[m], price);
    }
  }
  return prices;
}

}  // namespace bole::scheduler
