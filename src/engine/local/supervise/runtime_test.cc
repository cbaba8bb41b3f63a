// The plain runtime from its start to its end: exits, stops, limits, rules.
#include "engine/local/supervise/testing/attempt_world.h"

namespace bole::supervise {
namespace {

class PlainRuntime : public testing::AttemptWorld {};

TEST_F(PlainRuntime, ASingleRank) {
  addShell("echo hello; echo there >&2");
  const auto done = run();
  EXPECT_EQ(done.cause, EndCause::kCompleted);
  EXPECT_EQ(done.ranks.at(0).waitStatus, 0);
  EXPECT_EQ(output(), "hello\n");
  EXPECT_EQ(output(0, LogStream::kErr), "there\n");
}

}  // namespace
}  // namespace bole::supervise
