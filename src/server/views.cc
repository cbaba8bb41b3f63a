#include "server/views.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "codec/describe_model.h"
#include "controller/forecast.h"
#include "scheduler/scheduler.h"

namespace bole::server {
namespace {

using model::AttemptOutcome;
using model::JobState;

constexpr std::int32_t kExitTimeLimit = 124;
constexpr std::int32_t kExitLaunchFailed = 125;
constexpr std::int32_t kExitCancelled = 130;
constexpr std::int32_t kExitUnknown = 70;

std::string userOf(const controller::Snapshot& snapshot, const model::JobRecord& job) {
  const auto* name = snapshot.tables.users.find(job.user);
  return name ? snapshot.name(*name) : std::string();
}

std::string projectOf(const controller::Snapshot& snapshot, const model::JobRecord& job) {
  const auto* name = snapshot.tables.projects.find(job.project);
  return name ? snapshot.name(*name) : std::string();
}

// One that is not in the policy any more is known by what was written.
std::string queueOf(const controller::Snapshot& snapshot, const model::JobRecord& job) {
  if (const auto* queue = snapshot.tables.policy->find(job.shape->queue)) return queue->name;
  const auto* text = snapshot.texts.find(job.text);
  return text && *text ? (*text)->queue : std::string();
}

// "sweep[3]" of an array's element.
std::string nameOf(const model::JobText& text, const model::JobRecord& job) {
  return job.shape->array ? fmt::format("{}[{}]", text.name, job.shape->array->index) : text.name;
}

bool isNamed(const model::JobText& text, const model::JobRecord& job, const std::string& name) {
  if (!name.starts_with(text.name)) return false;
  return name.size() == text.name.size() || (job.shape->array && name == nameOf(text, job));
}

std::string signalText(int signal) {
  const char* name = sigabbrev_np(signal);
  return name ? fmt::format("SIG{} (signal {})", name, signal) : fmt::format("signal {}", signal);
}

// "rank 2 failed first: exit 137"
std::string failureText(const model::JobRecord& job) {
  if (job.firstFailed < 0) return "failed";
  if (!job.failure) return fmt::format("rank {} failed first", job.firstFailed);
  return fmt::format("rank {} failed first: {}", job.firstFailed, exitView(*job.failure).text);
}

std::string launchText(const Scene& scene, const model::JobRecord& job) {
  const auto* attempt = scene.snapshot.tables.attempts.find(job.attempt);
  const auto note = attempt && mayManage(scene, job) ? scene.snapshot.name(attempt->note) : "";
  return note.empty() ? "could not be started" : "could not be started: " + note;
}

std::string outcomeText(const Scene& scene, const model::JobRecord& job) {
  if (!job.outcome) return "never ran";
  switch (*job.outcome) {
    case AttemptOutcome::kCompleted:
      return "one of its rules ended it";
    case AttemptOutcome::kFailed:
      return failureText(job);
    case AttemptOutcome::kStopped:
      // One that waits again after a stop had to make room: any other stop ends a job.
      return job.state == JobState::kQueued ? "made room for another job" : "was stopped";
    case AttemptOutcome::kTimeLimit:
      return fmt::format("ran into its time limit of {}", formatDuration(job.shape->timeLimit));
    case AttemptOutcome::kLaunchFailed:
      return launchText(scene, job);
    case AttemptOutcome::kRankLost:
      if (job.firstFailed < 0) return "a rank was lost: how it ended was never written down";
      return fmt::format("rank {} was lost: how it ended was never written down", job.firstFailed);
    case AttemptOutcome::kSupervisorLost:
      return "its supervisor or the machine died: how its ranks ended is not known";
  }
  return {};
}

std::string stoppingText(const model::JobRecord& job) {
  switch (job.stop) {
    case model::StopReason::kCancelled:
      return "is being stopped: it was cancelled";
    case model::StopReason::kTimeLimit:
      return "is being stopped: it ran into its time limit";
    case model::StopReason::kPreempted:
      if (!job.freedFor.isSet()) return "is being stopped: it makes room for another job";
      return fmt::format("is being stopped: it makes room for job {}", job.freedFor.value);
    case model::StopReason::kRankFailed:
      return "is being stopped: one of its ranks failed";
    case model::StopReason::kServerDown:
      return "is being stopped with the server";
    case model::StopReason::kNodeDown:
      return "is being stopped: what it runs on was declared down";
    case model::StopReason::kDependency:
    case model::StopReason::kNone:
      break;
  }
  return "is being stopped";
}

// A job that is tried again says of its last attempt how that ended.
std::string waitingText(const Scene& scene, const model::JobRecord& job) {
  const auto* reasons = scene.snapshot.waiting.find(job.id);
  const bool again = job.attempts > 0 && job.outcome;
  if (again && reasons && reasons->size() == 1 &&
      reasons->front().obstacle == model::Obstacle::kBackoff) {
    return fmt::format("tries again at {} UTC: {}", formatTimestamp(reasons->front().until),
                       outcomeText(scene, job));
  }
  auto text = reasons ? scheduler::explain(*reasons) : std::string();
  if (text.empty()) text = scheduler::explain({model::Reason{}});
  if (again) text += fmt::format(" (attempt {}: {})", job.attempts, outcomeText(scene, job));
  return text;
}

std::string afterAttempts(std::string text, const model::JobRecord& job) {
  if (job.attempts > 1) text += fmt::format(" (after {} attempts)", job.attempts);
  return text;
}

std::string reasonText(const Scene& scene, const model::JobRecord& job) {
  switch (job.state) {
    case JobState::kQueued:
      return waitingText(scene, job);
    case JobState::kStarting:
      return "its ranks are being started";
    case JobState::kRunning:
      return {};
    case JobState::kStopping:
      return stoppingText(job);
    case JobState::kSucceeded:
      return afterAttempts("completed", job);
    case JobState::kFailed:
      return afterAttempts(outcomeText(scene, job), job);
    case JobState::kCancelled:
      if (job.stop == model::StopReason::kDependency) {
        return fmt::format("can never start: job {} did not end as it asks", job.brokenBy.value);
      }
      return job.stop == model::StopReason::kServerDown ? "was stopped with the server"
                                                        : "was cancelled";
  }
  return {};
}

std::int64_t gpusAskedFor(const model::JobShape& shape) {
  std::int64_t total = 0;
  for (const auto& task : shape.tasks) {
    total += static_cast<std::int64_t>(task.gpus.count) * task.replicas;
  }
  return total;
}

bool onEmulatedGpus(const Scene& scene, const model::JobRecord& job,
                    const model::AttemptRecord* attempt) {
  if (gpusAskedFor(*job.shape) == 0) return false;
  if (!attempt || attempt->ranks.empty()) return scene.emulatedGpus;
  const auto* node = scene.snapshot.tables.nodes.find(attempt->ranks.front().node);
  return node ? node->node->emulated : scene.emulatedGpus;
}

Duration runningTime(const Scene& scene, const model::AttemptRecord* attempt) {
  if (!attempt || attempt->startedAt.micros == 0) return {};
  const auto end = attempt->live ? scene.now : attempt->endedAt;
  return std::max(end - attempt->startedAt, Duration(0));
}

// GPU-time of a live attempt so far, in thousandths of a GPU x microseconds, as the state will
// count it at its end.
__int128 liveGpuTime(const Scene& scene, const model::AttemptRecord& attempt) {
  if (!attempt.live) return 0;
  const auto held =
      (scene.now - attempt.plannedAt) - (scene.snapshot.tables.leaps - attempt.leapsBefore);
  __int128 shares = 0;
  for (const auto& rank : attempt.ranks)
    for (std::size_t i = 0; i < rank.gpus.size(); ++i) shares += rank.grant(i).share.value;
  return shares * std::max(held.value, std::int64_t{0});
}

model::RankView rankView(const Scene& scene, const model::AttemptRecord& attempt,
                         const model::JobText* text, std::uint32_t number) {
  const auto& placement = attempt.ranks[number];
  model::RankView view;
  view.rank = number;
  if (text && placement.task < text->tasks.size()) view.task = text->tasks[placement.task].name;
  view.replica = placement.replica;
  if (const auto* node = scene.snapshot.tables.nodes.find(placement.node)) {
    view.node = node->node->name;
  }
  view.gpus = placement.gpus;
  return view;
}

model::AttemptView attemptView(const Scene& scene, const model::JobRecord& job,
                               const model::JobText* text, const model::AttemptRecord& attempt) {
  model::AttemptView view;
  view.id = attempt.id;
  view.number = attempt.number;
  view.plannedAt = attempt.plannedAt;
  view.startedAt = attempt.startedAt;
  view.endedAt = attempt.endedAt;
  if (attempt.outcome) view.outcome = codec::enumName(*attempt.outcome);
  if (attempt.stop != model::StopReason::kNone) view.stop = codec::enumName(attempt.stop);
  if (attempt.stoppedFor.isSet()) view.stoppedFor = attempt.stoppedFor;
  view.firstFailed = attempt.firstFailed;
  if (mayManage(scene, job)) view.note = scene.snapshot.name(attempt.note);
  if (scene.options.logDirectory) view.logDirectory = scene.options.logDirectory(attempt.id);
  for (std::uint32_t i = 0; i < attempt.ranks.size(); ++i) {
    view.ranks.push_back(rankView(scene, attempt, text, i));
  }
  for (const auto& exit : attempt.exits) {
    if (exit.rank < view.ranks.size()) view.ranks[exit.rank].exit = exitView(exit);
  }
  return view;
}

// What only some may see. The hash of an upload opens it to whoever knows it.
void hidePrivate(model::JobText& text) {
  text.upload.clear();
  text.requestId.clear();
  for (auto& task : text.tasks) {
    task.command.clear();
    for (auto& [name, value] : task.env) value.clear();
  }
}

std::string joinPath(const std::string& directory, const std::string& path) {
  if (path.empty() || path.front() == '/' || directory.empty()) return path;
  return directory.back() == '/' ? directory + path : directory + "/" + path;
}

void fillPaths(const Scene& scene, const model::JobRecord& job, model::JobDetail& detail) {
  if (scene.options.workDirectory) detail.workingDirectory = scene.options.workDirectory(job.id);
  if (detail.workingDirectory.empty()) detail.workingDirectory = detail.spec.text.workingDir;
  detail.checkpointDirectory = joinPath(detail.workingDirectory, detail.spec.text.checkpointPath);
  if (job.checkpoints == 0) return;
  detail.checkpoint = model::CheckpointView{
      job.checkpointEpoch,
      joinPath(detail.workingDirectory, scene.snapshot.name(job.checkpointPath))};
}

std::int32_t exitCodeOf(const model::RankExit& exit) {
  if (!exit.known) return kExitUnknown;
  if (WIFSIGNALED(exit.status)) return 128 + WTERMSIG(exit.status);
  return WIFEXITED(exit.status) ? WEXITSTATUS(exit.status) : kExitUnknown;
}

// The code of a job that failed because a rank did. Never 0: a failure without a failing rank is an
// unknown one.
std::int32_t failedExitCode(const model::Tables& tables, const model::JobRecord& job) {
  if (job.failure) {
    const auto code = exitCodeOf(*job.failure);
    if (code != 0) return code;
  }
  if (const auto* attempt = tables.attempts.find(job.attempt)) {
    for (const auto& exit : attempt->exits) {
      if (exit.known && exitCodeOf(exit) != 0) return exitCodeOf(exit);
    }
  }
  return kExitUnknown;
}

bool matches(const Scene& scene, const JobFilter& filter, const model::JobRecord& job) {
  if (!filter.states.empty()) {
    if (std::find(filter.states.begin(), filter.states.end(), job.state) == filter.states.end()) {
      return false;
    }
  } else if (!filter.all && model::isTerminal(job.state)) {
    return false;
  }
  if (filter.user && userOf(scene.snapshot, job) != *filter.user) return false;
  if (filter.project && projectOf(scene.snapshot, job) != *filter.project) return false;
  if (!filter.name) return true;
  const auto text = scene.snapshot.text(job);
  return text && isNamed(*text, job, *filter.name);
}

const model::JobRecord* findNamed(const Scene& scene, const std::string& name) {
  const model::JobRecord* best = nullptr;
  int bestRank = 0;  // the caller's own: 2; live: 1
  scene.snapshot.tables.jobs.forEachNewestFirst([&](JobId, const model::JobRecord& job) {
    const auto* text = scene.snapshot.texts.find(job.text);
    if (!text || !*text || !isNamed(**text, job, name)) return true;
    const bool own = userOf(scene.snapshot, job) == scene.caller.user;
    const int rank = (own ? 2 : 0) + (model::isTerminal(job.state) ? 0 : 1);
    if (!best || rank > bestRank) {
      best = &job;
      bestRank = rank;
    }
    return bestRank < 3;
  });
  return best;
}

std::optional<JobId> asNumber(const std::string& text) {
  if (text.empty() || text.size() > 19) return std::nullopt;
  std::uint64_t value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + static_cast<std::uint64_t>(c - '0');
  }
  return JobId(value);
}

std::int64_t gpusUsed(const model::NodeRecord& node) {
  return std::count_if(node.gpuUsed.begin(), node.gpuUsed.end(),
                       [](MilliGpu used) { return used.value > 0; });
}

// "4 x A100-SXM4-80GB, 2 x T4", in PCI order of the first of each.
std::string gpuModels(const model::Node& node) {
  std::vector<std::pair<std::string, int>> counts;
  for (const auto& gpu : node.gpus) {
    const auto known = std::find_if(counts.begin(), counts.end(),
                                    [&](const auto& entry) { return entry.first == gpu.model; });
    if (known == counts.end())
      counts.emplace_back(gpu.model, 1);
    else
      ++known->second;
  }
  std::string text;
  for (const auto& [model, count] : counts) {
    text += fmt::format("{}{} x {}", text.empty() ? "" : ", ", count, model);
  }
  return text;
}

// What is said of a GPU, else of its node.
const model::HealthMark* markOf(const model::NodeRecord& record, std::int32_t gpu) {
  const model::HealthMark* found = nullptr;
  for (const auto& mark : record.marks)
    if (mark.gpu == gpu || (mark.gpu < 0 && !found)) found = &mark;
  return found;
}

model::NodeView nodeView(const Scene& scene, const model::NodeRecord& record) {
  const auto& node = *record.node;
  model::NodeView view;
  view.name = node.name;
  view.present = record.present;
  view.emulated = node.emulated;
  view.gpuModel = gpuModels(node);
  view.gpus = static_cast<std::int64_t>(node.gpus.size());
  view.gpusUsed = gpusUsed(record);
  view.cpus = node.cpus;
  view.cpusUsed = record.cpusUsed;
  view.memory = node.memory;
  view.memoryUsed = record.memoryUsed;
  view.driverVersion = node.driverVersion;
  view.health = node.health;
  if (const auto* mark = markOf(record, -1)) {
    view.healthyAt = mark->until;
    view.why = scene.snapshot.name(mark->why);
  }
  view.labels = node.labels;
  return view;
}

void fillHolder(const Scene& scene, AttemptId holder, model::GpuView& view) {
  const auto* attempt = scene.snapshot.tables.attempts.find(holder);
  const auto* job = attempt ? scene.snapshot.tables.jobs.find(attempt->job) : nullptr;
  if (!job) return;
  view.job = job->id;
  if (const auto text = scene.snapshot.text(*job)) view.jobName = nameOf(*text, *job);
  view.user = userOf(scene.snapshot, *job);
}

model::GpuView gpuView(const Scene& scene, const model::NodeRecord& record, std::size_t index) {
  const auto& gpu = record.node->gpus[index];
  model::GpuView view;
  view.node = record.node->name;
  view.index = static_cast<std::uint32_t>(index);
  view.uuid = gpu.uuid;
  view.model = gpu.model;
  view.memory = gpu.memory;
  view.pciBusId = gpu.pciBusId;
  view.health = std::max(gpu.health, record.node->health);
  if (const auto* mark = markOf(record, static_cast<std::int32_t>(index))) {
    view.healthyAt = mark->until;
    view.why = scene.snapshot.name(mark->why);
  }
  view.emulated = record.node->emulated;
  if (index < record.gpuHolder.size()) fillHolder(scene, record.gpuHolder[index], view);
  view.used = record.gpuUsed[index];
  view.memoryUsed = record.gpuMemoryUsed[index];
  return view;
}

// Who holds a part of a GPU, by node and index.
using Sharers = std::map<std::pair<NodeId, std::uint32_t>, std::vector<JobId>>;

Sharers sharersIn(const model::Tables& tables) {
  Sharers sharers;
  tables.attempts.forEach([&](AttemptId, const model::AttemptRecord& attempt) {
    if (!attempt.live) return true;
    for (const auto& rank : attempt.ranks) {
      for (std::size_t i = 0; i < rank.gpus.size(); ++i) {
        if (rank.grant(i) == model::GpuGrant()) continue;
        auto& jobs = sharers[{rank.node, rank.gpus[i]}];
        if (jobs.empty() || jobs.back() != attempt.job) jobs.push_back(attempt.job);
      }
    }
    return true;
  });
  return sharers;
}

}  // namespace

Scene makeScene(const controller::Snapshot& snapshot, const ServerOptions& options, Caller caller,
                Timestamp wall) {
  Scene scene{snapshot, options, std::move(caller), std::max(wall, snapshot.tables.time), false};
  bool any = false;
  bool all = true;
  snapshot.tables.nodes.forEach([&](NodeId, const model::NodeRecord& node) {
    if (node.node->gpus.empty()) return true;
    any = true;
    all = all && node.node->emulated;
    return true;
  });
  scene.emulatedGpus = any && all;
  return scene;
}

bool mayManage(const Scene& scene, const model::JobRecord& job) {
  if (scene.caller.admin) return true;
  return !scene.caller.user.empty() && userOf(scene.snapshot, job) == scene.caller.user;
}

namespace {

model::ExpectedView expectedView(const Scene& scene, const model::JobText* text,
                                 const controller::Expected& expected) {
  model::AttemptRecord attempt;
  attempt.ranks = expected.ranks;
  model::ExpectedView view{expected.at, {}};
  for (std::uint32_t i = 0; i < attempt.ranks.size(); ++i)
    view.ranks.push_back(rankView(scene, attempt, text, i));
  return view;
}

}  // namespace

std::optional<model::ExpectedView> expectedView(const Scene& scene, const model::JobRecord& job) {
  const auto found = controller::forecast(scene.snapshot.tables, scene.now, {job.id});
  const auto at = found.find(job.id);
  if (at == found.end()) return std::nullopt;
  const auto* text = scene.snapshot.texts.find(job.text);
  return expectedView(scene, text ? text->get() : nullptr, at->second);
}

void addExpected(const Scene& scene, model::SubmitAnswer& answer) {
  UserId user;
  scene.snapshot.tables.users.forEach([&](UserId id, SideId name) {
    if (scene.snapshot.name(name) == scene.caller.user) user = id;
    return !user.isSet();
  });
  std::vector<model::JobShape> shapes;
  for (const auto& job : answer.jobs)
    if (job.shape) shapes.push_back(*job.shape);
  const auto found = controller::forecastNew(scene.snapshot.tables, scene.now, shapes, user);
  std::size_t next = 0;
  for (auto& job : answer.jobs) {
    if (!job.shape) continue;
    if (const auto& expected = found[next++])
      job.expected = expectedView(scene, nullptr, *expected);
  }
}

std::optional<model::ProgressView> progressOf(const Scene& scene, const model::JobRecord& job) {
  if (!job.attempt.isSet() || !scene.options.progress) return std::nullopt;
  return scene.options.progress(job.attempt);
}

model::JobView jobView(const Scene& scene, const model::JobRecord& job) {
  const auto* attempt = scene.snapshot.tables.attempts.find(job.attempt);
  model::JobView view;
  view.id = job.id;
  if (const auto* text = scene.snapshot.texts.find(job.text); text && *text) {
    view.name = nameOf(**text, job);
  }
  if (job.shape->array) {
    view.arrayIndex = job.shape->array->index;
    view.arrayFirst = job.shape->array->first;
  }
  view.project = projectOf(scene.snapshot, job);
  view.user = userOf(scene.snapshot, job);
  view.state = job.state;
  view.reason = reasonText(scene, job);
  view.queue = queueOf(scene.snapshot, job);
  view.priority = job.shape->priority;
  view.ranks = job.shape->replicas();
  view.gpus = gpusAskedFor(*job.shape);
  view.emulated = onEmulatedGpus(scene, job, attempt);
  view.submittedAt = job.submittedAt;
  view.startedAt = job.startedAt;
  view.endedAt = job.endedAt;
  view.running = runningTime(scene, attempt);
  view.attempts = job.attempts;
  view.progress = progressOf(scene, job);
  return view;
}

model::JobDetail jobDetail(const Scene& scene, const model::JobRecord& job) {
  const auto& snapshot = scene.snapshot;
  model::JobDetail detail;
  detail.summary = jobView(scene, job);
  detail.spec.shape = *job.shape;
  const auto text = snapshot.text(job);
  if (text) detail.spec.text = *text;
  fillPaths(scene, job, detail);
  if (!mayManage(scene, job)) hidePrivate(detail.spec.text);
  if (const auto* reasons = snapshot.waiting.find(job.id);
      reasons && job.state == JobState::kQueued) {
    detail.reasons = *reasons;
  }
  __int128 gpuTime = job.milliGpuMicros;
  for (const auto* attempt : attemptsOf(snapshot.tables, job)) {
    detail.attempts.push_back(attemptView(scene, job, text.get(), *attempt));
    gpuTime += liveGpuTime(scene, *attempt);
  }
  detail.gpuMilliseconds = static_cast<std::uint64_t>(gpuTime / 1'000'000);
  detail.exitCode = exitCodeOf(snapshot.tables, job);
  return detail;
}

model::JobList jobList(const Scene& scene, const JobFilter& filter) {
  model::JobList list;
  list.queues = scene.snapshot.tables.policy->queues.size();
  if (filter.limit == 0) return list;
  scene.snapshot.tables.jobs.forEachNewestFirst([&](JobId, const model::JobRecord& job) {
    if (matches(scene, filter, job)) list.jobs.push_back(jobView(scene, job));
    return list.jobs.size() < filter.limit;
  });
  return list;
}

const model::JobRecord* findJob(const Scene& scene, const std::string& reference) {
  if (const auto id = asNumber(reference)) {
    if (const auto* job = scene.snapshot.tables.jobs.find(*id)) return job;
  }
  return findNamed(scene, reference);
}

bool namesWholeArray(const Scene& scene, const model::JobRecord& job,
                     const std::string& reference) {
  const auto* text = scene.snapshot.texts.find(job.text);
  return job.shape->array && text && *text && (*text)->name == reference;
}

std::vector<const model::AttemptRecord*> attemptsOf(const model::Tables& tables,
                                                    const model::JobRecord& job) {
  // They lie below the newest, mostly close together.
  std::vector<const model::AttemptRecord*> found;
  for (auto id = job.attempt; id.isSet() && found.size() < job.attempts; id.value -= 1) {
    const auto* attempt = tables.attempts.find(id);
    if (attempt && attempt->job == job.id) found.push_back(attempt);
  }
  std::reverse(found.begin(), found.end());
  return found;
}

const model::AttemptRecord* attemptNumbered(const model::Tables& tables,
                                            const model::JobRecord& job, std::uint32_t number) {
  for (const auto* attempt : attemptsOf(tables, job)) {
    if (attempt->number == number) return attempt;
  }
  return nullptr;
}

std::int32_t exitCodeOf(const model::Tables& tables, const model::JobRecord& job) {
  if (!model::isTerminal(job.state)) return -1;
  if (job.state == JobState::kSucceeded) return 0;
  if (job.state == JobState::kCancelled) return kExitCancelled;
  if (!job.outcome) return kExitUnknown;
  switch (*job.outcome) {
    case AttemptOutcome::kTimeLimit:
      return kExitTimeLimit;
    case AttemptOutcome::kLaunchFailed:
      return kExitLaunchFailed;
    case AttemptOutcome::kRankLost:
    case AttemptOutcome::kSupervisorLost:
      return kExitUnknown;
    case AttemptOutcome::kStopped:
      return kExitCancelled;
    case AttemptOutcome::kCompleted:
    case AttemptOutcome::kFailed:
      return failedExitCode(tables, job);
  }
  return kExitUnknown;
}

model::ExitView exitView(const model::RankExit& exit) {
  model::ExitView view;
  view.rank = exit.rank;
  view.known = exit.known;
  view.text = "unknown";
  if (!exit.known) return view;
  if (WIFEXITED(exit.status)) {
    view.code = WEXITSTATUS(exit.status);
    view.text = fmt::format("exit {}", view.code);
  } else if (WIFSIGNALED(exit.status)) {
    view.signal = WTERMSIG(exit.status);
    view.text = signalText(view.signal);
  }
  return view;
}

model::StatusView statusView(const Scene& scene) {
  const auto& facts = scene.options.facts;
  model::StatusView view;
  view.version = facts.version;
  view.home = facts.home;
  view.pid = facts.pid;
  view.startedAt = facts.startedAt;
  view.now = scene.now;
  view.writable = scene.snapshot.writable;
  view.problem = scene.snapshot.problem;
  view.notes = facts.notes;
  if (facts.moreNotes) {
    for (auto& note : facts.moreNotes()) view.notes.push_back(std::move(note));
  }
  view.sandbox = facts.sandbox;
  view.events = scene.snapshot.tables.sequence;
  scene.snapshot.tables.jobs.forEach([&](JobId, const model::JobRecord& job) {
    if (job.state == JobState::kQueued) ++view.queued;
    if (model::holdsCapacity(job.state)) ++view.running;
    return true;
  });
  scene.snapshot.tables.nodes.forEach([&](NodeId, const model::NodeRecord& node) {
    if (node.present) view.gpus += static_cast<std::int64_t>(node.node->gpus.size());
    view.gpusUsed += gpusUsed(node);
    view.emulated = view.emulated || node.node->emulated;
    return true;
  });
  return view;
}

model::NodeList nodeList(const Scene& scene) {
  model::NodeList list;
  scene.snapshot.tables.nodes.forEach([&](NodeId, const model::NodeRecord& node) {
    list.nodes.push_back(nodeView(scene, node));
    return true;
  });
  return list;
}

model::GpuList gpuList(const Scene& scene) {
  model::GpuList list;
  auto sharers = sharersIn(scene.snapshot.tables);
  scene.snapshot.tables.nodes.forEach([&](NodeId, const model::NodeRecord& node) {
    for (std::size_t i = 0; node.present && i < node.node->gpus.size(); ++i) {
      list.gpus.push_back(gpuView(scene, node, i));
      list.gpus.back().sharers = std::move(sharers[{node.id, static_cast<std::uint32_t>(i)}]);
    }
    return true;
  });
  return list;
}

model::TopologyView topologyView(const Scene& scene) {
  model::TopologyView view;
  scene.snapshot.tables.nodes.forEach([&](NodeId, const model::NodeRecord& node) {
    if (node.present) view.nodes.push_back(*node.node);
    return true;
  });
  return view;
}

}  // namespace bole::server
