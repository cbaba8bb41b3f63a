// What the values of the attempt's files are called in them.
#include "engine/local/supervise/attempt_files.h"

namespace bole::supervise {

std::string_view name(RuntimeKind kind) {
  switch (kind) {
    case RuntimeKind::kPlain:
      return "plain";
    case RuntimeKind::kProcess:
      return "process";
    case RuntimeKind::kPodman:
      return "podman";
  }
  return "process";
}

std::string_view name(NetworkKind kind) {
  return kind == NetworkKind::kHost ? "host" : "gang";
}

std::string_view name(Containment containment) {
  switch (containment) {
    case Containment::kCgroup:
      return "cgroup";
    case Containment::kPidns:
      return "pidns";
    case Containment::kSubreaper:
      return "subreaper";
  }
  return "subreaper";
}

std::string_view name(EndOutcome outcome) {
  return outcome == EndOutcome::kExited ? "exited" : "launch-failed";
}

std::string_view name(EndCause cause) {
  switch (cause) {
    case EndCause::kCompleted:
      return "completed";
    case EndCause::kRankFailed:
      return "rank-failed";
    case EndCause::kRankLost:
      return "rank-lost";
    case EndCause::kAborted:
      return "aborted";
    case EndCause::kStopped:
      return "stopped";
    case EndCause::kTimeLimit:
      return "time-limit";
    case EndCause::kLaunchFailed:
      return "launch-failed";
  }
  return "launch-failed";
}

std::string_view name(RuleEvent event) {
  switch (event) {
    case RuleEvent::kExited:
      return "exited";
    case RuleEvent::kFailed:
      return "failed";
    case RuleEvent::kAny:
      return "any";
    case RuleEvent::kTaskCompleted:
      return "task-completed";
  }
  return "any";
}

}  // namespace bole::supervise
