#include "spec/job_draft.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "spec/grammar.h"

namespace bole::spec {
namespace {

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
                             ErrorCode::kUnsupported)
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

void warnOfFixedPorts(Session& session, const JobDraft& draft) {
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

}  // namespace

Result<Parsed> finishJob(Session& session, JobDraft draft) {
  BOLE_TRY(checkTasks(session.reader, draft));
  BOLE_TRY(chooseRuntime(session, draft));
  BOLE_TRY(checkMounts(session, draft));
  warnOfFixedPorts(session, draft);
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
  parsed.project = override.empty() ? std::move(draft.project) : override;
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

void setEnv(model::EnvList& list, std::string name, std::string value) {
  std::erase_if(list, [&](const auto& entry) { return entry.first == name; });
  list.emplace_back(std::move(name), std::move(value));
}

Result<void> takeBareEnv(Session& session, const Value& value, const std::string& name,
                         model::EnvList& list) {
  const auto& given = session.context.env;
  const auto found = std::find_if(given.rbegin(), given.rend(),
                                  [&](const auto& entry) { return entry.first == name; });
  if (found == given.rend()) {
    auto& missing = session.missingEnv;
    if (std::find(missing.begin(), missing.end(), name) == missing.end()) missing.push_back(name);
    return {};
  }
  if (found->second.find('\0') != std::string::npos ||
      findInvalidUtf8(found->second) != std::string::npos) {
    return fail(session.reader.error(value.at, "the value given for " + name + " is not text")
                    .expectedValue("UTF-8 without NUL"));
  }
  BOLE_TRY(grow(session, value, found->second.size()));
  setEnv(list, name, found->second);
  return {};
}

}  // namespace bole::spec
