// The paper's table and Bole's own policy beside it: bench_placement --help.
#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <iostream>
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
  --json               the means as JSON instead of the table
)";

struct Options {
  GridOptions grid;
  std::string references;
  bool json = false;
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
    if (word == "--json") {
      options.json = true;
      continue;
    }
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
    if (word == "--seeds") options.grid.seeds = static_cast<std::uint32_t>(std::stoul(value));
    if (word == "--threads") options.grid.threads = static_cast<std::uint32_t>(std::stoul(value));
  }
  if (options.grid.workloads.empty()) options.grid.workloads = workloadNames();
  if (options.grid.policies.empty()) {
    options.grid.policies = peerNames();
    options.grid.policies.emplace_back("Bole");
  }
  return options;
}

int run(const std::vector<std::string>& words) {
  const auto options = parse(words);
  if (!options) {
    std::cerr << options.error().message() << '\n' << kUsage;
    return 2;
  }
  const auto published = readPublished(options->grid.traces + "/expected_allocation.csv");
  const auto references = readReferences(options->references);
  if (!published || !references) {
    std::cerr << (published ? references.error() : published.error()).message() << '\n';
    return 2;
  }
  const auto grid = runGrid(options->grid);
  if (!grid) {
    std::cerr << grid.error().message() << '\n';
    return 2;
  }
  double worst = 0;
  for (const auto& workload : options->grid.workloads) {
    for (const auto& policy : options->grid.policies) {
      const auto& runs = grid->at({workload, policy});
      std::string line = fmt::format("{:<12}{:<70}", workload, policy.substr(0, 69));
      const auto at = published->find({workload, policy});
      for (const int p : {80, 90, 95, 100, 110, 120, 130}) {
        const auto mean = meanAllocated(runs, p);
        line += fmt::format(" {:6.2f}", mean);
        if (at != published->end()) {
          const auto off = mean - at->second.at(p);
          line += fmt::format("({:+.2f})", off);
          worst = std::max(worst, std::abs(off));
        }
      }
      double seconds = 0;
      for (const auto& r : runs) seconds += r.seconds / static_cast<double>(runs.size());
      line += fmt::format("  free {:.0f} (was {:.0f}, bound {:.0f})  {:.2f} s", meanFreeGpus(runs),
                          references->at(workload).reachedFree, references->at(workload).boundFree,
                          seconds);
      fmt::print("{}\n", line);
    }
  }
  fmt::print("worst peer difference {:.2f}\n", worst);
  return 0;
}

}  // namespace
}  // namespace bole::bench

int main(int count, char** words) {
  return bole::bench::run({words + 1, words + count});
}
