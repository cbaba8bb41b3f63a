#include "scheduler/value/free_state.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace bole::scheduler {

std::uint32_t FreeState::gpuMilli() const {
  return std::accumulate(gpus.begin(), gpus.end(), 0U);
}

void FreeState::arrange() {
  std::sort(gpus.begin(), gpus.end(), std::greater<>());
}

bool fits(const FreeState& state, const Request& request) {
  if (state.cpus < request.cpus || state.memory < request.memory) return false;
  if (request.gpus == 0) return true;
  return (request.models >> state.model & 1U) != 0 &&
         state.gpus[request.gpus - 1U] >= request.perGpu;
}

FreeState after(const FreeState& state, const Request& request, std::size_t last) {
  auto next = state;
  next.cpus -= request.cpus;
  next.memory -= request.memory;
  if (request.gpus == 0) return next;
  for (std::size_t i = last + 1 - request.gpus; i <= last; ++i)
    next.gpus[i] = static_cast<std::uint16_t>(next.gpus[i] - request.perGpu);
  next.arrange();
  return next;
}

std::size_t tightest(const FreeState& state, const Request& request) {
  std::size_t last = request.gpus - 1U;
  while (last + 1 < state.gpus.size() && state.gpus[last + 1] >= request.perGpu) ++last;
  return last;
}

}  // namespace bole::scheduler
