// CowTable<Key, T>: a table from ids (1, 2, 3, ...) to records, made of copy-on-write chunks.
//
// A copy costs a few pointers whatever the size, so that readers get a whole consistent table and
// the writer goes on. Only one thread at a time may write or copy one table; reading needs no lock,
// and copies are independent. Records never move to another key.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"

namespace bole {

template <class Key, class T>
class CowTable {
 public:
  CowTable() = default;
  CowTable(const CowTable& other)
      : pages_(other.pages_), size_(other.size_), epoch_(++other.epoch_) {}
  CowTable& operator=(const CowTable& other) {
    if (this == &other) return *this;
    pages_ = other.pages_;
    size_ = other.size_;
    epoch_ = std::max(epoch_, other.epoch_) + 1;
    other.epoch_ = epoch_;
    return *this;
  }
  CowTable(CowTable&&) noexcept = default;
  CowTable& operator=(CowTable&&) noexcept = default;
  ~CowTable() = default;

  [[nodiscard]] std::size_t size() const { return size_; }

  // The record, or nullptr.
  [[nodiscard]] const T* find(Key key) const {
    const auto at = index(key);
    if (!key.isSet() || at / kPageSpan >= pages_.size()) return nullptr;
    const auto& page = pages_[at / kPageSpan];
    if (!page) return nullptr;
    const auto& chunk = page->slots[at % kPageSpan / kChunk];
    if (!chunk) return nullptr;
    const auto& slot = chunk->slots[at % kChunk];
    return slot ? &*slot : nullptr;
  }

  // The record for change, or nullptr; copies the chunk if a reader still holds it.
  [[nodiscard]] T* edit(Key key) {
    if (!find(key)) return nullptr;
    return &*slotForWrite(key);
  }

  // Adds or replaces.
  T& put(Key key, T value) {
    BOLE_ASSERT(key.isSet());
    auto& slot = slotForWrite(key);
    if (!slot) ++size_;
    slot = std::move(value);
    return *slot;
  }

  void erase(Key key) {
    if (!find(key)) return;
    slotForWrite(key).reset();
    --size_;
  }

  // Calls visit(key, record) in the order of keys; visit returns false to stop.
  template <class Visit>
  void forEach(Visit&& visit) const {
    for (std::size_t p = 0; p < pages_.size(); ++p) {
      if (!pages_[p]) continue;
      for (std::size_t c = 0; c < kChunksPerPage; ++c) {
        const auto& chunk = pages_[p]->slots[c];
        if (!chunk) continue;
        for (std::size_t i = 0; i < kChunk; ++i) {
          const auto& slot = chunk->slots[i];
          if (slot && !visit(Key(p * kPageSpan + c * kChunk + i + 1), *slot)) return;
        }
      }
    }
  }

  // Calls visit(key, was, is) in the order of keys for all that differ between `before` and this
  // table, and for few that do not: what neither has touched since one was copied from the other is
  // skipped unseen. nullptr: there is none.
  template <class Visit>
  void forEachChanged(const CowTable& before, Visit&& visit) const {
    for (std::size_t p = 0; p < std::max(pages_.size(), before.pages_.size()); ++p) {
      const auto* was = p < before.pages_.size() ? before.pages_[p].get() : nullptr;
      const auto* is = p < pages_.size() ? pages_[p].get() : nullptr;
      if (was == is) continue;
      for (std::size_t c = 0; c < kChunksPerPage; ++c) {
        const auto* old = was ? was->slots[c].get() : nullptr;
        const auto* own = is ? is->slots[c].get() : nullptr;
        if (old == own) continue;
        for (std::size_t i = 0; i < kChunk; ++i) {
          const T* last = old && old->slots[i] ? &*old->slots[i] : nullptr;
          const T* now = own && own->slots[i] ? &*own->slots[i] : nullptr;
          if (last || now) visit(Key(p * kPageSpan + c * kChunk + i + 1), last, now);
        }
      }
    }
  }

  // As forEach, from the highest key down.
  template <class Visit>
  void forEachNewestFirst(Visit&& visit) const {
    for (std::size_t p = pages_.size(); p-- > 0;) {
      if (!pages_[p]) continue;
      for (std::size_t c = kChunksPerPage; c-- > 0;) {
        const auto& chunk = pages_[p]->slots[c];
        if (!chunk) continue;
        for (std::size_t i = kChunk; i-- > 0;) {
          const auto& slot = chunk->slots[i];
          if (slot && !visit(Key(p * kPageSpan + c * kChunk + i + 1), *slot)) return;
        }
      }
    }
  }

 private:
  static constexpr std::size_t kChunk = 32;
  static constexpr std::size_t kChunksPerPage = 64;
  static constexpr std::size_t kPageSpan = kChunk * kChunksPerPage;
  struct Chunk {
    std::uint64_t epoch = 0;
    std::array<std::optional<T>, kChunk> slots;
  };
  struct Page {
    std::uint64_t epoch = 0;
    std::array<std::shared_ptr<Chunk>, kChunksPerPage> slots;
  };

  [[nodiscard]] static std::size_t index(Key key) {
    return static_cast<std::size_t>(key.value) - 1;
  }

  // A page or chunk is this copy's own when it was made after the last time that this copy was
  // copied from or to; everything older may be shared and is cloned before a write. No reference
  // count is read, so no reader can race.
  std::optional<T>& slotForWrite(Key key) {
    const auto at = index(key);
    if (at / kPageSpan >= pages_.size()) pages_.resize(at / kPageSpan + 1);
    auto& page = own(pages_[at / kPageSpan]);
    auto& chunk = own(page.slots[at % kPageSpan / kChunk]);
    return chunk.slots[at % kChunk];
  }

  template <class Block>
  Block& own(std::shared_ptr<Block>& block) {
    if (!block)
      block = std::make_shared<Block>();
    else if (block->epoch != epoch_)
      block = std::make_shared<Block>(*block);
    block->epoch = epoch_;
    return *block;
  }

  std::vector<std::shared_ptr<Page>> pages_;
  std::size_t size_ = 0;
  mutable std::uint64_t epoch_ = 1;  // mutable: a copy makes what its source holds shared
};

}  // namespace bole
