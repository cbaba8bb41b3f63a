// snapshot, plan: what the scheduler decides, and would decide.
#include <fmt/format.h>

#include <algorithm>

#include "cli/commands.h"
#include "cli/files.h"
#include "cli/spec_file.h"
#include "cli/text.h"
#include "cli/wording.h"
#include "codec/writer.h"

namespace bole::cli {
namespace {

constexpr std::size_t kMostSnapshot = std::size_t{1} << 30;

std::string quoted(const std::string& text) {
  std::string out;
  codec::appendJsonString(out, text);
  return out;
}

std::string jsonOf(const PlanOutcome& outcome) {
  std::string rows;
  for (const auto& row : outcome.rows) {
    rows +=
        fmt::format(R"({}{{"job":{},"added":{},"decision":{},"where":{},"why":{},"before":{}}})",
                    rows.empty() ? "" : ",", row.job.value, quoted(row.added), quoted(row.decision),
                    quoted(row.where), quoted(row.why), quoted(row.before));
  }
  return fmt::format(R"({{"at":{},"jobs":[{}]}})", outcome.at.micros, rows);
}

// All of it where nothing is asked to be different; else what is.
std::vector<const PlanRow*> shown(const PlanOutcome& outcome, bool all) {
  std::vector<const PlanRow*> rows;
  for (const auto& row : outcome.rows)
    if (all || !row.added.empty() || !row.before.empty()) rows.push_back(&row);
  return rows;
}

Table tableOf(const std::vector<const PlanRow*>& rows, bool compares) {
  std::vector<Column> columns = {{"JOB", Align::kRight},
                                 {"DECISION", Align::kLeft},
                                 {"WHERE", Align::kLeft, 10},
                                 {"WHY", Align::kLeft, 16}};
  if (compares) columns.insert(columns.begin() + 3, {"OTHERWISE", Align::kLeft, 10});
  Table table(std::move(columns));
  for (const auto* row : rows) {
    const auto name = row->added.empty() ? std::string() : " (" + row->added + ")";
    std::vector<Cell> cells = {std::to_string(row->job.value) + name, row->decision,
                               row->where.empty() ? "-" : row->where,
                               row->why.empty() ? "-" : row->why};
    if (compares) cells.insert(cells.begin() + 3, row->before.empty() ? "-" : row->before);
    table.add(std::move(cells));
  }
  return table;
}

Result<PlanInput> inputOf(Context& context, const PlanArgs& args) {
  PlanInput input;
  input.directory = context.environment().workingDirectory;
  input.user = context.variable("USER");
  input.snapshotName = args.snapshot;
  if (args.snapshot == "-") {
    if (!context.environment().readInput)
      return fail(ErrorCode::kUnsupported, "there is no standard input");
    BOLE_ASSIGN(input.snapshot, context.environment().readInput());
  } else {
    BOLE_ASSIGN(input.snapshot, readFile(context.absolute(args.snapshot), kMostSnapshot));
  }
  if (!args.with.empty()) {
    input.specName = args.with;
    BOLE_ASSIGN(input.spec, readFile(context.absolute(args.with), kMaxSpecBytes));
  }
  if (!args.policy.empty()) {
    input.policyName = args.policy;
    BOLE_ASSIGN(input.policy, readFile(context.absolute(args.policy), kMaxSpecBytes));
  }
  return input;
}

}  // namespace

int runCommand(Context& context, const SnapshotArgs&) {
  const auto body = context.get("/v1/snapshot");
  if (!body) return context.report(body.error());
  return context.print(*body + "\n") ? kExitOk : kExitOutputClosed;
}

int runCommand(Context& context, const PlanArgs& args) {
  const auto& plan = context.environment().local.plan;
  if (!plan)
    return context.report(makeError(ErrorCode::kUnsupported, "this build cannot make plans"));
  const auto input = inputOf(context, args);
  if (!input) return context.report(input.error());
  const auto outcome = plan(*input);
  if (!outcome) return context.report(outcome.error());
  if (context.json()) return context.printJson(jsonOf(*outcome)) ? kExitOk : kExitOutputClosed;
  const bool compares = !args.with.empty() || !args.policy.empty();
  const auto rows = shown(*outcome, args.all || !compares);
  context.tell("decided as of " + timeText(outcome->at));
  if (rows.empty()) {
    context.print(compares ? "nothing would be decided otherwise\n"
                           : "there is nothing to decide\n");
    return kExitOk;
  }
  context.print(tableOf(rows, compares).render(context.outStyle()));
  return kExitOk;
}

}  // namespace bole::cli
