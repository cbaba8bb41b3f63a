#include "spec/job_draft.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "spec/grammar.h"

namespace bole::spec {
namespace {

// Linux takes 2 MiB of arguments and variables together where the stack may grow to 8 MiB; what
// Bole adds itself needs room beside them.
constexpr std::size_t kMaxArguments = 1024 * 1024;
constexpr Bytes kMaxJobMemory{1LL << 60};  // 1 EiB: sums over the ranks of many jobs stay exact

Result<void> checkCommand(const Reader& reader, const TaskDraft& task) {
  std::size_t total = 0;
  const auto add = [&](std::size_t size, std::string what) -> Result<void> {
    total += size + 1;
    if (size <= kMaxArgument && total <= kMaxArguments) return {};
    const bool one = size > kMaxArgument;
    return fail(
        reader
            .error(task.at,
                   fmt::format("the task '{}' could not be started: {} too long", task.text.name,
                               one ? std::move(what) + " is" : "command and variables are"))
            .foundValue(one ? fmt::format("{} bytes", size)
                            : fmt::format("more than {} bytes", kMaxArguments))
            .expectedValue(fmt::format("at most {}", one ? kMaxArgument : kMaxArguments))
            .withHint("put the text into a file that comes along with the job"));
  };
  for (std::size_t i = 0; i < task.text.command.size(); ++i)
    BOLE_TRY(add(task.text.command[i].size(), fmt::format("argument {} of its command", i)));
  for (const auto& [name, value] : task.text.env)
    BOLE_TRY(add(name.size() + 1 + value.size(), fmt::format("its variable {}", shown(name))));
  return {};
}

Result<void> checkMemory(const Reader& reader, const JobDraft& draft) {
  std::int64_t left = kMaxJobMemory.value;
  for (const auto& task : draft.tasks) {
    const auto bytes = task.shape.memory.value;
    if (bytes > left / task.shape.replicas) {
      return fail(
          reader
              .error(task.at, fmt::format("with the task '{}' the job's memory is too large",
                                          task.text.name))
              .foundValue(
                  fmt::format("{} x {}", task.shape.replicas, formatBytes(task.shape.memory)))
              .expectedValue("at most 1 EiB for all ranks together"));
    }
    left -= bytes * task.shape.replicas;
  }
  return {};
}

Result<void> checkTasks(const Reader& reader, const JobDraft& draft) {
  if (draft.tasks.empty())
    return fail(reader.error(draft.at, "the job has no task").expectedValue("at least one task"));
  if (draft.tasks.size() > kMaxTasks) {
    return fail(reader.error(draft.tasks[kMaxTasks].at, "too many tasks")
                    .foundValue(std::to_string(draft.tasks.size()))
                    .expectedValue(fmt::format("at most {}", kMaxTasks))
                    .withHint("like ranks belong into one task with `replicas`"));
  }
  std::map<std::string_view, Position> names;
  std::int64_t ranks = 0;
  for (const auto& task : draft.tasks) {
    const auto [first, isNew] = names.emplace(task.text.name, task.at);
    if (!isNew) {
      return fail(
          reader.error(task.at, "two tasks of one name")
              .foundValue(quoted(task.text.name))
              .expectedValue("names that differ")
              .withHint(fmt::format("the first one stands in line {}", first->second.line)));
    }
    ranks += task.shape.replicas;
  }
  if (ranks <= kMaxReplicas) return {};
  return fail(reader.error(draft.at, "too many ranks in one job")
                  .foundValue(std::to_string(ranks))
                  .expectedValue(fmt::format("at most {}", kMaxReplicas)));
}

// A gang shares one network and one way of being started, so its ranks are all in containers or
// none is.
Result<void> chooseRuntime(const Session& session, JobDraft& draft) {
  const auto inContainer = [](const TaskDraft& task) { return !task.text.image.empty(); };
  const auto with = std::find_if(draft.tasks.begin(), draft.tasks.end(), inContainer);
  const auto without = std::find_if_not(draft.tasks.begin(), draft.tasks.end(), inContainer);
  auto& runtime = draft.spec.shape.runtime;
  if (with == draft.tasks.end()) {
    runtime = session.context.plain ? model::Runtime::kPlain : model::Runtime::kProcess;
    return {};
  }
  runtime = model::Runtime::kPodman;
  if (without == draft.tasks.end()) return {};
  return fail(session.reader
                  .error(without->at, fmt::format("the task '{}' has no image, but '{}' has one",
                                                  without->text.name, with->text.name))
                  .expectedValue("an image for every task, or for none")
                  .withHint("the ranks of a job run either all in containers or all on the host"));
}

// Without a sandbox nothing can be mounted.
Result<void> checkMounts(const Session& session, const JobDraft& draft) {
  if (draft.spec.shape.runtime != model::Runtime::kPlain) return {};
  for (const auto& task : draft.tasks) {
    for (const auto& mount : task.text.mounts) {
      if (mount.source == mount.target && !mount.readOnly) continue;
      return fail(session.reader
                      .error(task.at, "mounts need a sandbox, and this server runs without one",
                             ErrorCode::kRefused)
                      .foundValue(quoted(mount.source + ":" + mount.target))
                      .withHint("use the path as it is on the machine, or give the task an image"));
    }
  }
  return {};
}

// The engine takes the context's directory for the one that the job brings along, so `working_dir`
// becomes the tasks' own; a relative checkpoint path begins where the commands start.
void applyWorkingDir(const Session& session, JobDraft& draft) {
  if (draft.workingDir.empty() || draft.workingDir == session.context.directory) return;
  for (auto& task : draft.tasks) {
    if (task.text.workingDir.empty()) task.text.workingDir = draft.workingDir;
  }
  auto& checkpoint = draft.spec.text.checkpointPath;
  if (checkpoint.empty()) return;
  if (auto path = resolvePath(checkpoint, draft.workingDir)) checkpoint = std::move(*path);
}

// A field whose place is known needs no more than its name.
std::string fieldName(const std::optional<Position>& at, const char* field, const TaskDraft& task) {
  return at ? field : fmt::format("task '{}': {}", task.text.name, field);
}

// What fields of their own say of the task's GPUs. Memory of a GPU without a part of its time: the
// part is what the memory is of the whole.
Result<void> applyGpuFields(Session& session, JobDraft& draft) {
  for (auto& task : draft.tasks) {
    auto& gpus = task.shape.gpus;
    for (const auto& [at, field] : {std::pair(task.gpuMemoryAt, "gpu_memory"),
                                    std::pair(task.computeAt, "compute_capability")}) {
      if (!at || gpus.count > 0) continue;
      return fail(session.reader.error(*at, std::string(field) + ": of no GPU")
                      .withHint("say how many: gpus: 1"));
    }
    gpus.computeMin = std::max(gpus.computeMin, task.computeMin);
    if (task.gpuMemory) {
      gpus.shareMemory = task.gpuMemory;
      if (gpus.share == kWholeGpu) gpus.share = MilliGpu(0);
    }
    if (gpus.count == 0 || gpus.isWhole()) continue;
    session.reader.warn(
        task.gpusAt.value_or(task.at),
        fieldName(task.gpusAt, "gpus", task) +
            ": parts of GPUs are counted, but nothing yet keeps a rank from taking more");
  }
  return {};
}

// What every rank is told of its place and its GPUs, whatever the job says
// (docs/job-environment.md).
bool isSetByBole(std::string_view name) {
  for (const auto* known : {"RANK",
                            "LOCAL_RANK",
                            "WORLD_SIZE",
                            "LOCAL_WORLD_SIZE",
                            "NODE_RANK",
                            "CUDA_DEVICE_ORDER",
                            "CUDA_VISIBLE_DEVICES",
                            "NVIDIA_VISIBLE_DEVICES",
                            "BOLE_GPUS",
                            "BOLE_GPU_MODEL",
                            "BOLE_GPUS_EMULATED",
                            "BOLE_GPU_SHARES",
                            "BOLE_GPU_MEMORY_BYTES",
                            "BOLE_MILLICPUS",
                            "BOLE_MEMORY_BYTES",
                            "BOLE_JOB_ID",
                            "BOLE_JOB_NAME",
                            "BOLE_ATTEMPT",
                            "BOLE_ATTEMPT_ID",
                            "BOLE_PROJECT_ID",
                            "BOLE_TASK",
                            "BOLE_REPLICA",
                            "BOLE_RANK",
                            "BOLE_WORLD_SIZE",
                            "BOLE_LOCAL_RANK",
                            "BOLE_LOCAL_WORLD_SIZE",
                            "BOLE_NODE",
                            "BOLE_WORK_DIR",
                            "BOLE_ARRAY_INDEX",
                            "BOLE_ARRAY_JOB_ID",
                            "BOLE_ARRAY_COUNT"}) {
    if (name == known) return true;
  }
  return false;
}

void warnOfVariables(Session& session, const JobDraft& draft) {
  for (const auto& task : draft.tasks) {
    std::string names;
    for (const auto& [name, value] : task.text.env) {
      if (isSetByBole(name)) names += (names.empty() ? "" : ", ") + name;
    }
    if (names.empty()) continue;
    session.reader.warn(task.envAt.value_or(task.at),
                        fmt::format("{}: Bole sets {} itself: what is given here does not count",
                                    fieldName(task.envAt, "env", task), names));
  }
}

void warnOfFixedPorts(Session& session, const JobDraft& draft) {
  if (draft.spec.shape.runtime != model::Runtime::kPodman) return;
  for (const auto& task : draft.tasks) {
    const auto fixed = std::find_if(task.text.ports.begin(), task.text.ports.end(),
                                    [](const auto& p) { return p.host != 0; });
    if (fixed == task.text.ports.end() || task.shape.replicas < 2) continue;
    session.reader.warn(
        task.at,
        fmt::format(
            "task '{}': only one of its {} replicas on a machine can have the host's port {}",
            task.text.name, task.shape.replicas, fixed->host));
  }
}

// Only containers have ports that are mapped. Where the ranks share the machine's network a program
// is reached at the port it listens on.
void warnOfUnpublishedPorts(Session& session, const JobDraft& draft) {
  const auto& shape = draft.spec.shape;
  if (shape.runtime == model::Runtime::kPodman) return;
  const bool open =
      shape.network == model::Network::kHost || shape.runtime == model::Runtime::kPlain;
  for (const auto& task : draft.tasks) {
    const auto unreachable = [&](const model::Port& p) {
      return !open || (p.host != 0 && p.host != p.container);
    };
    const auto port = std::find_if(task.text.ports.begin(), task.text.ports.end(), unreachable);
    if (port == task.text.ports.end()) continue;
    session.reader.warn(
        task.at,
        fmt::format("task '{}': port {} is not published: only containers (`image`) publish ports; "
                    "{} a program is reached at the port that it listens on",
                    task.text.name, port->container, open ? "here" : "with `network: host`"));
  }
}

}  // namespace

Result<Parsed> finishJob(Session& session, JobDraft draft) {
  BOLE_TRY(checkTasks(session.reader, draft));
  for (const auto& task : draft.tasks) BOLE_TRY(checkCommand(session.reader, task));
  BOLE_TRY(checkMemory(session.reader, draft));
  BOLE_TRY(chooseRuntime(session, draft));
  BOLE_TRY(checkMounts(session, draft));
  BOLE_TRY(applyGpuFields(session, draft));
  warnOfVariables(session, draft);
  warnOfFixedPorts(session, draft);
  warnOfUnpublishedPorts(session, draft);
  applyWorkingDir(session, draft);
  Parsed parsed;
  parsed.spec = std::move(draft.spec);
  for (auto& task : draft.tasks) {
    parsed.spec.shape.tasks.push_back(std::move(task.shape));
    parsed.spec.text.tasks.push_back(std::move(task.text));
  }
  auto& text = parsed.spec.text;
  text.user = session.context.user;
  text.upload = session.context.upload;
  text.workingDir = session.context.directory;
  const auto& override = session.context.projectOverride;
  parsed.project = override.empty() ? draft.project : override;
  parsed.files = std::move(draft.files);
  parsed.warnings = session.reader.takeWarnings();
  return parsed;
}

Result<void> grow(Session& session, const Value& value, std::size_t bytes) {
  constexpr std::size_t kMost = 16 * 1024 * 1024;
  session.grown += bytes;
  if (session.grown <= kMost) return {};
  return fail(
      session.reader
          .error(value.at, value.path + ": with the values of variables the jobs grow too large")
          .expectedValue("at most 16 MiB for one file"));
}

Session::Session(Reader& theReader, const ParseContext& theContext,
                 std::vector<std::string>& theMissing)
    : reader(theReader), context(theContext), missingEnv(theMissing) {
  for (const auto& [name, value] : context.env) given[name] = value;
}

void Environment::set(std::string name, std::string value) {
  const auto [place, isNew] = places_.emplace(name, entries_.size());
  if (!isNew) entries_[std::exchange(place->second, entries_.size())].first.clear();
  entries_.emplace_back(std::move(name), std::move(value));
}

const std::string* Environment::find(std::string_view name) const {
  const auto place = places_.find(name);
  return place == places_.end() ? nullptr : &entries_[place->second].second;
}

model::EnvList Environment::take() {
  places_.clear();
  std::erase_if(entries_, [](const auto& entry) { return entry.first.empty(); });
  return std::exchange(entries_, {});
}

Result<void> takeBareEnv(Session& session, const Value& value, const std::string& name,
                         Environment& env) {
  const auto found = session.given.find(name);
  if (found == session.given.end()) {
    if (session.missing.insert(name).second) session.missingEnv.push_back(name);
    return {};
  }
  const auto text = found->second;
  if (text.find('\0') != std::string_view::npos ||
      findInvalidUtf8(text) != std::string_view::npos) {
    return fail(session.reader.error(value.at, "the value given for " + name + " is not text")
                    .expectedValue("UTF-8 without NUL"));
  }
  BOLE_TRY(grow(session, value, text.size()));
  env.set(name, std::string(text));
  return {};
}

Result<void> readLabels(const Reader& reader, const Value& value, model::EnvList& labels) {
  constexpr std::size_t kMaxLabels = 1024;
  constexpr std::size_t kLongestName = 317;  // of Kubernetes: 253 before the '/', 63 after it
  constexpr std::size_t kLongestValue = 4096;
  if (value.node->fields.size() > kMaxLabels) {
    return fail(reader.error(value.at, value.path + ": too many labels")
                    .foundValue(std::to_string(value.node->fields.size()))
                    .expectedValue(fmt::format("at most {}", kMaxLabels)));
  }
  return reader.readAnyFields(value, [&](const std::string& name, const Value& v) -> Result<void> {
    const bool plain = std::none_of(name.begin(), name.end(), isControl);
    if (name.empty() || name.size() > kLongestName || !plain) {
      return fail(reader.error(v.at, value.path + ": not the name of a label")
                      .foundValue(quoted(name))
                      .expectedValue(fmt::format("1 to {} bytes of one line", kLongestName)));
    }
    BOLE_ASSIGN(auto text, reader.readText(v, "a value"));
    if (text.size() > kLongestValue || std::any_of(text.begin(), text.end(), isControl)) {
      return fail(reader.error(v, "not the value of a label")
                      .expectedValue(fmt::format("at most {} bytes of one line", kLongestValue)));
    }
    labels.emplace_back(name, std::move(text));
    return {};
  });
}

}  // namespace bole::spec
