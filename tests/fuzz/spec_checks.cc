#include "fuzz/spec_checks.h"

#include <algorithm>
#include <set>
#include <string>

#include "codec/codec.h"
#include "fuzz/check.h"

namespace bole::fuzz {
namespace {

constexpr std::uint32_t kMaxRanks = 65'536;
constexpr std::int64_t kMaxJobMemory = 1LL << 60;
constexpr std::size_t kMaxArgument = 128 * 1024 - 1;

bool isName(std::string_view text) {
  const auto good = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  };
  return !text.empty() && text.size() <= 63 && std::all_of(text.begin(), text.end(), good);
}

bool isAbsolute(std::string_view path) {
  return path.starts_with('/') && path.find("/../") == std::string_view::npos &&
         !path.ends_with("/..");
}

void holdGpus(const model::GpuRequest& gpus) {
  hold(gpus.count <= 1024, "at most 1024 GPUs for one replica");
  hold(gpus.share.value >= (gpus.shareMemory ? 0 : 1) && gpus.share <= kWholeGpu,
       "a share is of one GPU");
  hold(!gpus.shareMemory || gpus.shareMemory->value >= 1, "a part of memory is something");
  hold(gpus.models.size() <= 16, "few models");
  for (const auto& model : gpus.models) hold(!model.empty(), "a model has a name");
  if (gpus.memoryMin) hold(gpus.memoryMin->value > 0, "memory above zero");
  if (gpus.memoryMin && gpus.memoryMax)
    hold(*gpus.memoryMin <= *gpus.memoryMax, "a range has an inside");
}

void holdTask(const model::TaskShape& shape, const model::TaskText& text) {
  hold(shape.replicas >= 1 && shape.replicas <= kMaxRanks, "1 to 65,536 replicas");
  hold(shape.minAvailable <= shape.replicas, "minAvailable is of the replicas");
  hold(shape.cpus.value >= 0 && shape.memory.value >= 0 && shape.shm.value >= 0,
       "sizes are not negative");
  holdGpus(shape.gpus);
  hold(isName(text.name), "a task has a name", text.name);
  hold(!text.command.empty() && !text.command[0].empty(), "a task has a command");
  for (const auto& argument : text.command)
    hold(argument.size() <= kMaxArgument, "Linux takes every argument");
  for (const auto& [name, value] : text.env) {
    hold(!name.empty() && name.find('=') == std::string::npos, "a variable has a name", name);
    hold(name.size() + 1 + value.size() <= kMaxArgument, "Linux takes every variable");
  }
  for (const auto& port : text.ports) hold(port.container > 0, "a port is above zero");
  for (const auto& mount : text.mounts)
    hold(isAbsolute(mount.source) && isAbsolute(mount.target), "mounts are absolute");
  hold(text.workingDir.empty() || isAbsolute(text.workingDir), "a directory is absolute",
       text.workingDir);
}

void holdRule(const model::LifecycleRule& rule, std::size_t tasks) {
  hold(rule.task >= -1 && rule.task < static_cast<std::int32_t>(tasks),
       "a rule is of a task or of the job");
  const bool coded = rule.event == model::PolicyEvent::kExitCode;
  hold(coded ? rule.exitCode >= 1 && rule.exitCode <= 255 : rule.exitCode == 0,
       "exit codes are 1 to 255");
  hold(rule.timeout.value >= 0, "no rule acts before its event");
}

void holdShape(const model::JobShape& shape) {
  hold(!shape.tasks.empty() && shape.tasks.size() <= 64, "1 to 64 tasks");
  std::uint64_t ranks = 0;
  __int128 memory = 0;
  for (const auto& task : shape.tasks) {
    ranks += task.replicas;
    memory += static_cast<__int128>(task.memory.value) * task.replicas;
  }
  hold(ranks <= kMaxRanks, "at most 65,536 ranks");
  hold(memory <= kMaxJobMemory, "sums of memory stay exact");
  hold(shape.minAvailable >= 1 && shape.minAvailable <= ranks, "a gang is of the ranks");
  hold(shape.priority >= -1'000'000 && shape.priority <= 1'000'000, "priorities have a range");
  hold(shape.timeLimit.value >= 0 && shape.grace.value >= 0, "times are not negative");
  hold(shape.restart.backoff.value >= 0 && shape.restart.backoff <= shape.restart.maxBackoff,
       "back-off has a most");
  for (const auto& rule : shape.rules) holdRule(rule, shape.tasks.size());
}

// "NAME:LINE:COLUMN" with both inside of the text.
void holdPlace(std::string_view where, std::string_view name, std::string_view text) {
  hold(where.starts_with(name) && where.size() > name.size(), "the place names the file", where);
  where.remove_prefix(name.size() + 1);
  const auto colon = where.find(':');
  hold(colon != std::string_view::npos && colon > 0 && colon + 1 < where.size(),
       "the place has line and column", where);
  const auto lines = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) + 1;
  const auto line = std::stoull(std::string(where.substr(0, colon)));
  const auto column = std::stoull(std::string(where.substr(colon + 1)));
  hold(line >= 1 && line <= lines && column >= 1 && column <= text.size() + 1,
       "the place is inside of the text", where);
}

}  // namespace

void holdJob(const model::JobSpec& spec) {
  holdShape(spec.shape);
  hold(isName(spec.text.name), "a job has a name", spec.text.name);
  hold(isName(spec.text.queue), "a queue has a name", spec.text.queue);
  hold(spec.text.tasks.size() == spec.shape.tasks.size(), "both halves have the same tasks");
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < spec.text.tasks.size(); ++i) {
    holdTask(spec.shape.tasks[i], spec.text.tasks[i]);
    hold(names.insert(spec.text.tasks[i].name).second, "names of tasks differ",
         spec.text.tasks[i].name);
    const bool contained = spec.shape.runtime == model::Runtime::kPodman;
    hold(contained != spec.text.tasks[i].image.empty(), "containers have images, and only they");
  }
  const auto text = codec::toJson(spec);
  const auto again = codec::fromJson<model::JobSpec>(text);
  hold(again.has_value(), "a job's own JSON is read", again ? "" : again.error().message());
  hold(*again == spec, "a job survives JSON", text);
}

void holdSpecError(const Error& error, const spec::SpecFile& file) {
  holdError(error, Speaker::kSpec);
  holdPlace(error.where, file.name, file.text);
}

void parseAndHold(const spec::SpecFile& file, const spec::ParseContext& context) {
  const auto parsed = spec::parseSpec(file, context);
  if (!parsed) return holdSpecError(parsed.error(), file);
  hold(!parsed->jobs.empty() && parsed->jobs.size() <= 1000, "1 to 1000 jobs");
  for (const auto& job : parsed->jobs) {
    holdJob(job.spec);
    hold(job.project.empty() || isName(job.project), "a project has a name", job.project);
    for (const auto& warning : job.warnings) {
      hold(warning.starts_with(file.name + ":") && warning.size() < 4096,
           "a warning has a place and is short", warning);
    }
  }
}

spec::ParseContext submitter() {
  spec::ParseContext context;
  context.directory = "/home/ada/job";
  context.user = "ada";
  context.env = {{"TOKEN", "secret"}, {"A", "1"}};
  return context;
}

}  // namespace bole::fuzz
