// Checks a whole home: the ledger's chain and signatures, then the state that it folds to.
#pragma once

#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "ports/ledger.h"

namespace bole::app {

struct FsckReport {
  ports::VerifyReport ledger;
  std::uint64_t jobs = 0;      // in the state
  std::uint64_t live = 0;      // attempts that hold capacity
  std::optional<Error> fault;  // of the chain, the folding or an invariant: the first
};

// Works beside a running server. `full`: from the first record on, and every snapshot against the
// folding. An Error: it could not be examined.
[[nodiscard]] Result<FsckReport> fsck(const std::string& home, bool full, Rng& rng);

}  // namespace bole::app
