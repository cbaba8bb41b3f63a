// How fast the scheduler decides, on clouds of several sizes: bench_scheduler --help.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <iostream>
#include <string>
#include <vector>

#include "cloud.h"
#include "scheduler/planner.h"

namespace bole::bench {
namespace {

constexpr const char* kUsage =
    R"(bench_scheduler [options]: placements a second, the decision for one job, a cycle of refusals

  --nodes a,b       sizes of the clouds, 8 GPUs a node (100,1000,10000 without it)
  --decisions N     new jobs that are decided one by one (1000 without it)
)";

struct Options {
  std::vector<std::size_t> nodes = {100, 1000, 10'000};
  std::size_t decisions = 1000;
};

template <class Work>
double secondsOf(Work&& work) {
  const auto from = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count();
}

double percentile(std::vector<double> values, double part) {
  std::sort(values.begin(), values.end());
  const auto at = static_cast<std::size_t>(part * static_cast<double>(values.size()));
  return values[std::min(at, values.size() - 1)];
}

struct Figures {
  double placements = 0;  // a second, of one cycle over ten queued jobs a node
  double ranks = 0;       // a second
  double median = 0;      // of one decision, in milliseconds
  double p99 = 0;
  double worst = 0;
  double refusals = 0;   // milliseconds of a cycle
  double impatient = 0;  // of one in which places are kept
  double reclaim = 0;    // of the decision whom to stop for one job
};

// A cycle over a queue ten times as long as there are nodes, in an empty cloud.
void fillAtOnce(LargeCloud& cloud, scheduler::Planner& planner, Figures& figures) {
  for (std::size_t i = 0; i < 10 * cloud.tables().nodes.size(); ++i) cloud.submit();
  model::Plan plan;
  const auto seconds =
      secondsOf([&] { plan = planner.plan(cloud.tables(), cloud.queue(), cloud.now(), {}); });
  std::size_t ranks = 0;
  for (const auto& start : plan.starts) ranks += start.ranks.size();
  figures.placements = static_cast<double>(plan.starts.size()) / seconds;
  figures.ranks = static_cast<double>(ranks) / seconds;
  cloud.follow(plan);
}

// One running job ends, one new job is asked for: only the new one is looked at, as the controller
// does where nothing else has changed.
void decideOneByOne(LargeCloud& cloud, scheduler::Planner& planner, std::size_t decisions,
                    Figures& figures) {
  // What the cycle before has started is caught up with first.
  static_cast<void>(planner.plan(cloud.tables(), {}, cloud.now(), {}));
  std::vector<double> times;
  for (std::size_t i = 0; i < decisions; ++i) {
    cloud.pass(seconds(1));
    cloud.endOne();
    const std::vector<JobId> queue = {cloud.submit()};
    model::Plan plan;
    times.push_back(
        secondsOf([&] { plan = planner.plan(cloud.tables(), queue, cloud.now(), {}); }));
    cloud.follow(plan);
  }
  figures.median = 1000 * percentile(times, 0.5);
  figures.p99 = 1000 * percentile(times, 0.99);
  figures.worst = 1000 * percentile(times, 1);
}

// As many jobs of different shapes as there are nodes; all GPUs are taken.
bool refuseAll(std::size_t nodes, Figures& figures) {
  LargeCloud cloud(nodes, 2);
  scheduler::Planner planner;
  cloud.fill();
  cloud.follow(planner.plan(cloud.tables(), cloud.queue(), cloud.now(), {}));
  cloud.queue().clear();
  for (std::size_t i = 0; i < nodes; ++i) cloud.submitOdd();
  cloud.follow(planner.plan(cloud.tables(), cloud.queue(), cloud.now(), {}));
  while (cloud.queue().size() < nodes) cloud.submitOdd();
  std::vector<double> times;
  bool isTold = true;
  for (int i = 0; i < 5; ++i) {
    model::Plan plan;
    times.push_back(
        secondsOf([&] { plan = planner.plan(cloud.tables(), cloud.queue(), cloud.now(), {}); }));
    isTold = isTold && plan.starts.size() + plan.waiting.size() == nodes &&
             plan.waiting.size() * 10 >= nodes * 9;
    for (const auto& waiting : plan.waiting)
      isTold = isTold && waiting.reasons.at(0).obstacle != model::Obstacle::kNotLookedAt;
  }
  figures.refusals = 1000 * percentile(times, 0.5);
  cloud.pass(minutes(11));
  static_cast<void>(planner.plan(cloud.tables(), cloud.queue(), cloud.now(), {}));
  figures.impatient =
      1000 * secondsOf([&] {
        static_cast<void>(planner.plan(cloud.tables(), cloud.queue(), cloud.now(), {}));
      });
  const std::vector<JobId> entitled = {cloud.submitEntitled()};
  static_cast<void>(planner.plan(cloud.tables(), {}, cloud.now(), {}));
  figures.reclaim = 1000 * secondsOf([&] {
                      const auto plan = planner.plan(cloud.tables(), entitled, cloud.now(), {});
                      isTold = isTold && !plan.evictions.empty();
                    });
  return isTold;
}

bool measure(std::size_t nodes, std::size_t decisions) {
  Figures figures;
  LargeCloud cloud(nodes, 1);
  scheduler::Planner planner;
  fillAtOnce(cloud, planner, figures);
  decideOneByOne(cloud, planner, decisions, figures);
  const bool isTold = refuseAll(nodes, figures);
  fmt::print("{:>7}{:>9}{:>14.0f}{:>12.0f}{:>12.3f}{:>12.3f}{:>12.3f}{:>14.2f}{:>11.2f}{:>13.2f}\n",
             nodes, 10 * nodes, figures.placements, figures.ranks, figures.median, figures.p99,
             figures.worst, figures.refusals, figures.impatient, figures.reclaim);
  std::cout.flush();
  if (!isTold) std::cerr << "bench_scheduler: not every job that waits was told why\n";
  return isTold;
}

bool parse(const std::vector<std::string>& words, Options& options) {
  const auto number = [](std::string_view text, std::size_t& out) {
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), out);
    return error == std::errc{} && stop == text.data() + text.size() && out >= 1 && out <= 100'000;
  };
  for (std::size_t i = 0; i + 1 < words.size(); i += 2) {
    if (words[i] == "--decisions" && number(words[i + 1], options.decisions)) continue;
    if (words[i] != "--nodes") return false;
    options.nodes.clear();
    for (std::string_view rest = words[i + 1]; !rest.empty();) {
      const auto comma = std::min(rest.find(','), rest.size());
      if (!number(rest.substr(0, comma), options.nodes.emplace_back())) return false;
      rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
  }
  return words.size() % 2 == 0;
}

int run(const std::vector<std::string>& words) {
  Options options;
  if (words == std::vector<std::string>{"--help"}) {
    fmt::print("{}", kUsage);
    return 0;
  }
  if (!parse(words, options)) {
    std::cerr << kUsage;
    return 2;
  }
  fmt::print("{:>7}{:>9}{:>14}{:>12}{:>12}{:>12}{:>12}{:>14}{:>11}{:>13}\n", "NODES", "JOBS",
             "PLACEMENTS/S", "RANKS/S", "ONE (MS)", "P99 (MS)", "WORST (MS)", "REFUSALS (MS)",
             "KEPT (MS)", "RECLAIM (MS)");
  bool isGood = true;
  for (const auto nodes : options.nodes) isGood = measure(nodes, options.decisions) && isGood;
  return isGood ? 0 : 1;
}

}  // namespace
}  // namespace bole::bench

int main(int count, char** words) {
  return bole::bench::run({words + 1, words + count});
}
