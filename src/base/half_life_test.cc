#include "base/half_life.h"

#include <gtest/gtest.h>

#include <cmath>

namespace bole {
namespace {

TEST(HalfLife, IsWhatTheExponentialSays) {
  for (const std::int64_t halfLife : {1LL, 1000LL, 604'800'000'000LL}) {
    for (const double times : {1e-9, 1e-3, 0.25, 0.5, 0.999, 1.0, 1.5, 7.3, 40.0, 1000.0}) {
      const Duration passed(static_cast<std::int64_t>(times * static_cast<double>(halfLife)));
      const auto exact = -std::expm1(-std::log(2.0) * static_cast<double>(passed.value) /
                                     static_cast<double>(halfLife));
      const auto part = partReplaced(passed, Duration(halfLife));
      EXPECT_NEAR(part, exact, 1e-14 * exact) << passed.value << " of " << halfLife;
    }
  }
}

TEST(HalfLife, AtTheEnds) {
  EXPECT_EQ(partReplaced(Duration(0), hours(1)), 0);
  EXPECT_EQ(partReplaced(Duration(-5), hours(1)), 0);
  EXPECT_EQ(partReplaced(hours(1), hours(1)), 0.5);
  EXPECT_EQ(partReplaced(hours(3), hours(1)), 0.875);
  EXPECT_EQ(partReplaced(seconds(1), Duration(0)), 1);
  EXPECT_EQ(partReplaced(Duration(INT64_MAX), Duration(1)), 1);
}

// In one step or in many, a mean comes to the same.
TEST(HalfLife, StepsAddUp) {
  double left = 1;
  for (int i = 0; i < 1000; ++i) left *= 1 - partReplaced(seconds(7), hours(1));
  EXPECT_NEAR(1 - left, partReplaced(seconds(7000), hours(1)), 1e-12);
}

}  // namespace
}  // namespace bole
