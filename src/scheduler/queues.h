// The tree of queues while a plan is made: who uses how much, and what each may still take.
//
// Amounts are counted in dimensions: all GPUs (thousandths), CPUs (thousandths), memory (bytes) and
// each kind of GPU that the policy names. A job counts against its own queue and all above it.
// Guarantees that the hardware cannot give are reduced in proportion among brothers; the rest of
// the tree goes on. What is booked counts as guaranteed from its beginning to its end; jobs that
// cannot be stopped and would run into it are held against it before.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "model/job.h"
#include "model/node.h"
#include "model/policy.h"
#include "model/tables.h"
#include "scheduler/claim.h"

namespace bole::scheduler {

enum Dimension : std::size_t { kGpuDimension, kCpuDimension, kMemoryDimension, kFirstKind };
inline constexpr std::size_t kMostDimensions = 16;

struct Amount {
  std::array<std::int64_t, kMostDimensions> of{};

  Amount& operator+=(const Amount& other) {
    for (std::size_t d = 0; d < kMostDimensions; ++d) of[d] += other.of[d];
    return *this;
  }
  Amount& operator-=(const Amount& other) {
    for (std::size_t d = 0; d < kMostDimensions; ++d) of[d] -= other.of[d];
    return *this;
  }
  bool operator==(const Amount&) const = default;
};

// How a job holds what it holds.
struct Hold {
  bool firm = false;  // cannot be stopped for another: never borrows what others are guaranteed
  bool spot = false;  // counts against no guarantee, and gives way to everyone
  UserId user;        // unset: nobody's limits count
  Duration lasts;     // at most, from now on; 0: nobody knows
};

inline Hold holdOf(const Claim& claim) {
  const auto& shape = claim.shape;
  const bool limited = shape.timeLimit.value > 0;
  return {!shape.preemptible && !shape.spot, shape.spot, claim.user,
          limited ? shape.timeLimit + shape.grace : Duration()};
}

class Queues {
 public:
  static constexpr std::int64_t kNone = -1;  // in a guarantee: not named
  static constexpr std::int64_t kEndless = std::numeric_limits<std::int64_t>::max();

  struct Node {
    QueueId id;
    std::string name;
    std::size_t parent = 0;  // of the root: itself
    std::size_t depth = 0;
    std::vector<std::size_t> children;
    std::int32_t weight = 1;
    model::Preemption preemption = model::Preemption::kNever;
    bool usersCount = false;  // it limits what each user may have
    Amount perUser;           // kEndless where there is no limit
    std::int64_t perUserRunning = kEndless;
    Amount guaranteed;                      // now; kNone where nothing is
    Amount limit;                           // kEndless where there is none
    Amount use;                             // of all that is held
    Amount owned;                           // of it, without spot: what guarantees speak of
    std::array<double, kFirstKind> past{};  // means of what has been used
  };

  // `nodes`: all that are present; what of them is healthy is the capacity. `now`: which bookings
  // count.
  Queues(const model::Policy& policy, const std::vector<const model::Node*>& nodes,
         Timestamp now = {});

  // 0 is the root. A queue that is not there any more: the default one.
  [[nodiscard]] std::size_t indexOf(QueueId id) const;
  [[nodiscard]] const Node& at(std::size_t queue) const { return nodes_[queue]; }
  [[nodiscard]] std::size_t size() const { return nodes_.size(); }
  [[nodiscard]] const Amount& capacity() const { return capacity_; }
  [[nodiscard]] std::size_t dimensions() const { return kFirstKind + kinds_.size(); }
  // "GPUs", "CPUs", "memory", "A100 GPUs".
  [[nodiscard]] std::string nameOf(std::size_t dimension) const;

  // What one replica takes with these GPUs of `node`; without GPUs chosen: of any kind.
  [[nodiscard]] Amount amountOf(const model::TaskShape& task, const model::Node& node,
                                const std::vector<std::uint32_t>& gpus) const;
  // The same for a rank that has its place; GPUs that are not there any more are no kind's.
  [[nodiscard]] Amount amountOf(const model::TaskShape& task, const model::Node& node,
                                const model::RankPlacement& rank) const;
  // The same before a place is chosen: no kind is counted.
  [[nodiscard]] Amount amountOf(const model::TaskShape& task) const;

  // What refuses `more` at or above a queue, nearest first; nothing: it may be taken.
  struct Refusal {
    std::size_t queue = 0;
    std::size_t dimension = 0;
    std::int64_t needed = 0;
    std::int64_t most = 0;  // what could still be taken there, 0 or more
    bool borrows = false;   // not a limit: others are guaranteed what is left, and this cannot be
                            // stopped for them
    bool ofUser = false;    // the limit is what one user may have of the queue
    Timestamp booked = {};  // with borrows: from when on others have booked it; 0: guaranteed now
  };
  [[nodiscard]] std::optional<Refusal> refusal(std::size_t queue, const Amount& more,
                                               Hold hold) const;
  // The same for one more job of the user: which queue at or above this one has no room for it.
  [[nodiscard]] std::optional<std::size_t> fullFor(std::size_t queue, UserId user) const;

  // May `more` be taken at the level of this queue within what it is guaranteed?
  [[nodiscard]] bool entitled(std::size_t queue, const Amount& more) const;
  // May `less` be taken from this queue against its will, leaving it all that it is guaranteed?
  [[nodiscard]] bool canLose(std::size_t queue, const Amount& less) const;
  // The two queues below the nearest one that is above both; equal where one is above the other.
  [[nodiscard]] std::pair<std::size_t, std::size_t> branches(std::size_t a, std::size_t b) const;

  // `jobs`: how many more or fewer of the user's jobs run.
  void add(std::size_t queue, const Amount& amount, Hold hold, std::int64_t jobs = 0);
  void remove(std::size_t queue, const Amount& amount, Hold hold, std::int64_t jobs = 0);
  // What the queue has used in the past, as a mean.
  void remember(std::size_t queue, const model::QueueUse& past);
  // Nothing of the past is remembered any more.
  void forget();

  // Guarantees that had to be reduced, for people; empty: none.
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }

  // The part of the whole that the queue has used on the mean of the past, and a little of what it
  // holds now, of what it uses most, for its weight; only what it holds where nothing is
  // remembered. Less is served first.
  [[nodiscard]] double shareOf(std::size_t queue) const;
  // How much of what it is guaranteed it uses, of what it uses most; 1 or more, or nothing
  // guaranteed: it has no better right than others.
  [[nodiscard]] double guaranteeUsed(std::size_t queue) const;

 private:
  [[nodiscard]] std::uint16_t kindsOf(const std::string& gpuModel) const;
  [[nodiscard]] Amount amountsIn(const model::Amounts& amounts, std::int64_t absent) const;
  // What firm holds are held against: now, and from each beginning of a booking on.
  struct Level {
    Timestamp at;
    std::vector<Amount> guaranteed;  // of each queue
    std::vector<Amount> firm;        // of it, what lasts until then
    std::vector<Amount> committed;
  };
  void addBookings(const model::Policy& policy, Timestamp now);
  void settle(Level& level);
  void sumGuarantees(Level& level, std::size_t queue) const;
  void reduceGuarantees(Level& level, std::size_t parent);
  void commit(Level& level, std::size_t queue) const;
  void countFirm(std::size_t queue, const Amount& amount, Duration lasts, bool more);
  [[nodiscard]] std::optional<Refusal> borrowRefusal(std::size_t queue, const Amount& more,
                                                     std::size_t level) const;

  struct UserUse {
    Amount use;
    std::int64_t jobs = 0;
  };
  [[nodiscard]] const UserUse* useOf(std::size_t queue, UserId user) const;
  void countUser(std::size_t queue, const Amount& amount, UserId user, std::int64_t jobs,
                 bool more);

  std::vector<std::string> kinds_;
  std::vector<Node> nodes_;
  std::vector<Level> levels_;                                // by time; the first is now
  std::map<std::pair<std::size_t, UserId>, UserUse> users_;  // where users count
  std::unordered_map<std::uint64_t, std::size_t> byId_;
  Amount capacity_;
  bool remembers_ = false;
  std::vector<std::string> warnings_;
  mutable std::unordered_map<std::string, std::uint16_t> kindsOfModel_;  // a cache
};

}  // namespace bole::scheduler
