// A server that is killed at any instant: what it acknowledged is there, whole batches only, and
// the ledger is sound.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <random>

#include "ledger/sqlite_ledger.h"
#include "ledger/test_support.h"

namespace bole::ledger {
namespace {

using namespace test;

// Appends, seals and erases until it is killed; tells the pipe each sequence that is durable.
[[noreturn]] void serve(const std::string& home, std::uint64_t seed, int pipe) {
  TestRng random(seed);
  std::mt19937_64 chance(seed);
  auto options = optionsFor(home, random);
  options.checkpointFrames = 15;
  auto opened = openLedger(options);
  if (!opened) ::_exit(2);
  auto& ledger = **opened;
  while (true) {
    auto last = ledger.status().lastSequence;
    // A batch says in each body with which event it ends.
    const auto end = last + 1 + chance() % 6;
    std::vector<ports::NewEvent> events;
    for (auto next = last + 1; next <= end; ++next) {
      events.push_back(makeEvent(next, std::to_string(end)));
      if (chance() % 2 == 0) {
        events.back().side.push_back({SideId(next), std::string(chance() % 5000, 'v')});
      }
    }
    const bool urgent = chance() % 3 == 0;
    if (!(urgent ? ledger.appendUrgent(events) : ledger.append(events))) ::_exit(3);
    if (::write(pipe, &end, sizeof end) != sizeof end) ::_exit(4);
    if (chance() % 8 == 0 && !ledger.seal(end, std::string(chance() % 20'000, 's'))) ::_exit(5);
    if (chance() % 8 == 0) {
      const auto erased = ledger.eraseSide(SideId(1 + chance() % end));
      if (!erased && erased.error().code != ErrorCode::kNotFound) ::_exit(6);
    }
  }
}

// When to kill: so long after the start, or so long after the first acknowledgement.
enum class After { kStart, kFirstAcknowledgement };

// Starts a server, kills it, and gives the last sequence that it acknowledged, or `before`.
std::uint64_t runAndKill(const std::string& home, std::uint64_t seed, After after,
                         std::chrono::microseconds delay, std::uint64_t before) {
  int ends[2];
  EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const auto child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
    serve(home, seed, ends[1]);
  }
  ::close(ends[1]);
  auto acknowledged = before;
  std::uint64_t sequence = 0;
  const auto hear = [&] {
    if (::read(ends[0], &sequence, sizeof sequence) != sizeof sequence) return false;
    acknowledged = sequence;
    return true;
  };
  if (after == After::kFirstAcknowledgement && !hear()) ADD_FAILURE() << "no acknowledgement";
  // The instant is the point of this test; a sleep would be as random, but coarser.
  const auto until = std::chrono::steady_clock::now() + delay;
  while (std::chrono::steady_clock::now() < until) continue;
  ::kill(child, SIGKILL);
  while (hear()) continue;
  ::close(ends[0]);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status)) << "the server ended by itself with " << WEXITSTATUS(status);
  return acknowledged;
}

TEST(CrashTest, AKilledServerLosesNothingThatItAcknowledged) {
  TempHome home;
  TestRng random;
  std::mt19937_64 chance(20260101);
  std::uint64_t last = 0;
  std::uint64_t workedOn = 0;
  for (int run = 0; run < 200 && !::testing::Test::HasFailure(); ++run) {
    const auto after = run % 4 == 0 ? After::kStart : After::kFirstAcknowledgement;
    const std::chrono::microseconds delay(chance() % 8'000);
    const auto acknowledged = runAndKill(home.path(), chance(), after, delay, last);
    if (acknowledged > last) ++workedOn;
    const auto report = verifyLedger(home.path(), run % 10 == 0);
    if (!report && report.error().code == ErrorCode::kNotFound && last == 0) continue;
    auto ledger = openLedger(optionsFor(home.path(), random));
    ASSERT_TRUE(ledger) << "run " << run << ": " << ledger.error().message();
    if (report) {
      EXPECT_FALSE(report->firstFault) << "run " << run << ": " << report->firstFault->message();
    }
    EXPECT_TRUE((*ledger)->notices().empty());
    const auto found = (*ledger)->status().lastSequence;
    EXPECT_GE(found, acknowledged) << "run " << run;
    EXPECT_GE(acknowledged + 6, found) << "run " << run << ": more than one batch was in flight";
    const auto events = readAll(**ledger, last + 1);
    if (!events.empty()) {
      EXPECT_EQ(events.back().body, std::to_string(found))
          << "run " << run << ": a part of a batch";
    }
    EXPECT_GOOD((*ledger)->newestSnapshot());
    last = found;
  }
  EXPECT_GE(workedOn, 150u);
  const auto report = verifyLedger(home.path(), true);
  ASSERT_GOOD(report);
  EXPECT_FALSE(report->firstFault) << report->firstFault->message();
  EXPECT_EQ(report->events, last);
  EXPECT_GT(report->segments, 20u);
}

}  // namespace
}  // namespace bole::ledger
