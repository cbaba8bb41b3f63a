#include "support/scripted_engine.h"

#include <fmt/format.h>

namespace bole::test {
namespace {

using GpuOfNode = std::pair<std::string, std::uint32_t>;

// What of each GPU an attempt holds, in thousandths.
std::map<GpuOfNode, std::int64_t> holds(const ports::AttemptOrder& order) {
  std::map<GpuOfNode, std::int64_t> out;
  for (std::size_t r = 0; r < order.ranks.size(); ++r) {
    const auto& rank = order.ranks[r];
    for (std::size_t i = 0; i < rank.gpus.size(); ++i)
      out[{order.nodes[r]->name, rank.gpus[i]}] += rank.grant(i).share.value;
  }
  return out;
}

}  // namespace

void ScriptedEngine::start(ports::AttemptOrder order) {
  if (deaf_) return;
  const auto id = order.attempt;
  ++starts_[id];
  if (forgotten_.contains(id)) {
    faults_.push_back(fmt::format("attempt {} started after it was forgotten", id.value));
    return;
  }
  if (attempts_.contains(id)) return;  // the claim: started once
  auto given = holds(order);
  for (const auto& [other, attempt] : attempts_) {
    if (!attempt.alive) continue;
    for (const auto& [gpu, share] : holds(attempt.order)) {
      const auto mine = given.find(gpu);
      if (mine == given.end()) continue;
      mine->second += share;
      if (mine->second <= kWholeGpu.value) continue;
      faults_.push_back(fmt::format("GPU {} of {} given to attempts {} and {}", gpu.second,
                                    gpu.first, other.value, id.value));
    }
  }
  attempts_[id].order = std::move(order);
}

void ScriptedEngine::adopt(ports::AttemptOrder order) {
  if (deaf_) return;
  const auto found = attempts_.find(order.attempt);
  if (found == attempts_.end()) {
    start(std::move(order));
  } else if (!found->second.alive) {
    report(found->second.end);
  } else if (found->second.running) {
    report(ports::AttemptRunning{order.attempt});
  }
}

void ScriptedEngine::stop(AttemptId id, model::StopReason reason, Duration) {
  if (deaf_) return;
  const auto found = attempts_.find(id);
  if (found == attempts_.end()) {
    faults_.push_back(fmt::format("attempt {} stopped and never started", id.value));
    return;
  }
  if (!found->second.alive) {
    report(found->second.end);
    return;
  }
  if (!found->second.stopAsked) found->second.stopReason = reason;
  found->second.stopAsked = true;
}

void ScriptedEngine::forget(AttemptId id) {
  if (deaf_) return;
  const auto found = attempts_.find(id);
  if (found == attempts_.end()) return;
  if (found->second.alive) faults_.push_back(fmt::format("attempt {} forgotten alive", id.value));
  attempts_.erase(found);
  forgotten_.insert(id);
}

void ScriptedEngine::run(AttemptId id) {
  attempts_.at(id).running = true;
  report(ports::AttemptRunning{id});
}

void ScriptedEngine::finish(AttemptId id, ports::AttemptFinished end) {
  auto& attempt = attempts_.at(id);
  end.attempt = id;
  attempt.alive = false;
  attempt.end = end;
  report(std::move(end));
}

std::vector<AttemptId> ScriptedEngine::alive() const {
  std::vector<AttemptId> ids;
  for (const auto& [id, attempt] : attempts_) {
    if (attempt.alive) ids.push_back(id);
  }
  return ids;
}

}  // namespace bole::test
