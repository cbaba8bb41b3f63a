// Checks a whole home: the ledger's chain and signatures, then the state that it folds to.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "ports/ledger.h"

namespace bole::app {

struct FsckReport {
  ports::VerifyReport ledger;           // of what was examined
  std::optional<std::uint64_t> events;  // all that the ledger has; none: too damaged to tell
  std::uint64_t jobs = 0;               // in the state, as far as it was folded
  std::uint64_t live = 0;               // attempts that hold capacity
  std::optional<Error> fault;  // of the chain, the folding, a snapshot or an invariant: the first
};

// Works beside a running server. `full`: from the first record on, and the newest snapshot against
// what the events before it fold to; otherwise from the newest seal on. The invariants are looked
// at every 1,000 events and at the end: one that was broken and held again in between is not seen.
// An Error: it could not be examined.
[[nodiscard]] Result<FsckReport> fsck(const std::string& home, bool full, Rng& rng);

}  // namespace bole::app
