// The commands: each carries out what its arguments say, prints, and returns the exit code of
// cli.h.
#pragma once

#include "cli/context.h"
#include "cli/options.h"

namespace bole::cli {

[[nodiscard]] int runCommand(Context& context, const UpArgs& args);
[[nodiscard]] int runCommand(Context& context, const DownArgs& args);
[[nodiscard]] int runCommand(Context& context, const StatusArgs& args);
[[nodiscard]] int runCommand(Context& context, const VersionArgs& args);
[[nodiscard]] int runCommand(Context& context, const FsckArgs& args);
[[nodiscard]] int runCommand(Context& context, const BackupArgs& args);
[[nodiscard]] int runCommand(Context& context, const RestoreArgs& args);
[[nodiscard]] int runCommand(Context& context, const SubmitArgs& args);
[[nodiscard]] int runCommand(Context& context, const RunArgs& args);
[[nodiscard]] int runCommand(Context& context, const PsArgs& args);
[[nodiscard]] int runCommand(Context& context, const ShowArgs& args);
[[nodiscard]] int runCommand(Context& context, const WhyArgs& args);
[[nodiscard]] int runCommand(Context& context, const StopArgs& args);
[[nodiscard]] int runCommand(Context& context, const LogsArgs& args);
[[nodiscard]] int runCommand(Context& context, const AttachArgs& args);
[[nodiscard]] int runCommand(Context& context, const NodesArgs& args);
[[nodiscard]] int runCommand(Context& context, const NodeArgs& args);
[[nodiscard]] int runCommand(Context& context, const GpusArgs& args);
[[nodiscard]] int runCommand(Context& context, const TopoArgs& args);
[[nodiscard]] int runCommand(Context& context, const QueuesArgs& args);
[[nodiscard]] int runCommand(Context& context, const PolicyArgs& args);
[[nodiscard]] int runCommand(Context& context, const SnapshotArgs& args);
[[nodiscard]] int runCommand(Context& context, const PlanArgs& args);
[[nodiscard]] int runCommand(Context& context, const EventsArgs& args);
[[nodiscard]] int runCommand(Context& context, const SupportArgs& args);
[[nodiscard]] int runCommand(Context& context, const CompletionArgs& args);

}  // namespace bole::cli
