// The machine's clock and entropy: the only real ones in the program.
#pragma once

#include "base/clock.h"

namespace bole::app {

class RealClock final : public Clock {
 public:
  Timestamp wall() override;
  Duration monotonic() override;
  Duration boottime() override;
};

class RealRng final : public Rng {
 public:
  void fill(void* bytes, std::size_t size) override;  // from the kernel; aborts where it has none
};

}  // namespace bole::app
