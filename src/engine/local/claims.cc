#include "engine/local/claims.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "engine/local/files.h"

namespace bole::engine {
namespace {

// No process has the number 0, and no machine an empty boot id.
constexpr std::string_view kAbandoned = "{\"pid\":0,\"startTicks\":0,\"bootId\":\"\"}\n";

}  // namespace

ClaimFound findClaim(const std::string& attemptDirectory) {
  const auto claim = supervise::readClaim(attemptDirectory);
  if (!claim) return {ClaimState::kTorn, {}};
  if (!*claim) return {};
  if ((*claim)->process.pid == 0 && (*claim)->bootId.empty()) {
    return {ClaimState::kAbandoned, **claim};
  }
  const bool alive = supervise::claimIsAlive(**claim);
  return {alive ? ClaimState::kAlive : ClaimState::kDead, **claim};
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
