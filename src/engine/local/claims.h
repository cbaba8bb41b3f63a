// The claim of an attempt from the engine's side: whether someone has it, and taking it so that
// nobody starts the attempt any more.
#pragma once

#include <string>

#include "engine/local/supervise/attempt_files.h"

namespace bole::engine {

enum class ClaimState {
  kNone,       // nobody yet: a supervisor may still come
  kAlive,      // a supervisor keeps the attempt
  kDead,       // one did, and is gone: there is proof of it
  kTorn,       // there is one that says nothing: half written, for now or for ever
  kUnknown,    // it cannot be found out now, for example for want of file descriptors
  kAbandoned,  // the engine took it: nothing was ever started
};

struct ClaimFound {
  ClaimState state = ClaimState::kNone;
  supervise::Claim claim;
};

[[nodiscard]] ClaimFound findClaim(const std::string& attemptDirectory);

// Takes the claim so that no supervisor can. False: someone was quicker.
[[nodiscard]] Result<bool> abandonClaim(const std::string& attemptDirectory);

}  // namespace bole::engine
