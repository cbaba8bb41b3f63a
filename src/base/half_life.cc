#include "base/half_life.h"

namespace bole {
namespace {

constexpr double kLn2 = 0.693147180559945309;
constexpr int kTerms = 24;           // of a series whose argument is below ln 2: past the last bit
constexpr std::int64_t kAll = 1100;  // half-lives after which nothing of a double is left

// 1 - e^-y for y in [0, ln 2).
double oneLessExp(double y) {
  double sum = 0;
  for (int n = kTerms; n >= 1; --n) sum = y / n * (1 - sum);
  return sum;
}

}  // namespace

double partReplaced(Duration passed, Duration halfLife) {
  if (passed.value <= 0) return 0;
  if (halfLife.value <= 0 || passed.value / halfLife.value >= kAll) return 1;
  const auto rest = static_cast<double>(passed.value % halfLife.value);
  const auto part = oneLessExp(kLn2 * (rest / static_cast<double>(halfLife.value)));
  auto whole = passed.value / halfLife.value;
  if (whole == 0) return part;  // exact where it is tiny
  double left = 1 - part;
  for (; whole > 0; --whole) left /= 2;
  return 1 - left;
}

}  // namespace bole
