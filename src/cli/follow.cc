#include "cli/follow.h"

#include <fmt/format.h>
#include <poll.h>

#include "cli/commands.h"
#include "cli/job_text.h"
#include "cli/screen.h"
#include "cli/sse.h"
#include "cli/text.h"
#include "cli/wording.h"

namespace bole::cli {
namespace {

constexpr int kRetryMilliseconds = 300;
constexpr Duration kPatience = minutes(10);  // with a server that went away
constexpr std::uint64_t kLinesOnAttach = 20;

class Follower {
 public:
  Follower(Context& context, FollowRequest request, const model::JobView& job)
      : context_(context),
        request_(std::move(request)),
        job_(job),
        screen_(context, {.prefix = job.ranks > 1 && !request_.rank,
                          .timestamps = request_.timestamps,
                          .bar = watches() || !context.json(),
                          .raw = request_.raw,
                          .toError = watches() && context.json()}) {}

  int run() {
    auto client = context_.client();
    if (!client) return context_.report(client.error());
    const auto& catchInterrupts = context_.environment().catchInterrupts;
    if (catchInterrupts) interrupt_ = catchInterrupts();
    (*client)->watch(interrupt_);
    lastHeard_ = now();
    while (true) {
      const auto response = readOnce(**client);
      if (context_.outputClosed()) return kExitOutputClosed;
      if (detail_) return ended();
      if (response && response->interrupted) return left();
      if (!response && !mayComeBack(response.error())) return failed(response.error());
      if (now() - lastHeard_ > kPatience) return failed(gone());
      sayAway();
      if (interrupted()) return left();
    }
  }

 private:
  [[nodiscard]] bool watches() const { return request_.manner == Manner::kWatch; }
  [[nodiscard]] Duration now() { return context_.environment().clock->monotonic(); }

  Result<Response> readOnce(Client& client) {
    Request request;
    request.path = jobPath(std::to_string(job_.id.value)) + "/logs" + logsQuery(request_);
    request.headers.emplace_back("Accept", "text/event-stream");
    if (!lastId_.empty()) request.headers.emplace_back("Last-Event-ID", lastId_);
    EventParser parser;
    std::optional<Error> broken;
    auto response = client.stream(request, [&](std::string_view bytes) {
      auto goOn = parser.feed(bytes, [this](const ServerEvent& event) { return take(event); });
      if (!goOn) broken = goOn.error();
      return screen_.flush() && goOn && *goOn;
    });
    if (broken) return fail(std::move(*broken));
    return response;
  }

  bool take(const ServerEvent& event) {
    heard_ = true;
    away_ = false;
    lastHeard_ = now();
    if (!event.id.empty()) lastId_ = event.id;
    if (event.name == "line")
      takeLine(event.data);
    else if (event.name == "progress")
      takeProgress(event.data);
    else if (event.name == "state")
      takeState(event.data);
    else if (event.name == "lost")
      takeLost(event.data);
    else if (event.name == "end")
      takeEnd(event.data);
    return !detail_;
  }

  void takeLine(const std::string& data) {
    if (context_.json() && !watches()) {
      context_.printJson(data);
      return;
    }
    const auto line = decode<model::LogLineView>(data);
    if (!line) return;
    if (auto saved = checkpointIn(line->text); !saved.empty()) saved_ = std::move(saved);
    screen_.line(*line);
  }

  void takeProgress(const std::string& data) {
    auto progress = decode<model::ProgressView>(data);
    if (!progress) return;
    job_.progress = std::move(*progress);
    drawBar();
  }

  void takeState(const std::string& data) {
    auto job = decode<model::JobView>(data);
    if (!job) return;
    const bool again = job->attempts > job_.attempts && job_.attempts > 0;
    job_ = std::move(*job);
    if (!watches() && !screen_.hasBar()) return;
    drawBar();
    if (!watches()) return;
    if (again) screen_.tell(fmt::format("attempt {} begins", job_.attempts));
    if (!screen_.hasBar() && job_.state == model::JobState::kQueued && !job_.reason.empty()) {
      screen_.tell(jobTitle(job_) + " " + job_.reason);
    }
  }

  void drawBar() {
    screen_.bar(model::isTerminal(job_.state) ? "" : barText(job_, screen_.columns(), saved_));
  }

  void takeLost(const std::string& data) {
    screen_.tell(counted(decodeLost(data), "line was", "lines were") +
                 " rotated away before they could be shown");
  }

  void takeEnd(const std::string& data) {
    auto detail = decode<model::JobDetail>(data);
    if (detail)
      detail_ = std::move(*detail);
    else
      screen_.tell(detail.error().message());
    end_ = data;
    screen_.bar("");
  }

  int ended() {
    screen_.bar("");
    screen_.flush();
    if (watches()) {
      takeLastLines();
      if (context_.json())
        context_.printJson(end_);
      else
        context_.printError("\n" + summaryText(*detail_, context_.errorStyle()));
    }
    return detail_->exitCode >= 0 ? detail_->exitCode : kExitInternal;
  }

  // The stream's end leaves out the last lines of the rank that failed; what it says otherwise
  // stands.
  void takeLastLines() {
    auto body = context_.get(jobPath(std::to_string(job_.id.value)));
    if (!body) return;
    auto detail = decode<model::JobDetail>(*body);
    if (!detail || !model::isTerminal(detail->summary.state)) return;
    detail_ = std::move(*detail);
    end_ = std::move(*body);
  }

  int left() {
    screen_.bar("");
    screen_.flush();
    if (!watches()) return kExitInterrupted;
    const auto id = job_.id.value;
    const auto server = context_.sameServer();
    context_.printError("\n");
    context_.tell(jobTitle(job_) + " goes on without you");
    context_.printError(fmt::format("  bole attach {}{}   watches it again\n", id, server));
    context_.printError(fmt::format("  bole stop {}{}     stops it\n", id, server));
    return kExitInterrupted;
  }

  int failed(const Error& error) {
    screen_.bar("");
    screen_.flush();
    return context_.report(error);
  }

  // Once it has answered, a server that is away is most likely being restarted.
  [[nodiscard]] bool mayComeBack(const Error& error) const {
    return heard_ && error.code == ErrorCode::kUnavailable;
  }

  void sayAway() {
    if (away_) return;
    away_ = true;
    screen_.tell("the server went away; the job goes on; waiting for the server to come back");
  }

  Error gone() const {
    return makeError(ErrorCode::kUnavailable, "the server did not come back")
        .withHint(fmt::format("'bole up{}' starts it, 'bole attach {}' watches the job again",
                              context_.sameServer(), job_.id.value));
  }

  // Waits a little; true: Ctrl-C meanwhile.
  [[nodiscard]] bool interrupted() const {
    pollfd wait{interrupt_, POLLIN, 0};
    return ::poll(&wait, interrupt_ >= 0 ? 1 : 0, kRetryMilliseconds) > 0;
  }

  Context& context_;
  FollowRequest request_;
  model::JobView job_;
  Screen screen_;
  int interrupt_ = -1;
  std::string lastId_;
  std::string saved_;  // the newest checkpoint announced
  bool heard_ = false;
  bool away_ = false;
  Duration lastHeard_;
  std::optional<model::JobDetail> detail_;
  std::string end_;
};

// An empty answer of a job that never came to write leaves open what is wrong.
void sayWhyNothing(Context& context, const FollowRequest& request, const model::JobDetail& detail) {
  const auto& job = detail.summary;
  const auto number = request.attempt.value_or(job.attempts);
  for (const auto& attempt : detail.attempts) {
    if (attempt.number == number && attempt.startedAt.micros != 0) return;
  }
  const bool over = model::isTerminal(job.state);
  context.tell(jobTitle(job) + (over ? " never started" : " has not started yet") +
               (job.reason.empty() ? "" : ": " + job.reason));
}

int printPage(Context& context, const FollowRequest& request, const model::JobDetail& detail) {
  const auto& job = detail.summary;
  const auto body =
      context.get(jobPath(std::to_string(job.id.value)) + "/logs" + logsQuery(request));
  if (!body) return context.report(body.error());
  if (context.json()) return context.printJson(*body) ? kExitOk : kExitOutputClosed;
  const auto page = decode<model::LogPage>(*body);
  if (!page) return context.report(page.error());
  Screen screen(context,
                {.prefix = job.ranks > 1 && !request.rank, .timestamps = request.timestamps});
  for (const auto& line : page->lines) screen.line(line);
  screen.flush();
  if (page->lines.empty()) sayWhyNothing(context, request, detail);
  return kExitOk;
}

}  // namespace

std::string logsQuery(const FollowRequest& request) {
  std::string query;
  const auto add = [&](const char* name, auto value) {
    query += fmt::format("{}{}={}", query.empty() ? "?" : "&", name, value);
  };
  if (request.rank) add("rank", *request.rank);
  if (request.since) add("since", request.since->micros);
  if (request.tail) add("tail", *request.tail);
  if (request.attempt) add("attempt", *request.attempt);
  return query;
}

int follow(Context& context, const FollowRequest& request) {
  const auto detail = context.fetch<model::JobDetail>(jobPath(request.job));
  if (!detail) return context.report(detail.error());
  return Follower(context, request, detail->summary).run();
}

int runCommand(Context& context, const AttachArgs& args) {
  FollowRequest request;
  request.job = args.job;
  request.raw = args.raw;
  request.tail = kLinesOnAttach;
  return follow(context, request);
}

int runCommand(Context& context, const LogsArgs& args) {
  FollowRequest request;
  request.job = args.job;
  request.manner = Manner::kLogs;
  request.rank = args.rank;
  request.tail = args.tail;
  request.attempt = args.attempt;
  request.timestamps = args.timestamps;
  request.raw = args.raw;
  if (!args.since.empty()) {
    const auto since = parseMoment(args.since, context.environment().clock->wall());
    if (!since) return context.report(Error(since.error()).at("--since"));
    request.since = Timestamp{std::max<std::int64_t>(since->micros, 0)};
  }
  if (args.follow) return follow(context, request);
  const auto detail = context.fetch<model::JobDetail>(jobPath(request.job));
  if (!detail) return context.report(detail.error());
  return printPage(context, request, *detail);
}

}  // namespace bole::cli
