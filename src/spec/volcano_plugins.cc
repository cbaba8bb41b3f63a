#include "spec/volcano_plugins.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "spec/suggest.h"

namespace bole::spec {
namespace {

const std::vector<std::string_view> kPlugins = {"env", "svc",        "ssh", "pytorch",
                                                "mpi", "tensorflow", "ray", "hcclrank"};

using Flags = std::map<std::string, std::string, std::less<>>;

class PluginReader {
 public:
  PluginReader(Session& session, JobDraft& draft) : reader_(session.reader), draft_(draft) {}

  Result<void> readOne(const std::string& name, const Value& value) {
    if (std::find(kPlugins.begin(), kPlugins.end(), name) == kPlugins.end()) {
      const auto near = nearest(name, kPlugins);
      return fail(reader_.error(value.at, "unknown job plugin")
                      .foundValue(quoted(name))
                      .expectedValue(joinAlternatives(kPlugins))
                      .withHint(near.empty() ? "" : fmt::format("did you mean '{}'?", near)));
    }
    BOLE_ASSIGN(const auto flags, readFlags(value));
    if (name == "env")
      use("env");
    else if (name == "svc")
      useSvc(value, flags);
    else if (name == "ssh")
      useSsh(value);
    else if (name == "pytorch")
      usePytorch(value, flags);
    else if (name == "mpi")
      return useMpi(value, flags);
    else
      reader_.warn(value.at,
                   fmt::format("{} is not honoured: its variables are not set", value.path));
    return {};
  }

 private:
  // "--name=value" or "--name value", as Go's flag package takes them; one dash will do.
  Result<Flags> readFlags(const Value& value) const {
    Flags flags;
    if (value.is(NodeKind::kNull)) return flags;
    std::string open;
    BOLE_TRY(reader_.readItems(value, [&](const Value& item) -> Result<void> {
      BOLE_ASSIGN(auto text, reader_.readText(item, "an argument"));
      if (!text.starts_with('-')) {
        if (open.empty())
          return fail(
              reader_.error(item, "not an argument of a plugin").expectedValue("--name=value"));
        flags[std::exchange(open, {})] = text;
        return {};
      }
      text.erase(0, std::min(text.find_first_not_of('-'), text.size()));
      const auto equals = text.find('=');
      flags[text.substr(0, equals)] =
          equals == std::string::npos ? "true" : text.substr(equals + 1);
      open = equals == std::string::npos ? text : "";
      return {};
    }));
    return flags;
  }

  static std::string flagOr(const Flags& flags, std::string_view name, std::string_view otherwise) {
    const auto found = flags.find(name);
    return found == flags.end() ? std::string(otherwise) : found->second;
  }

  void use(std::string_view name) {
    auto& plugins = draft_.spec.text.plugins;
    if (std::find(plugins.begin(), plugins.end(), name) == plugins.end())
      plugins.emplace_back(name);
  }

  void useSvc(const Value& value, const Flags& flags) {
    use("svc");
    if (flagOr(flags, "inject-hosts-env", "true") == "false") {
      reader_.warn(
          value.at,
          value.path + ": inject-hosts-env=false is not honoured: VC_<TASK>_HOSTS are set");
    }
  }

  void useSsh(const Value& value) {
    use("ssh");
    reader_.warn(value.at, value.path +
                               ": no SSH keys are made: the image must bring its own, and ranks on "
                               "one machine share its ports");
  }

  [[nodiscard]] const TaskDraft* findTask(std::string_view name) const {
    const auto found = std::find_if(draft_.tasks.begin(), draft_.tasks.end(),
                                    [&](const TaskDraft& t) { return t.text.name == name; });
    return found == draft_.tasks.end() ? nullptr : &*found;
  }

  // MASTER_ADDR, MASTER_PORT, WORLD_SIZE and RANK are set for every job; ranks count over the tasks
  // in order, so rank 0 is the master where its task is the first.
  void usePytorch(const Value& value, const Flags& flags) {
    use("svc");
    const auto master = flagOr(flags, "master", "master");
    const auto worker = flagOr(flags, "worker", "worker");
    const bool inOrder = !draft_.tasks.empty() && draft_.tasks[0].text.name == master &&
                         draft_.tasks[0].shape.replicas == 1 &&
                         (draft_.tasks.size() == 1 ||
                          (draft_.tasks.size() == 2 && draft_.tasks[1].text.name == worker));
    if (!inOrder) {
      reader_.warn(value.at, fmt::format("{}: ranks count over all tasks in the order written; "
                                         "Volcano's would be '{}' first, then '{}', and no other",
                                         value.path, master, worker));
    }
    if (flags.contains("port"))
      reader_.warn(value.at,
                   value.path + ": port is not honoured: MASTER_PORT is set to one that is free");
  }

  Result<void> useMpi(const Value& value, const Flags& flags) {
    const auto master = flagOr(flags, "master", "master");
    const auto worker = flagOr(flags, "worker", "worker");
    if (!findTask(master)) {
      return fail(reader_.error(value.at, value.path + ": the master task is not there")
                      .foundValue(quoted(master))
                      .expectedValue("the name of one of the tasks")
                      .withHint("name it by --master=NAME"));
    }
    use("svc");
    useSsh(value);
    const auto* workers = findTask(worker);
    if (!workers) return {};
    setMpiHosts(value, master, *workers);
    return {};
  }

  void setMpiHosts(const Value& value, std::string_view master, const TaskDraft& workers) {
    const auto& job = draft_.spec.text.name;
    std::string hosts;
    for (std::uint32_t i = 0; i < workers.shape.replicas && hosts.size() < kMaxArgument; ++i)
      hosts += fmt::format("{}{}-{}-{}.{}", i == 0 ? "" : ",", job, workers.text.name, i, job);
    if (hosts.size() + std::string_view("MPI_HOST=").size() > kMaxArgument) {
      reader_.warn(
          value.at,
          fmt::format(
              "{}: MPI_HOST is not set: {} names of hosts are more than one variable can hold",
              value.path, workers.shape.replicas));
      return;
    }
    for (auto& task : draft_.tasks) {
      if (task.text.name != master) continue;
      std::erase_if(task.text.env, [](const auto& entry) { return entry.first == "MPI_HOST"; });
      task.text.env.emplace_back("MPI_HOST", hosts);
    }
  }

  Reader& reader_;
  JobDraft& draft_;
};

}  // namespace

Result<void> readPlugins(Session& session, const Value& plugins, JobDraft& draft) {
  PluginReader one(session, draft);
  return session.reader.readAnyFields(plugins, [&](const std::string& name, const Value& value) {
    return one.readOne(name, value);
  });
}

}  // namespace bole::spec
