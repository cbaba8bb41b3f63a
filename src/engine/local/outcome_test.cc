#include "engine/local/outcome.h"

#include <gtest/gtest.h>

namespace bole::engine {
namespace {

using model::AttemptOutcome;
using model::StopReason;
using supervise::EndCause;

supervise::End endWith(EndCause cause, std::string stopReason = "") {
  supervise::End end;
  end.cause = cause;
  end.stopReason = std::move(stopReason);
  return end;
}

TEST(Outcome, EachCause) {
  const auto outcome = [](const supervise::End& end) {
    return finishedFrom(AttemptId(7), end, {}).outcome;
  };
  EXPECT_EQ(outcome(endWith(EndCause::kCompleted)), AttemptOutcome::kCompleted);
  EXPECT_EQ(outcome(endWith(EndCause::kRankFailed)), AttemptOutcome::kFailed);
  EXPECT_EQ(outcome(endWith(EndCause::kAborted)), AttemptOutcome::kFailed);
  EXPECT_EQ(outcome(endWith(EndCause::kRankLost)), AttemptOutcome::kRankLost);
  EXPECT_EQ(outcome(endWith(EndCause::kTimeLimit)), AttemptOutcome::kTimeLimit);
  EXPECT_EQ(outcome(endWith(EndCause::kLaunchFailed)), AttemptOutcome::kLaunchFailed);
  EXPECT_EQ(outcome(endWith(EndCause::kStopped, "preempted")), AttemptOutcome::kStopped);
  auto half = endWith(EndCause::kRankFailed);
  half.outcome = supervise::EndOutcome::kLaunchFailed;
  EXPECT_EQ(outcome(half), AttemptOutcome::kLaunchFailed);
}

TEST(Outcome, StopReasonsComeBackAsTheyWent) {
  for (const auto reason : {StopReason::kCancelled, StopReason::kTimeLimit, StopReason::kPreempted,
                            StopReason::kRankFailed, StopReason::kServerDown}) {
    const auto end = endWith(EndCause::kStopped, std::string(stopReasonName(reason)));
    EXPECT_EQ(finishedFrom(AttemptId(7), end, {}).stop, reason);
  }
  EXPECT_EQ(finishedFrom(AttemptId(7), endWith(EndCause::kTimeLimit), {}).stop,
            StopReason::kTimeLimit);
  EXPECT_EQ(finishedFrom(AttemptId(7), endWith(EndCause::kRankFailed, "cancelled"), {}).stop,
            StopReason::kNone);
}

TEST(Outcome, AStopThatIsNotBolesIsALoss) {
  const auto finished =
      finishedFrom(AttemptId(7), endWith(EndCause::kStopped, "supervisor terminated"), {});
  EXPECT_EQ(finished.outcome, AttemptOutcome::kSupervisorLost);
  EXPECT_EQ(finished.stop, StopReason::kNone);
  EXPECT_NE(finished.note.find("supervisor terminated"), std::string::npos);
}

TEST(Outcome, StatusesAreRawAndNeverMadeUp) {
  auto end = endWith(EndCause::kRankFailed);
  end.firstFailed = 1;
  end.ranks.resize(3);
  end.ranks[0].waitStatus = 9;  // SIGKILL
  end.ranks[1].rank = 1;
  end.ranks[1].waitStatus = 137 << 8;
  end.ranks[2].rank = 2;
  const auto finished = finishedFrom(AttemptId(7), end, {});
  EXPECT_EQ(finished.firstFailed, 1);
  const std::vector<model::RankExit> expected = {{0, true, 9}, {1, true, 137 << 8}, {2, false, 0}};
  EXPECT_EQ(finished.ranks, expected);

  std::vector<std::optional<supervise::RankStatus>> statuses(3);
  statuses[1] = supervise::RankStatus{3 << 8, 0, "", {}};
  statuses[2] = supervise::RankStatus{std::nullopt, 2, "exec", {}};
  const auto lost = finishedWithoutSupervisor(AttemptId(7), statuses, "gone");
  EXPECT_EQ(lost.outcome, AttemptOutcome::kSupervisorLost);
  const std::vector<model::RankExit> known = {{0, false, 0}, {1, true, 3 << 8}, {2, false, 0}};
  EXPECT_EQ(lost.ranks, known);
  EXPECT_EQ(lost.note, "gone");
  EXPECT_EQ(lost.firstFailed, -1);
}

TEST(Outcome, Notes) {
  auto end = endWith(EndCause::kRankFailed);
  end.ranks.resize(6);
  for (std::uint32_t i = 0; i < 6; ++i) {
    end.ranks[i].rank = i;
    end.ranks[i].oomKilled = true;
  }
  end.note = "limits are not enforced";
  EXPECT_EQ(finishedFrom(AttemptId(7), end, {"before", ""}).note,
            "before; limits are not enforced; ranks 0, 1, 2, 3 and 2 more ran into the memory "
            "limit: the kernel killed a process of it");
  end = endWith(EndCause::kLaunchFailed);
  end.ranks.resize(1);
  end.ranks[0].execErrno = 2;
  end.ranks[0].execStep = "exec";
  EXPECT_EQ(finishedFrom(AttemptId(7), end, {}).note,
            "rank 0 could not be started: exec: No such file or directory");
}

TEST(Outcome, NotStarted) {
  const auto finished = notStarted(AttemptId(7), AttemptOutcome::kStopped, StopReason::kCancelled,
                                   2, "stopped before it was started");
  EXPECT_EQ(finished.outcome, AttemptOutcome::kStopped);
  EXPECT_EQ(finished.stop, StopReason::kCancelled);
  EXPECT_EQ(finished.ranks.size(), 2U);
  EXPECT_FALSE(finished.ranks[1].known);
}

}  // namespace
}  // namespace bole::engine
