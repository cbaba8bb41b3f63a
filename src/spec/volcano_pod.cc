#include "spec/volcano_pod.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>

#include "spec/grammar.h"
#include "spec/kubernetes.h"
#include "spec/volcano_env.h"
#include "spec/volcano_resources.h"

namespace bole::spec {
namespace {

constexpr std::size_t kMaxEntries = 4096;
constexpr std::string_view kProductLabel = "nvidia.com/gpu.product";
constexpr std::string_view kShmPath = "/dev/shm";

struct Volume {
  enum class Kind { kHostPath, kMemory, kDirectory, kOther };
  Kind kind = Kind::kOther;
  std::string path;  // of kHostPath
  Bytes limit;       // of kMemory; 0: none
  std::string what;  // the source's name, for messages
  Position at;
};

struct VolumeMount {
  std::string volume;
  std::string path;
  std::string subPath;
  bool readOnly = false;
};

class PodReader {
 public:
  PodReader(Session& session, TaskDraft& task)
      : session_(session), reader_(session.reader), task_(task) {}

  Result<PodFacts> read(const Value& value) {
    ObjectFields fields;
    fields.readers = {
        {"metadata", [&](const Value& v) { return readMetadata(v); }},
        {"spec",
         [&](const Value& v) -> Result<void> {
           spec_ = v;
           return {};
         }},
    };
    BOLE_TRY(readObject(reader_, value, fields));
    if (!spec_)
      return fail(reader_.error(value.at, value.path + ": no spec")
                      .expectedValue("`spec: {containers: [...]}`"));
    BOLE_TRY(readSpec(*spec_));
    return std::move(facts_);
  }

 private:
  Result<void> readMetadata(const Value& value) {
    ObjectFields fields;
    fields.quiet = {"name", "creationTimestamp", "namespace"};
    fields.dropped = {{"labels", "there are no pods to label"},
                      {"annotations", "there are no pods to annotate"}};
    return readObject(reader_, value, fields);
  }

  Result<void> readSpec(const Value& value) {
    ObjectFields fields;
    std::optional<Value> containers;
    fields.readers = {
        {"containers",
         [&](const Value& v) -> Result<void> {
           containers = v;
           return {};
         }},
        {"volumes",
         [&](const Value& v) {
           return readEntries(v, [&](const Value& item) { return readVolume(item); });
         }},
        {"restartPolicy", [&](const Value& v) { return readRestartPolicy(v); }},
        {"nodeSelector", [&](const Value& v) { return readNodeSelector(v); }},
        {"hostNetwork",
         [&](const Value& v) -> Result<void> {
           BOLE_ASSIGN(facts_.hostNetwork, reader_.readFlag(v));
           return {};
         }},
        {"terminationGracePeriodSeconds",
         [&](const Value& v) { return readSeconds(v, 0, facts_.grace); }},
        {"activeDeadlineSeconds",
         [&](const Value& v) { return readSeconds(v, 1, facts_.deadline); }},
        {"priorityClassName",
         [&](const Value& v) -> Result<void> {
           facts_.priorityClass = v;
           return {};
         }},
    };
    fields.quiet = {"schedulerName", "dnsPolicy", "enableServiceLinks"};
    fields.dropped = droppedOfPod();
    BOLE_TRY(readObject(reader_, value, fields));
    if (!findField(reader_, value, "restartPolicy")) {
      reader_.warn(
          value.at,
          value.path + ": no restartPolicy, taken as Never (Kubernetes would take it as Always)");
    }
    if (!containers)
      return fail(reader_.error(value.at, value.path + ": no containers")
                      .expectedValue("`containers: [...]`"));
    return readContainers(*containers);
  }

  static std::vector<DroppedField> droppedOfPod() {
    return {{"initContainers", "nothing runs before the ranks"},
            {"ephemeralContainers", ""},
            {"affinity", "placement is by GPUs, CPUs and memory"},
            {"tolerations", "there are no taints"},
            {"topologySpreadConstraints", "placement is by GPUs, CPUs and memory"},
            {"nodeName", "placement is by GPUs, CPUs and memory"},
            {"serviceAccountName", "there is no Kubernetes API to talk to"},
            {"serviceAccount", "there is no Kubernetes API to talk to"},
            {"automountServiceAccountToken", ""},
            {"imagePullSecrets", "images are pulled with the machine's own credentials"},
            {"securityContext", "ranks run as the project's own unprivileged user"},
            {"hostIPC", "ranks have namespaces of their own"},
            {"hostPID", "ranks have namespaces of their own"},
            {"hostUsers", ""},
            {"shareProcessNamespace", ""},
            {"hostname", "Bole names its hosts itself"},
            {"subdomain", "Bole names its hosts itself"},
            {"setHostnameAsFQDN", ""},
            {"hostAliases", "names are not added to /etc/hosts"},
            {"dnsConfig", ""},
            {"priority", "the class decides"},
            {"preemptionPolicy", ""},
            {"runtimeClassName", ""},
            {"overhead", ""},
            {"readinessGates", ""},
            {"schedulingGates", ""},
            {"resourceClaims", "dynamic resources are not known here"},
            {"resources", "only resources of containers count"},
            {"os", ""}};
  }

  // readItems() of a list that is not longer than any that makes sense.
  Result<void> readEntries(const Value& list,
                           const std::function<Result<void>(const Value&)>& read) const {
    const auto size = list.node->items.size();
    if (size <= kMaxEntries) return reader_.readItems(list, read);
    return fail(reader_.error(list.at, list.path + ": too many entries")
                    .foundValue(std::to_string(size))
                    .expectedValue(fmt::format("at most {}", kMaxEntries)));
  }

  Result<void> readSeconds(const Value& value, std::int64_t least,
                           std::optional<Duration>& out) const {
    BOLE_ASSIGN(const auto count,
                reader_.readWhole(value, least, kMaxDuration.value / seconds(1).value));
    out = seconds(count);
    return {};
  }

  Result<void> readRestartPolicy(const Value& value) {
    BOLE_ASSIGN(const auto word, reader_.readWord(value, {"Never", "OnFailure", "Always"}));
    facts_.restarts = word != 0;
    if (word == 2)
      reader_.warn(
          value.at,
          value.path + ": Always means OnFailure here: a rank that succeeds has done its work");
    return {};
  }

  Result<void> readNodeSelector(const Value& value) {
    return reader_.readAnyFields(
        value, [&](const std::string& name, const Value& v) -> Result<void> {
          if (name != kProductLabel) {
            warnOfLoss(reader_, v, "placement is by GPUs, CPUs and memory");
            return {};
          }
          BOLE_ASSIGN(product_, reader_.readLine(v, "a product name"));
          productAt_ = v;
          return {};
        });
  }

  // ---- volumes

  Result<void> readVolume(const Value& item) {
    std::string name;
    Volume volume;
    volume.at = item.at;
    if (!item.is(NodeKind::kMap))
      return fail(reader_.error(item, "not a volume").expectedValue("`name` and a source"));
    BOLE_TRY(
        reader_.readAnyFields(item, [&](const std::string& key, const Value& v) -> Result<void> {
          if (key == "name") {
            BOLE_ASSIGN(name, reader_.readLine(v, "a name"));
            return {};
          }
          if (!volume.what.empty())
            return fail(reader_.error(v.at, item.path + ": a volume with two sources")
                            .foundValue(quoted(key)));
          volume.what = key;
          if (v.is(NodeKind::kNull)) return {};
          if (key == "hostPath") return readHostPath(v, volume);
          if (key == "emptyDir") return readEmptyDir(v, volume);
          return {};
        }));
    if (name.empty()) return fail(reader_.error(item.at, item.path + ": a volume without a name"));
    if (!volumes_.emplace(name, std::move(volume)).second) {
      return fail(
          reader_.error(item.at, item.path + ": two volumes of one name").foundValue(quoted(name)));
    }
    return {};
  }

  Result<void> readHostPath(const Value& value, Volume& volume) {
    ObjectFields fields;
    fields.readers = {
        {"path", [&](const Value& v) -> Result<void> {
           BOLE_ASSIGN(volume.path, reader_.readLine(v, "an absolute path"));
           if (volume.path.starts_with('/')) return {};
           return fail(
               reader_.error(v, "not absolute").expectedValue("a path that begins with '/'"));
         }}};
    fields.readers.push_back({"type", [&](const Value& v) -> Result<void> {
                                const bool plain = v.is(NodeKind::kScalar) &&
                                                   (v.text().empty() || v.text() == "Directory" ||
                                                    v.text() == "File");
                                if (!plain)
                                  warnOfLoss(reader_, v, "the path must be there already");
                                return {};
                              }});
    volume.kind = Volume::Kind::kHostPath;
    BOLE_TRY(readObject(reader_, value, fields));
    if (volume.path.empty()) return fail(reader_.error(value.at, value.path + ": no path"));
    return {};
  }

  Result<void> readEmptyDir(const Value& value, Volume& volume) {
    volume.kind = Volume::Kind::kDirectory;
    ObjectFields fields;
    fields.readers = {
        {"medium",
         [&](const Value& v) -> Result<void> {
           BOLE_ASSIGN(const auto text, reader_.readText(v, "Memory or nothing"));
           if (text == "Memory") volume.kind = Volume::Kind::kMemory;
           return {};
         }},
        {"sizeLimit",
         [&](const Value& v) {
           return readBy(reader_, v, "a size", parseKubernetesBytes, volume.limit);
         }},
    };
    return readObject(reader_, value, fields);
  }

  // ---- the container

  Result<void> readContainers(const Value& list) {
    if (!list.is(NodeKind::kSequence))
      return fail(reader_.error(list, "not a list").expectedValue("a list with one container"));
    if (list.node->items.empty())
      return fail(
          reader_.error(list.at, list.path + ": no container").expectedValue("one container"));
    return reader_.readItems(list, [&, index = 0](const Value& item) mutable -> Result<void> {
      if (index++ == 0) return readContainer(item);
      warnOfLoss(reader_, item, "only the first container runs");
      return {};
    });
  }

  Result<void> readContainer(const Value& item) {
    ObjectFields fields;
    std::optional<Value> command, args, mounts, env;
    const auto keep = [](std::optional<Value>& place) {
      return [&place](const Value& v) -> Result<void> {
        place = v;
        return {};
      };
    };
    fields.readers = {
        {"image",
         [&](const Value& v) {
           task_.imageAt = v.at;
           return readBy(reader_, v, "an image", parseImage, task_.text.image);
         }},
        {"command", keep(command)},
        {"args", keep(args)},
        {"env", keep(env)},
        {"volumeMounts", keep(mounts)},
        {"workingDir", [&](const Value& v) { return readWorkingDir(v); }},
        {"resources", [&](const Value& v) { return readResources(reader_, v, resources_); }},
        {"ports",
         [&](const Value& v) {
           return readEntries(v, [&](const Value& port) { return readPort(port); });
         }},
        {"imagePullPolicy", [&](const Value& v) { return readPullPolicy(v); }},
    };
    fields.quiet = {"name", "terminationMessagePath", "terminationMessagePolicy"};
    fields.dropped = droppedOfContainer();
    BOLE_TRY(readObject(reader_, item, fields));
    if (task_.text.image.empty()) {
      reader_.warn(item.at, item.path +
                                ": no image, so it runs on the machine's own system, in a sandbox "
                                "(Kubernetes would refuse it)");
    }
    if (env) BOLE_TRY(readContainerEnv(session_, *env, env_));
    BOLE_TRY(readCommand(item, command, args));
    if (mounts)
      BOLE_TRY(readEntries(*mounts, [&](const Value& mount) { return readMount(mount); }));
    task_.text.env = env_.take();
    task_.shape.cpus = resources_.cpus;
    task_.shape.memory = resources_.memory;
    BOLE_ASSIGN(task_.shape.gpus, gpusOf(reader_, productAt_.value_or(item), resources_, product_));
    return {};
  }

  static std::vector<DroppedField> droppedOfContainer() {
    return {{"envFrom",
             "write the variables under env, with valueFrom where the submitter gives the value"},
            {"livenessProbe", "a rank lives until it exits"},
            {"readinessProbe", "a rank is ready when it runs"},
            {"startupProbe", "a rank is ready when it runs"},
            {"lifecycle", "nothing runs after the start and before the stop"},
            {"securityContext", "ranks run as the project's own unprivileged user"},
            {"stdin", "ranks have no input"},
            {"stdinOnce", "ranks have no input"},
            {"tty", "ranks have no terminal"},
            {"volumeDevices", ""},
            {"resizePolicy", ""},
            {"restartPolicy", "the pod's policy counts"}};
  }

  Result<void> readPullPolicy(const Value& value) {
    BOLE_ASSIGN(const auto word, reader_.readWord(value, {"IfNotPresent", "Always", "Never"}));
    if (word != 0) warnOfLoss(reader_, value, "an image is pulled where it is missing");
    return {};
  }

  Result<void> readWorkingDir(const Value& value) {
    BOLE_ASSIGN(const auto path, reader_.readLine(value, "an absolute path"));
    if (!path.starts_with('/'))
      return fail(reader_.error(value, "not absolute")
                      .expectedValue("a path inside the container that begins with '/'"));
    return readBy(
        reader_, value, "a path", [](const std::string& text) { return resolvePath(text, "/"); },
        task_.text.workingDir);
  }

  // Kubernetes falls back on the image's own entry point; a gang's ranks say what they run.
  Result<void> readCommand(const Value& item, const std::optional<Value>& command,
                           const std::optional<Value>& args) {
    if (command) BOLE_TRY(readArguments(*command));
    if (task_.text.command.empty() || task_.text.command[0].empty()) {
      return fail(
          reader_.error(item.at, item.path + (args ? ": args without a command" : ": no command"))
              .expectedValue("`command: [...]`")
              .withHint("the image's own entry point is not used: write what it would run"));
    }
    if (args) BOLE_TRY(readArguments(*args));
    return {};
  }

  Result<void> readArguments(const Value& list) {
    return readEntries(list, [&](const Value& item) -> Result<void> {
      BOLE_ASSIGN(const auto text, reader_.readText(item, "text"));
      BOLE_ASSIGN(auto expanded, expandReferences(session_, item, text, env_));
      task_.text.command.push_back(std::move(expanded));
      return {};
    });
  }

  // Container ports are information in Kubernetes; only a host port asks for something.
  Result<void> readPort(const Value& item) {
    std::optional<std::int64_t> container, host;
    std::string address;
    bool tcp = true;
    const auto number = [&](std::optional<std::int64_t>& out, std::int64_t least) {
      return [&, least](const Value& v) -> Result<void> {
        BOLE_ASSIGN(out, reader_.readWhole(v, least, 65'535));
        return {};
      };
    };
    ObjectFields fields;
    fields.readers = {{"containerPort", number(container, 1)},
                      {"hostPort", number(host, 0)},
                      {"hostIP",
                       [&](const Value& v) -> Result<void> {
                         BOLE_ASSIGN(address, reader_.readLine(v, "an address"));
                         return {};
                       }},
                      {"protocol", [&](const Value& v) -> Result<void> {
                         BOLE_ASSIGN(const auto word, reader_.readWord(v, {"TCP", "UDP", "SCTP"}));
                         tcp = word == 0;
                         return {};
                       }}};
    fields.quiet = {"name"};
    BOLE_TRY(readObject(reader_, item, fields));
    if (!container)
      return fail(reader_.error(item.at, item.path + ": no containerPort")
                      .expectedValue("a port from 1 to 65535"));
    facts_.listens.push_back(static_cast<std::uint16_t>(*container));
    if (host.value_or(0) == 0) return {};
    if (!tcp) {
      warnOfLoss(reader_, item, "only TCP ports are published");
      return {};
    }
    const auto shown = address.empty()                          ? "127.0.0.1"
                       : address.find(':') == std::string::npos ? address
                                                                : "[" + address + "]";
    auto port = parsePort(fmt::format("{}:{}:{}", shown, *host, *container));
    if (!port) return fail(reader_.error(item, std::move(port).error()));
    if (address.empty())
      reader_.warn(item.at,
                   item.path + ": published on 127.0.0.1 alone: write hostIP for other addresses");
    const auto same = [&](const model::Port& other) {
      return other.host == port->host && other.address == port->address;
    };
    if (std::any_of(task_.text.ports.begin(), task_.text.ports.end(), same)) {
      return fail(reader_.error(item.at, item.path + ": the host port is given twice")
                      .foundValue(std::to_string(*host)));
    }
    task_.text.ports.push_back(std::move(*port));
    return {};
  }

  Result<void> readMount(const Value& item) {
    VolumeMount mount;
    const auto line = [&](std::string& out, const char* expected) {
      return [&, expected](const Value& v) -> Result<void> {
        BOLE_ASSIGN(out, reader_.readLine(v, expected));
        return {};
      };
    };
    ObjectFields fields;
    fields.readers = {
        {"name", line(mount.volume, "a volume's name")},
        {"mountPath", line(mount.path, "an absolute path")},
        {"subPath", line(mount.subPath, "a relative path")},
        {"readOnly",
         [&](const Value& v) -> Result<void> {
           BOLE_ASSIGN(mount.readOnly, reader_.readFlag(v));
           return {};
         }},
    };
    fields.dropped = {{"mountPropagation", ""},
                      {"subPathExpr", "the whole volume is mounted"},
                      {"recursiveReadOnly", ""}};
    BOLE_TRY(readObject(reader_, item, fields));
    const auto found = volumes_.find(mount.volume);
    if (found == volumes_.end()) {
      return fail(reader_.error(item.at, item.path + ": no volume of this name")
                      .foundValue(quoted(mount.volume))
                      .expectedValue("one of spec.volumes"));
    }
    return addMount(item, mount, found->second);
  }

  Result<void> addMount(const Value& item, const VolumeMount& mount, const Volume& volume) {
    if (!mount.path.starts_with('/'))
      return fail(reader_.error(item.at, item.path + ": mountPath is not absolute")
                      .foundValue(quoted(mount.path)));
    BOLE_ASSIGN(const auto target, targetOf(item, mount.path));
    if (target == kShmPath) {
      if (volume.kind == Volume::Kind::kMemory)
        task_.shape.shm = volume.limit;
      else
        reader_.warn(item.at, item.path + ": /dev/shm is always memory here");
      return {};
    }
    if (volume.kind != Volume::Kind::kHostPath) {
      const bool scratch = volume.kind != Volume::Kind::kOther;
      warnOfLoss(reader_, item,
                 scratch ? mount.path + " is the container's own file system"
                         : fmt::format("there is no {} here, so nothing is at {}", volume.what,
                                       mount.path));
      return {};
    }
    return addHostPath(item, mount, volume);
  }

  Result<std::string> targetOf(const Value& item, const std::string& path) const {
    auto target = resolvePath(path, "/");
    if (!target) return fail(reader_.error(item, std::move(target).error()));
    return target;
  }

  Result<void> addHostPath(const Value& item, const VolumeMount& mount, const Volume& volume) {
    for (const auto* kept : {"/dev", "/proc", "/sys"}) {
      if (volume.path != kept && !volume.path.starts_with(std::string(kept) + "/")) continue;
      warnOfLoss(reader_, item,
                 fmt::format("{} is never mounted; a rank gets the devices that it was given",
                             volume.path));
      return {};
    }
    if (mount.subPath.starts_with('/') || mount.subPath.find("..") != std::string::npos) {
      return fail(reader_.error(item.at, item.path + ": subPath leaves the volume")
                      .foundValue(quoted(mount.subPath)));
    }
    auto made = makeMount(mount.subPath.empty() ? volume.path : volume.path + "/" + mount.subPath,
                          mount.path, "/");
    if (!made)
      return fail(reader_.error(item, std::move(made).error().foundValue(quoted(mount.path))));
    made->readOnly = mount.readOnly;
    auto& mounts = task_.text.mounts;
    const auto same = [&](const model::Mount& other) { return other.target == made->target; };
    if (std::any_of(mounts.begin(), mounts.end(), same)) {
      return fail(reader_.error(item.at, item.path + ": two mounts at one path")
                      .foundValue(quoted(mount.path)));
    }
    BOLE_TRY(grow(session_, item, made->source.size()));
    mounts.push_back(std::move(*made));
    return {};
  }

  Session& session_;
  Reader& reader_;
  TaskDraft& task_;
  PodFacts facts_;
  std::optional<Value> spec_;
  std::map<std::string, Volume, std::less<>> volumes_;
  Environment env_;
  Resources resources_;
  std::string product_;
  std::optional<Value> productAt_;
};

}  // namespace

Result<PodFacts> readPodTemplate(Session& session, const Value& value, TaskDraft& task) {
  return PodReader(session, task).read(value);
}

}  // namespace bole::spec
