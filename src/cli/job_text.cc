#include "cli/job_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "cli/http.h"
#include "cli/text.h"
#include "cli/wording.h"
#include "codec/describe_model.h"

namespace bole::cli {
namespace {

constexpr std::size_t kLastLinesInSummary = 5;
constexpr std::size_t kRanksShown = 64;

// What a listing says behind the figures.
std::string remark(const model::JobView& job) {
  if (job.state == model::JobState::kRunning && job.progress) return progressText(*job.progress);
  return job.reason;
}

std::string commandText(const std::vector<std::string>& command) {
  if (command.size() == 3 && command[0] == "/bin/sh" && command[1] == "-c") return command[2];
  std::string text;
  for (const auto& word : command) text += (text.empty() ? "" : " ") + shellQuoted(word);
  return text;
}

std::string gpuRequestText(const model::GpuRequest& gpus) {
  if (gpus.count == 0) return "-";
  std::string text = std::to_string(gpus.count);
  for (std::size_t i = 0; i < gpus.models.size(); ++i)
    text += (i == 0 ? " x " : " or ") + gpus.models[i];
  if (gpus.memoryMin) text += ", at least " + formatBytes(*gpus.memoryMin);
  if (gpus.memoryMax) text += ", at most " + formatBytes(*gpus.memoryMax);
  return text;
}

std::string orNone(Bytes bytes) {
  return bytes.value == 0 ? "-" : formatBytes(bytes);
}

std::string tasksText(const model::JobSpec& spec, const TableStyle& style) {
  Table table({{"TASK", Align::kLeft, 8},
               {"RANKS", Align::kRight},
               {"GPUS EACH", Align::kLeft, 12},
               {"CPUS", Align::kRight},
               {"MEMORY", Align::kRight},
               {"COMMAND", Align::kLeft, 20}});
  for (std::size_t i = 0; i < spec.shape.tasks.size(); ++i) {
    const auto& shape = spec.shape.tasks[i];
    const auto* text = i < spec.text.tasks.size() ? &spec.text.tasks[i] : nullptr;
    auto command = text ? commandText(text->command) : std::string();
    if (text && !text->image.empty()) command = text->image + ": " + command;
    table.add({text ? text->name : std::to_string(i), std::to_string(shape.replicas),
               gpuRequestText(shape.gpus), cpusText(shape.cpus), orNone(shape.memory), command});
  }
  return table.render(style);
}

// It could not be launched: that is known of its ranks, and nothing was lost.
bool neverStarted(const model::AttemptView& attempt) {
  return attempt.outcome == codec::enumName(model::AttemptOutcome::kLaunchFailed) &&
         attempt.startedAt.micros == 0;
}

std::string ranksText(const model::AttemptView& attempt, const TableStyle& style) {
  Table table({{"RANK", Align::kRight},
               {"TASK", Align::kLeft, 8},
               {"NODE", Align::kLeft, 8},
               {"GPUS", Align::kLeft},
               {"EXIT", Align::kLeft, 12}});
  const auto shown = std::min(attempt.ranks.size(), kRanksShown);
  for (std::size_t i = 0; i < shown; ++i) {
    const auto& rank = attempt.ranks[i];
    const bool failed = rank.exit && !(rank.exit->known && rank.exit->code == 0);
    const bool first = attempt.firstFailed == static_cast<std::int64_t>(rank.rank);
    auto exit = rank.exit ? rank.exit->text : std::string("-");
    if (rank.exit && !rank.exit->known && neverStarted(attempt)) exit = "not started";
    if (first) exit += " (failed first)";
    table.add({std::to_string(rank.rank), fmt::format("{}-{}", rank.task, rank.replica), rank.node,
               indexList(rank.gpus), Cell(exit, failed ? Tint::kRed : Tint::kNone)});
  }
  auto text = table.render(style);
  if (shown < attempt.ranks.size()) {
    text += fmt::format("and {} more: --json lists them all\n", attempt.ranks.size() - shown);
  }
  return text;
}

std::string noteText(const model::AttemptView& attempt) {
  if (!attempt.stoppedFor) return attempt.note;
  return fmt::format("made room for job {}{}{}", attempt.stoppedFor->value,
                     attempt.note.empty() ? "" : "; ", attempt.note);
}

std::string attemptsText(const std::vector<model::AttemptView>& attempts, const TableStyle& style) {
  Table table({{"ATTEMPT", Align::kRight},
               {"STARTED", Align::kLeft},
               {"ENDED", Align::kLeft},
               {"OUTCOME", Align::kLeft},
               {"NOTE", Align::kLeft, 12}});
  for (const auto& attempt : attempts) {
    table.add({std::to_string(attempt.number), timeText(attempt.startedAt),
               timeText(attempt.endedAt), attempt.outcome.empty() ? "-" : attempt.outcome,
               noteText(attempt)});
  }
  return table.render(style);
}

void addPaths(Facts& facts, const model::JobDetail& detail) {
  if (!detail.attempts.empty() && !detail.attempts.back().logDirectory.empty()) {
    facts.add("Logs", detail.attempts.back().logDirectory);
  }
  if (detail.checkpoint) {
    facts.add("Checkpoint",
              fmt::format("{} (epoch {})", detail.checkpoint->path, detail.checkpoint->epoch));
  } else if (!detail.checkpointDirectory.empty()) {
    facts.add("Checkpoints", detail.checkpointDirectory + " (none complete)");
  }
}

void addState(Facts& facts, const model::JobView& job) {
  facts.add("State", stateName(job.state), tintOf(job.state));
  if (!job.reason.empty()) facts.add("Reason", job.reason);
}

std::string gpuTime(const model::JobDetail& detail) {
  return gpuTimeText(detail.gpuMilliseconds) + (detail.summary.emulated ? " (emulated)" : "");
}

std::string lastLinesText(const model::JobDetail& detail, std::size_t most) {
  if (detail.lastLines.empty() || detail.attempts.empty()) return {};
  const auto rank = detail.attempts.back().firstFailed;
  if (rank < 0) return {};
  auto text = fmt::format("\nthe last lines of rank {}:\n", rank);
  const auto skip = detail.lastLines.size() - std::min(detail.lastLines.size(), most);
  for (std::size_t i = skip; i < detail.lastLines.size(); ++i) {
    text += "  " + terminalLine(detail.lastLines[i]) + "\n";
  }
  return text;
}

std::string amount(model::Obstacle obstacle, std::int64_t value) {
  if (obstacle == model::Obstacle::kCpus) return cpusText(MilliCpu(value));
  if (obstacle == model::Obstacle::kMemory) return formatBytes(Bytes(value));
  return std::to_string(value);
}

std::string needText(const char* what, const model::Reason& reason, const char* where) {
  const bool any = reason.detail.empty() || reason.detail == "GPU";
  return fmt::format("{}: {} needed{}{}, {} free now", what, amount(reason.obstacle, reason.needed),
                     where, any ? "" : " (" + reason.detail + ")",
                     amount(reason.obstacle, reason.available));
}

// What a queue may have is counted in thousandths of a GPU or CPU, or in bytes; the detail says of
// what: "2 GPUs needed, 1 left".
std::string quotaText(const model::Reason& reason) {
  const bool memory = reason.detail == "memory";
  const auto amount = [&](std::int64_t value) {
    return memory ? formatBytes(Bytes(value)) : cpusText(MilliCpu(value));
  };
  auto things = memory ? "of memory" : reason.detail;
  if (reason.needed == 1000 && things.ends_with('s')) things.pop_back();
  return fmt::format("{} {} needed, {} left", amount(reason.needed), things,
                     amount(reason.available));
}

// "nlp, spot"
std::string queueText(const model::JobView& job, const model::JobShape& shape) {
  if (shape.spot) return job.queue + ", spot";
  return job.queue + (shape.preemptible ? "" : ", not preemptible");
}

// ", since 2026-09-21 13:56:41 UTC on box-1, box-2"
std::string runningText(const model::JobDetail& detail) {
  std::string text;
  if (detail.summary.startedAt.micros != 0) text += ", since " + timeText(detail.summary.startedAt);
  if (detail.attempts.empty()) return text;
  std::vector<std::string> nodes;
  for (const auto& rank : detail.attempts.back().ranks) {
    if (std::find(nodes.begin(), nodes.end(), rank.node) == nodes.end()) nodes.push_back(rank.node);
  }
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    text += (i == 0 ? " on " : ", ") + neutralised(nodes[i]);
  }
  return text;
}

}  // namespace

std::string jobPath(const std::string& job) {
  return "/v1/jobs/" + urlEncoded(job);
}

Table jobTable(const model::JobList& list) {
  std::vector<Column> columns = {{"JOB", Align::kRight},    {"NAME", Align::kLeft, 10},
                                 {"USER", Align::kLeft, 6}, {"STATE", Align::kLeft},
                                 {"RANKS", Align::kRight},  {"GPUS", Align::kLeft},
                                 {"TIME", Align::kRight},   {"WHAT", Align::kLeft, 16}};
  const bool queues = list.queues > 1;
  if (queues) columns.insert(columns.begin() + 3, {"QUEUE", Align::kLeft, 8});
  Table table(std::move(columns));
  for (const auto& job : list.jobs) {
    std::vector<Cell> cells = {std::to_string(job.id.value),
                               job.name,
                               job.user,
                               Cell(stateName(job.state), tintOf(job.state)),
                               std::to_string(job.ranks),
                               gpuCount(job.gpus, job.emulated),
                               spanText(job.running),
                               remark(job)};
    if (queues) cells.insert(cells.begin() + 3, job.queue);
    table.add(std::move(cells));
  }
  return table;
}

std::string detailText(const model::JobDetail& detail, const TableStyle& style) {
  const auto& job = detail.summary;
  Facts facts;
  facts.add("Job", fmt::format("{} ({})", job.id.value, job.name), Tint::kBold);
  addState(facts, job);
  if (job.progress) facts.add("Progress", progressText(*job.progress));
  facts.add("Owner", fmt::format("{}, project {}", job.user, job.project));
  if (!job.queue.empty()) facts.add("Queue", queueText(job, detail.spec.shape));
  if (job.priority != 0) facts.add("Priority", std::to_string(job.priority));
  facts.add("Submitted", timeText(job.submittedAt));
  facts.add("Started", timeText(job.startedAt));
  if (model::isTerminal(job.state)) facts.add("Ended", timeText(job.endedAt));
  facts.add("Duration", spanText(job.running));
  facts.add("GPUs", gpuCount(job.gpus, job.emulated));
  if (job.gpus > 0) facts.add("GPU-time", gpuTime(detail));
  facts.add("Directory", detail.workingDirectory);
  addPaths(facts, detail);
  if (detail.exitCode >= 0) facts.add("Exit code", std::to_string(detail.exitCode));
  auto text = facts.render(style);
  text += "\n" + tasksText(detail.spec, style);
  if (!detail.attempts.empty()) {
    text += "\n" + attemptsText(detail.attempts, style);
    text += "\n" + ranksText(detail.attempts.back(), style);
  }
  return text + lastLinesText(detail, detail.lastLines.size());
}

std::string expectedText(const model::ExpectedView& expected, Timestamp now) {
  std::map<std::string, std::vector<std::uint32_t>> gpus;
  for (const auto& rank : expected.ranks) {
    auto& own = gpus[rank.node];
    own.insert(own.end(), rank.gpus.begin(), rank.gpus.end());
  }
  std::string where;
  for (auto& [node, indices] : gpus) {
    std::sort(indices.begin(), indices.end());
    where += (where.empty() ? "on " : ", ") + neutralised(node);
    if (!indices.empty()) where += " (GPU " + indexList(indices) + ")";
  }
  const auto wait = expected.at - now;
  const auto when = wait <= seconds(1)
                        ? std::string("at once")
                        : "about " + timeText(expected.at) + ", in " +
                              formatDuration(Duration(wait.value / 1'000'000 * 1'000'000));
  return when + (where.empty() ? "" : ", " + where);
}

std::string obstacleText(const model::Reason& reason) {
  std::string text;
  switch (reason.obstacle) {
    case model::Obstacle::kGpus:
      text = needText("GPUs", reason, "");
      break;
    case model::Obstacle::kGpusPerNode:
      text = needText("GPUs", reason, " on one machine");
      break;
    case model::Obstacle::kCpus:
      text = needText("CPUs", reason, "");
      break;
    case model::Obstacle::kMemory:
      text = needText("Memory", reason, "");
      break;
    case model::Obstacle::kAhead:
      text = fmt::format("Job {} is ahead: room is being kept for it", reason.ahead.value);
      break;
    case model::Obstacle::kBackoff:
      text = "It is to be tried again, after a pause";
      break;
    case model::Obstacle::kNoNodes:
      text = "No machine is there";
      break;
    case model::Obstacle::kNotLookedAt:
      text = "The scheduler has not come to it yet";
      break;
    case model::Obstacle::kQueueLimit:
      text = fmt::format("Queue {} is at its limit: {}", reason.queue, quotaText(reason));
      break;
    case model::Obstacle::kGuaranteed:
      text = fmt::format(
          "The rest is guaranteed to other queues than {}, and this job cannot be stopped for "
          "them: {}",
          reason.queue, quotaText(reason));
      break;
    case model::Obstacle::kUserLimit:
      text = fmt::format("Its user has all that one may have of queue {}: {}", reason.queue,
                         quotaText(reason));
      break;
    case model::Obstacle::kGpuShare:
      text = fmt::format("Parts of GPUs: {} needed, {} free now ({})", reason.needed,
                         reason.available, reason.detail);
      break;
    case model::Obstacle::kLabels:
      text = fmt::format("No node has {}", reason.detail);
      break;
    case model::Obstacle::kDependency:
      text = reason.needed > 1 ? fmt::format("{} jobs have to end first, job {} among them",
                                             reason.needed, reason.ahead.value)
                               : fmt::format("Job {} has to end first", reason.ahead.value);
      break;
    case model::Obstacle::kBegin:
      text = "It is not to start yet";
      break;
    case model::Obstacle::kWindow:
      text = fmt::format("Queue {} starts no jobs at this hour", reason.queue);
      break;
    case model::Obstacle::kArrayLimit:
      text =
          fmt::format("{} elements of its array run, and no more may at a time", reason.available);
      break;
    case model::Obstacle::kBooked:
      text = "Others have booked the rest, and this job may run that long and cannot be stopped: " +
             quotaText(reason) + " from " + timeText(reason.until) + " on";
      return text;
    case model::Obstacle::kStopping:
      text = reason.needed == 1 ? "A job is being stopped for it"
                                : fmt::format("{} jobs are being stopped for it", reason.needed);
      break;
  }
  if (reason.until.micros != 0) text += ", until about " + timeText(reason.until);
  return text;
}

std::string whyText(const model::JobDetail& detail, Timestamp now, const TableStyle& style,
                    const std::string& stoppedBy) {
  const auto& job = detail.summary;
  auto text = neutralised(jobTitle(job)) + " is " +
              tinted(stateName(job.state), tintOf(job.state), style.colour);
  if (!job.queue.empty() && !model::isTerminal(job.state))
    text += " in queue " + neutralised(job.queue);
  if (job.state == model::JobState::kQueued && now > job.submittedAt) {
    text += ", submitted " + formatDuration(now - job.submittedAt) + " ago";
  }
  if (job.state == model::JobState::kRunning) text += runningText(detail);
  if (model::isTerminal(job.state) && job.endedAt.micros != 0) {
    text += ", since " + timeText(job.endedAt);
  }
  text += "\n";
  auto sentence = job.reason;
  if (job.state == model::JobState::kCancelled && !stoppedBy.empty())
    sentence += " by " + stoppedBy;
  for (const auto& line : wrapped(neutralised(sentence), style.width - 2)) {
    if (!line.empty()) text += "  " + line + "\n";
  }
  if (detail.reasons.empty()) return text + lastLinesText(detail, detail.lastLines.size());
  std::string expected;
  if (detail.expected) expected = "Expected to start " + expectedText(*detail.expected, now) + "\n";
  // One that is all there is was just said.
  if (detail.reasons.size() == 1 && detail.reasons[0].until.micros == 0) return text + expected;
  text += "It starts when all of these are gone:\n";
  for (const auto& reason : detail.reasons) {
    std::string head = "  - ";
    for (const auto& line : wrapped(neutralised(obstacleText(reason)), style.width - 4)) {
      text += head + line + "\n";
      head = "    ";
    }
  }
  return text + expected;
}

std::string summaryText(const model::JobDetail& detail, const TableStyle& style) {
  const auto& job = detail.summary;
  Facts facts;
  facts.add("Job", fmt::format("{} ({})", job.id.value, job.name));
  facts.add("State", stateName(job.state), tintOf(job.state));
  if (job.state != model::JobState::kSucceeded && !job.reason.empty()) {
    facts.add("Reason", job.reason);
  }
  facts.add("Duration", spanText(job.running));
  if (job.gpus > 0) facts.add("GPU-time", gpuTime(detail));
  addPaths(facts, detail);
  auto text = facts.render(style);
  // A single rank's last lines have just been seen.
  if (job.ranks > 1) text += lastLinesText(detail, kLastLinesInSummary);
  return text;
}

}  // namespace bole::cli
