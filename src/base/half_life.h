// Means in which the past counts half after each half-life.
#pragma once

#include "base/units.h"

namespace bole {

// 1 - 2^-(passed / halfLife): the part of such a mean that so much time replaces. 0 to 1; nothing
// where no time has passed, all where the half-life is 0.
//
// Plain arithmetic in a fixed order, without a library's exponential: the same bits on every
// machine.
[[nodiscard]] double partReplaced(Duration passed, Duration halfLife);

}  // namespace bole
