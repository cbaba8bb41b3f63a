// What a queue has used, brought up to a time.
#pragma once

#include <algorithm>

#include "base/half_life.h"
#include "model/tables.h"

namespace bole::model {

// The means as they are at `time`; a time before use.at changes nothing.
[[nodiscard]] inline QueueUse useAt(const QueueUse& use, Timestamp time, Duration halfLife) {
  auto out = use;
  const auto part = partReplaced(time - use.at, halfLife);
  out.gpus += (static_cast<double>(use.gpusHeld.value) - use.gpus) * part;
  out.cpus += (static_cast<double>(use.cpusHeld.value) - use.cpus) * part;
  out.memory += (static_cast<double>(use.memoryHeld.value) - use.memory) * part;
  out.at = std::max(use.at, time);
  return out;
}

}  // namespace bole::model
