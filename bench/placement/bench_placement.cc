// The paper's table and Bole's own policy beside it: bench_placement --help.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>

#include "grid.h"
#include "peers.h"

namespace bole::bench {
namespace {

constexpr const char* kUsage =
    R"(bench_placement --traces DIR --references FILE [options]: the fragmentation experiment on openb

  --traces DIR         openb_*.csv and expected_allocation.csv
  --references FILE    reference.csv: what an earlier study reached
  --workloads a,b      all of expected_allocation.csv without it
  --policies a,b       all six peers and Bole without it
  --seeds N            10 without it
  --threads N          2 without it
)";

struct Options {
  GridOptions grid;
  std::string references;
  bool help = false;
};

std::vector<std::string> listOf(const std::string& text) {
  std::vector<std::string> names;
  std::stringstream stream(text);
  for (std::string name; std::getline(stream, name, ',');) names.push_back(name);
  return names;
}

const std::vector<std::string>& workloadNames() {
  static const std::vector<std::string> names = {
      "default",    "cpu050",     "cpu100",      "cpu200",     "cpu250",    "gpushare40",
      "gpushare60", "gpushare80", "gpushare100", "gpuspec10",  "gpuspec20", "gpuspec25",
      "gpuspec33",  "multigpu20", "multigpu30",  "multigpu40", "multigpu50"};
  return names;
}

Result<Options> parse(const std::vector<std::string>& words) {
  Options options;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const auto& word = words[i];
    if (word == "--help") {
      options.help = true;
      continue;
    }
    const std::vector<std::string> known = {"--traces",   "--references", "--workloads",
                                            "--policies", "--seeds",      "--threads"};
    if (std::find(known.begin(), known.end(), word) == known.end() || i + 1 == words.size())
      return fail(makeError(ErrorCode::kInvalid, "unknown option or no value").foundValue(word));
    const auto& value = words[++i];
    if (word == "--traces") options.grid.traces = value;
    if (word == "--references") options.references = value;
    if (word == "--workloads") options.grid.workloads = listOf(value);
    if (word == "--policies") options.grid.policies = listOf(value);
    if (word != "--seeds" && word != "--threads") continue;
    auto& number = word == "--seeds" ? options.grid.seeds : options.grid.threads;
    const auto* end = value.data() + value.size();
    const auto [stop, error] = std::from_chars(value.data(), end, number);
    if (error != std::errc{} || stop != end || number < 1 || number > 1000)
      return fail(makeError(ErrorCode::kInvalid, "not a number")
                      .at(word)
                      .foundValue(value)
                      .expectedValue("1 to 1000"));
  }
  if (options.grid.workloads.empty()) options.grid.workloads = workloadNames();
  if (options.grid.policies.empty()) {
    options.grid.policies = peerNames();
    options.grid.policies.emplace_back("Bole");
  }
  return options;
}

constexpr std::array kPercents = {80, 90, 95, 100, 110, 120, 130};
constexpr double kTolerance = 0.5;  // points, of a peer from what is published
constexpr double kBehind = 0.1;     // points that Bole may lie below FGD at 95 and 100 %

// What the whole table is held to. What was not run is not judged.
struct Goals {
  double worstPeer = 0;
  std::vector<std::string> missed;

  void hold(bool good, const std::string& what) {
    if (!good) missed.push_back(what);
  }
};

void judgeBole(const Grid& grid, const std::string& workload, const Reference& reference,
               Goals& goals) {
  const auto bole = grid.find({workload, "Bole"});
  const auto fgd = grid.find({workload, "FGD"});
  if (bole == grid.end()) return;
  goals.hold(meanFreeGpus(bole->second) <= reference.reachedFree + 0.5,
             fmt::format("{}: {:.1f} GPUs free at 130 %, goal {:.0f}", workload,
                         meanFreeGpus(bole->second), reference.reachedFree));
  if (fgd == grid.end()) return;
  for (const int p : {95, 100, 130}) {
    const auto ahead = meanAllocated(bole->second, p) - meanAllocated(fgd->second, p);
    goals.hold(p == 130 ? ahead > 0 : ahead >= -kBehind,
               fmt::format("{}: {:+.2f} points against FGD at {} %", workload, ahead, p));
  }
}

// Allocated GPUs in percent of all when so much has been asked for; in brackets how far that is
// from what is published. True where every goal holds.
bool printTable(const Options& options, const Grid& grid, const Published& published,
                const std::map<std::string, Reference>& references) {
  fmt::print("{:<12}{:<14}", "WORKLOAD", "POLICY");
  for (const int p : kPercents) fmt::print("{:>15}", fmt::format("at {} %", p));
  fmt::print("{:>10}{:>8}{:>8}{:>9}\n", "GPUS FREE", "GOAL", "BOUND", "SECONDS");
  Goals goals;
  for (const auto& workload : options.grid.workloads) {
    const auto& reference = references.at(workload);
    for (const auto& policy : options.grid.policies) {
      const auto& runs = grid.at({workload, policy});
      fmt::print("{:<12}{:<14}", workload, policy);
      const auto at = published.find({workload, policy});
      for (const int p : kPercents) {
        const auto mean = meanAllocated(runs, p);
        auto cell = fmt::format("{:.2f}", mean);
        if (at != published.end()) {
          const auto off = mean - at->second.at(p);
          cell += fmt::format(" ({:+.2f})", off);
          goals.worstPeer = std::max(goals.worstPeer, std::abs(off));
        }
        fmt::print("{:>15}", cell);
      }
      double seconds = 0;
      for (const auto& r : runs) seconds += r.seconds / static_cast<double>(runs.size());
      fmt::print("{:>10.1f}{:>8.0f}{:>8.0f}{:>9.2f}\n", meanFreeGpus(runs), reference.reachedFree,
                 reference.boundFree, seconds);
    }
    judgeBole(grid, workload, reference, goals);
  }
  goals.hold(goals.worstPeer <= kTolerance,
             fmt::format("a peer lies {:.2f} points from what is published", goals.worstPeer));
  fmt::print("peers lie at most {:.2f} points from what is published (goal {})\n", goals.worstPeer,
             kTolerance);
  for (const auto& missed : goals.missed) fmt::print("missed: {}\n", missed);
  if (goals.missed.empty()) fmt::print("every goal holds\n");
  return goals.missed.empty();
}

// Each name once checked, so that a run of minutes does not end in a wrong word.
Result<void> checkNames(const Options& options,
                        const std::map<std::string, Reference>& references) {
  for (const auto& workload : options.grid.workloads) {
    if (!references.contains(workload))
      return fail(makeError(ErrorCode::kInvalid, "no such workload")
                      .foundValue(workload)
                      .expectedValue(fmt::format("{}", fmt::join(workloadNames(), ", "))));
  }
  for (const auto& policy : options.grid.policies) {
    const auto& peers = peerNames();
    if (std::find(peers.begin(), peers.end(), policy) == peers.end() && policy != "Bole" &&
        !policy.starts_with("Bole:")) {
      return fail(makeError(ErrorCode::kInvalid, "no such policy")
                      .foundValue(policy)
                      .expectedValue(fmt::format("Bole, {}", fmt::join(peers, ", "))));
    }
  }
  return {};
}

int run(const std::vector<std::string>& words) {
  const auto options = parse(words);
  if (!options) {
    std::cerr << options.error().message() << '\n' << kUsage;
    return 2;
  }
  if (options->help) {
    fmt::print("{}", kUsage);
    return 0;
  }
  const auto published = readPublished(options->grid.traces + "/expected_allocation.csv");
  const auto references = readReferences(options->references);
  if (!published || !references) {
    std::cerr << (published ? references.error() : published.error()).message() << '\n';
    return 2;
  }
  if (const auto good = checkNames(*options, *references); !good) {
    std::cerr << good.error().message() << '\n';
    return 2;
  }
  const auto grid = runGrid(options->grid);
  if (!grid) {
    std::cerr << grid.error().message() << '\n';
    return 2;
  }
  return printTable(*options, *grid, *published, *references) ? 0 : 1;
}

}  // namespace
}  // namespace bole::bench

int main(int count, char** words) {
  return bole::bench::run({words + 1, words + count});
}
