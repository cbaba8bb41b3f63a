// The value of nodes, the mix that it is learnt from and the index of classes, each against the
// plainest way to the same answer.
#include <gtest/gtest.h>

#include <algorithm>

#include "scheduler/value/class_index.h"

namespace bole::scheduler {
namespace {

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed) {}
  std::uint64_t below(std::uint64_t bound) {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return (state_ >> 33) % bound;
  }

 private:
  std::uint64_t state_;
};

Request anyRequest(Dice& dice) {
  Request request;
  request.cpus = static_cast<std::int64_t>(dice.below(9)) * 2000;
  request.memory = static_cast<std::int64_t>(dice.below(5)) * 1024;
  const auto shape = dice.below(10);
  if (shape == 0) return request;
  request.gpus = shape < 6 ? 1 : static_cast<std::uint16_t>(1 + dice.below(8));
  request.perGpu = shape < 6 ? static_cast<std::uint16_t>(100 * (1 + dice.below(10))) : 1000;
  if (dice.below(5) == 0) request.models = 1ULL << dice.below(3);
  return request;
}

FreeState anyState(Dice& dice) {
  FreeState state;
  state.cpus = static_cast<std::int64_t>(dice.below(65)) * 1000;
  state.memory = static_cast<std::int64_t>(dice.below(33)) * 1024;
  state.model = static_cast<std::uint8_t>(dice.below(3));
  const auto gpus = dice.below(9);
  for (std::size_t i = 0; i < gpus; ++i) {
    const auto free = dice.below(3);
    state.gpus[i] = free == 0 ? 1000 : static_cast<std::uint16_t>(100 * dice.below(11));
  }
  state.arrange();
  return state;
}

Mix anyMix(Dice& dice) {
  MixCounter counter;
  for (int i = 0; i < 12; ++i) counter.add(anyRequest(dice), 1 + dice.below(50));
  return counter.mix();
}

TEST(Mix, IsTheSameInAnyOrder) {
  Dice dice(1);
  std::vector<Request> requests;
  for (int i = 0; i < 200; ++i) requests.push_back(anyRequest(dice));
  MixCounter forwards;
  MixCounter backwards;
  for (const auto& request : requests) forwards.add(request);
  std::reverse(requests.begin(), requests.end());
  for (const auto& request : requests) backwards.add(request);
  EXPECT_EQ(forwards.mix(), backwards.mix());
  EXPECT_EQ(forwards.mix().weight(), 200u);
}

TEST(Mix, KeepsToItsRoomAndToWhatIsAskedForLately) {
  MixCounter counter(8);
  for (std::int64_t i = 0; i < 100; ++i) counter.add({i, 0, 1, 1000, ~0ULL});
  const Request common{5000, 0, 1, 500, ~0ULL};
  counter.add(common, 1000);
  for (std::int64_t i = 0; i < 100; ++i) counter.add({i, 1, 1, 1000, ~0ULL});
  const auto mix = counter.mix();
  EXPECT_LE(mix.kinds.size(), 8u);
  EXPECT_TRUE(std::any_of(mix.kinds.begin(), mix.kinds.end(),
                          [&](const Kind& kind) { return kind.request == common; }));
}

TEST(FillValue, LiesBetweenNothingAndAllThatIsFree) {
  Dice dice(2);
  FillValue value(anyMix(dice));
  EXPECT_EQ(value.of(FreeState()), 0);
  for (int i = 0; i < 500; ++i) {
    const auto state = anyState(dice);
    EXPECT_GE(value.of(state), 0);
    EXPECT_LE(value.of(state), value.scale() * state.gpuMilli());
  }
}

TEST(FillValue, WhatIsRememberedNeverChangesAnAnswer) {
  Dice dice(3);
  const auto mix = anyMix(dice);
  FillValue forgetful(mix, {.mostRemembered = 2});
  FillValue mindful(mix);
  std::vector<FreeState> states;
  for (int i = 0; i < 100; ++i) states.push_back(anyState(dice));
  for (int i = 0; i < 1000; ++i) {
    const auto& state = states[dice.below(states.size())];
    const auto plain = mindful.compute(state);
    EXPECT_EQ(mindful.of(state), plain);
    EXPECT_EQ(forgetful.of(state), plain);
  }
  EXPECT_LE(mindful.computed(), states.size());
}

// A GPU that nobody can use, as all CPUs are gone, stays free whatever comes.
TEST(FillValue, WhatNobodyCanUseStaysFree) {
  MixCounter counter;
  counter.add({1000, 0, 1, 1000, ~0ULL});
  FillValue value(counter.mix());
  FreeState state;
  state.gpus[0] = 1000;
  EXPECT_EQ(value.of(state), value.scale() * 1000);
  state.cpus = 1000;
  EXPECT_EQ(value.of(state), 0);
}

// The least that a placement on the node costs by value alone; nothing where it does not fit.
std::optional<std::int64_t> leastCost(FillValue& value, const FreeState& state,
                                      const Request& request) {
  if (!fits(state, request)) return std::nullopt;
  const auto before = value.of(state);
  if (request.gpus == 0) return value.of(after(state, request, 0)) - before;
  std::optional<std::int64_t> least;
  for (std::size_t last = request.gpus - 1U; last < kMostGpusValued; ++last) {
    if (state.gpus[last] < request.perGpu) break;
    const auto cost = value.of(after(state, request, last)) - before;
    if (!least || cost < *least) least = cost;
  }
  return least;
}

// Against a look at every node: without prices, the first node whose least cost lies within the
// tolerance of the least of all.
TEST(ClassIndex, ChoosesWhatALookAtEveryNodeChooses) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Dice dice(seed);
    const auto mix = anyMix(dice);
    FillValue value(mix);
    const Tolerances tolerances{.share = static_cast<std::int64_t>(dice.below(40)),
                                .whole = static_cast<std::int64_t>(dice.below(150)),
                                .cpuOnly = 100};
    ClassIndex index(mix, value, tolerances, {.wide = 0, .bound = 0});
    std::vector<FreeState> nodes;
    for (std::uint32_t n = 0; n < 30; ++n) {
      nodes.push_back(anyState(dice));
      index.put(n, nodes.back());
    }
    for (int turn = 0; turn < 200; ++turn) {
      const auto request = anyRequest(dice);
      const auto choice = index.best(request);
      std::optional<std::int64_t> least;
      for (const auto& node : nodes) {
        const auto cost = leastCost(value, node, request);
        if (cost && (!least || *cost < *least)) least = cost;
      }
      ASSERT_EQ(choice.has_value(), least.has_value()) << "seed " << seed << " turn " << turn;
      if (!choice) continue;
      ASSERT_TRUE(fits(nodes[choice->node], request));
      if (request.gpus > 0) {
        const auto within =
            *least + (request.isShare() ? tolerances.share : tolerances.whole) * value.scale();
        std::uint32_t first = 0;
        while (leastCost(value, nodes[first], request).value_or(within + 1) > within) ++first;
        EXPECT_EQ(choice->node, first) << "seed " << seed << " turn " << turn;
        EXPECT_EQ(choice->cost, leastCost(value, nodes[first], request));
      }
      auto& node = nodes[choice->node];
      node = turn % 5 == 4 ? anyState(dice) : after(node, request, choice->lastGpu);
      index.put(choice->node, node);
    }
  }
}

// With prices: an index that has grown step by step answers as one made afresh, and a try that is
// undone leaves no trace.
TEST(ClassIndex, StepByStepIsTheSameAsAfreshAndTriesLeaveNoTrace) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    Dice dice(seed * 77);
    const auto mix = anyMix(dice);
    FillValue value(mix);
    ClassIndex index(mix, value);
    std::vector<std::optional<FreeState>> nodes(20);
    for (int turn = 0; turn < 100; ++turn) {
      const auto n = static_cast<std::uint32_t>(dice.below(nodes.size()));
      if (dice.below(6) == 0) {
        nodes[n].reset();
        index.remove(n);
      } else {
        nodes[n] = anyState(dice);
        index.put(n, *nodes[n]);
      }
      const auto mark = index.mark();
      for (int i = 0; i < 3; ++i)
        index.put(static_cast<std::uint32_t>(dice.below(nodes.size())), anyState(dice));
      index.remove(static_cast<std::uint32_t>(dice.below(nodes.size())));
      static_cast<void>(index.best(anyRequest(dice)));
      index.undo(mark);
      index.keep();
      ClassIndex fresh(mix, value);
      for (std::uint32_t i = 0; i < nodes.size(); ++i) {
        EXPECT_EQ(index.stateOf(i), nodes[i]);
        if (nodes[i]) fresh.put(i, *nodes[i]);
      }
      const auto request = anyRequest(dice);
      EXPECT_EQ(index.best(request), fresh.best(request)) << "seed " << seed << " turn " << turn;
    }
  }
}

}  // namespace
}  // namespace bole::scheduler
