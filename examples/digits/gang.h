// What the ranks do together, by Gloo over TCP. Alone (a gang of one) everything here is free and
// cannot fail.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "options.h"
#include "result.h"

namespace gloo {
class Context;
}

namespace digits {

// All ranks must make the same calls in the same order. When a rank dies, the others' calls fail at
// once; when one falls silent, after the timeout. A gang that has failed once is of no further use.
class Gang {
 public:
  [[nodiscard]] static Result<Gang> join(const Place& place, const Options& options);

  [[nodiscard]] std::size_t rank() const { return rank_; }
  [[nodiscard]] std::size_t size() const { return size_; }

  // Replaces every element by its sum over the ranks: the same bits on every rank.
  [[nodiscard]] Result<void> sum(std::span<float> values);
  // Gives all ranks the values of rank 0.
  [[nodiscard]] Result<void> broadcast(std::span<float> values);
  // Whether all ranks have the same value.
  [[nodiscard]] Result<bool> isSameEverywhere(std::uint64_t value);

 private:
  Gang(const Place& place, std::shared_ptr<gloo::Context> context)
      : rank_(place.rank), size_(place.worldSize), context_(std::move(context)) {}

  std::size_t rank_;
  std::size_t size_;
  std::shared_ptr<gloo::Context> context_;  // none when alone
};

}  // namespace digits
