#include "codec/codec.h"

#include "codec/reader.h"

namespace bole::codec {
namespace {

template <class Body>
Result<model::Event> decodeBody(std::string_view text) {
  BOLE_ASSIGN(Body body, readJson<Body>(text, Body::kKind));
  return model::Event(std::move(body));
}

// Tries the kinds of the variant in turn.
template <std::size_t I = 0>
Result<model::Event> decodeByKind(std::string_view kind, std::string_view text) {
  if constexpr (I == std::variant_size_v<model::Event>) {
    return fail(makeError(ErrorCode::kUnsupported, "unknown kind of event")
                    .foundValue(std::string(kind))
                    .withHint("the ledger was written by a newer Bole: use that one"));
  } else {
    using Body = std::variant_alternative_t<I, model::Event>;
    if (kind == Body::kKind) return decodeBody<Body>(text);
    return decodeByKind<I + 1>(kind, text);
  }
}

// The tables as plain lists, for the canonical form.
struct TablesForm {
  std::vector<model::JobRecord> jobs;
  std::vector<model::AttemptRecord> attempts;
  std::vector<model::NodeRecord> nodes;
  std::vector<model::QueueUse> queueUse;
  std::vector<model::RunTimes> runTimes;
  std::vector<std::vector<std::uint64_t>> projects;  // [id, side id]
  std::vector<std::vector<std::uint64_t>> users;
  std::uint64_t sequence = 0;
  Timestamp time;
  Duration leaps;
  std::uint64_t lastJob = 0;
  std::uint64_t lastAttempt = 0;
  std::uint64_t lastNode = 0;
  std::uint64_t lastProject = 0;
  std::uint64_t lastUser = 0;
  std::uint64_t lastSide = 0;
  std::uint64_t lastQueue = model::kDefaultQueue.value;
  std::string bootId;
  std::shared_ptr<const model::Policy> policy = std::make_shared<const model::Policy>();
};

template <class V, Described<TablesForm> T>
void describe(V& v, T& x) {
  v.required("sequence", x.sequence);
  v.required("time", x.time);
  v.required("leaps", x.leaps);
  v.required("last_job", x.lastJob);
  v.required("last_attempt", x.lastAttempt);
  v.required("last_node", x.lastNode);
  v.required("last_project", x.lastProject);
  v.required("last_user", x.lastUser);
  v.required("last_side", x.lastSide);
  v.field("last_queue", x.lastQueue);
  v.required("boot_id", x.bootId);
  v.field("policy", x.policy);
  v.required("projects", x.projects);
  v.required("users", x.users);
  v.field("queue_use", x.queueUse);
  v.field("run_times", x.runTimes);
  v.required("nodes", x.nodes);
  v.required("jobs", x.jobs);
  v.required("attempts", x.attempts);
}

void copyCounters(const auto& from, auto& to) {
  to.sequence = from.sequence;
  to.time = from.time;
  to.leaps = from.leaps;
  to.lastJob = from.lastJob;
  to.lastAttempt = from.lastAttempt;
  to.lastNode = from.lastNode;
  to.lastProject = from.lastProject;
  to.lastUser = from.lastUser;
  to.lastSide = from.lastSide;
  to.lastQueue = from.lastQueue;
  to.bootId = from.bootId;
  to.policy = from.policy;
}

template <class Key>
std::vector<std::vector<std::uint64_t>> namesOf(const CowTable<Key, SideId>& table) {
  std::vector<std::vector<std::uint64_t>> out;
  table.forEach([&](Key key, const SideId& name) {
    out.push_back({key.value, name.value});
    return true;
  });
  return out;
}

template <class Key>
Result<void> putNames(const std::vector<std::vector<std::uint64_t>>& rows,
                      CowTable<Key, SideId>& table) {
  for (const auto& row : rows) {
    if (row.size() != 2 || row[0] == 0)
      return fail(ErrorCode::kCorrupt, "a name row is not [id, side id]");
    table.put(Key(row[0]), SideId(row[1]));
  }
  return {};
}

template <class Key, class Record>
std::vector<Record> recordsOf(const CowTable<Key, Record>& table) {
  std::vector<Record> out;
  out.reserve(table.size());
  table.forEach([&](Key, const Record& record) {
    out.push_back(record);
    return true;
  });
  return out;
}

template <class Key, class Record>
Result<void> putRecords(std::vector<Record>& records, CowTable<Key, Record>& table) {
  for (auto& record : records) {
    if (!record.id.isSet()) return fail(ErrorCode::kCorrupt, "a record of the snapshot has no id");
    const auto key = record.id;
    table.put(key, std::move(record));
  }
  return {};
}

}  // namespace

std::string encodeBody(const model::Event& event) {
  return std::visit([](const auto& body) { return toJson(body); }, event);
}

Result<model::Event> decodeEvent(std::string_view kind, std::uint32_t version,
                                 std::string_view body) {
  if (version != 1) {
    return fail(
        makeError(ErrorCode::kUnsupported, "unknown version of the event " + std::string(kind))
            .foundValue(std::to_string(version))
            .expectedValue("1")
            .withHint("the ledger was written by a newer Bole: use that one"));
  }
  return decodeByKind(kind, body);
}

std::string encodeTables(const model::Tables& tables) {
  TablesForm form;
  copyCounters(tables, form);
  form.projects = namesOf(tables.projects);
  form.users = namesOf(tables.users);
  form.nodes = recordsOf(tables.nodes);
  form.queueUse = recordsOf(tables.queueUse);
  form.runTimes = recordsOf(tables.runTimes);
  form.jobs = recordsOf(tables.jobs);
  form.attempts = recordsOf(tables.attempts);
  return toJson(form);
}

Result<model::Tables> decodeTables(std::string_view text) {
  BOLE_ASSIGN(auto form, readJson<TablesForm>(text, "snapshot"));
  model::Tables tables;
  copyCounters(form, tables);
  for (const auto& job : form.jobs) {
    if (!job.shape) return fail(ErrorCode::kCorrupt, "a job of the snapshot has no shape");
  }
  for (const auto& node : form.nodes) {
    if (!node.node) return fail(ErrorCode::kCorrupt, "a node of the snapshot has no inventory");
  }
  BOLE_TRY(putNames(form.projects, tables.projects));
  BOLE_TRY(putNames(form.users, tables.users));
  for (auto& node : form.nodes) node.gpuMemoryUsed.resize(node.gpuUsed.size());
  BOLE_TRY(putRecords(form.nodes, tables.nodes));
  BOLE_TRY(putRecords(form.queueUse, tables.queueUse));
  for (const auto& times : form.runTimes) {
    for (const auto& size : times.sizes)
      if (size.newest.empty()) return fail(ErrorCode::kCorrupt, "run times of no job");
  }
  BOLE_TRY(putRecords(form.runTimes, tables.runTimes));
  BOLE_TRY(putRecords(form.jobs, tables.jobs));
  BOLE_TRY(putRecords(form.attempts, tables.attempts));
  return tables;
}

template <class T>
Result<T> fromJson(std::string_view text, std::string_view where) {
  return readJson<T>(text, where);
}

#define BOLE_DECODES(Type) \
  template Result<model::Type> fromJson<model::Type>(std::string_view, std::string_view)
BOLE_DECODES(JobSpec);
BOLE_DECODES(JobShape);
BOLE_DECODES(JobText);
BOLE_DECODES(Node);
BOLE_DECODES(JobView);
BOLE_DECODES(JobDetail);
BOLE_DECODES(StatusView);
BOLE_DECODES(LogLineView);
BOLE_DECODES(EventView);
BOLE_DECODES(ErrorView);
BOLE_DECODES(SubmitRequest);
BOLE_DECODES(SubmitAnswer);
BOLE_DECODES(StopCommand);
BOLE_DECODES(PolicyRequest);
BOLE_DECODES(HealthRequest);
BOLE_DECODES(LabelsRequest);
BOLE_DECODES(NodeView);
BOLE_DECODES(PolicyAnswer);
BOLE_DECODES(PolicyView);
BOLE_DECODES(QueueList);
BOLE_DECODES(JobList);
BOLE_DECODES(NodeList);
BOLE_DECODES(GpuList);
BOLE_DECODES(EventList);
BOLE_DECODES(LogPage);
BOLE_DECODES(TopologyView);
#undef BOLE_DECODES

}  // namespace bole::codec
