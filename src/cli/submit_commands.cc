// submit, run.
#include <fmt/format.h>

#include <algorithm>

#include "cli/commands.h"
#include "cli/follow.h"
#include "cli/job_text.h"
#include "cli/run_spec.h"
#include "cli/submission.h"
#include "cli/text.h"

namespace bole::cli {
namespace {

std::string titleOf(const model::Submitted& job) {
  if (job.count > 1) {
    return neutralised(
        fmt::format("jobs {} to {} ({})", job.id.value, job.id.value + job.count - 1, job.name));
  }
  return neutralised(fmt::format("job {} ({})", job.id.value, job.name));
}

Result<void> checkHere(Context& context) {
  if (!context.environment().workingDirectory.empty()) return {};
  return fail(makeError(ErrorCode::kInvalid, "the current directory is gone")
                  .withHint("go to one that is there, and try again"));
}

Result<SpecFile> specOf(Context& context, const SubmitArgs& args) {
  BOLE_TRY(checkHere(context));
  if (args.source != "-") {
    const auto shown = args.source.empty() ? std::string(".") : args.source;
    return readSpecFile(context.absolute(shown), shown);
  }
  SpecFile spec;
  spec.name = "stdin";
  spec.directory = context.environment().workingDirectory;
  spec.fromInput = true;
  if (!context.environment().readInput)
    return fail(ErrorCode::kUnsupported, "there is no standard input");
  BOLE_ASSIGN(spec.text, context.environment().readInput());
  if (spec.text.size() <= kMaxSpecBytes) return spec;
  return fail(makeError(ErrorCode::kInvalid, "the spec is too large")
                  .at("stdin")
                  .expectedValue("at most " + formatBytes(Bytes(kMaxSpecBytes))));
}

// "digits would start at once, on box-1 (GPU 0-3)".
std::string takenText(Context& context, const model::Submitted& job) {
  auto text = neutralised(job.name);
  if (job.count > 1) text += fmt::format(" ({} jobs)", job.count);
  if (!job.expected) return text + " would be taken; when it would start is not known";
  return text + (job.count > 1 ? ": the first would start " : " would start ") +
         expectedText(*job.expected, context.environment().clock->wall());
}

int sayTaken(Context& context, const SubmitOutcome& outcome, bool dryRun) {
  if (context.json()) {
    context.printJson(outcome.body);
    return kExitOk;
  }
  for (const auto& job : outcome.answer.jobs) {
    context.print(dryRun ? takenText(context, job) + "\n" : titleOf(job) + " submitted\n");
  }
  return kExitOk;
}

// The code of the first that did not end well.
int followAll(Context& context, const SubmitOutcome& outcome, bool raw) {
  int code = kExitOk;
  for (const auto& job : outcome.answer.jobs) {
    if (!context.json()) context.tell(titleOf(job) + " submitted");
    FollowRequest request;
    request.job = std::to_string(job.id.value);
    request.raw = raw;
    const int one = follow(context, request);
    if (code == kExitOk) code = one;
    if (one == kExitInterrupted || context.outputClosed()) break;
  }
  return code;
}

// Many jobs at a time cannot be watched: whoever wants to see one attaches to it.
bool hasArray(const SubmitOutcome& outcome) {
  const auto& jobs = outcome.answer.jobs;
  return std::any_of(jobs.begin(), jobs.end(), [](const auto& job) { return job.count > 1; });
}

void warnOfNodes(Context& context, const RunArgs& args) {
  if (!args.nodes || (*args.nodes == 1 && args.ranks.value_or(1) == 1)) return;
  context.tell(fmt::format(
      "warning: --nodes {}: ranks go where they fit; how many machines they use is not held to yet",
      *args.nodes));
}

}  // namespace

int runCommand(Context& context, const SubmitArgs& args) {
  const auto spec = specOf(context, args);
  if (!spec) return context.report(spec.error());
  SubmitRules rules;
  rules.project = args.project;
  rules.dryRun = args.dryRun;
  rules.upload = !args.noUpload;
  const auto outcome = submitSpec(context, *spec, rules);
  if (!outcome) return context.report(outcome.error());
  if (args.dryRun || !args.follow || hasArray(*outcome))
    return sayTaken(context, *outcome, args.dryRun);
  return followAll(context, *outcome, args.raw);
}

int runCommand(Context& context, const RunArgs& args) {
  if (const auto here = checkHere(context); !here) return context.report(here.error());
  warnOfNodes(context, args);
  SpecFile spec;
  spec.directory = context.environment().workingDirectory;
  const auto made = makeRunSpec(args, spec.directory);
  spec.text = made.text;
  spec.name = kRunSpecName;
  SubmitRules rules;
  rules.project = args.project;
  rules.dryRun = args.dryRun;
  rules.upload = !args.noUpload;
  rules.wordWarning = [&made](const std::string& text) { return warningOfFlag(made, text); };
  const auto outcome = submitSpec(context, spec, rules);
  if (!outcome) return context.report(errorOfFlag(made, outcome.error()));
  if (args.dryRun || args.detach || hasArray(*outcome))
    return sayTaken(context, *outcome, args.dryRun);
  return followAll(context, *outcome, args.raw);
}

}  // namespace bole::cli
