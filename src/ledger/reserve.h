// Disk space kept back, in the file HOME/reserve, so that stops and exits can be recorded when the
// disk is full.
//
// It is given up by an urgent append only. While it is gone, ordinary appends are refused, or they
// would eat what was freed for the urgent ones; it is made again as soon as there is room for it
// and some more.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "base/units.h"

namespace bole::ledger {

class Reserve {
 public:
  // A size of 0 means no reserve: it then always counts as held.
  Reserve(const std::string& directory, Bytes size);

  [[nodiscard]] bool held() const { return held_; }
  // Whether giving up would free anything.
  [[nodiscard]] bool canGiveUp() const { return held_ && size_ > 0; }

  // Frees the space. The file is gone afterwards.
  [[nodiscard]] Result<void> giveUp();
  // Makes the reserve if it is not there. kUnavailable if the disk has not room for it and a
  // quarter more.
  [[nodiscard]] Result<void> restore();

 private:
  [[nodiscard]] Result<void> allocate();
  [[nodiscard]] Error noRoom() const;

  std::string directory_;
  std::string path_;
  std::uint64_t size_;
  bool held_;
};

}  // namespace bole::ledger
