#include "spec/bole_yaml.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "spec/grammar.h"
#include "spec/links.h"
#include "spec/when.h"

namespace bole::spec {
namespace {

constexpr std::uint32_t kDefaultRetries = 3;  // of `restart: on-failure` without a number
constexpr std::int64_t kMaxRetries = 1'000'000;
constexpr std::size_t kMaxEntries = 4096;  // of one list: arguments, variables, ports, mounts

using Readers = std::vector<FieldReader>;

bool hasField(const Node& root, std::string_view name) {
  return std::any_of(root.fields.begin(), root.fields.end(),
                     [&](const Field& f) { return f.key == name; });
}

// `gang` is understood once all tasks are known.
struct Gang {
  std::optional<Value> value;
};

class JobReader {
 public:
  explicit JobReader(Session& session) : session_(session), reader_(session.reader) {}

  Result<Parsed> read(const Node& root) {
    const Value top{&root, "", root.at};
    draft_.at = root.at;
    if (!top.is(NodeKind::kMap)) {
      return fail(reader_.error(top, "a job is described by fields")
                      .expectedValue("`name: ...` and so on"));
    }
    if (hasField(root, "spec") || hasField(root, "metadata")) {
      return fail(reader_.error(root.at, "an object of Kubernetes without its apiVersion")
                      .expectedValue("`apiVersion: batch.volcano.sh/v1alpha1` for a Volcano Job"));
    }
    auto readers = jobReaders();
    const bool hasTasks = hasField(root, "tasks");
    if (hasTasks)
      addMisplaced(readers);
    else
      addShorthand(readers);
    BOLE_TRY(reader_.readFields(top, readers));
    if (draft_.spec.text.name.empty()) {
      return fail(reader_.error(root.at, "the job has no name").expectedValue("`name: my-job`"));
    }
    if (!hasTasks) draft_.tasks.push_back(std::move(single_));
    for (const auto& task : draft_.tasks) BOLE_TRY(checkTask(task));
    BOLE_TRY(applyPreemptible());
    BOLE_TRY(applyGang());
    return finishJob(session_, std::move(draft_));
  }

 private:
  Result<void> checkTask(const TaskDraft& task) const {
    if (!task.text.command.empty()) return {};
    return fail(reader_.error(task.at, fmt::format("the task '{}' has no command", task.text.name))
                    .expectedValue("`command: python train.py`"));
  }

  Readers jobReaders() {
    auto& shape = draft_.spec.shape;
    auto& text = draft_.spec.text;
    return {
        {"name",
         [&](const Value& v) { return readBy(reader_, v, "a name", parseJobName, text.name); }},
        {"kind", [&](const Value& v) { return readKind(v); }},
        {"project",
         [&](const Value& v) { return readBy(reader_, v, "a name", parseName, draft_.project); }},
        {"queue",
         [&](const Value& v) { return readBy(reader_, v, "a name", parseName, text.queue); }},
        {"priority", [&](const Value& v) { return readPriority(v); }},
        {"preemptible",
         [&](const Value& v) -> Result<void> {
           BOLE_ASSIGN(shape.preemptible, reader_.readFlag(v));
           preemptible_ = v;
           return {};
         }},
        {"spot",
         [&](const Value& v) -> Result<void> {
           BOLE_ASSIGN(shape.spot, reader_.readFlag(v));
           return {};
         }},
        {"tasks", [&](const Value& v) { return readTasks(v); }},
        {"gang",
         [&](const Value& v) -> Result<void> {
           gang_.value = v;
           return {};
         }},
        {"restart", [&](const Value& v) { return readRestart(v); }},
        {"time_limit", [&](const Value& v) { return readTimeLimit(v); }},
        {"grace", [&](const Value& v) { return readDuration(v, shape.grace); }},
        {"after", [&](const Value& v) { return readAfter(v); }},
        {"begin", [&](const Value& v) { return readBegin(v); }},
        {"array", [&](const Value& v) { return readArray(v); }},
        {"checkpoint", [&](const Value& v) { return readCheckpoint(v); }},
        {"working_dir", [&](const Value& v) { return readDirectory(v, draft_.workingDir); }},
        {"files", [&](const Value& v) { return readFiles(v); }},
        {"network", [&](const Value& v) { return readNetwork(v); }},
        {"labels", [&](const Value& v) { return readLabels(reader_, v, text.labels); }},
    };
  }

  Readers taskReaders(TaskDraft& task) {
    auto& shape = task.shape;
    auto& text = task.text;
    return {
        {"replicas", [&](const Value& v) { return readReplicas(v, shape); }},
        {"command", [&](const Value& v) { return readCommand(v, text.command); }},
        {"image",
         [&](const Value& v) {
           task.imageAt = v.at;
           return readBy(reader_, v, "an image", parseImage, text.image);
         }},
        {"gpus",
         [&](const Value& v) {
           task.gpusAt = v.at;
           return readBy(reader_, v, "GPUs (2, A100:2)", parseGpuRequest, shape.gpus);
         }},
        {"gpu_memory",
         [&](const Value& v) {
           task.gpuMemoryAt = v.at;
           return readMemory(v, task.gpuMemory.emplace());
         }},
        {"compute_capability",
         [&](const Value& v) {
           task.computeAt = v.at;
           return readBy(reader_, v, "a compute capability (8.0)", parseComputeCapability,
                         task.computeMin);
         }},
        {"node_labels", [&](const Value& v) { return readLabels(reader_, v, shape.nodeLabels); }},
        {"cpus",
         [&](const Value& v) {
           return readBy(reader_, v, "CPUs (2, 0.5)", parseCpus, shape.cpus);
         }},
        {"memory", [&](const Value& v) { return readMemory(v, shape.memory); }},
        {"shm_size", [&](const Value& v) { return readMemory(v, shape.shm); }},
        {"env",
         [&](const Value& v) {
           task.envAt = v.at;
           return readEnv(v, text.env);
         }},
        {"ports", [&](const Value& v) { return readPorts(v, text.ports); }},
        {"mounts", [&](const Value& v) { return readMounts(v, text.mounts); }},
    };
  }

  // Fields of a task that stand beside `tasks`: most likely meant for every task.
  void addMisplaced(Readers& readers) {
    for (const auto& reader : taskReaders(single_)) {
      readers.push_back({reader.name, [this, name = reader.name](const Value& v) -> Result<void> {
                           return fail(
                               reader_.error(v.at, fmt::format("'{}' stands beside `tasks`", name))
                                   .withHint("move it into the tasks that need it"));
                         }});
    }
  }

  // A job of one task needs no list: the task's fields stand at the top.
  void addShorthand(Readers& readers) {
    single_.text.name = "main";
    single_.at = draft_.at;
    for (auto& reader : taskReaders(single_)) readers.push_back(std::move(reader));
  }

  Result<void> readKind(const Value& value) {
    BOLE_ASSIGN(const auto kind, reader_.readWord(value, {"job", "instance", "service"}));
    if (kind == 0) return {};
    return fail(reader_
                    .error(value.at, fmt::format("kind: '{}' comes later", value.text()),
                           ErrorCode::kRefused)
                    .expectedValue("job"));
  }

  Result<void> readPriority(const Value& value) {
    auto& priority = draft_.spec.shape.priority;
    constexpr std::int32_t kStep = 1000;
    const std::pair<std::string_view, std::int32_t> kWords[] = {
        {"low", -kStep}, {"normal", 0}, {"high", kStep}};
    for (const auto& [word, number] : kWords) {
      if (!value.is(NodeKind::kScalar) || value.text() != word) continue;
      priority = number;
      return {};
    }
    auto number = reader_.readWhole(value, -kMaxPriority, kMaxPriority);
    if (!number)
      return fail(
          std::move(number).error().expectedValue("low, normal, high, or -1000000 to 1000000"));
    priority = static_cast<std::int32_t>(*number);
    return {};
  }

  // What someone sits at, or others rely on, goes on unless it says that it need not.
  Result<void> applyPreemptible() {
    auto& shape = draft_.spec.shape;
    if (!preemptible_) {
      shape.preemptible = shape.kind == model::JobKind::kJob;
      return {};
    }
    if (shape.preemptible || !shape.spot) return {};
    return fail(reader_.error(*preemptible_, "a spot job can be stopped for any other")
                    .expectedValue("true")
                    .withHint("leave out `spot` or `preemptible`"));
  }

  Result<void> readTasks(const Value& value) {
    if (value.is(NodeKind::kSequence) && value.node->items.empty())
      return fail(
          reader_.error(value.at, "tasks: an empty list").expectedValue("at least one task"));
    return reader_.readItems(value, [&](const Value& item) -> Result<void> {
      if (draft_.tasks.size() > kMaxTasks) return {};  // finishJob() says so
      TaskDraft task;
      task.at = item.at;
      auto readers = taskReaders(task);
      readers.push_back({"name", [&](const Value& v) {
                           return readBy(reader_, v, "a name", parseName, task.text.name);
                         }});
      readers.push_back(
          {"working_dir", [&](const Value& v) { return readDirectory(v, task.text.workingDir); }});
      BOLE_TRY(reader_.readFields(item, readers));
      if (task.text.name.empty())
        return fail(reader_.error(item.at, "the task has no name").expectedValue("`name: worker`"));
      draft_.tasks.push_back(std::move(task));
      return {};
    });
  }

  Result<void> readReplicas(const Value& value, model::TaskShape& shape) {
    BOLE_ASSIGN(const auto count, reader_.readWhole(value, 1, kMaxReplicas));
    shape.replicas = static_cast<std::uint32_t>(count);
    return {};
  }

  // gang: true | false | the number of ranks that must be there.
  Result<void> applyGang() {
    std::int64_t total = 0;
    for (auto& task : draft_.tasks) {
      total += task.shape.replicas;
      task.shape.minAvailable = task.shape.replicas;
    }
    BOLE_ASSIGN(const auto least, gangSize(total));
    draft_.spec.shape.minAvailable = static_cast<std::uint32_t>(least);
    if (least == total) return {};
    for (auto& task : draft_.tasks) task.shape.minAvailable = 0;  // any ranks make up the number
    return {};
  }

  Result<std::int64_t> gangSize(std::int64_t total) const {
    if (!gang_.value) return total;
    const auto& value = *gang_.value;
    const auto text = value.is(NodeKind::kScalar) ? value.text() : std::string();
    if (text == "true" || text == "True") return total;
    if (text == "false" || text == "False") return 1;
    const auto expected =
        total == 1
            ? std::string("true, false, or 1: the job has one rank")
            : fmt::format("true, false, or how many of the {} ranks must start together", total);
    if (text.find_first_of("0123456789") == std::string::npos) {
      return fail(reader_.error(value, "not the size of a gang").expectedValue(expected));
    }
    auto number = reader_.readWhole(value, 1, total);
    if (!number) return fail(std::move(number).error().expectedValue(expected));
    return *number;
  }

  Result<void> readRestart(const Value& value) {
    auto& restart = draft_.spec.shape.restart;
    if (value.is(NodeKind::kMap)) {
      BOLE_TRY(readRestartFields(value, restart));
    } else {
      BOLE_TRY(readRestartWord(value, restart));
    }
    if (restart.backoff <= restart.maxBackoff) return {};
    return fail(reader_.error(value.at, "restart: backoff is longer than max_backoff")
                    .foundValue(formatDuration(restart.backoff))
                    .expectedValue("at most " + formatDuration(restart.maxBackoff)));
  }

  // never | on-failure | on-failure:N, as docker has it
  Result<void> readRestartWord(const Value& value, model::RestartPolicy& restart) {
    constexpr std::string_view kPrefix = "on-failure:";
    if (value.is(NodeKind::kScalar) && value.text().starts_with(kPrefix)) {
      Node number = *value.node;
      number.text.erase(0, kPrefix.size());
      BOLE_ASSIGN(const auto retries,
                  reader_.readWhole({&number, value.path, value.at}, 1, kMaxRetries));
      restart.kind = model::RestartKind::kOnFailure;
      restart.maxRetries = static_cast<std::uint32_t>(retries);
      return {};
    }
    BOLE_ASSIGN(const auto word, readPolicy(value));
    restart.kind = word;
    restart.maxRetries = word == model::RestartKind::kNever ? 0 : kDefaultRetries;
    return {};
  }

  Result<model::RestartKind> readPolicy(const Value& value) {
    if (value.is(NodeKind::kScalar) && value.text() == "always") {
      return fail(reader_.error(value, "a job ends, so it cannot always be started again")
                      .expectedValue("never or on-failure"));
    }
    if (value.is(NodeKind::kScalar) && value.text() == "no")
      return model::RestartKind::kNever;  // docker's word
    BOLE_ASSIGN(const auto word, reader_.readWord(value, {"never", "on-failure"}));
    return word == 0 ? model::RestartKind::kNever : model::RestartKind::kOnFailure;
  }

  Result<void> readRestartFields(const Value& value, model::RestartPolicy& restart) {
    std::optional<std::uint32_t> retries;
    restart.kind = model::RestartKind::kOnFailure;
    bool hasLongest = false;
    BOLE_TRY(reader_.readFields(
        value, {{"policy",
                 [&](const Value& v) -> Result<void> {
                   BOLE_ASSIGN(restart.kind, readPolicy(v));
                   return {};
                 }},
                {"max_retries",
                 [&](const Value& v) -> Result<void> {
                   BOLE_ASSIGN(const auto number, reader_.readWhole(v, 0, kMaxRetries));
                   retries = static_cast<std::uint32_t>(number);
                   return {};
                 }},
                {"backoff", [&](const Value& v) { return readDuration(v, restart.backoff); }},
                {"max_backoff", [&](const Value& v) {
                   hasLongest = true;
                   return readDuration(v, restart.maxBackoff);
                 }}}));
    if (restart.kind == model::RestartKind::kNever && retries.value_or(0) > 0) {
      return fail(
          reader_.error(value.at, "restart: the policy is never, but max_retries is above 0")
              .withHint("write policy: on-failure"));
    }
    restart.maxRetries =
        restart.kind == model::RestartKind::kNever ? 0 : retries.value_or(kDefaultRetries);
    if (!hasLongest) restart.maxBackoff = std::max(restart.maxBackoff, restart.backoff);
    return {};
  }

  Result<void> readDuration(const Value& value, Duration& out) const {
    return readBy(reader_, value, "a time (90s, 30m, 2h)", parseDuration, out);
  }

  Result<void> readTimeLimit(const Value& value) {
    auto& limit = draft_.spec.shape.timeLimit;
    BOLE_TRY(readDuration(value, limit));
    if (limit >= seconds(1)) return {};
    return fail(reader_.error(value, "a time limit that no job can keep")
                    .expectedValue("1s or more")
                    .withHint("for no limit leave the field out"));
  }

  // One, or a list of them.
  Result<void> readAfter(const Value& value) {
    auto& after = draft_.spec.after;
    const auto one = [&](const Value& v) -> Result<void> {
      model::EnvList some;
      BOLE_TRY(readBy(reader_, v, "a job (12, prep, any:12)", parseAfter, some));
      after.insert(after.end(), some.begin(), some.end());
      return {};
    };
    if (value.is(NodeKind::kSequence))
      BOLE_TRY(reader_.readItems(value, one));
    else
      BOLE_TRY(one(value));
    if (after.size() <= model::JobSpec::kMostAfter) return {};
    return fail(reader_.error(value.at, value.path + ": too many jobs to wait for")
                    .expectedValue(fmt::format("at most {}", model::JobSpec::kMostAfter)));
  }

  Result<void> readBegin(const Value& value) {
    Begin begin;
    BOLE_TRY(readBy(reader_, value, "a time or how long to wait (2h)", parseBegin, begin));
    draft_.spec.shape.begin = begin.at;
    draft_.spec.shape.delay = begin.delay;
    return {};
  }

  Result<void> readArray(const Value& value) {
    ArrayAsk ask;
    BOLE_TRY(readBy(reader_, value, "an array (0-9, 0-9%2)", parseArray, ask));
    draft_.spec.array = std::move(ask.elements);
    draft_.spec.arrayMost = ask.most;
    if (draft_.spec.array.size() > 1) return {};
    reader_.warn(value.at, fmt::format("array: one element, called {}; for so many write 0-{}",
                                       draft_.spec.array.front(),
                                       std::max<std::uint32_t>(draft_.spec.array.front(), 2) - 1));
    return {};
  }

  Result<void> readMemory(const Value& value, Bytes& out) const {
    BOLE_TRY(readBy(reader_, value, "a size (512MiB, 16G)", parseSize, out));
    if (out.value == 0 || out >= kMinMemory) return {};
    return fail(reader_.error(value, "too small")
                    .expectedValue("1 MiB or more")
                    .withHint("for no limit leave the field out"));
  }

  Result<void> readDirectory(const Value& value, std::string& out) const {
    return readBy(
        reader_, value, "a directory",
        [&](const std::string& text) { return resolvePath(text, session_.context.directory); },
        out);
  }

  Result<void> readCheckpoint(const Value& value) {
    auto& path = draft_.spec.text.checkpointPath;
    const auto readPath = [&](const Value& v) -> Result<void> {
      BOLE_ASSIGN(path, reader_.readLine(v, "a directory"));
      auto checked = resolvePath(path, "/");
      if (!checked) return fail(reader_.error(v, std::move(checked).error()));
      return {};
    };
    if (!value.is(NodeKind::kMap)) return readPath(value);
    BOLE_TRY(reader_.readFields(
        value, {{"path", readPath}, {"every", [&](const Value& v) -> Result<void> {
                                       BOLE_ASSIGN(const auto every,
                                                   reader_.readWhole(v, 1, 1'000'000'000));
                                       draft_.spec.shape.checkpointEvery =
                                           static_cast<std::uint32_t>(every);
                                       return {};
                                     }}}));
    if (path.empty())
      return fail(reader_.error(value.at, "checkpoint: no path")
                      .expectedValue("`checkpoint: {path: checkpoints, every: 5}`"));
    return {};
  }

  Result<void> readFiles(const Value& value) {
    const auto readOne = [&](const Value& v) -> Result<void> {
      BOLE_ASSIGN(auto path, reader_.readLine(v, "a path below the job's directory"));
      const bool climbs = path == ".." || path.starts_with("../") ||
                          path.find("/../") != std::string::npos || path.ends_with("/..");
      if (path.starts_with('/') || path.starts_with('~') || climbs) {
        return fail(reader_.error(v, "outside of the job's directory")
                        .expectedValue("a path below it, or ."));
      }
      draft_.files.push_back(std::move(path));
      return {};
    };
    if (value.is(NodeKind::kScalar))
      BOLE_TRY(readOne(value));
    else
      BOLE_TRY(reader_.readItems(value, readOne));
    if (session_.context.upload.empty()) {
      reader_.warn(value.at, "files: nothing was uploaded with this job; it uses " +
                                 session_.context.directory + " as it is");
    }
    return {};
  }

  Result<void> readNetwork(const Value& value) {
    BOLE_ASSIGN(const auto word, reader_.readWord(value, {"gang", "host"}));
    draft_.spec.shape.network = word == 0 ? model::Network::kGang : model::Network::kHost;
    return {};
  }

  Result<void> checkLength(const Value& value) const {
    const auto size = std::max(value.node->items.size(), value.node->fields.size());
    if (size <= kMaxEntries) return {};
    return fail(reader_.error(value.at, value.path + ": too many entries")
                    .foundValue(std::to_string(size))
                    .expectedValue(fmt::format("at most {}", kMaxEntries)));
  }

  // Text goes to the shell, a list is the argv itself.
  Result<void> readCommand(const Value& value, std::vector<std::string>& command) const {
    const auto* expected = "a shell command, or a list of arguments";
    if (!value.is(NodeKind::kSequence)) {
      BOLE_ASSIGN(auto text, reader_.readText(value, expected));
      if (text.find_first_not_of(" \t\r\n") == std::string::npos)
        return fail(reader_.error(value, "empty").expectedValue(expected));
      command = {"/bin/sh", "-c", std::move(text)};
      return {};
    }
    BOLE_TRY(checkLength(value));
    BOLE_TRY(reader_.readItems(value, [&](const Value& item) -> Result<void> {
      auto text = reader_.readText(item, "text");
      if (!text)
        return fail(std::move(text).error().withHint(item.is(NodeKind::kMap)
                                                         ? "put text that holds ': ' into quotes"
                                                         : "put the argument into quotes"));
      command.push_back(std::move(*text));
      return {};
    }));
    if (!command.empty() && !command[0].empty()) return {};
    return fail(reader_.error(value, "no program to start").expectedValue(expected));
  }

  // A list of A=1 or bare A, or a map in which nothing stands for bare.
  Result<void> readEnv(const Value& value, model::EnvList& out) {
    BOLE_TRY(checkLength(value));
    Environment env;
    if (value.is(NodeKind::kMap)) {
      BOLE_TRY(reader_.readAnyFields(value, [&](const std::string& name, const Value& v) {
        return readVariable(v, name, env);
      }));
    } else if (value.is(NodeKind::kSequence)) {
      BOLE_TRY(
          reader_.readItems(value, [&](const Value& item) { return readAssignment(item, env); }));
    } else {
      return fail(reader_.error(value, "not variables")
                      .expectedValue("fields (`A: 1`) or a list (`- A=1`)"));
    }
    out = env.take();
    return {};
  }

  Result<void> readAssignment(const Value& item, Environment& env) {
    auto text = reader_.readText(item, "NAME=VALUE or NAME");
    if (!text) {
      return fail(std::move(text).error().withHint(
          item.is(NodeKind::kMap) ? "in a list write `- NAME=VALUE`" : ""));
    }
    const auto equals = text->find('=');
    auto name = parseEnvName(std::string_view(*text).substr(0, equals));
    if (!name) return fail(reader_.error(item, std::move(name).error()));
    if (equals == std::string::npos) return takeBareEnv(session_, item, *name, env);
    env.set(*name, text->substr(equals + 1));
    return {};
  }

  Result<void> readVariable(const Value& value, const std::string& text, Environment& env) {
    auto name = parseEnvName(text);
    if (!name) return fail(reader_.error(value, std::move(name).error().foundValue(quoted(text))));
    if (value.is(NodeKind::kNull)) return takeBareEnv(session_, value, *name, env);
    BOLE_ASSIGN(auto content, reader_.readText(value, "a value"));
    env.set(*name, std::move(content));
    return {};
  }

  Result<void> readPorts(const Value& value, std::vector<model::Port>& ports) const {
    BOLE_TRY(checkLength(value));
    std::set<std::tuple<std::uint16_t, std::string, std::uint16_t>>
        seen;  // a host's port, or one inside
    return reader_.readItems(value, [&](const Value& item) -> Result<void> {
      model::Port port;
      BOLE_TRY(readBy(reader_, item, "a port (8080, 8080:80)", parsePort, port));
      if (!seen.emplace(port.host, port.address, port.host != 0 ? std::uint16_t{0} : port.container)
               .second)
        return fail(reader_.error(item, "the port is given twice").withHint("keep one of them"));
      ports.push_back(std::move(port));
      return {};
    });
  }

  Result<void> readMounts(const Value& value, std::vector<model::Mount>& mounts) {
    BOLE_TRY(checkLength(value));
    std::set<std::string> targets;
    return reader_.readItems(value, [&](const Value& item) -> Result<void> {
      model::Mount mount;
      if (item.is(NodeKind::kMap)) {
        BOLE_TRY(readMountFields(item, mount));
      } else {
        BOLE_TRY(readBy(
            reader_, item, "SOURCE:TARGET",
            [&](const std::string& text) { return parseMount(text, session_.context.directory); },
            mount));
      }
      if (!targets.insert(mount.target).second)
        return fail(reader_.error(item.at, item.path + ": two mounts at one target")
                        .foundValue(quoted(mount.target)));
      BOLE_TRY(grow(session_, item, mount.source.size()));
      mounts.push_back(std::move(mount));
      return {};
    });
  }

  Result<void> readMountFields(const Value& item, model::Mount& mount) const {
    std::string source;
    std::string target;
    bool readOnly = false;
    BOLE_TRY(reader_.readFields(item, {{"source",
                                        [&](const Value& v) -> Result<void> {
                                          BOLE_ASSIGN(source, reader_.readLine(v, "a path"));
                                          return {};
                                        }},
                                       {"target",
                                        [&](const Value& v) -> Result<void> {
                                          BOLE_ASSIGN(target, reader_.readLine(v, "a path"));
                                          return {};
                                        }},
                                       {"read_only", [&](const Value& v) -> Result<void> {
                                          BOLE_ASSIGN(readOnly, reader_.readFlag(v));
                                          return {};
                                        }}}));
    auto made = makeMount(source, target, session_.context.directory);
    if (!made)
      return fail(
          reader_.error(item, std::move(made).error().foundValue(quoted(source + ":" + target))));
    mount = std::move(*made);
    mount.readOnly = readOnly;
    return {};
  }

  Session& session_;
  Reader& reader_;
  JobDraft draft_;
  TaskDraft single_;
  Gang gang_;
  std::optional<Value> preemptible_;
};

}  // namespace

Result<Parsed> readBoleYaml(Session& session, const Node& root) {
  // As docker compose has it: a field x-NAME is a place for anchors (&name), and means nothing
  // itself.
  Node job = root;
  std::erase_if(job.fields, [](const Field& field) { return field.key.starts_with("x-"); });
  return JobReader(session).read(job);
}

}  // namespace bole::spec
