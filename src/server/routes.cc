#include "server/routes.h"

#include "model/event.h"
#include "server/api.h"
#include "spec/suggest.h"

namespace bole::server {
namespace {

constexpr Parameter kFollow{
    "follow", "boolean", "1: answer with server-sent events, as does `Accept: text/event-stream`"};

template <class... Bodies>
std::vector<std::string_view> kindsOf(const std::variant<Bodies...>*) {
  return {Bodies::kKind...};
}

std::vector<Route> makeRoutes() {
  return {
      {.method = "GET",
       .path = "/v1/version",
       .operation = "version",
       .summary = "Which Bole this is",
       .outcomes = {{200, "VersionView", "the version"}},
       .handle = &Api::version},
      {.method = "GET",
       .path = "/v1/status",
       .operation = "status",
       .summary = "How the server and the cloud fare",
       .outcomes = {{200, "StatusView", "the status"}},
       .handle = &Api::status},
      {.method = "GET",
       .path = "/v1/openapi.json",
       .operation = "openApi",
       .summary = "This document",
       .outcomes = {{200, "object", "an OpenAPI 3.1 document"}},
       .handle = &Api::openApi},
      {.method = "POST",
       .path = "/v1/jobs",
       .operation = "submit",
       .summary = "Submit the jobs of a spec, all or none",
       .body = BodyKind::kJson,
       .request = "SubmitRequest",
       .outcomes = {{201, "SubmitAnswer", "durably queued, or known by its request id"},
                    {200, "SubmitAnswer", "with dry_run: it would be taken"}},
       .handle = &Api::submit},
      {.method = "GET",
       .path = "/v1/jobs",
       .operation = "jobs",
       .summary =
           "List jobs, the newest first; without `all` and `state` those that have not ended",
       .query = {{"all", "boolean", "1: those that have ended too"},
                 {"state", "string", "any of these, by commas: queued,running"},
                 {"user", "string", "of this user"},
                 {"project", "string", "of this project"},
                 {"name", "string", "of this name"},
                 {"limit", "integer", "at most so many"}},
       .outcomes = {{200, "JobList", "the jobs"}},
       .handle = &Api::jobs},
      {.method = "GET",
       .path = "/v1/jobs/{job}",
       .operation = "job",
       .summary = "Everything about one job",
       .query = {{"expect", "boolean", "1: when it is expected to start, too, where it waits"}},
       .outcomes = {{200, "JobDetail",
                     "the job; what is private is empty for others than its owner"}},
       .handle = &Api::job},
      {.method = "POST",
       .path = "/v1/jobs/{job}/stop",
       .operation = "stop",
       .summary = "Stop a job: its owner, who runs the server, or root",
       .body = BodyKind::kJson,
       .request = "StopCommand",
       .bodyOptional = true,
       .outcomes = {{202, "JobView", "it is being stopped, or was cancelled before it ran"}},
       .handle = &Api::stop},
      {.method = "GET",
       .path = "/v1/jobs/{job}/logs",
       .operation = "logs",
       .summary = "The output of a job: its owner, who runs the server, or root",
       .query = {{"rank", "integer", "of this rank; otherwise of all, in the order of time"},
                 {"since", "integer", "from this time on, microseconds since 1970 UTC"},
                 {"tail", "integer", "only the newest so many lines"},
                 {"attempt", "integer",
                  "of the job's first, second, ... attempt; otherwise the newest"},
                 kFollow},
       .outcomes = {{200, "LogPage", "the newest lines, at most 100,000 and about 16 MiB"}},
       .events = {{"line", "LogLineView", "a line; its id continues behind it"},
                  {"progress", "ProgressView", "the newest progress"},
                  {"state", "JobView", "the job changed"},
                  {"lost", "LostView", "lines were rotated away before they could be sent"},
                  {"end", "JobDetail", "the job has ended and all its lines were sent"}},
       .handle = &Api::logs},
      {.method = "GET",
       .path = "/v1/nodes",
       .operation = "nodes",
       .summary = "The machines",
       .outcomes = {{200, "NodeList", "the nodes"}},
       .handle = &Api::nodes},
      {.method = "POST",
       .path = "/v1/nodes/{node}/health",
       .operation = "setHealth",
       .summary = "Drain a machine or a GPU, declare it down, or take it back: who runs the "
                  "server, or root",
       .body = BodyKind::kJson,
       .request = "HealthRequest",
       .outcomes = {{200, "NodeView", "it is so from here on"}},
       .handle = &Api::setHealth},
      {.method = "POST",
       .path = "/v1/nodes/{node}/labels",
       .operation = "setLabels",
       .summary = "Give a machine labels that jobs may ask for: who runs the server, or root",
       .body = BodyKind::kJson,
       .request = "LabelsRequest",
       .outcomes = {{200, "NodeView", "it is so from here on"}},
       .handle = &Api::setLabels},
      {.method = "GET",
       .path = "/v1/gpus",
       .operation = "gpus",
       .summary = "The GPUs and who holds them",
       .outcomes = {{200, "GpuList", "the GPUs, in PCI order on each node"}},
       .handle = &Api::gpus},
      {.method = "GET",
       .path = "/v1/topology",
       .operation = "topology",
       .summary = "How the GPUs are linked",
       .outcomes = {{200, "TopologyView", "the nodes with their links"}},
       .handle = &Api::topology},
      {.method = "GET",
       .path = "/v1/queues",
       .operation = "queues",
       .summary = "The queues and what is used of them",
       .outcomes = {{200, "QueueList", "the queues, each behind the one it stands below"}},
       .handle = &Api::queues},
      {.method = "GET",
       .path = "/v1/policy",
       .operation = "policy",
       .summary = "How the cloud is shared",
       .outcomes = {{200, "PolicyView", "the policy, as text and as data"}},
       .handle = &Api::policy},
      {.method = "PUT",
       .path = "/v1/policy",
       .operation = "setPolicy",
       .summary = "Share the cloud otherwise: who runs the server, or root",
       .body = BodyKind::kJson,
       .request = "PolicyRequest",
       .outcomes = {{200, "PolicyAnswer", "it is so from here on; with dry_run: it would be"}},
       .handle = &Api::setPolicy},
      {.method = "GET",
       .path = "/v1/snapshot",
       .operation = "snapshot",
       .summary = "All that the scheduler looks at, as `bole plan` reads it: who runs the server, "
                  "or root",
       .outcomes = {{200, "object",
                     "the state as it is now; no name, command or other text is in it"}},
       .handle = &Api::snapshot},
      {.method = "GET",
       .path = "/v1/events",
       .operation = "events",
       .summary = "The ledger, event by event",
       .query = {{"from", "integer", "from this sequence number on; otherwise the newest"},
                 {"limit", "integer", "at most so many, 1 to 10,000; otherwise 100"},
                 {"kind", "string", "only of this kind",
                  kindsOf(static_cast<const model::Event*>(nullptr))},
                 kFollow},
       .outcomes = {{200, "EventList", "in order"}},
       .events = {{"event", "EventView", "its id is its sequence number"}},
       .handle = &Api::events},
      {.method = "HEAD",
       .path = "/v1/uploads/{sha256}",
       .operation = "uploaded",
       .summary = "Is this archive here already?",
       .outcomes = {{200, "", "yes"}},
       .handle = &Api::uploaded},
      {.method = "PUT",
       .path = "/v1/uploads/{sha256}",
       .operation = "upload",
       .summary = "Bring a tar archive along, named by its SHA-256 in hex",
       .body = BodyKind::kUpload,
       .outcomes = {{201, "", "kept"}, {200, "", "was here already"}},
       .handle = nullptr},
      {.method = "POST",
       .path = "/v1/shutdown",
       .operation = "shutdown",
       .summary = "Stop the server: who runs it, or root",
       .query = {{"stop_jobs", "boolean", "1: stop the jobs too; otherwise they go on"}},
       .outcomes = {{202, "", "it is going down"}},
       .handle = &Api::shutdown},
  };
}

}  // namespace

const std::vector<Route>& routes() {
  static const std::vector<Route> table = makeRoutes();
  return table;
}

std::vector<std::string_view> nearestValues(const std::string& found,
                                            const std::vector<std::string_view>& values) {
  if (const auto one = spec::nearest(found, values); !one.empty()) return {one};
  std::vector<std::string_view> alike;
  const auto group = found.substr(0, found.find('.')) + ".";
  for (const auto value : values) {
    const bool shares = value.starts_with(group) || value.ends_with("." + found);
    if (found.size() > 1 && shares) alike.push_back(value);
  }
  return alike;
}

std::vector<std::string_view> pathSegments(std::string_view path) {
  std::vector<std::string_view> segments;
  if (!path.empty()) path.remove_prefix(1);
  while (!path.empty()) {
    const auto end = std::min(path.find('/'), path.size());
    segments.push_back(path.substr(0, end));
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return segments;
}

}  // namespace bole::server
