// The nodes whose GPUs are in one state, each with the CPUs and the memory that it has free.
//
// Questions are answered block by block: a block says the most that any of its nodes has free, so
// that most of those that will not do are passed unseen. Answers do not depend on the order in
// which nodes came.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace bole::scheduler {

// Free or asked for: thousandths of a CPU and bytes. What is free may be below 0.
struct Beside {
  std::int64_t cpus = 0;
  std::int64_t memory = 0;
  bool operator==(const Beside&) const = default;

  [[nodiscard]] bool holds(const Beside& asked) const {
    return cpus >= asked.cpus && memory >= asked.memory;
  }
  // How often, at most `most`.
  [[nodiscard]] std::int64_t times(const Beside& asked, std::int64_t most) const;
};

class Shelf {
 public:
  // The node is not there yet.
  void add(std::uint32_t node, const Beside& free);
  // It is there.
  void remove(std::uint32_t node);

  [[nodiscard]] std::size_t size() const { return size_; }

  // The lowest number that has so much free.
  [[nodiscard]] std::optional<std::uint32_t> first(const Beside& asked) const;

  struct Roomiest {
    std::uint32_t node = 0;
    std::int64_t times = 0;
  };
  // The node on which most replicas with these needs fit, at most `most` of them (1 or more); the
  // lowest of equals.
  [[nodiscard]] std::optional<Roomiest> roomiest(const Beside& each, std::int64_t most) const;
  // Appends the nodes that have so much free; of those with the same free no more than the first
  // `most`.
  void examples(const Beside& asked, std::size_t most, std::vector<std::size_t>& out) const;
  // How many replicas fit on all of them, at most `onOne` on one; stops counting at `enough`.
  [[nodiscard]] std::int64_t fitting(const Beside& each, std::int64_t onOne,
                                     std::int64_t enough) const;
  // The most that is free on one node: of memory; of CPUs where so much memory is free.
  [[nodiscard]] std::int64_t mostMemory() const;
  [[nodiscard]] std::int64_t mostCpus(std::int64_t memory) const;

  static constexpr std::int64_t kNothing = std::numeric_limits<std::int64_t>::min();

 private:
  static constexpr std::size_t kBlock = 64;
  struct Spot {
    std::uint32_t node;
    Beside free;
  };
  struct Block {
    std::vector<Spot> spots;  // by node; 1 to kBlock
    Beside most;
  };
  static void measure(Block& block);
  [[nodiscard]] std::size_t blockOf(std::uint32_t node) const;

  std::vector<Block> blocks_;  // by node
  std::size_t size_ = 0;
};

}  // namespace bole::scheduler
