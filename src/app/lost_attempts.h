// What a backup says runs is not run again where it is restored: a server that found a live attempt
// and none of its files would take it for one that was never started. They are marked as such whose
// supervisor is gone, and the server tells them as lost.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/units.h"

namespace bole::app {

// The attempts that hold capacity by a backup of a ledger. Needs to write in `home`, and leaves
// nothing there.
[[nodiscard]] Result<std::vector<AttemptId>> liveAttemptsOf(const std::string& backup,
                                                            const std::string& home, Rng& rng);

// Files in HOME/attempts, durable; gone again at the end of the scope unless kept.
class LostAttempts {
 public:
  explicit LostAttempts(const std::string& home) : directory_(home + "/attempts") {}
  ~LostAttempts();
  LostAttempts(const LostAttempts&) = delete;
  LostAttempts& operator=(const LostAttempts&) = delete;

  [[nodiscard]] Result<void> mark(const std::vector<AttemptId>& attempts);
  void keep() { made_.clear(); }

 private:
  std::string directory_;
  std::vector<std::string> made_;  // in this order
};

}  // namespace bole::app
