// ps, show, why, stop.
#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/job_text.h"
#include "cli/text.h"
#include "cli/wording.h"
#include "codec/codec.h"
#include "codec/describe_views.h"
#include "codec/writer.h"

namespace bole::cli {
namespace {

std::string listPath(const PsArgs& args) {
  std::string query;
  const auto add = [&](const char* name, const std::string& value) {
    query += fmt::format("{}{}={}", query.empty() ? "?" : "&", name, urlEncoded(value));
  };
  if (args.all) add("all", "1");
  if (!args.state.empty()) add("state", args.state);
  if (!args.user.empty()) add("user", args.user);
  if (!args.project.empty()) add("project", args.project);
  if (args.limit) add("limit", std::to_string(*args.limit));
  return "/v1/jobs" + query;
}

Result<void> stopOne(Context& context, const std::string& job, const std::string& body) {
  BOLE_ASSIGN(const auto answer, context.post(jobPath(job) + "/stop", body));
  if (context.json()) {
    context.printJson(answer);
    return {};
  }
  BOLE_ASSIGN(const auto view, decode<model::JobView>(answer));
  if (view.arrayIndex && job + "[" + std::to_string(*view.arrayIndex) + "]" == view.name) {
    context.print("all elements of " + neutralised(job) + " are being stopped\n");
    return {};
  }
  const bool over = model::isTerminal(view.state);
  context.print(neutralised(jobTitle(view)) +
                (over ? " is " + stateName(view.state) : std::string(" is being stopped")) + "\n");
  return {};
}

// Who asked for the job's end, from the newest requests of that kind; "" where they do not tell.
std::string stopper(Context& context, JobId job) {
  constexpr const char* kPath = "/v1/events?kind=job.stop_requested&limit=10000";
  const auto list = context.fetch<model::EventList>(kPath);
  if (!list) return {};
  for (auto event = list->events.rbegin(); event != list->events.rend(); ++event) {
    const auto body = codec::decodeEvent(event->kind, 1, event->body);
    const auto* stop = body ? std::get_if<model::StopRequested>(&*body) : nullptr;
    if (stop && stop->job == job) return event->actor == "bole" ? std::string() : event->actor;
  }
  return {};
}

}  // namespace

int runCommand(Context& context, const PsArgs& args) {
  const auto body = context.get(listPath(args));
  if (!body) return context.report(body.error());
  if (context.json()) return context.printJson(*body) ? kExitOk : kExitOutputClosed;
  const auto list = decode<model::JobList>(*body);
  if (!list) return context.report(list.error());
  if (list->jobs.empty()) {
    const bool filtered = !args.state.empty() || !args.user.empty() || !args.project.empty();
    context.printError(args.all || filtered
                           ? "no jobs\n"
                           : "no jobs now; 'bole ps -a' lists those that have ended\n");
    return kExitOk;
  }
  context.print(jobTable(*list).render(context.outStyle()));
  return kExitOk;
}

int runCommand(Context& context, const ShowArgs& args) {
  const auto body = context.get(jobPath(args.job));
  if (!body) return context.report(body.error());
  if (context.json()) return context.printJson(*body) ? kExitOk : kExitOutputClosed;
  const auto detail = decode<model::JobDetail>(*body);
  if (!detail) return context.report(detail.error());
  context.print(detailText(*detail, context.outStyle()));
  return kExitOk;
}

int runCommand(Context& context, const WhyArgs& args) {
  const auto body = context.get(jobPath(args.job) + "?expect=1");
  if (!body) return context.report(body.error());
  if (context.json()) return context.printJson(*body) ? kExitOk : kExitOutputClosed;
  const auto detail = decode<model::JobDetail>(*body);
  if (!detail) return context.report(detail.error());
  const auto by = detail->summary.state == model::JobState::kCancelled
                      ? stopper(context, detail->summary.id)
                      : std::string();
  context.print(whyText(*detail, context.environment().clock->wall(), context.outStyle(), by));
  return kExitOk;
}

int runCommand(Context& context, const StopArgs& args) {
  model::StopCommand command;
  if (!args.grace.empty()) {
    const auto grace = parseSpan(args.grace);
    if (!grace) return context.report(Error(grace.error()).at("--grace"));
    command.grace = *grace;
  }
  const auto body = codec::toJson(command);
  int code = kExitOk;
  for (const auto& job : args.jobs) {
    const auto stopped = stopOne(context, job, body);
    if (!stopped) code = context.report(stopped.error());
  }
  return code;
}

}  // namespace bole::cli
