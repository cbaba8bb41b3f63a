#include "spec/volcano.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

#include "spec/grammar.h"
#include "spec/kubernetes.h"
#include "spec/suggest.h"
#include "spec/volcano_plugins.h"
#include "spec/volcano_pod.h"
#include "spec/volcano_policy.h"

namespace bole::spec {
namespace {

constexpr std::string_view kApiVersion = "batch.volcano.sh/v1alpha1";
constexpr std::uint32_t kDefaultMaxRetry = 3;  // Volcano's own
constexpr std::int64_t kMaxInt32 = 2'147'483'647;

// Priorities of classes, docs/volcano.md. The first two are Kubernetes' own, the rest are those of
// Volcano's examples.
struct PriorityClass {
  std::string_view name;
  std::int32_t priority;
};
constexpr std::array<PriorityClass, 8> kPriorityClasses = {{{"system-node-critical", 1'000'000},
                                                            {"system-cluster-critical", 900'000},
                                                            {"high-priority", 1000},
                                                            {"high", 1000},
                                                            {"normal-priority", 0},
                                                            {"normal", 0},
                                                            {"low-priority", -1000},
                                                            {"low", -1000}}};

struct VolcanoTask {
  TaskDraft draft;
  PodFacts pod;
  std::optional<std::int64_t> minAvailable;
  std::optional<Value> policies;
  std::vector<std::pair<std::string, Position>> dependsOn;
};

class VolcanoReader {
 public:
  explicit VolcanoReader(Session& session) : session_(session), reader_(session.reader) {}

  Result<Parsed> read(const Node& root) {
    draft_.at = root.at;
    const Value top{&root, "", root.at};
    BOLE_TRY(checkKind(top));
    std::optional<Value> metadata, spec;
    ObjectFields fields;
    fields.readers = {{"metadata",
                       [&](const Value& v) -> Result<void> {
                         metadata = v;
                         return {};
                       }},
                      {"spec", [&](const Value& v) -> Result<void> {
                         spec = v;
                         return {};
                       }}};
    fields.quiet = {"apiVersion", "kind", "status"};
    BOLE_TRY(readObject(reader_, top, fields));
    if (!metadata)
      return fail(reader_.error(root.at, "the job has no metadata")
                      .expectedValue("`metadata: {name: my-job}`"));
    if (!spec)
      return fail(
          reader_.error(root.at, "the job has no spec").expectedValue("`spec: {tasks: [...]}`"));
    BOLE_TRY(readMetadata(*metadata));
    BOLE_TRY(readSpec(*spec));
    for (auto& task : tasks_) draft_.tasks.push_back(task.draft);
    if (plugins_) BOLE_TRY(readPlugins(session_, *plugins_, draft_));
    return finishJob(session_, std::move(draft_));
  }

 private:
  Result<void> checkKind(const Value& top) const {
    const auto version = findField(reader_, top, "apiVersion");
    const auto kind = findField(reader_, top, "kind");
    if (!version)
      return fail(
          reader_.error(top.at, "apiVersion is empty").expectedValue(std::string(kApiVersion)));
    BOLE_ASSIGN(const auto versionText, reader_.readText(*version, kApiVersion));
    if (versionText != kApiVersion) {
      const bool kubernetesJob = versionText == "batch/v1";
      return fail(
          reader_.error(*version, "not a kind of object that Bole runs")
              .expectedValue(std::string(kApiVersion))
              .withHint(
                  kubernetesJob
                      ? "a Job of Kubernetes itself has no gang: write a Volcano Job or a bole.yaml"
                      : ""));
    }
    if (!kind)
      return fail(reader_.error(top.at, "the object has no kind").expectedValue("`kind: Job`"));
    BOLE_ASSIGN(const auto kindText, reader_.readText(*kind, "Job"));
    if (kindText == "Job") return {};
    auto error = reader_.error(*kind, "not a kind of object that Bole runs").expectedValue("Job");
    error.code = ErrorCode::kRefused;
    return fail(std::move(error));
  }

  Result<void> readMetadata(const Value& value) {
    auto& text = draft_.spec.text;
    ObjectFields fields;
    std::optional<Value> generateName;
    fields.readers = {
        {"name",
         [&](const Value& v) { return readBy(reader_, v, "a name", parseJobName, text.name); }},
        {"generateName",
         [&](const Value& v) -> Result<void> {
           generateName = v;
           return {};
         }},
        {"namespace",
         [&](const Value& v) { return readBy(reader_, v, "a name", parseName, draft_.project); }},
        {"labels", [&](const Value& v) { return readLabels(reader_, v, text.labels); }},
    };
    fields.quiet = {"uid",           "resourceVersion", "generation", "creationTimestamp",
                    "managedFields", "selfLink"};
    fields.dropped = {{"annotations", "they are not kept"},
                      {"ownerReferences", ""},
                      {"finalizers", ""},
                      {"deletionTimestamp", ""},
                      {"deletionGracePeriodSeconds", ""}};
    BOLE_TRY(readObject(reader_, value, fields));
    if (text.name.empty() && generateName) BOLE_TRY(readGenerateName(*generateName));
    if (!text.name.empty()) return {};
    return fail(
        reader_.error(value.at, "the job has no name").expectedValue("`metadata: {name: my-job}`"));
  }

  Result<void> readGenerateName(const Value& value) {
    const auto withoutDash = [](const std::string& text) {
      return parseJobName(std::string_view(text).substr(0, text.find_last_not_of('-') + 1));
    };
    BOLE_TRY(readBy(reader_, value, "a name", withoutDash, draft_.spec.text.name));
    reader_.warn(value.at,
                 fmt::format("{}: the job is called '{}'; its number tells it from others",
                             value.path, draft_.spec.text.name));
    return {};
  }

  Result<void> readSpec(const Value& value) {
    auto& shape = draft_.spec.shape;
    std::optional<Value> minAvailable, policies, priorityClass;
    std::optional<std::int64_t> maxRetry, ttl;
    const auto keep = [](std::optional<Value>& place) {
      return [&place](const Value& v) -> Result<void> {
        place = v;
        return {};
      };
    };
    const auto count = [&](std::optional<std::int64_t>& out) {
      return [&](const Value& v) -> Result<void> {
        BOLE_ASSIGN(out, reader_.readWhole(v, 0, kMaxInt32));
        return {};
      };
    };
    ObjectFields fields;
    fields.readers = {
        {"minAvailable", keep(minAvailable)},
        {"tasks", [&](const Value& v) { return readTasks(v); }},
        {"policies", keep(policies)},
        {"plugins", keep(plugins_)},
        {"queue",
         [&](const Value& v) {
           return readBy(reader_, v, "a name", parseName, draft_.spec.text.queue);
         }},
        {"maxRetry", count(maxRetry)},
        {"ttlSecondsAfterFinished", count(ttl)},
        {"priorityClassName", keep(priorityClass)},
        {"schedulerName", [&](const Value& v) { return readSchedulerName(v); }},
        {"networkTopology", [&](const Value& v) { return readTopology(v); }},
    };
    fields.dropped = {{"volumes", "there are no volume claims here: nothing is at these paths"},
                      {"runningEstimate", "it is no limit"},
                      {"minSuccess", "a job succeeds when all of its ranks do"}};
    BOLE_TRY(readObject(reader_, value, fields));
    BOLE_TRY(dropEmptyTasks(value));
    BOLE_TRY(checkNames());
    BOLE_TRY(applyMinAvailable(minAvailable));
    BOLE_TRY(readAllPolicies(policies));
    BOLE_TRY(checkDependencies());
    shape.restart.maxRetries = static_cast<std::uint32_t>(maxRetry.value_or(kDefaultMaxRetry));
    if (ttl) shape.ttlAfterFinished = std::min(seconds(*ttl), kMaxDuration);
    applyPods();
    return applyPriority(priorityClass);
  }

  Result<void> readSchedulerName(const Value& value) {
    BOLE_ASSIGN(const auto name, reader_.readText(value, "a name"));
    if (name != "volcano" && !name.empty())
      warnOfLoss(reader_, value, "Bole's own scheduler places the job");
    return {};
  }

  Result<void> readTopology(const Value& value) {
    if (!value.is(NodeKind::kMap))
      return fail(reader_.error(value, "not an object").expectedValue("fields (`name: value`)"));
    if (findField(reader_, value, "highestTierAllowed") &&
        findField(reader_, value, "highestTierName")) {
      return fail(
          reader_.error(value.at, value.path + ": highestTierAllowed and highestTierName together")
              .expectedValue("one of them"));
    }
    warnOfLoss(reader_, value, "ranks are placed by the links between their GPUs");
    return {};
  }

  // ---- tasks

  Result<void> readTasks(const Value& list) {
    if (!list.is(NodeKind::kSequence) || list.node->items.empty()) {
      auto error = reader_.error(list, "no task").expectedValue("a list of at least one");
      if (list.is(NodeKind::kSequence)) error.found = "an empty list";
      return fail(std::move(error));
    }
    if (list.node->items.size() > kMaxTasks) {
      return fail(reader_.error(list.at, list.path + ": too many tasks")
                      .foundValue(std::to_string(list.node->items.size()))
                      .expectedValue(fmt::format("at most {}", kMaxTasks)));
    }
    return reader_.readItems(list, [&](const Value& item) { return readTask(item); });
  }

  Result<void> readTask(const Value& item) {
    VolcanoTask task;
    task.draft.at = item.at;
    task.draft.text.name =
        fmt::format("default{}", tasks_.size());  // as Volcano's webhook names it
    std::optional<std::int64_t> replicas;
    std::optional<Value> partitions;
    bool hasTemplate = false;
    ObjectFields fields;
    fields.readers = {
        {"name",
         [&](const Value& v) {
           return readBy(reader_, v, "a name", parseName, task.draft.text.name);
         }},
        {"replicas",
         [&](const Value& v) -> Result<void> {
           BOLE_ASSIGN(replicas, reader_.readWhole(v, 0, kMaxReplicas));
           return {};
         }},
        {"minAvailable",
         [&](const Value& v) -> Result<void> {
           BOLE_ASSIGN(task.minAvailable, reader_.readWhole(v, 0, kMaxReplicas));
           minAt_ = v;
           return {};
         }},
        {"template",
         [&](const Value& v) -> Result<void> {
           hasTemplate = true;
           BOLE_ASSIGN(task.pod, readPodTemplate(session_, v, task.draft));
           return {};
         }},
        {"policies",
         [&](const Value& v) -> Result<void> {
           task.policies = v;
           return {};
         }},
        {"dependsOn", [&](const Value& v) { return readDependsOn(v, task); }},
        {"topologyPolicy", [&](const Value& v) { return readTopologyPolicy(v); }},
        {"partitionPolicy",
         [&](const Value& v) -> Result<void> {
           partitions = v;
           return {};
         }},
    };
    fields.dropped = {{"maxRetry", "the job's own maxRetry counts"}};
    minAt_.reset();
    BOLE_TRY(readObject(reader_, item, fields));
    if (!hasTemplate)
      return fail(reader_.error(item.at, item.path + ": no template")
                      .expectedValue("`template: {spec: {containers: [...]}}`"));
    if (!replicas)
      reader_.warn(item.at, item.path + ": no replicas, taken as 1 (Volcano would start none)");
    task.draft.shape.replicas = static_cast<std::uint32_t>(replicas.value_or(1));
    if (task.minAvailable && *task.minAvailable > task.draft.shape.replicas) {
      return fail(reader_.error(*minAt_, "above the task's replicas")
                      .expectedValue(fmt::format("at most {}", task.draft.shape.replicas)));
    }
    if (partitions) BOLE_TRY(checkPartitions(*partitions, task.draft.shape.replicas));
    tasks_.push_back(std::move(task));
    return {};
  }

  Result<void> readTopologyPolicy(const Value& value) {
    BOLE_ASSIGN(const auto word,
                reader_.readWord(value, {"none", "best-effort", "restricted", "single-numa-node"}));
    if (word != 0) warnOfLoss(reader_, value, "CPUs are not bound to NUMA nodes");
    return {};
  }

  Result<void> checkPartitions(const Value& value, std::int64_t replicas) {
    std::int64_t total = 0;
    std::int64_t size = 0;
    ObjectFields fields;
    fields.readers = {
        {"totalPartitions",
         [&](const Value& v) -> Result<void> {
           BOLE_ASSIGN(total, reader_.readWhole(v, 1, kMaxReplicas));
           return {};
         }},
        {"partitionSize",
         [&](const Value& v) -> Result<void> {
           BOLE_ASSIGN(size, reader_.readWhole(v, 1, kMaxReplicas));
           return {};
         }},
    };
    fields.quiet = {"networkTopology", "minPartitions"};
    BOLE_TRY(readObject(reader_, value, fields));
    if (total * size != replicas) {
      return fail(
          reader_
              .error(value.at,
                     value.path +
                         ": totalPartitions times partitionSize is not the number of replicas")
              .foundValue(fmt::format("{} x {}", total, size))
              .expectedValue(std::to_string(replicas)));
    }
    warnOfLoss(reader_, value, "ranks are placed by the links between their GPUs");
    return {};
  }

  Result<void> readDependsOn(const Value& value, VolcanoTask& task) {
    ObjectFields fields;
    fields.readers = {{"name", [&](const Value& v) {
                         return reader_.readItems(v, [&](const Value& item) -> Result<void> {
                           BOLE_ASSIGN(auto name, reader_.readLine(item, "a task's name"));
                           task.dependsOn.emplace_back(std::move(name), item.at);
                           return {};
                         });
                       }}};
    fields.quiet = {"iteration"};
    BOLE_TRY(readObject(reader_, value, fields));
    warnOfLoss(reader_, value,
               "the tasks of a gang start together; let the command wait for the others");
    return {};
  }

  Result<void> dropEmptyTasks(const Value& spec) {
    const auto isEmpty = [](const VolcanoTask& task) { return task.draft.shape.replicas == 0; };
    if (std::all_of(tasks_.begin(), tasks_.end(), isEmpty)) {
      return fail(
          reader_
              .error(spec.at, tasks_.empty() ? "the job has no task" : "every task has 0 replicas")
              .expectedValue("at least one rank"));
    }
    for (const auto& task : tasks_) {
      if (isEmpty(task))
        reader_.warn(task.draft.at,
                     fmt::format("task '{}' has 0 replicas and is left out", task.draft.text.name));
    }
    for (const auto& task : tasks_) {
      if (isEmpty(task)) emptyNames_.insert(task.draft.text.name);
    }
    std::erase_if(tasks_, isEmpty);
    return {};
  }

  // finishJob() asks this too; policies and dependencies need the answer before.
  Result<void> checkNames() const {
    std::map<std::string_view, Position> names;
    for (const auto& task : tasks_) {
      const auto [first, isNew] = names.emplace(task.draft.text.name, task.draft.at);
      if (isNew) continue;
      return fail(
          reader_.error(task.draft.at, "two tasks of one name")
              .foundValue(quoted(task.draft.text.name))
              .expectedValue("names that differ")
              .withHint(fmt::format("the first one stands in line {}", first->second.line)));
    }
    return {};
  }

  // Volcano's defaults: a task's minimum is its replicas, the job's minimum the sum of its tasks'.
  Result<void> applyMinAvailable(const std::optional<Value>& value) {
    std::int64_t total = 0;
    std::int64_t sum = 0;
    for (const auto& task : tasks_) {
      total += task.draft.shape.replicas;
      sum += task.minAvailable.value_or(task.draft.shape.replicas);
    }
    std::int64_t least = 0;
    if (value) {
      BOLE_ASSIGN(least, reader_.readWhole(*value, 0, kMaxInt32));
    }
    if (least > total) {
      return fail(reader_.error(*value, "above the number of ranks")
                      .expectedValue(fmt::format("at most {}, the sum of all replicas", total)));
    }
    if (least == 0) least = std::max<std::int64_t>(sum, 1);
    draft_.spec.shape.minAvailable = static_cast<std::uint32_t>(least);
    for (auto& task : tasks_) {
      const auto own = task.minAvailable.value_or(least < sum ? 0 : task.draft.shape.replicas);
      task.draft.shape.minAvailable = static_cast<std::uint32_t>(own);
    }
    return {};
  }

  Result<void> readAllPolicies(const std::optional<Value>& policies) {
    auto& rules = draft_.spec.shape.rules;
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      if (tasks_[i].policies)
        BOLE_TRY(readPolicies(reader_, *tasks_[i].policies, static_cast<std::int32_t>(i), rules));
    }
    if (policies) BOLE_TRY(readPolicies(reader_, *policies, -1, rules));
    return {};
  }

  // Every name must be a task, and no task may wait for itself by way of others.
  Result<void> checkDependencies() const {
    std::map<std::string_view, std::size_t> indices;
    for (std::size_t i = 0; i < tasks_.size(); ++i) indices.emplace(tasks_[i].draft.text.name, i);
    std::vector<std::size_t> waitsFor(tasks_.size());
    std::vector<std::vector<std::size_t>> waiters(tasks_.size());
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      for (const auto& [name, at] : tasks_[i].dependsOn) {
        const auto found = indices.find(name);
        if (found == indices.end()) {
          if (emptyNames_.contains(name)) continue;
          return fail(
              reader_.error(at, "no task of this name to depend on").foundValue(quoted(name)));
        }
        waiters[found->second].push_back(i);
        ++waitsFor[i];
      }
    }
    std::vector<std::size_t> ready;
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      if (waitsFor[i] == 0) ready.push_back(i);
    }
    for (std::size_t next = 0; next < ready.size(); ++next) {
      for (const auto waiter : waiters[ready[next]]) {
        if (--waitsFor[waiter] == 0) ready.push_back(waiter);
      }
    }
    if (ready.size() == tasks_.size()) return {};
    const auto stuck =
        std::find_if(waitsFor.begin(), waitsFor.end(), [](std::size_t n) { return n > 0; });
    const auto& task = tasks_[static_cast<std::size_t>(stuck - waitsFor.begin())];
    return fail(reader_.error(task.dependsOn[0].second, "tasks depend on each other in a circle")
                    .foundValue(quoted(task.draft.text.name))
                    .expectedValue("an order in which they could start"));
  }

  // What pods say each for itself holds for the job: the longest grace, the shortest deadline.
  void applyPods() {
    auto& shape = draft_.spec.shape;
    std::optional<Duration> grace;
    std::map<std::uint16_t, std::string_view> listens;
    constexpr Duration kKubernetesGrace = seconds(30);
    for (const auto& task : tasks_) {
      if (task.pod.restarts) shape.restart.kind = model::RestartKind::kOnFailure;
      if (task.pod.hostNetwork) shape.network = model::Network::kHost;
      if (task.pod.grace) grace = std::max(grace.value_or(Duration()), *task.pod.grace);
      if (task.pod.deadline && (shape.timeLimit.value == 0 || *task.pod.deadline < shape.timeLimit))
        shape.timeLimit = *task.pod.deadline;
      for (const auto port : task.pod.listens) warnOfSharedPort(task, port, listens);
    }
    shape.grace = grace.value_or(kKubernetesGrace);
  }

  // Each pod has a network of its own in Kubernetes; here the ranks of one machine share one.
  void warnOfSharedPort(const VolcanoTask& task, std::uint16_t port,
                        std::map<std::uint16_t, std::string_view>& listens) {
    const auto [other, isNew] = listens.emplace(port, task.draft.text.name);
    if (isNew && task.draft.shape.replicas < 2) return;
    reader_.warn(task.draft.at, fmt::format("task '{}': ranks on one machine share a network, so "
                                            "only one of them can listen on port {}",
                                            task.draft.text.name, port));
  }

  Result<void> applyPriority(std::optional<Value> value) {
    for (const auto& task : tasks_) {
      if (!task.pod.priorityClass) continue;
      if (!value)
        value = task.pod.priorityClass;
      else if (value->text() != task.pod.priorityClass->text())
        warnOfLoss(reader_, *task.pod.priorityClass, "a gang has one priority");
    }
    if (!value) return {};
    BOLE_ASSIGN(const auto name, reader_.readLine(*value, "the name of a class"));
    const auto found = std::find_if(kPriorityClasses.begin(), kPriorityClasses.end(),
                                    [&](const auto& known) { return known.name == name; });
    if (found != kPriorityClasses.end()) {
      draft_.spec.shape.priority = found->priority;
      return {};
    }
    std::vector<std::string_view> names;
    names.reserve(std::size(kPriorityClasses));
    for (const auto& known : kPriorityClasses) names.push_back(known.name);
    reader_.warn(value->at,
                 fmt::format("{}: the class '{}' is not known, the priority is 0; known are {}",
                             value->path, name, joinAlternatives(names)));
    return {};
  }

  Session& session_;
  Reader& reader_;
  JobDraft draft_;
  std::vector<VolcanoTask> tasks_;
  std::set<std::string, std::less<>> emptyNames_;
  std::optional<Value> plugins_;
  std::optional<Value> minAt_;
};

}  // namespace

bool isKubernetesObject(const Node& root) {
  return std::any_of(root.fields.begin(), root.fields.end(),
                     [](const Field& f) { return f.key == "apiVersion"; });
}

Result<Parsed> readVolcanoJob(Session& session, const Node& root) {
  return VolcanoReader(session).read(root);
}

}  // namespace bole::spec
