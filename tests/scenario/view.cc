#include "scenario/view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "scheduler/scheduler.h"
#include "scheduler/world.h"
#include "spec/policy.h"

namespace bole::test {
namespace {

using model::JobState;

const char* const kNothing = "-";

const char* stateName(JobState state) {
  switch (state) {
    case JobState::kQueued:
      return "QUEUED";
    case JobState::kStarting:
      return "STARTING";
    case JobState::kRunning:
      return "RUNNING";
    case JobState::kStopping:
      return "STOPPING";
    case JobState::kSucceeded:
      return "SUCCEEDED";
    case JobState::kFailed:
      return "FAILED";
    case JobState::kCancelled:
      return "CANCELLED";
  }
  return "?";
}

// What is held of each node: of each GPU so many thousandths.
using Places = std::map<std::string, std::map<std::uint32_t, std::int64_t>>;

// 0, 1, 2, 5 as "0-2,5".
std::string rangesOf(const std::vector<std::uint32_t>& numbers) {
  std::string out;
  for (std::size_t i = 0; i < numbers.size();) {
    auto last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    out += out.empty() ? "" : ",";
    out +=
        last == i ? fmt::format("{}", numbers[i]) : fmt::format("{}-{}", numbers[i], numbers[last]);
    i = last + 1;
  }
  return out;
}

// "n1[0-3] n2", "n1[0:0.5,1]": whole GPUs, none, half of one and all of another.
std::string placesText(const Places& places) {
  std::string out;
  for (const auto& [node, gpus] : places) {
    out += (out.empty() ? "" : " ") + node;
    std::vector<std::uint32_t> whole;
    std::string parts;
    for (const auto& [gpu, share] : gpus) {
      if (share == kWholeGpu.value)
        whole.push_back(gpu);
      else
        parts +=
            fmt::format("{}{}:{}", parts.empty() ? "" : ",", gpu, spec::writeThousandths(share));
    }
    auto all = rangesOf(whole);
    if (!all.empty() && !parts.empty()) all += ",";
    all += parts;
    if (!all.empty()) out += "[" + all + "]";
  }
  return out.empty() ? kNothing : out;
}

class JobRows {
 public:
  JobRows(const Moment& moment, const std::vector<std::string>& columns)
      : snapshot_(moment.snapshot), names_(moment.names), now_(moment.now), columns_(columns) {}

  void add(JobId id) {
    const auto& job = *snapshot_.tables.jobs.find(id);
    Row row{names_.at(id), {}, placesOf(job), {}};
    for (const auto& column : columns_) row.cells.push_back(cellOf(job, column));
    add(std::move(row));
  }

  void add(const Refused& refused) {
    Row row{refused.who, {}, {}, {}};
    for (const auto& column : columns_)
      row.cells.push_back(column == "state" ? "REFUSED" : column == "why" ? refused.why : kNothing);
    add(std::move(row));
  }

  TextTable take() {
    TextTable table;
    table.columns = columns_;
    for (auto& row : rows_) {
      for (std::size_t c = 0; c < columns_.size(); ++c) {
        if (columns_[c] == "job") row.cells[c] = nameOf(row);
        if (columns_[c] == "where") row.cells[c] = placesText(row.places);
      }
      table.rows.push_back(std::move(row.cells));
    }
    return table;
  }

 private:
  struct Row {
    JobName first;
    std::vector<std::string> cells;  // without the job's name and place
    Places places;
    std::vector<std::uint32_t> numbers;
  };

  void add(Row row) {
    row.numbers = {row.first.number};
    const auto same = std::find_if(rows_.begin(), rows_.end(), [&](const Row& other) {
      return !row.first.group.empty() && other.first.group == row.first.group &&
             other.cells == row.cells;
    });
    if (same == rows_.end()) {
      rows_.push_back(std::move(row));
      return;
    }
    same->numbers.push_back(row.first.number);
    for (const auto& [node, gpus] : row.places) {
      auto& there = same->places[node];
      for (const auto& [gpu, share] : gpus) there[gpu] += share;
    }
  }

  [[nodiscard]] static std::string nameOf(const Row& row) {
    if (row.numbers.size() == 1) return row.first.name;
    return fmt::format("{}-[{}]", row.first.group, rangesOf(row.numbers));
  }

  [[nodiscard]] const model::AttemptRecord* liveOf(const model::JobRecord& job) const {
    const auto* attempt = snapshot_.tables.attempts.find(job.attempt);
    return attempt && attempt->live ? attempt : nullptr;
  }

  [[nodiscard]] std::string nodeName(NodeId id) const {
    return snapshot_.tables.nodes.find(id)->node->name;
  }

  [[nodiscard]] Places placesOf(const model::JobRecord& job) const {
    Places places;
    const auto* attempt = liveOf(job);
    if (!attempt) return places;
    for (const auto& rank : attempt->ranks) {
      auto& node = places[nodeName(rank.node)];
      for (std::size_t i = 0; i < rank.gpus.size(); ++i)
        node[rank.gpus[i]] += rank.grant(i).share.value;
    }
    return places;
  }

  [[nodiscard]] std::string cellOf(const model::JobRecord& job, const std::string& column) const {
    if (column == "state") return stateName(job.state);
    if (column == "why") return whyOf(job);
    if (column == "user") return snapshot_.name(*snapshot_.tables.users.find(job.user));
    if (column == "queue") return snapshot_.tables.policy->find(job.shape->queue)->name;
    if (column == "priority") return std::to_string(job.shape->priority);
    if (column == "attempts") return std::to_string(job.attempts);
    if (column == "gpu-hours") return gpuHours(job);
    if (column == "checkpoint")
      return job.checkpointEpoch == 0 ? kNothing : std::to_string(job.checkpointEpoch);
    if (column == "keeps") return job.reservedOn.empty() ? kNothing : "yes";
    if (column == "ranks") {
      const auto* attempt = liveOf(job);
      return attempt ? std::to_string(attempt->ranks.size()) : kNothing;
    }
    if (column == "kept") {
      std::string kept;
      for (const auto node : job.reservedOn) kept += (kept.empty() ? "" : " ") + nodeName(node);
      return kept.empty() ? kNothing : kept;
    }
    return {};  // the job's name and place come last
  }

  // To a thousandth.
  [[nodiscard]] std::string gpuHours(const model::JobRecord& job) const {
    auto held = job.milliGpuMicros;
    if (const auto* attempt = liveOf(job)) {
      for (const auto& rank : attempt->ranks) {
        for (std::size_t i = 0; i < rank.gpus.size(); ++i) {
          held += rank.grant(i).share.value * (now_ - attempt->plannedAt).value;
        }
      }
    }
    return spec::writeThousandths(held / hours(1).value);
  }

  [[nodiscard]] std::string nameOf(JobId id) const {
    const auto found = names_.find(id);
    return found == names_.end() ? fmt::format("job {}", id.value) : found->second.name;
  }

  // "waits behind job 3" as "waits behind big".
  [[nodiscard]] std::string withNames(const std::string& text) const {
    constexpr std::string_view kWord = "job ";
    std::string out;
    for (std::size_t at = 0; at < text.size();) {
      const auto found = text.find(kWord, at);
      const auto digits = found == std::string::npos ? found : found + kWord.size();
      auto end = digits;
      while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end])) != 0) ++end;
      if (found == std::string::npos) return out + text.substr(at);
      out += text.substr(at, found - at);
      out += end == digits ? std::string(kWord)
                           : nameOf(JobId(std::stoull(text.substr(digits, end - digits))));
      at = end;
    }
    return out;
  }

  [[nodiscard]] std::string whyOf(const model::JobRecord& job) const {
    switch (job.state) {
      case JobState::kQueued: {
        const auto* reasons = snapshot_.waiting.find(job.id);
        return reasons ? withNames(scheduler::explain(*reasons)) : kNothing;
      }
      case JobState::kStopping:
        if (job.stop == model::StopReason::kPreempted)
          return "makes room for " + nameOf(job.freedFor);
        return "cancelled";
      case JobState::kFailed:
        return failureOf(job);
      default:
        return kNothing;
    }
  }

  [[nodiscard]] static std::string failureOf(const model::JobRecord& job) {
    switch (job.outcome.value_or(model::AttemptOutcome::kFailed)) {
      case model::AttemptOutcome::kTimeLimit:
        return "time limit";
      case model::AttemptOutcome::kLaunchFailed:
        return "could not be started";
      case model::AttemptOutcome::kRankLost:
        return fmt::format("rank {} was lost", job.firstFailed);
      case model::AttemptOutcome::kSupervisorLost:
        return "its machine was lost";
      default:
        return fmt::format("rank {}: exit {}", job.firstFailed,
                           job.failure ? (job.failure->status >> 8) & 0xff : 0);
    }
  }

  const controller::Snapshot& snapshot_;
  const std::map<JobId, JobName>& names_;
  const Timestamp now_;
  const std::vector<std::string>& columns_;
  std::vector<Row> rows_;
};

// ---- queues

// The dimension that a column is of: "used" and "used gpus", "used cpus", "used A100".
std::optional<std::size_t> dimensionOf(const scheduler::Queues& queues, std::string_view what) {
  if (what.empty() || what == "gpus") return scheduler::kGpuDimension;
  if (what == "cpus") return scheduler::kCpuDimension;
  if (what == "memory") return scheduler::kMemoryDimension;
  for (std::size_t d = scheduler::kFirstKind; d < queues.dimensions(); ++d)
    if (queues.nameOf(d) == std::string(what) + " GPUs") return d;
  return std::nullopt;
}

std::string amountText(std::int64_t amount, std::size_t dimension) {
  if (amount == scheduler::Queues::kNone || amount == scheduler::Queues::kEndless) return kNothing;
  if (dimension == scheduler::kMemoryDimension) return spec::writeSize(Bytes(amount));
  return spec::writeThousandths(amount);
}

struct JobCounts {
  std::uint64_t waiting = 0;
  std::uint64_t running = 0;
};

std::vector<JobCounts> countJobs(const model::Tables& tables, const scheduler::Queues& queues) {
  std::vector<JobCounts> counts(queues.size());
  tables.jobs.forEach([&](JobId, const model::JobRecord& job) {
    if (model::isTerminal(job.state)) return true;
    for (auto q = queues.indexOf(job.shape->queue); q != 0; q = queues.at(q).parent)
      (job.state == JobState::kQueued ? counts[q].waiting : counts[q].running) += 1;
    return true;
  });
  return counts;
}

Result<std::string> queueCell(const scheduler::Queues& queues, std::size_t queue,
                              const JobCounts& jobs, const std::string& column) {
  const auto& node = queues.at(queue);
  if (column == "queue") return std::string(2 * (node.depth - 1), '.') + node.name;
  if (column == "waiting") return std::to_string(jobs.waiting);
  if (column == "running") return std::to_string(jobs.running);
  const auto space = std::min(column.find(' '), column.size());
  const auto word = column.substr(0, space);
  const auto dimension =
      dimensionOf(queues, std::string_view(column).substr(std::min(space + 1, column.size())));
  const scheduler::Amount* amount = word == "guaranteed" ? &node.guaranteed
                                    : word == "limit"    ? &node.limit
                                    : word == "used"     ? &node.use
                                                         : nullptr;
  if (amount && dimension) return amountText(amount->of.at(*dimension), *dimension);
  return fail(makeError(ErrorCode::kInvalid, "no such column")
                  .foundValue(column)
                  .expectedValue("queue, waiting, running, and guaranteed, limit or used, alone or "
                                 "with cpus, memory or a kind of GPU that the policy names"));
}

}  // namespace

const std::vector<std::string>& jobColumns() {
  static const std::vector<std::string> kColumns = {"job",   "state", "where",     "why",
                                                    "user",  "queue", "priority",  "attempts",
                                                    "ranks", "kept",  "gpu-hours", "checkpoint"};
  return kColumns;
}

std::vector<std::string> usualColumns(bool ofQueues) {
  if (ofQueues) return {"queue", "guaranteed", "limit", "used", "waiting", "running"};
  return {"job", "state", "where", "why"};
}

std::vector<std::string> whatDecides() {
  return {"job", "state", "where", "keeps"};
}

std::vector<JobId> everyJob(const model::Tables& tables) {
  std::vector<JobId> out;
  tables.jobs.forEach([&](JobId id, const model::JobRecord&) {
    out.push_back(id);
    return true;
  });
  return out;
}

TextTable jobTable(const std::vector<JobId>& jobs, const Moment& moment,
                   const std::vector<std::string>& columns, const std::vector<Refused>& refused) {
  JobRows rows(moment, columns);
  for (const auto id : jobs) rows.add(id);
  for (const auto& one : refused) rows.add(one);
  return rows.take();
}

Result<TextTable> queueTable(const controller::Snapshot& snapshot,
                             const std::vector<std::string>& columns) {
  TextTable table;
  table.columns = columns;
  const scheduler::World world(snapshot.tables, scheduler::Of::kNow, snapshot.tables.time);
  const auto& queues = world.queues();
  const auto counts = countJobs(snapshot.tables, queues);
  std::vector<std::size_t> open(queues.at(0).children.rbegin(), queues.at(0).children.rend());
  while (!open.empty()) {
    const auto queue = open.back();
    open.pop_back();
    std::vector<std::string> row;
    for (const auto& column : columns) {
      BOLE_ASSIGN(auto cell, queueCell(queues, queue, counts[queue], column));
      row.push_back(std::move(cell));
    }
    table.rows.push_back(std::move(row));
    const auto& children = queues.at(queue).children;
    open.insert(open.end(), children.rbegin(), children.rend());
  }
  return table;
}

}  // namespace bole::test
