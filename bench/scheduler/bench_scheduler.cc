#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "cloud.h"
#include "scheduler/scheduler.h"

namespace bole::bench {
namespace {
double seconds(auto&& f) {
  const auto t = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - t).count();
}
void run(std::size_t nodes, std::size_t jobs) {
  LargeCloud cloud(nodes, 1);
  for (std::size_t i = 0; i < jobs; ++i) cloud.submit();
  model::Plan plan;
  const auto t =
      seconds([&] { plan = scheduler::plan(cloud.tables(), cloud.queue(), cloud.now(), {}); });
  std::size_t ranks = 0;
  for (auto& s : plan.starts) ranks += s.ranks.size();
  fmt::print("{} nodes {} jobs: {} starts {} ranks in {:.3f} s: {:.0f}/s\n", nodes, jobs,
             plan.starts.size(), ranks, t, static_cast<double>(plan.starts.size()) / t);
  cloud.follow(plan);
  std::vector<double> times;
  for (int i = 0; i < 20; ++i) {
    cloud.endOne();
    const auto id = cloud.submit();
    times.push_back(
        seconds([&] { plan = scheduler::plan(cloud.tables(), {id}, cloud.now(), {}); }));
    cloud.follow(plan);
  }
  std::sort(times.begin(), times.end());
  fmt::print("  one: median {:.3f} ms, worst {:.3f} ms\n", 1e3 * times[times.size() / 2],
             1e3 * times.back());
  cloud.queue().clear();
  for (std::size_t i = 0; i < jobs / 10; ++i) cloud.submitHopeless();
  const auto h =
      seconds([&] { plan = scheduler::plan(cloud.tables(), cloud.queue(), cloud.now(), {}); });
  fmt::print("  hopeless {}: {:.3f} ms, starts {}\n", cloud.queue().size(), 1e3 * h,
             plan.starts.size());
}
}  // namespace
}  // namespace bole::bench
int main(int n, char** a) {
  if (n > 2) bole::bench::run(std::strtoul(a[1], nullptr, 10), std::strtoul(a[2], nullptr, 10));
}
