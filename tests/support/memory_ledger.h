// A ledger in memory, with the faults of a disk on demand. Keeps the contract of ports/ledger.h
// except durability.
#pragma once

#include <map>
#include <vector>

#include "ports/ledger.h"

namespace bole::test {

class MemoryLedger final : public ports::Ledger {
 public:
  enum class Disk { kFine, kFull, kDead };  // full: only urgent appends succeed; dead: none

  void setDisk(Disk disk) { disk_ = disk; }
  // Reads from the first event, as if no segment had ever been sealed.
  void forgetSnapshots() { snapshots_.clear(); }

  Result<void> append(std::span<const ports::NewEvent> events) override;
  Result<void> appendUrgent(std::span<const ports::NewEvent> events) override;
  Result<void> read(std::uint64_t from,
                    const std::function<Result<void>(const ports::StoredEvent&)>& visit) override;
  Result<std::string> side(SideId id) override;
  Result<void> eraseSide(SideId id) override;
  Result<void> seal(std::uint64_t sequence, std::string_view state) override;
  Result<std::optional<ports::StoredSnapshot>> newestSnapshot() override;
  ports::LedgerStatus status() const override;

  [[nodiscard]] const std::vector<ports::StoredEvent>& events() const { return events_; }

 private:
  Result<void> store(std::span<const ports::NewEvent> events);

  Disk disk_ = Disk::kFine;
  std::vector<ports::StoredEvent> events_;
  std::map<SideId, std::string> side_;
  std::vector<ports::StoredSnapshot> snapshots_;
};

}  // namespace bole::test
