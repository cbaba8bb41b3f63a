// The attempts that live, in the orders in which planning asks for them; kept up with what starts
// and ends. Holds ids: records are looked up in the tables at hand.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "model/tables.h"

namespace bole::scheduler {

// When the attempt is expected to have gone: after what its user's jobs of this size take
// (model/run_time.h); where none has ended, or it has run that long already, by its time limit;
// without one it is expected to run as long again as it has, and no less than `kLeastExpected`.
inline constexpr Duration kLeastExpected = minutes(10);
[[nodiscard]] Timestamp expectedEnd(const model::Tables& tables, const model::JobRecord& job,
                                    const model::AttemptRecord& attempt, Timestamp now);

class Running {
 public:
  // A live attempt of the job. To be removed with the same records as it was added with.
  void add(const model::JobRecord& job, const model::AttemptRecord& attempt);
  void remove(const model::JobRecord& job, const model::AttemptRecord& attempt);

  // Those that are being stopped.
  [[nodiscard]] const std::set<AttemptId>& stopping() const { return stopping_; }
  // For whom others are being stopped, and how many.
  [[nodiscard]] const std::map<JobId, std::size_t>& stoppingFor() const { return stoppingFor_; }
  [[nodiscard]] bool areSpot() const { return spot_ > 0; }
  // Of arrays of which only so many may run: how many do.
  [[nodiscard]] const std::map<JobId, std::uint32_t>& elements() const { return elements_; }

  // Those that may be stopped for others, if these have the better right: by queue, and spot apart.
  using Group = std::pair<QueueId, bool>;
  [[nodiscard]] const std::map<Group, std::set<AttemptId>>& victims() const { return victims_; }

  // Jobs that end alike: after as long, counted from when they began.
  struct Kind {
    UserId user;
    std::uint32_t size = 0;
    Duration limit;
    auto operator<=>(const Kind&) const = default;
  };
  using Begun = std::set<std::pair<Timestamp, AttemptId>>;

  // One after the other, who is expected to go first. It must not change meanwhile.
  class Releases {
   public:
    Releases(const model::Tables& tables, const Running& running, Timestamp now)
        : tables_(tables), running_(running), now_(now) {}
    struct Release {
      Timestamp at;
      AttemptId attempt;
      auto operator<=>(const Release&) const = default;
    };
    [[nodiscard]] std::optional<Release> next();

   private:
    // Of one kind those that are expected to end as learnt, or those that have run longer.
    struct Lane {
      Release first;
      const Kind* kind;
      const Begun* begun;
      Begun::const_iterator at;
      std::optional<Duration> learnt;  // of the first of the two
      Begun::const_iterator end;
      bool operator<(const Lane& other) const { return first > other.first; }
    };
    void begin();
    void add(Lane lane);
    [[nodiscard]] std::optional<Duration> learntOf(const Begun& begun) const;

    const model::Tables& tables_;
    const Running& running_;
    Timestamp now_;
    bool hasBegun_ = false;
    std::set<AttemptId>::const_iterator stopping_;
    std::vector<Lane> lanes_;  // a heap, the soonest first
  };

 private:
  void change(const model::JobRecord& job, const model::AttemptRecord& attempt, bool isAdded);

  std::set<AttemptId> stopping_;
  std::map<JobId, std::size_t> stoppingFor_;
  std::size_t spot_ = 0;
  std::map<Group, std::set<AttemptId>> victims_;
  std::map<JobId, std::uint32_t> elements_;
  std::map<Kind, Begun> kinds_;
};

}  // namespace bole::scheduler
