// From an order to a supervisor that runs it.
#include <algorithm>
#include <filesystem>

#include "engine/local/engine_core.h"
#include "engine/local/outcome.h"

namespace bole::engine {
namespace {

using model::AttemptOutcome;
using model::Runtime;

constexpr std::size_t kMostLastWords = 400;

// `path` below `base`, or nothing.
std::optional<std::string> relativeTo(const std::string& path, const std::string& base) {
  if (path == base) return "";
  if (path.compare(0, base.size() + 1, base + "/") != 0) return std::nullopt;
  return path.substr(base.size() + 1);
}

}  // namespace

// Makes the job's directory if it is not there yet: at once where that is quick, else by the
// worker.
void LocalEngine::Core::prepare(Attempt& attempt) {
  auto& order = *attempt.order;
  if (order.shape->runtime == Runtime::kPlain && !options.plain) {
    return abandon(attempt, AttemptOutcome::kLaunchFailed,
                   "this server runs no jobs without a sandbox");
  }
  if (order.shape->runtime == Runtime::kProcess && options.plain) {
    auto shape = *order.shape;
    shape.runtime = Runtime::kPlain;
    order.shape = std::make_shared<const model::JobShape>(std::move(shape));
  }
  if (order.shape->runtime == Runtime::kPlain && !order.text->workingDir.empty()) {
    return launch(attempt);  // it starts where it was submitted
  }
  const auto request = workRequest(order);
  if (request.archive.empty() || hasWorkDirectory(request.directory)) {
    const auto made = makeWorkDirectory(request, worker_->stopping());
    if (made) return launch(attempt);
    return abandon(attempt, AttemptOutcome::kLaunchFailed, made.error().message());
  }
  attempt.preparing = true;
  worker_->post([this, request, id = attempt.id, &stopping = worker_->stopping()] {
    auto made = makeWorkDirectory(request, stopping);
    post([this, id, made = std::move(made)] {
      auto* waiting = find(id);
      if (!waiting || waiting->finished) return;
      waiting->preparing = false;
      if (!made) {
        return abandon(*waiting, AttemptOutcome::kLaunchFailed, made.error().message());
      }
      examine(*waiting);  // which prepares again, and finds the directory
    });
  });
}

void LocalEngine::Core::launch(Attempt& attempt) {
  auto done = writeLaunchFiles(attempt);
  if (done) done = spawnSupervisor(attempt);
  if (!done) abandon(attempt, AttemptOutcome::kLaunchFailed, done.error().message());
}

Result<void> LocalEngine::Core::writeLaunchFiles(Attempt& attempt) {
  const auto& order = *attempt.order;
  BOLE_TRY(makeDirectories(attempt.directory, 0700));
  watchDirectory(attempt);
  BOLE_ASSIGN(const auto place, placeOf(attempt));
  BOLE_ASSIGN(const auto built, buildLaunch(order, host_, place));
  if (built.launch.runtime != supervise::RuntimeKind::kPlain) {
    std::set<std::string> checked;
    for (const auto& rank : built.launch.ranks) {
      if (!checked.insert(rank.cwd).second) continue;
      BOLE_TRY(checkStartDirectory(place.workDirectory,
                                   relativeTo(rank.cwd, place.workDirectory).value_or(""),
                                   ownerOf(order)));
    }
  }
  attempt.notes = built.notes;
  for (const auto& file : built.files) {
    BOLE_TRY(makeDirectories(std::filesystem::path(file.path).parent_path().string(), 0755));
    BOLE_TRY(writeFile(file.path, file.content, 0644));
  }
  return supervise::writeLaunch(attempt.directory, built.launch);
}

Result<LaunchPlace> LocalEngine::Core::placeOf(Attempt& attempt) {
  LaunchPlace place;
  place.attemptDirectory = attempt.directory;
  place.workDirectory = layout.work(attempt.order->job);
  std::set<std::uint16_t> taken;
  for (const auto& [id, other] : attempts_) taken.insert(other.ports.begin(), other.ports.end());
  const auto choose = [&]() -> Result<std::uint16_t> {
    BOLE_ASSIGN(const auto port, freePorts_.choose(taken));
    taken.insert(port);
    attempt.ports.insert(port);
    return port;
  };
  if (sharesHostNetwork(*attempt.order->shape)) {
    BOLE_ASSIGN(place.masterPort, choose());
  }
  for (auto left = portsToChoose(*attempt.order); left > 0; --left) {
    BOLE_ASSIGN(const auto port, choose());
    place.ports.push_back(port);
  }
  return place;
}

Result<void> LocalEngine::Core::spawnSupervisor(Attempt& attempt) {
  SpawnRequest request;
  request.argv = {supervisorProgram(), attempt.directory};
  request.environment = options.environment;
  request.errorFile = attempt.directory + "/supervise.log";
  attempt.spawned = true;
  BOLE_ASSIGN(auto child, spawnDetached(request));
  const int fd = child.get();
  if (!watchProcess(child, tagOf(Source::kChild, static_cast<std::uint64_t>(fd)))) {
    return fail(ErrorCode::kUnavailable, "the supervisor cannot be watched");
  }
  children_.emplace(fd, Child{attempt.id, std::move(child)});
  return {};
}

std::optional<Owner> LocalEngine::Core::ownerOf(const ports::AttemptOrder& order) const {
  const bool own = order.shape->runtime == Runtime::kPlain || !host_.mayChangeUid;
  if (own) return std::nullopt;
  const auto uid = uidOf(order, host_);
  return Owner{uid, uid};
}

WorkRequest LocalEngine::Core::workRequest(const ports::AttemptOrder& order) const {
  WorkRequest request;
  request.directory = layout.work(order.job);
  request.owner = ownerOf(order);
  request.limits = options.uploadLimits;
  if (!order.text->upload.empty()) request.archive = layout.upload(order.text->upload);
  if (order.shape->runtime == Runtime::kPlain) return request;
  const auto checkpoints =
      engine::checkpointDirectory(*order.shape, *order.text, request.directory);
  request.checkpoints = relativeTo(checkpoints, request.directory).value_or("");
  return request;
}

// Ends an attempt of which nothing was started, and sees to it that nothing of it ever will be.
void LocalEngine::Core::abandon(Attempt& attempt, AttemptOutcome outcome, std::string note) {
  if (exists(attempt.directory)) {
    const auto taken = abandonClaim(attempt.directory);
    if (taken && !*taken) return examine(attempt);  // a supervisor was quicker
    // Without the claim, a supervisor on its way could still start: wait for room on the disk.
    if (!taken && exists(attempt.directory + "/launch.json")) {
      return retryLater(attempt, milliseconds(100), seconds(5));
    }
  }
  supervise::End end;
  const bool stopped = outcome == AttemptOutcome::kStopped;
  const auto reason = stopped ? stopWanted(attempt).value_or(model::StopReason::kCancelled)
                              : model::StopReason::kNone;
  end.outcome = stopped ? supervise::EndOutcome::kExited : supervise::EndOutcome::kLaunchFailed;
  end.cause = stopped ? supervise::EndCause::kStopped : supervise::EndCause::kLaunchFailed;
  end.stopReason = stopped ? std::string(stopReasonName(reason)) : "";
  end.at = clock_.wall();
  end.note = note;
  end.ranks.resize(rankCount(attempt));
  for (std::uint32_t rank = 0; rank < end.ranks.size(); ++rank) end.ranks[rank].rank = rank;
  // For the next life of the server; this one tells it in any case.
  static_cast<void>(supervise::writeEnd(attempt.directory, end));
  finish(attempt, notStarted(attempt.id, outcome, reason, end.ranks.size(), std::move(note)));
}

// The end of what the supervisor wrote to its standard error: nothing, as a rule.
std::string LocalEngine::Core::lastWords(const Attempt& attempt) const {
  auto text = readFile(attempt.directory + "/supervise.log", 64 * 1024).value_or("");
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  if (text.size() > kMostLastWords) text.erase(0, text.size() - kMostLastWords);
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

}  // namespace bole::engine
