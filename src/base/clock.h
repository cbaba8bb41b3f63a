// The interfaces through which time and chance reach deciding code. Their real forms live in app;
// tests and the simulator bring their own. Nothing else in Bole reads a clock or a random source
// (tools/tidy holds it to that).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/units.h"

namespace bole {

class Clock {
 public:
  virtual ~Clock() = default;
  [[nodiscard]] virtual Timestamp wall() = 0;  // may jump in either direction
  [[nodiscard]] virtual Duration
  monotonic() = 0;  // never goes back; stands still while the machine is suspended
  [[nodiscard]] virtual Duration boottime() = 0;  // never goes back; counts suspends too
};

class Rng {
 public:
  virtual ~Rng() = default;
  virtual void fill(void* bytes,
                    std::size_t size) = 0;  // cryptographically strong in the real form
};

}  // namespace bole
