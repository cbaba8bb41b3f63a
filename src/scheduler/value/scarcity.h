// What is getting scarce in a cloud that fills up: places for requests of several GPUs, and models
// of GPU that some requests must have. Each gets a price: what is lost when it is taken away by a
// request that could have gone elsewhere, times how likely it is to be missed.
//
// How likely: requests come from the mix until the free GPUs are used up, so about free / mean size
// of them. Of a wide kind (2 GPUs or more) there are fitting nodes A and expected requests L of its
// width: missed with the chance that a Poisson number of mean L reaches A. Of a set of models there
// is the free GPU-milli S and the demand of those bound to it with mean D and variance V: missed
// with the chance that a normal number (D, V) exceeds S.
//
// Deterministic: products, quotients and square roots only, in a fixed order.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "scheduler/value/mix.h"

namespace bole::scheduler {

// What part of a request's size is at stake when it is missed; 0 to 1.
struct Stakes {
  double wide = 1;
  // Small: which of two nodes will be filled better in the end must still decide.
  double bound = 0.05;
};

class Scarcity {
 public:
  static constexpr std::size_t kMostWide = 64;   // kinds followed: those with the most GPUs asked
  static constexpr std::size_t kMostBound = 32;  // sets of models, likewise

  // Bit i: wide kind i fits on a node with so much free.
  using Wide = std::uint64_t;
  using ByModel = std::array<std::int64_t, kMostModelsValued>;

  // `scale` is FillValue's: prices are in the same units as its values.
  Scarcity(const Mix& mix, std::int64_t scale, Stakes stakes = {});

  [[nodiscard]] Wide wideFits(const FreeState& state) const;
  // A node with so much free is there, or no longer. Times: how many such nodes.
  void count(const FreeState& state, Wide wide, int times);

  // Of a placement after which these no longer fit on its node; 0 or more.
  [[nodiscard]] std::int64_t priceOfLosing(Wide lost);
  // Of placing the request on a node of each model; 0 or more.
  [[nodiscard]] ByModel pricesByModel(const Request& request) const;

 private:
  struct WideKind {
    Request request;
    double shareOfWidth = 0;   // of all requests of as many GPUs
    double widthPerOne = 0;    // requests of as many GPUs per request of any kind
    std::int64_t fitting = 0;  // nodes
    std::int64_t price = 0;
  };
  struct BoundSet {
    std::uint64_t models = 0;
    double mean = 0;    // GPU-milli asked by those bound to it, per request of any kind
    double square = 0;  // and of their squares
    std::int64_t free = 0;
  };

  void followWide(const Mix& mix);
  void followBound(const Mix& mix);
  void refresh();
  [[nodiscard]] double coming() const;  // requests until the free GPUs are used up

  double scale_;
  Stakes stakes_;
  double requests_;
  double meanMilli_ = 0;
  std::vector<WideKind> wide_;
  std::vector<BoundSet> bound_;
  std::int64_t freeMilli_ = 0;
  bool fresh_ = false;
};

// The chance that a standard normal number is above z: Abramowitz and Stegun 26.2.18, within
// 0.0003.
[[nodiscard]] double normalTail(double z);

}  // namespace bole::scheduler
