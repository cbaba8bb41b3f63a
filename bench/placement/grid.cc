#include "grid.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <sstream>
#include <thread>

#include "peers.h"
#include "value_policy.h"

namespace bole::bench {
namespace {

using Row = std::map<std::string, std::string>;

std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> fields;
  std::stringstream stream(line);
  for (std::string field; std::getline(stream, field, ',');) fields.push_back(field);
  return fields;
}

Result<std::vector<Row>> readTable(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    return fail(makeError(ErrorCode::kNotFound, "no such table").at(path));
  }
  std::string line;
  std::getline(file, line);
  const auto names = split(line);
  std::vector<Row> rows;
  for (std::size_t number = 2; std::getline(file, line); ++number) {
    const auto fields = split(line);
    if (fields.size() != names.size()) {
      return fail(makeError(ErrorCode::kInvalid, "a line of another length than the first")
                      .at(path + ":" + std::to_string(number))
                      .foundValue(std::to_string(fields.size()) + " fields")
                      .expectedValue(std::to_string(names.size())));
    }
    Row row;
    for (std::size_t i = 0; i < names.size(); ++i) row[names[i]] = fields[i];
    rows.push_back(std::move(row));
  }
  return rows;
}

Result<double> numberOf(const Row& row, const std::string& column, const std::string& path) {
  const auto at = row.find(column);
  char* end = nullptr;
  const auto value = at == row.end() ? 0 : std::strtod(at->second.c_str(), &end);
  if (at == row.end() || end == at->second.c_str() || *end != '\0') {
    return fail(makeError(ErrorCode::kInvalid, "no number in column " + column)
                    .at(path)
                    .foundValue(at == row.end() ? "no such column" : at->second));
  }
  return value;
}

struct Task {
  const Workload* workload = nullptr;
  std::string policy;
  std::uint32_t seed = 0;
  Run* run = nullptr;
};

// Of this thread alone, so that a shared machine's other load is not in it.
double threadSeconds() {
  timespec now{};
  BOLE_ASSERT(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) == 0);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

void execute(const Cluster& cluster, const Task& task) {
  const auto arrivals = arrivalsOf(*task.workload, cluster, task.seed);
  const auto start = threadSeconds();
  auto policy = makePeer(task.policy, cluster, *task.workload, task.seed);
  if (!policy) policy = makeValuePolicy(task.policy, cluster, *task.workload, task.seed);
  if (!policy) {
    std::fprintf(stderr, "%s: no such policy, or a constant that it does not have\n",
                 task.policy.c_str());
    std::exit(2);
  }
  task.run->replay = replay(cluster, *task.workload, arrivals, *policy);
  task.run->seconds = threadSeconds() - start;
}

void executeAll(const Cluster& cluster, const std::vector<Task>& tasks, std::uint32_t threads) {
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (auto i = next.fetch_add(1); i < tasks.size(); i = next.fetch_add(1))
      execute(cluster, tasks[i]);
  };
  std::vector<std::thread> others;
  for (std::uint32_t i = 1; i < threads; ++i) others.emplace_back(work);
  work();
  for (auto& other : others) other.join();
}

}  // namespace

Result<Grid> runGrid(const GridOptions& options) {
  BOLE_ASSIGN(const auto cluster, loadCluster(options.traces + "/openb_node_list_gpu_node.csv"));
  std::vector<Workload> workloads;
  for (const auto& name : options.workloads) {
    BOLE_ASSIGN(auto workload,
                loadWorkload(options.traces + "/openb_pod_list_" + name + ".csv", name, cluster));
    workloads.push_back(std::move(workload));
  }
  Grid grid;
  std::vector<Task> tasks;
  for (const auto& workload : workloads) {
    for (const auto& policy : options.policies) {
      auto& runs = grid[{workload.name, policy}];
      runs.resize(options.seeds);
      for (std::uint32_t i = 0; i < options.seeds; ++i)
        tasks.push_back({&workload, policy, options.firstSeed + i, &runs[i]});
    }
  }
  executeAll(cluster, tasks, options.threads);
  return grid;
}

double meanAllocated(const std::vector<Run>& runs, int percent) {
  double sum = 0;
  for (const auto& run : runs) sum += run.replay.allocated.at(percent);
  return sum / static_cast<double>(runs.size());
}

double meanFreeGpus(const std::vector<Run>& runs) {
  double sum = 0;
  for (const auto& run : runs) sum += static_cast<double>(run.replay.freeMilli) / 1000;
  return sum / static_cast<double>(runs.size());
}

Result<Published> readPublished(const std::string& path) {
  BOLE_ASSIGN(const auto rows, readTable(path));
  const std::string prefix = "openb_pod_list_";
  Published published;
  for (const auto& row : rows) {
    const auto workload = row.at("workload").substr(prefix.size());
    const auto policy = row.at("policy").substr(3);  // 06-FGD
    for (const int percent : {80, 90, 95, 100, 110, 120, 130}) {
      BOLE_ASSIGN(published[std::pair(workload, policy)][percent],
                  numberOf(row, "alloc" + std::to_string(percent), path));
    }
  }
  return published;
}

Result<std::map<std::string, Reference>> readReferences(const std::string& path) {
  BOLE_ASSIGN(const auto rows, readTable(path));
  std::map<std::string, Reference> references;
  for (const auto& row : rows) {
    auto& reference = references[row.at("workload")];
    BOLE_ASSIGN(reference.reachedFree, numberOf(row, "reached_free", path));
    BOLE_ASSIGN(reference.boundFree, numberOf(row, "bound_free", path));
  }
  return references;
}

}  // namespace bole::bench
