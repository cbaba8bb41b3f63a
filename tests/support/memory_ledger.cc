#include "support/memory_ledger.h"

namespace bole::test {
namespace {
Error full() {
  return makeError(ErrorCode::kUnavailable, "no space left on the device").at("ledger.db");
}
}  // namespace

Result<void> MemoryLedger::append(std::span<const ports::NewEvent> events) {
  if (disk_ != Disk::kFine) return fail(full());
  return store(events);
}

Result<void> MemoryLedger::appendUrgent(std::span<const ports::NewEvent> events) {
  if (disk_ == Disk::kDead) return fail(full());
  return store(events);
}

Result<void> MemoryLedger::store(std::span<const ports::NewEvent> events) {
  auto sequence = events_.size();
  auto time = events_.empty() ? Timestamp() : events_.back().envelope.time;
  for (const auto& event : events) {
    if (event.envelope.sequence != ++sequence)
      return fail(ErrorCode::kInternal, "not the next sequence");
    if (event.envelope.time < time) return fail(ErrorCode::kInternal, "time went back");
    for (const auto& value : event.side) {
      if (side_.contains(value.id)) return fail(ErrorCode::kInternal, "a side id given twice");
    }
    time = event.envelope.time;
  }
  for (const auto& event : events) {
    events_.push_back({event.envelope, event.body, {}});
    for (const auto& value : event.side) side_[value.id] = value.value;
  }
  return {};
}

Result<void> MemoryLedger::read(
    std::uint64_t from, const std::function<Result<void>(const ports::StoredEvent&)>& visit) {
  for (auto i = from - 1; i < events_.size(); ++i) BOLE_TRY(visit(events_[i]));
  return {};
}

Result<std::string> MemoryLedger::side(SideId id) {
  const auto found = side_.find(id);
  if (found == side_.end()) return fail(ErrorCode::kNotFound, "no such side value");
  return found->second;
}

Result<void> MemoryLedger::eraseSide(SideId id) {
  side_.erase(id);
  return {};
}

Result<void> MemoryLedger::seal(std::uint64_t sequence, std::string_view state) {
  if (disk_ != Disk::kFine) return fail(full());
  if (sequence != events_.size()) return fail(ErrorCode::kInvalid, "not the last event");
  snapshots_.push_back({sequence, std::string(state)});
  return {};
}

Result<std::optional<ports::StoredSnapshot>> MemoryLedger::newestSnapshot() {
  if (snapshots_.empty()) return std::nullopt;
  return snapshots_.back();
}

ports::LedgerStatus MemoryLedger::status() const {
  ports::LedgerStatus status;
  status.lastSequence = events_.size();
  if (!events_.empty()) status.lastTime = events_.back().envelope.time;
  return status;
}

}  // namespace bole::test
