#include "server/api.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>

#include "codec/codec.h"
#include "server/openapi.h"
#include "server/policy_views.h"
#include "server/streams.h"
#include "server/uploads.h"
#include "spec/policy.h"
#include "spec/suggest.h"

namespace bole::server {
namespace {

constexpr std::size_t kMaxLogLines = 100'000;
constexpr std::size_t kLastLines = 20;
constexpr std::size_t kDefaultEvents = 100;
constexpr std::size_t kMaxEvents = 10'000;
constexpr std::size_t kEventWindow = 1'000;  // read at once when only some kinds are wanted
constexpr std::uint64_t kMaxEventsLookedAt = 200'000;  // when looking for a rare kind
constexpr Duration kMaxGrace = hours(24);

template <class T>
void answerWith(const Respond& respond, unsigned status, const T& view) {
  respond({.answer = {status, codec::toJson(view), {}}});
}

void answerError(const Respond& respond, const Error& error) {
  respond({.answer = errorAnswer(error)});
}

Error badField(std::string_view name, std::string found, std::string expected) {
  return makeError(ErrorCode::kInvalid, "wrong value")
      .at(std::string(name))
      .foundValue("'" + std::move(found) + "'")
      .expectedValue(std::move(expected));
}

Result<std::optional<std::uint64_t>> numberField(const Target& target, std::string_view name,
                                                 std::uint64_t least = 0,
                                                 std::uint64_t most = INT64_MAX) {
  const auto* text = target.find(name);
  if (!text) return std::optional<std::uint64_t>();
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (text->empty() || error != std::errc() || end != text->data() + text->size() ||
      value < least || value > most) {
    return fail(badField(name, *text, fmt::format("a whole number from {} to {}", least, most)));
  }
  return std::optional<std::uint64_t>(value);
}

Result<bool> flagField(const Target& target, std::string_view name) {
  const auto* text = target.find(name);
  if (!text || *text == "0" || *text == "false") return false;
  if (*text == "1" || *text == "true") return true;
  return fail(badField(name, *text, "0 or 1"));
}

std::optional<std::string> textField(const Target& target, std::string_view name) {
  const auto* text = target.find(name);
  return text ? std::optional<std::string>(*text) : std::nullopt;
}

Result<std::vector<model::JobState>> statesField(const Target& target) {
  std::vector<model::JobState> states;
  const auto* text = target.find("state");
  std::string_view left = text ? std::string_view(*text) : std::string_view();
  while (!left.empty()) {
    const auto end = std::min(left.find(','), left.size());
    std::string name(left.substr(0, end));
    left.remove_prefix(std::min(end + 1, left.size()));
    for (auto& c : name) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    const auto state = codec::enumFromName<model::JobState>(name);
    if (!state) {
      return fail(badField("state", *text,
                           "queued, starting, running, stopping, succeeded, failed or cancelled, "
                           "several by commas"));
    }
    states.push_back(*state);
  }
  return states;
}

Result<JobFilter> filterOf(const Target& target) {
  JobFilter filter;
  BOLE_ASSIGN(filter.all, flagField(target, "all"));
  BOLE_ASSIGN(filter.states, statesField(target));
  filter.user = textField(target, "user");
  filter.project = textField(target, "project");
  filter.name = textField(target, "name");
  BOLE_ASSIGN(const auto limit, numberField(target, "limit"));
  if (limit) filter.limit = static_cast<std::size_t>(*limit);
  return filter;
}

// What the caller would type; over TCP he may be on another machine, and knows how he called.
std::string typed(std::string_view command, const ServerOptions& options, const Caller& caller) {
  if (caller.onSocket) return commandFor(command, options.facts.home);
  return fmt::format("`bole {}`", command);
}

Error noSuchJob(const Scene& scene, const std::string& reference) {
  return makeError(ErrorCode::kNotFound, "no such job")
      .foundValue("'" + reference + "'")
      .expectedValue("the number or name of a job")
      .withHint(typed("ps --all", scene.options, scene.caller) + " lists them");
}

Error notYours(const model::JobRecord& job, std::string what) {
  return makeError(ErrorCode::kPermission, std::move(what))
      .at(fmt::format("job {}", job.id.value))
      .withHint("only its owner, who runs the server, and root may");
}

bool matches(const std::vector<std::string_view>& pattern, const std::vector<std::string>& path) {
  if (pattern.size() != path.size()) return false;
  for (std::size_t i = 0; i < path.size(); ++i) {
    const bool open = pattern[i].front() == '{';
    if (open ? path[i].empty() : pattern[i] != path[i]) return false;
  }
  return true;
}

Result<void> checkValue(const Parameter& field, const std::string& found) {
  const auto& values = field.values;
  if (values.empty() || std::find(values.begin(), values.end(), found) != values.end()) return {};
  auto error = badField(field.name, found.substr(0, 100), spec::joinAlternatives(values));
  const auto near = spec::joinAlternatives(nearestValues(found, values));
  if (!near.empty()) error.hint = "did you mean " + near + "?";
  return fail(std::move(error));
}

Result<void> checkQuery(const Route& route, const Target& target) {
  for (std::size_t i = 0; i < target.query.size(); ++i) {
    const auto& name = target.query[i].first;
    const auto field = std::find_if(route.query.begin(), route.query.end(),
                                    [&](const Parameter& one) { return one.name == name; });
    if (field == route.query.end()) {
      std::string expected;
      for (const auto& one : route.query) {
        expected += (expected.empty() ? "" : ", ") + std::string(one.name);
      }
      return fail(makeError(ErrorCode::kInvalid, "unknown field in the query")
                      .at(std::string(route.path))
                      .foundValue("'" + name.substr(0, 100) + "'")
                      .expectedValue(expected.empty() ? "none" : expected));
    }
    for (std::size_t j = 0; j < i; ++j) {
      if (target.query[j].first == name) {
        return fail(makeError(ErrorCode::kInvalid, "a field stands twice in the query").at(name));
      }
    }
    BOLE_TRY(checkValue(*field, target.query[i].second));
  }
  return {};
}

Answer wrongMethod(std::string_view method, const std::string& path, const std::string& allowed) {
  auto answer = errorAnswer(makeError(ErrorCode::kInvalid, "this cannot be done here")
                                .at(path)
                                .foundValue(std::string(method))
                                .expectedValue(allowed),
                            405);
  answer.headers.emplace_back("Allow", allowed);
  return answer;
}

Answer missingValues(const std::vector<std::string>& names, const std::string& file) {
  std::string list;
  for (const auto& name : names) list += (list.empty() ? "" : ", ") + name;
  auto error = makeError(ErrorCode::kInvalid, "the spec names variables without a value")
                   .at(file)
                   .foundValue(list)
                   .withHint("give the values in `env` of the request, or in the spec");
  model::ErrorView view;
  view.code = errorCodeName(error.code);
  view.message = error.message();
  view.what = error.what;
  view.where = error.where;
  view.found = error.found;
  view.hint = error.hint;
  view.missingEnv = names;
  return {400, codec::toJson(view), {}};
}

Error busy() {
  return makeError(ErrorCode::kUnavailable, "more commands wait than the server takes")
      .withHint("try again in a moment");
}

Result<void> checkRank(const controller::Snapshot&, const model::JobRecord& job,
                       const std::optional<std::uint64_t>& rank) {
  if (!rank || *rank < job.shape->replicas()) return {};
  return fail(badField("rank", std::to_string(*rank),
                       fmt::format("0 to {}: the job has {} rank{}", job.shape->replicas() - 1,
                                   job.shape->replicas(), job.shape->replicas() == 1 ? "" : "s")));
}

}  // namespace

Api::Api(const ServerOptions& options, Uploads& uploads)
    : options_(options),
      uploads_(uploads),
      openApi_(openApiDocument(routes(), options.facts.version)) {}

std::variant<Api::Choice, Answer> Api::choose(std::string_view method,
                                              std::string_view text) const {
  auto target = parseTarget(text);
  if (!target) return errorAnswer(target.error());
  const auto path = std::string(text.substr(0, std::min(text.find('?'), text.size())));
  std::string allowed;
  for (const auto& route : routes()) {
    if (!matches(pathSegments(route.path), target->path)) continue;
    if (route.method == method) {
      if (auto known = checkQuery(route, *target); !known) return errorAnswer(known.error());
      return Choice{&route, std::move(*target)};
    }
    allowed += (allowed.empty() ? "" : ", ") + std::string(route.method);
  }
  if (!allowed.empty()) return wrongMethod(method, path.substr(0, 200), allowed);
  return errorAnswer(makeError(ErrorCode::kNotFound, "there is nothing at this path")
                         .foundValue(path.substr(0, 200))
                         .withHint("GET /v1/openapi.json lists what there is"));
}

void Api::handle(const Route& route, const Request& request, const Respond& respond) const {
  try {
    (this->*route.handle)(request, respond);
  } catch (const std::exception& fault) {
    answerError(respond,
                makeError(ErrorCode::kInternal, "a fault of Bole's own")
                    .at(std::string(route.path))
                    .foundValue(fault.what())
                    .withHint("please report it: " + typed("support", options_, request.caller) +
                              " makes an archive"));
  }
}

Scene Api::sceneOf(const Snapshot& snapshot, const Request& request) const {
  return makeScene(*snapshot, options_, request.caller, options_.clock->wall());
}

void Api::version(const Request&, const Respond& respond) const {
  std::string body = "{\"version\":";
  codec::appendJsonString(body, options_.facts.version);
  respond({.answer = {200, body + "}", {}}});
}

void Api::openApi(const Request&, const Respond& respond) const {
  respond({.answer = {200, openApi_, {}}});
}

void Api::status(const Request& request, const Respond& respond) const {
  const auto snapshot = options_.commands->snapshot();
  answerWith(respond, 200, statusView(sceneOf(snapshot, request)));
}

void Api::nodes(const Request& request, const Respond& respond) const {
  const auto snapshot = options_.commands->snapshot();
  answerWith(respond, 200, nodeList(sceneOf(snapshot, request)));
}

void Api::gpus(const Request& request, const Respond& respond) const {
  const auto snapshot = options_.commands->snapshot();
  answerWith(respond, 200, gpuList(sceneOf(snapshot, request)));
}

void Api::topology(const Request& request, const Respond& respond) const {
  const auto snapshot = options_.commands->snapshot();
  answerWith(respond, 200, topologyView(sceneOf(snapshot, request)));
}

namespace {

Error notAnOperator() {
  return makeError(ErrorCode::kPermission, "you may not say how machines are used")
      .withHint("only who runs the server and root may");
}

}  // namespace

std::function<void(Result<void>)> Api::answerNode(const Respond& respond,
                                                  const Request& request) const {
  // The view is made on the IO thread: this reply may come when the server is gone.
  return [this, respond, request](Result<void> result) {
    if (!result) return answerError(respond, result.error());
    respond({.answer = {}, .make = [this, request]() -> Answer {
               const auto now = options_.commands->snapshot();
               for (auto& node : nodeList(sceneOf(now, request)).nodes) {
                 if (node.name == request.target.path[2]) return {200, codec::toJson(node), {}};
               }
               return errorAnswer(makeError(ErrorCode::kNotFound, "the node is gone"));
             }});
  };
}

void Api::setHealth(const Request& request, const Respond& respond) const {
  if (!request.caller.admin) return answerError(respond, notAnOperator());
  auto wanted = codec::fromJson<model::HealthRequest>(request.body, "request body");
  if (!wanted) return answerError(respond, wanted.error());
  constexpr auto kLongest = hours(24 * 3660);
  constexpr std::size_t kMostWhy = 1000;
  if (wanted->lasts.value < 0 || wanted->lasts > kLongest) {
    return answerError(respond, badField("lasts", std::to_string(wanted->lasts.value),
                                         "0 to ten years, in microseconds"));
  }
  if (wanted->why.size() > kMostWhy)
    return answerError(respond, badField("why", "a long text", "at most 1000 bytes"));
  controller::SetHealth command;
  command.caller.user = request.caller.user;
  command.node = request.target.path[2];
  if (wanted->gpu)
    command.gpu = static_cast<std::int32_t>(std::min<std::uint32_t>(*wanted->gpu, INT32_MAX));
  command.health = wanted->health;
  command.lasts = wanted->lasts;
  command.why = std::move(wanted->why);
  command.reply = answerNode(respond, request);
  if (!options_.commands->setHealth(std::move(command))) answerError(respond, busy());
}

void Api::setLabels(const Request& request, const Respond& respond) const {
  if (!request.caller.admin) return answerError(respond, notAnOperator());
  auto wanted = codec::fromJson<model::LabelsRequest>(request.body, "request body");
  if (!wanted) return answerError(respond, wanted.error());
  controller::SetLabels command;
  command.caller.user = request.caller.user;
  command.node = request.target.path[2];
  command.set = std::move(wanted->set);
  command.remove = std::move(wanted->remove);
  command.reply = answerNode(respond, request);
  if (!options_.commands->setLabels(std::move(command))) answerError(respond, busy());
}

void Api::queues(const Request& request, const Respond& respond) const {
  const auto snapshot = options_.commands->snapshot();
  answerWith(respond, 200, queueList(snapshot->tables, sceneOf(snapshot, request).now));
}

void Api::policy(const Request&, const Respond& respond) const {
  const auto policy = options_.commands->snapshot()->tables.policy;
  answerWith(respond, 200, model::PolicyView{spec::writePolicy(*policy), *policy});
}

void Api::setPolicy(const Request& request, const Respond& respond) const {
  if (!request.caller.admin) {
    return answerError(respond,
                       makeError(ErrorCode::kPermission, "you may not say how the cloud is shared")
                           .withHint("only who runs the server and root may"));
  }
  const auto wanted = codec::fromJson<model::PolicyRequest>(request.body, "request body");
  if (!wanted) return answerError(respond, wanted.error());
  auto parsed = spec::parsePolicy({wanted->text, wanted->fileName});
  if (!parsed) return answerError(respond, parsed.error());
  const auto snapshot = options_.commands->snapshot();
  model::PolicyAnswer answer;
  answer.text = spec::writePolicy(parsed->policy);
  answer.changes = policyChanges(*snapshot->tables.policy, parsed->policy);
  answer.warnings = std::move(parsed->warnings);
  for (auto& warning : policyWarnings(parsed->policy, snapshot->tables))
    answer.warnings.push_back(std::move(warning));
  controller::SetPolicy command;
  command.caller.user = request.caller.user;
  command.policy = std::move(parsed->policy);
  command.dryRun = wanted->dryRun;
  command.reply = [respond, answer = std::move(answer)](Result<void> result) {
    if (result)
      answerWith(respond, 200, answer);
    else
      answerError(respond, result.error());
  };
  if (!options_.commands->setPolicy(std::move(command))) answerError(respond, busy());
}

void Api::snapshot(const Request& request, const Respond& respond) const {
  if (!request.caller.admin) {
    return answerError(respond, makeError(ErrorCode::kPermission, "you may not see the whole state")
                                    .withHint("only who runs the server and root may"));
  }
  const auto snapshot = options_.commands->snapshot();
  auto tables = snapshot->tables;
  tables.time = sceneOf(snapshot, request).now;
  respond({.answer = {200, codec::encodeTables(tables), {}}});
}

void Api::jobs(const Request& request, const Respond& respond) const {
  const auto filter = filterOf(request.target);
  if (!filter) return answerError(respond, filter.error());
  const auto snapshot = options_.commands->snapshot();
  answerWith(respond, 200, jobList(sceneOf(snapshot, request), *filter));
}

void Api::job(const Request& request, const Respond& respond) const {
  const auto snapshot = options_.commands->snapshot();
  const auto scene = sceneOf(snapshot, request);
  const auto* job = findJob(scene, request.target.path[2]);
  if (!job) return answerError(respond, noSuchJob(scene, request.target.path[2]));
  const auto expect = flagField(request.target, "expect");
  if (!expect) return answerError(respond, expect.error());
  auto detail = jobDetail(scene, *job);
  if (*expect && job->state == model::JobState::kQueued)
    detail.expected = expectedView(scene, *job);
  if (mayManage(scene, *job)) detail.lastLines = lastLines(*job);
  answerWith(respond, 200, detail);
}

// Of the rank that failed first in the newest attempt, once that has ended.
std::vector<std::string> Api::lastLines(const model::JobRecord& job) const {
  std::vector<std::string> lines;
  if (!model::isTerminal(job.state) || job.firstFailed < 0 || !options_.logs) return lines;
  LogQuery query;
  query.attempt = job.attempt;
  query.rank = static_cast<std::uint32_t>(job.firstFailed);
  query.tail = kLastLines;
  auto page = options_.logs->page(query, kLastLines);
  if (!page) return lines;  // the logs may be gone; the rest of the answer stands
  for (auto& line : page->lines) lines.push_back(std::move(line.text));
  return lines;
}

Result<controller::SubmitJobs> Api::submission(const model::SubmitRequest& wanted,
                                               const Caller& caller,
                                               std::vector<std::string>& missing) const {
  if (!options_.parseSpec) return fail(ErrorCode::kUnsupported, "this server takes no jobs");
  if (!wanted.upload.empty() && !(isSha256(wanted.upload) && uploads_.has(wanted.upload))) {
    return fail(makeError(ErrorCode::kInvalid, "there is no such upload")
                    .at("upload")
                    .foundValue(wanted.upload.substr(0, 100))
                    .expectedValue("the SHA-256 of an archive that is here")
                    .withHint("PUT it to /v1/uploads/{sha256} first"));
  }
  BOLE_ASSIGN(auto parsed, options_.parseSpec(wanted, caller.user));
  missing = std::move(parsed.missingEnv);
  controller::SubmitJobs command;
  command.caller = {caller.user, "api", wanted.requestId};
  if (!parsed.project.empty()) command.project = std::move(parsed.project);
  if (!wanted.project.empty()) command.project = wanted.project;
  command.jobs = std::move(parsed.jobs);
  command.warnings = std::move(parsed.warnings);
  command.dryRun = wanted.dryRun;
  for (auto& job : command.jobs) {
    job.text.user = caller.user;
    job.text.upload = wanted.upload;
    if (job.shape.runtime == model::Runtime::kPlain && !caller.admin) {
      return fail(makeError(ErrorCode::kPermission,
                            "without a sandbox jobs run as the one who runs the server")
                      .at(job.text.name)
                      .withHint("only he may submit them; install bubblewrap to let others"));
    }
  }
  return command;
}

void Api::submit(const Request& request, const Respond& respond) const {
  const auto wanted = codec::fromJson<model::SubmitRequest>(request.body, "request body");
  if (!wanted) return answerError(respond, wanted.error());
  std::vector<std::string> missing;
  auto command = submission(*wanted, request.caller, missing);
  if (!command) return answerError(respond, command.error());
  if (!missing.empty()) return respond({.answer = missingValues(missing, wanted->fileName)});
  const bool dryRun = wanted->dryRun;
  command->reply = [this, respond, request, dryRun](Result<model::SubmitAnswer> result) {
    if (!result) return answerError(respond, result.error());
    if (!dryRun) return answerWith(respond, 201, *result);
    // What is looked ahead for it is nothing for the controller's thread.
    respond({.answer = {}, .make = [this, request, answer = std::move(*result)]() -> Answer {
               auto view = answer;
               const auto now = options_.commands->snapshot();
               addExpected(sceneOf(now, request), view);
               return {200, codec::toJson(view), {}};
             }});
  };
  if (!options_.commands->submit(std::move(*command))) answerError(respond, busy());
}

void Api::stop(const Request& request, const Respond& respond) const {
  model::StopCommand wanted;
  if (!request.body.empty()) {
    auto read = codec::fromJson<model::StopCommand>(request.body, "request body");
    if (!read) return answerError(respond, read.error());
    wanted = *read;
  }
  if (wanted.grace > kMaxGrace) {
    return answerError(respond, makeError(ErrorCode::kInvalid, "too long a grace")
                                    .at("grace")
                                    .foundValue(formatDuration(wanted.grace))
                                    .expectedValue("at most 24 hours, in microseconds"));
  }
  const auto snapshot = options_.commands->snapshot();
  const auto scene = sceneOf(snapshot, request);
  const auto* job = findJob(scene, request.target.path[2]);
  if (!job) return answerError(respond, noSuchJob(scene, request.target.path[2]));
  if (!mayManage(scene, *job)) {
    return answerError(respond, notYours(*job, "you may not stop this job"));
  }
  controller::StopJob command;
  command.caller.user = request.caller.user;
  command.job = job->id;
  command.wholeArray = namesWholeArray(scene, *job, request.target.path[2]);
  command.grace = wanted.grace;
  // The view is made on the IO thread: this reply may come when the server is gone.
  command.reply = [this, respond, request, id = job->id](Result<void> result) {
    if (!result) return answerError(respond, result.error());
    respond({.answer = {}, .make = [this, request, id]() -> Answer {
               const auto now = options_.commands->snapshot();
               const auto* stopped = now->tables.jobs.find(id);
               const auto seen = sceneOf(now, request);
               if (!stopped) return errorAnswer(noSuchJob(seen, std::to_string(id.value)));
               return {202, codec::toJson(jobView(seen, *stopped)), {}};
             }});
  };
  if (!options_.commands->stop(std::move(command))) answerError(respond, busy());
}

void Api::logs(const Request& request, const Respond& respond) const {
  auto reply = logsOf(request);
  if (reply)
    respond(std::move(*reply));
  else
    answerError(respond, reply.error());
}

Result<Reply> Api::logsOf(const Request& request) const {
  if (!options_.logs) return fail(ErrorCode::kUnsupported, "this server keeps no logs");
  const auto& target = request.target;
  BOLE_ASSIGN(const auto rank, numberField(target, "rank", 0, UINT32_MAX));
  BOLE_ASSIGN(const auto since, numberField(target, "since"));
  BOLE_ASSIGN(const auto tail, numberField(target, "tail"));
  BOLE_ASSIGN(const auto number, numberField(target, "attempt", 1, UINT32_MAX));
  BOLE_ASSIGN(const auto followed, flagField(target, "follow"));
  const auto snapshot = options_.commands->snapshot();
  const auto scene = sceneOf(snapshot, request);
  const auto* job = findJob(scene, target.path[2]);
  if (!job) return fail(noSuchJob(scene, target.path[2]));
  if (!mayManage(scene, *job)) return fail(notYours(*job, "you may not read these logs"));
  BOLE_TRY(checkRank(*snapshot, *job, rank));
  const auto wanted = static_cast<std::uint32_t>(number.value_or(0));
  const auto* attempt = number ? attemptNumbered(snapshot->tables, *job, wanted)
                               : snapshot->tables.attempts.find(job->attempt);
  if (number && !attempt) {
    return fail(makeError(ErrorCode::kNotFound, "no such attempt")
                    .at(fmt::format("job {}", job->id.value))
                    .foundValue(std::to_string(*number))
                    .expectedValue(fmt::format("1 to {}", job->attempts)));
  }
  LogQuery query;
  if (rank) query.rank = static_cast<std::uint32_t>(*rank);
  query.since = Timestamp{static_cast<std::int64_t>(since.value_or(0))};
  if (tail) query.tail = static_cast<std::size_t>(*tail);
  if (followed || request.wantsEvents) {
    BOLE_ASSIGN(auto stream,
                followLogs(options_, {job->id, wanted, query.rank, query.since, query.tail,
                                      request.lastEventId, request.caller}));
    return Reply{.answer = {}, .stream = std::move(stream)};
  }
  model::LogPage page;
  if (attempt) {
    query.attempt = attempt->id;
    BOLE_ASSIGN(page, options_.logs->page(
                          query, std::min(query.tail.value_or(kMaxLogLines), kMaxLogLines)));
  }
  return Reply{.answer = {200, codec::toJson(page), {}}};
}

void Api::events(const Request& request, const Respond& respond) const {
  auto reply = eventsOf(request);
  if (reply)
    respond(std::move(*reply));
  else
    answerError(respond, reply.error());
}

namespace {

// The first `limit` of a kind from `from` on.
Result<model::EventList> eventsFrom(const EventReader& read, std::uint64_t from, std::size_t limit,
                                    const std::string& kind) {
  if (kind.empty()) return read(from, limit);
  model::EventList found;
  for (std::uint64_t looked = 0; looked < kMaxEventsLookedAt; looked += kEventWindow) {
    BOLE_ASSIGN(auto window, read(from, kEventWindow));
    for (auto& event : window.events) {
      from = event.sequence + 1;
      if (event.kind == kind) found.events.push_back(std::move(event));
      if (found.events.size() == limit) return found;
    }
    if (window.events.size() < kEventWindow) break;
  }
  return found;
}

// The newest `limit` of a kind, in order.
Result<model::EventList> newestEvents(const EventReader& read, std::uint64_t last,
                                      std::size_t limit, const std::string& kind) {
  if (kind.empty()) return read(last < limit ? 1 : last - limit + 1, limit);
  std::vector<model::EventView> newestFirst;
  const auto lowest = last < kMaxEventsLookedAt ? 0 : last - kMaxEventsLookedAt;
  while (last > lowest && newestFirst.size() < limit) {
    const auto from = last < kEventWindow ? 1 : last - kEventWindow + 1;
    BOLE_ASSIGN(auto window, read(from, static_cast<std::size_t>(last - from + 1)));
    for (auto event = window.events.rbegin(); event != window.events.rend(); ++event) {
      if (event->kind == kind) newestFirst.push_back(std::move(*event));
      if (newestFirst.size() == limit) break;
    }
    last = from - 1;
  }
  return model::EventList{
      {std::make_move_iterator(newestFirst.rbegin()), std::make_move_iterator(newestFirst.rend())}};
}

}  // namespace

Result<Reply> Api::eventsOf(const Request& request) const {
  if (!options_.readEvents) return fail(ErrorCode::kUnsupported, "this server shows no events");
  const auto& target = request.target;
  BOLE_ASSIGN(auto from, numberField(target, "from"));
  BOLE_ASSIGN(const auto limit, numberField(target, "limit", 1, kMaxEvents));
  BOLE_ASSIGN(const auto followed, flagField(target, "follow"));
  const auto kind = textField(target, "kind").value_or("");
  const auto last = options_.commands->snapshot()->tables.sequence;
  if (followed || request.wantsEvents) {
    if (!request.lastEventId.empty()) {
      const Target seen{{}, {{"Last-Event-ID", request.lastEventId}}};
      BOLE_ASSIGN(const auto number, numberField(seen, "Last-Event-ID"));
      from = *number + 1;
    }
    return Reply{.answer = {}, .stream = followEvents(options_, from.value_or(last + 1), kind)};
  }
  const auto most = static_cast<std::size_t>(limit.value_or(kDefaultEvents));
  BOLE_ASSIGN(const auto list, from ? eventsFrom(options_.readEvents, *from, most, kind)
                                    : newestEvents(options_.readEvents, last, most, kind));
  return Reply{.answer = {200, codec::toJson(list), {}}};
}

void Api::uploaded(const Request& request, const Respond& respond) const {
  const auto& name = request.target.path[2];
  if (isSha256(name) && uploads_.has(name)) return respond({.answer = {200, "", {}}});
  respond({.answer = {404, "", {}}});
}

void Api::shutdown(const Request& request, const Respond& respond) const {
  const auto stopJobs = flagField(request.target, "stop_jobs");
  if (!stopJobs) return answerError(respond, stopJobs.error());
  if (!request.caller.admin) {
    return answerError(respond, makeError(ErrorCode::kPermission, "you may not stop the server")
                                    .withHint("only who runs it and root may"));
  }
  if (!options_.onShutdown)
    return answerError(
        respond, makeError(ErrorCode::kUnsupported, "this server cannot be stopped from here"));
  respond({.answer = {202, "", {}},
           .whenAnswered = [this, stop = *stopJobs] { options_.onShutdown(stop); }});
}

}  // namespace bole::server
