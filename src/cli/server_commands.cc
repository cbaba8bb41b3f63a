// up, down, status, version, fsck, backup, restore.
#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/text.h"
#include "cli/wording.h"
#include "codec/writer.h"

namespace bole::cli {
namespace {

int lacking(Context& context, const char* command) {
  return context.report(
      makeError(ErrorCode::kUnsupported, fmt::format("this build of bole has no '{}'", command))
          .withHint("it is a client only; use the bole of the machine that runs the server"));
}

Result<std::string> namedPath(const Context& context, const std::string& path, const char* what) {
  if (!path.empty()) return context.absolute(path);
  return fail(makeError(ErrorCode::kInvalid, fmt::format("{} must not be empty", what)));
}

std::string jobsText(const model::StatusView& status) {
  return fmt::format("{} running, {} queued", status.running, status.queued);
}

std::string gpusText(const model::StatusView& status) {
  if (status.gpus == 0) return "none";
  return fmt::format("{} of {} in use{}", status.gpusUsed, status.gpus,
                     status.emulated ? " (emulated)" : "");
}

void addHealth(Facts& facts, const model::StatusView& status) {
  if (!status.writable) {
    facts.add("State", "refuses new commands; running jobs go on and can be stopped", Tint::kRed);
  } else {
    facts.add("State", "in order", Tint::kGreen);
  }
  if (!status.problem.empty()) facts.add("Problem", status.problem, Tint::kRed);
}

}  // namespace

int runCommand(Context& context, const UpArgs& args) {
  const auto& up = context.environment().local.up;
  if (!up) return lacking(context, "up");
  UpOptions options;
  options.home = context.home();
  options.port = args.port;
  options.emulate = args.emulate;
  options.plain = args.plain;
  options.foreground = args.foreground;
  if (!args.tokenFile.empty()) options.tokenFile = context.absolute(args.tokenFile);
  options.json = context.json();
  return up(options);
}

int runCommand(Context& context, const DownArgs& args) {
  const auto patience = args.wait == kWaitForEver ? Duration{-1} : parseSpan(args.wait);
  if (!patience) return context.report(Error(patience.error()).at("--wait"));
  const auto status = context.fetch<model::StatusView>("/v1/status");
  if (!status) return context.report(status.error());
  const auto asked =
      context.post(args.stopJobs ? "/v1/shutdown?stop_jobs=1" : "/v1/shutdown?stop_jobs=0", "");
  if (!asked) return context.report(asked.error());
  const auto& wait = context.environment().local.waitDown;
  const auto again = "bole down --wait" + context.sameServer();
  if (wait && patience->value != 0) {
    if (const int code = wait({status->home, status->pid, *patience, again}); code != kExitOk)
      return code;
  }
  if (context.json())
    context.printJson(asked->empty() ? "{}" : *asked);
  else if (args.stopJobs)
    context.print("the server is down, and so are its jobs\n");
  else if (status->running == 0)
    context.print("the server is down\n");
  else {
    const bool one = status->running == 1;
    context.print(fmt::format("the server is down; {} on: '{}' finds {} again\n",
                              counted(status->running, "job goes", "jobs go"),
                              context.startCommand(), one ? "it" : "them"));
  }
  return kExitOk;
}

int runCommand(Context& context, const StatusArgs&) {
  const auto body = context.get("/v1/status");
  if (!body) return context.report(body.error());
  if (context.json()) return context.printJson(*body) ? kExitOk : kExitOutputClosed;
  const auto status = decode<model::StatusView>(*body);
  if (!status) return context.report(status.error());
  Facts facts;
  addHealth(facts, *status);
  facts.add("Jobs", jobsText(*status));
  facts.add("GPUs", gpusText(*status));
  facts.add("Sandbox", status->sandbox);
  facts.add("Server", fmt::format("bole {}, process {}, since {}", status->version, status->pid,
                                  timeText(status->startedAt)));
  facts.add("Home", status->home);
  facts.add("Ledger", counted(status->events, "event", "events"));
  for (const auto& note : status->notes) facts.add("Note", note, Tint::kYellow);
  context.print(facts.render(context.outStyle()));
  return kExitOk;
}

int runCommand(Context& context, const VersionArgs&) {
  const auto& own = context.environment().version;
  const auto status = context.fetch<model::StatusView>("/v1/status");
  if (context.json()) {
    std::string text = "{\"version\":";
    codec::appendJsonString(text, own);
    text += ",\"server\":";
    if (status)
      codec::appendJsonString(text, status->version);
    else
      text += "null";
    context.printJson(text + "}");
    return kExitOk;
  }
  context.print(fmt::format("bole {}\n", own));
  if (status)
    context.print(
        fmt::format("server {} in {}\n", neutralised(status->version), neutralised(status->home)));
  else
    context.print("server: none answers\n");
  return kExitOk;
}

int runCommand(Context& context, const FsckArgs& args) {
  const auto& fsck = context.environment().local.fsck;
  if (!fsck) return lacking(context, "fsck");
  return fsck({context.home(), args.full, context.json()});
}

int runCommand(Context& context, const BackupArgs& args) {
  const auto& backup = context.environment().local.backup;
  if (!backup) return lacking(context, "backup");
  const auto destination = namedPath(context, args.destination, "DESTINATION");
  if (!destination) return context.report(destination.error());
  return backup({context.home(), *destination, args.withKey, context.json()});
}

int runCommand(Context& context, const RestoreArgs& args) {
  const auto& restore = context.environment().local.restore;
  if (!restore) return lacking(context, "restore");
  const auto source = namedPath(context, args.source, "SOURCE");
  if (!source) return context.report(source.error());
  return restore({context.home(), *source, context.startCommand(), context.json()});
}

}  // namespace bole::cli
