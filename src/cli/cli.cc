#include "cli/cli.h"

#include <exception>

#include "cli/commands.h"
#include "cli/parser.h"
#include "cli/text.h"

namespace bole::cli {
namespace {

int execute(Environment& environment, std::vector<std::string> arguments) {
  auto parse = parseArguments(std::move(arguments));
  if (!parse.complete) {
    const auto& sink = parse.code == kExitOk ? environment.out : environment.err;
    return sink(parse.text) ? parse.code : kExitOutputClosed;
  }
  Context context(environment, std::move(parse.invocation.common));
  const int code = std::visit([&](const auto& args) { return runCommand(context, args); },
                              parse.invocation.command);
  return context.outputClosed() ? kExitOutputClosed : code;
}

}  // namespace

int exitCodeOf(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalid:
      return kExitUsage;
    case ErrorCode::kNotFound:
      return kExitNotFound;
    case ErrorCode::kConflict:
    case ErrorCode::kRefused:
      return kExitRefused;
    case ErrorCode::kPermission:
      return kExitPermission;
    case ErrorCode::kUnavailable:
    case ErrorCode::kUnsupported:
      return kExitUnavailable;
    case ErrorCode::kCorrupt:
    case ErrorCode::kInternal:
      break;
  }
  return kExitInternal;
}

std::string errorText(const Error& error) {
  auto first = error;
  first.hint.clear();
  auto text = "bole: " + neutralised(first.message()) + "\n";
  if (!error.hint.empty()) text += "  " + neutralised(error.hint) + "\n";
  return text;
}

int runCli(int argc, const char* const* argv, Environment environment) {
  BOLE_ASSERT(environment.out && environment.err && environment.clock && environment.rng);
  try {
    return execute(environment, std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc));
  } catch (const std::exception& fault) {
    environment.err("bole: a fault of its own: " + std::string(fault.what()) + "\n");
    return kExitInternal;
  }
}

}  // namespace bole::cli
