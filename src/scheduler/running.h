// The attempts that live, in the orders in which planning asks for them; kept up with what starts
// and ends. Holds ids: records are looked up in the tables at hand.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "model/tables.h"

namespace bole::scheduler {

// When the attempt is expected to have gone: after what its user's jobs of this size took when it
// was planned (AttemptRecord::expected); where that is not known, or over, by its time limit;
// without one it is expected to run as long again as it has, and no less than `kLeastExpected`.
inline constexpr Duration kLeastExpected = minutes(10);
[[nodiscard]] Timestamp expectedEnd(const model::JobRecord& job,
                                    const model::AttemptRecord& attempt, Timestamp now);

// Since when it holds its capacity, as far as time limits go.
[[nodiscard]] inline Timestamp sinceOf(const model::AttemptRecord& attempt) {
  return attempt.startedAt.micros != 0 ? attempt.startedAt : attempt.plannedAt;
}

class Running {
 public:
  // A live attempt of the job. To be removed with the same records as it was added with.
  void add(const model::JobRecord& job, const model::AttemptRecord& attempt);
  void remove(const model::JobRecord& job, const model::AttemptRecord& attempt);

  // Those that are being stopped.
  [[nodiscard]] const std::set<AttemptId>& stopping() const { return stopping_; }
  // For whom others are being stopped, and how many.
  [[nodiscard]] const std::map<JobId, std::size_t>& stoppingFor() const { return stoppingFor_; }
  // Of arrays of which only so many elements may run at a time: how many hold capacity.
  [[nodiscard]] const std::map<JobId, std::uint32_t>& elements() const { return elements_; }
  [[nodiscard]] bool areSpot() const { return spot_ > 0; }

  // Those that may be stopped for others, if these have the better right: by queue, and spot apart.
  using Group = std::pair<QueueId, bool>;
  [[nodiscard]] const std::map<Group, std::set<AttemptId>>& victims() const { return victims_; }

  // One after the other, who is expected to go first. It must not change meanwhile.
  class Releases {
   public:
    Releases(const Running& running, Timestamp now);
    struct Release {
      Timestamp at;
      AttemptId attempt;
    };
    [[nodiscard]] std::optional<Release> next();

   private:
    using Ends = std::set<std::pair<std::int64_t, AttemptId>>;
    const Running& running_;
    // It is counted by what was learnt of such jobs, and that is not over yet.
    [[nodiscard]] bool isLearnt(AttemptId attempt) const;
    [[nodiscard]] Ends::const_iterator pastLearnt(Ends::const_iterator at, const Ends& of) const;

    Timestamp now_;
    std::set<AttemptId>::const_iterator stopping_;
    Ends::const_iterator learnt_;
    Ends::const_iterator limited_;
    Ends::const_iterator endless_;
  };

 private:
  void change(const model::JobRecord& job, const model::AttemptRecord& attempt, bool isAdded);

  std::set<AttemptId> stopping_;
  std::map<JobId, std::size_t> stoppingFor_;
  std::size_t spot_ = 0;
  std::map<Group, std::set<AttemptId>> victims_;
  std::map<JobId, std::uint32_t> elements_;
  std::set<std::pair<std::int64_t, AttemptId>> learnt_;  // likewise, of those that are learnt of
  std::map<AttemptId, Timestamp> learntEnd_;
  std::set<std::pair<std::int64_t, AttemptId>> limited_;  // by their end, in microseconds
  std::set<std::pair<std::int64_t, AttemptId>> endless_;  // the newest first
};

}  // namespace bole::scheduler
