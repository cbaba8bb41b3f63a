#include "engine/local/claims.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "engine/local/files.h"
#include "engine/local/supervise/processes.h"

namespace bole::engine {
namespace {

// No process has the number 0, and no machine an empty boot id.
constexpr std::string_view kAbandoned = "{\"pid\":0,\"startTicks\":0,\"bootId\":\"\"}\n";

// What a failure to look is not: a proof that the process is gone.
ClaimState stateOf(const supervise::Claim& claim) {
  if (claim.process.pid == 0 && claim.bootId.empty()) return ClaimState::kAbandoned;
  const auto boot = supervise::bootId();
  if (!boot) return ClaimState::kUnknown;
  if (*boot != claim.bootId || claim.process.pid <= 0) return ClaimState::kDead;
  if (const auto facts = supervise::processFacts(claim.process.pid)) {
    const bool same = facts->startTicks == claim.process.startTicks;
    return same && facts->state != 'Z' && facts->state != 'X' ? ClaimState::kAlive
                                                              : ClaimState::kDead;
  }
  const bool gone = ::kill(claim.process.pid, 0) != 0 && errno == ESRCH;
  return gone ? ClaimState::kDead : ClaimState::kUnknown;
}

// Also where its directory is not there, or is none.
bool isAbsent(const std::string& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) != 0 && (errno == ENOENT || errno == ENOTDIR);
}

}  // namespace

ClaimFound findClaim(const std::string& attemptDirectory) {
  const auto claim = supervise::readClaim(attemptDirectory);
  if (claim && *claim) return {stateOf(**claim), **claim};
  if (claim || isAbsent(attemptDirectory + "/claim")) return {};
  const bool torn = claim.error().code == ErrorCode::kCorrupt;
  return {torn ? ClaimState::kTorn : ClaimState::kUnknown, {}};
}

Result<bool> abandonClaim(const std::string& attemptDirectory) {
  const auto temporary = attemptDirectory + "/claim.engine";
  const auto claim = attemptDirectory + "/claim";
  BOLE_TRY(writeFile(temporary, kAbandoned, 0600));
  const bool taken = ::link(temporary.c_str(), claim.c_str()) == 0;
  const int error = taken ? 0 : errno;
  ::unlink(temporary.c_str());
  if (taken) return true;
  if (error == EEXIST) return false;
  return fail(systemError(error, "cannot take the attempt's claim", claim));
}

}  // namespace bole::engine
