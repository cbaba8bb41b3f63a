// The ledger on disks that fail: every operation refused in turn, a flush that fails, a full and a
// read-only file system, and power losses.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "ledger/broken_disk.h"
#include "ledger/sqlite_ledger.h"
#include "ledger/test_support.h"

namespace bole::ledger {
namespace {

using namespace test;
namespace fs = std::filesystem;

Result<std::unique_ptr<SqliteLedger>> openOn(const std::string& home, Rng& random,
                                             const std::string& vfs = "", int frames = 20) {
  auto options = optionsFor(home, random);
  options.vfs = vfs;
  options.checkpointFrames = frames;
  return openLedger(options);
}

void expectSound(const std::string& home, std::uint64_t events) {
  const auto report = verifyLedger(home, true);
  ASSERT_GOOD(report);
  EXPECT_FALSE(report->firstFault) << report->firstFault->message();
  EXPECT_EQ(report->events, events);
}

// Work of every kind: appends small and large, side values, seals, erasures. Returns after the
// first failure. `said` counts the events that the ledger said are durable, `tried` those that it
// was given.
struct Progress {
  std::uint64_t said = 0;
  std::uint64_t tried = 0;
  std::optional<Error> failure;
};

Progress work(SqliteLedger& ledger, std::uint64_t rounds) {
  Progress progress;
  progress.said = progress.tried = ledger.status().lastSequence;
  const auto holds = [&](Result<void> result) {
    if (!result) progress.failure = result.error();
    return result.has_value();
  };
  for (std::uint64_t round = 1; round <= rounds; ++round) {
    auto events = makeEvents(progress.said + 1, 1 + round % 5);
    const auto id = events.back().envelope.sequence;
    events.back() = withSide(std::move(events.back()), id, std::string(round % 7 * 3000, 'v'));
    progress.tried = id;
    if (!holds(ledger.append(events))) return progress;
    progress.said = id;
    if (round % 4 == 0 && !holds(ledger.seal(id, std::string(round * 100, 's')))) return progress;
    if (round % 6 == 0 && !holds(ledger.eraseSide(SideId(id)))) return progress;
  }
  return progress;
}

// Whatever operation fails, once or from then on: the error says so, and the ledger is as before
// or, after a flush that failed, holds the whole batch at most.
class RefusedOperation : public ::testing::TestWithParam<std::tuple<DiskOp, int, bool>> {};

TEST_P(RefusedOperation, LeavesTheLedgerAsItWas) {
  const auto [op, code, forGood] = GetParam();
  std::uint64_t refusals = 0;
  for (std::uint64_t nth = 1;; ++nth) {
    TempHome home(Medium::kMemory);
    TestRng random;
    BrokenDisk disk("refusing");
    std::uint64_t seen = 0;
    Progress progress;
    {
      auto ledger = openOn(home.path(), random, disk.name());
      ASSERT_GOOD(ledger);
      ASSERT_GOOD(appendMore(**ledger, 3));
      disk.judgeBy([&, op = op, code = code, forGood = forGood](DiskOp asked, const std::string&) {
        if (asked != op) return SQLITE_OK;
        ++seen;
        return seen == nth || (forGood && seen > nth) ? code : SQLITE_OK;
      });
      progress = work(**ledger, 12);
      const auto status = (*ledger)->status();
      EXPECT_EQ(status.lastSequence, progress.said);
      disk.heal();
      if (progress.failure) {
        ++refusals;
        EXPECT_TRUE(progress.failure->code == ErrorCode::kUnavailable ||
                    progress.failure->code == ErrorCode::kCorrupt)
            << progress.failure->message();
        EXPECT_FALSE(progress.failure->hint.empty()) << progress.failure->message();
      }
      // Healed: it either goes on, or says that it does not.
      const auto more = appendMore(**ledger, 1);
      EXPECT_EQ(more.has_value(), status.writable);
      if (more) progress.tried = ++progress.said;
    }
    const bool over = seen < nth;
    auto again = openOn(home.path(), random);
    ASSERT_GOOD(again);
    const auto last = (*again)->status().lastSequence;
    EXPECT_TRUE(last == progress.said || (op == DiskOp::kSync && last == progress.tried))
        << "found " << last << " said " << progress.said << " tried " << progress.tried;
    expectSound(home.path(), last);
    if (over || HasFailure()) break;
  }
  EXPECT_GT(refusals, 0u);
}

INSTANTIATE_TEST_SUITE_P(Disk, RefusedOperation,
                         ::testing::Values(std::tuple(DiskOp::kWrite, SQLITE_IOERR_WRITE, false),
                                           std::tuple(DiskOp::kWrite, SQLITE_IOERR_WRITE, true),
                                           std::tuple(DiskOp::kWrite, SQLITE_FULL, false),
                                           std::tuple(DiskOp::kWrite, SQLITE_FULL, true),
                                           std::tuple(DiskOp::kSync, SQLITE_IOERR_FSYNC, false),
                                           std::tuple(DiskOp::kSync, SQLITE_IOERR_FSYNC, true),
                                           std::tuple(DiskOp::kTruncate, SQLITE_IOERR_TRUNCATE,
                                                      true)));

// The same while a ledger with a log from a killed server is opened and read: an error, never a
// wrong answer.
class RefusedOpening : public ::testing::TestWithParam<std::tuple<DiskOp, int, bool>> {};

TEST_P(RefusedOpening, IsAnErrorAndDoesNoHarm) {
  const auto [op, code, forGood] = GetParam();
  TempHome home(Medium::kMemory);
  TestRng random;
  {
    auto ledger = openOn(home.path(), random, "", 1000);
    ASSERT_GOOD(ledger);
    EXPECT_FALSE(work(**ledger, 8).failure);
    fs::copy(home.path(), home.file("killed"));
  }
  const auto expected = [&] {
    auto ledger = openOn(home.path(), random);
    EXPECT_GOOD(ledger);
    return (*ledger)->status().lastHash;
  }();
  std::uint64_t refusals = 0;
  for (std::uint64_t nth = 1; !HasFailure(); ++nth) {
    TempHome copy(Medium::kMemory);
    for (const auto* name : {"ledger.db", "ledger.db-wal", "ledger.key", "ledger.pub"}) {
      fs::copy(home.file("killed") + "/" + name, copy.file(name));
    }
    BrokenDisk disk("opening");
    std::uint64_t seen = 0;
    disk.judgeBy([&, op = op, code = code, forGood = forGood](DiskOp asked, const std::string&) {
      if (asked != op) return SQLITE_OK;
      ++seen;
      return seen == nth || (forGood && seen > nth) ? code : SQLITE_OK;
    });
    {
      auto ledger = openOn(copy.path(), random, disk.name());
      auto result = ledger ? (*ledger)->read(1, [](const auto&) { return Result<void>(); })
                           : Result<void>(fail(ledger.error()));
      if (result) {
        EXPECT_EQ((*ledger)->status().lastHash, expected);
      } else {
        EXPECT_EQ(result.error().code, ErrorCode::kUnavailable) << result.error().message();
        ++refusals;
      }
      disk.heal();
    }
    auto again = openOn(copy.path(), random);
    ASSERT_GOOD(again);
    EXPECT_EQ((*again)->status().lastHash, expected);
    expectSound(copy.path(), (*again)->status().lastSequence);
    if (seen < nth) break;
  }
  // A checkpoint that fails at the start is only worth a notice.
  EXPECT_EQ(refusals > 0, op == DiskOp::kRead || op == DiskOp::kOpen);
}

INSTANTIATE_TEST_SUITE_P(Disk, RefusedOpening,
                         ::testing::Values(std::tuple(DiskOp::kRead, SQLITE_IOERR_READ, false),
                                           std::tuple(DiskOp::kRead, SQLITE_IOERR_READ, true),
                                           std::tuple(DiskOp::kOpen, SQLITE_CANTOPEN, false),
                                           std::tuple(DiskOp::kOpen, SQLITE_CANTOPEN, true),
                                           std::tuple(DiskOp::kWrite, SQLITE_FULL, true),
                                           std::tuple(DiskOp::kWrite, SQLITE_IOERR_WRITE, false),
                                           std::tuple(DiskOp::kSync, SQLITE_IOERR_FSYNC, false),
                                           std::tuple(DiskOp::kTruncate, SQLITE_IOERR_TRUNCATE,
                                                      false)));

TEST(DiskTest, AfterAFlushThatFailedNothingMoreIsWrittenUntilARestart) {
  TempHome home;
  TestRng random;
  BrokenDisk disk("unflushed");
  {
    auto ledger = openOn(home.path(), random, disk.name());
    ASSERT_GOOD(ledger);
    ASSERT_GOOD(appendMore(**ledger, 2));
    disk.judgeBy([](DiskOp op, const std::string&) {
      return op == DiskOp::kSync ? SQLITE_IOERR_FSYNC : SQLITE_OK;
    });
    const auto failed = appendMore(**ledger, 1);
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().code, ErrorCode::kUnavailable);
    EXPECT_NE(failed.error().message().find("fsync"), std::string::npos);
    disk.heal();
    EXPECT_FALSE(appendMore(**ledger, 1));
    EXPECT_FALSE((*ledger)->appendUrgent(makeEvents(3, 1)));
    EXPECT_FALSE((*ledger)->seal(2, "state"));
    EXPECT_FALSE((*ledger)->status().writable);
    EXPECT_NE((*ledger)->status().reason.find("fsync"), std::string::npos);
    EXPECT_EQ(readAll(**ledger).size(), 2u);
  }
  auto ledger = openOn(home.path(), random);
  ASSERT_GOOD(ledger);
  ASSERT_GOOD(appendMore(**ledger, 1));
}

TEST(DiskTest, APowerLossDoesNotBringAnErasedValueBack) {
  TempHome home(Medium::kMemory);
  TestRng random;
  BrokenDisk disk("remembering");
  disk.remember();
  auto ledger = openOn(home.path(), random, disk.name(), 1000);
  ASSERT_GOOD(ledger);
  ASSERT_GOOD((*ledger)->append(std::vector{withSide(makeEvent(1), 1, "the-secret-of-a-person")}));
  ASSERT_GOOD((*ledger)->eraseSide(SideId(1)));
  ASSERT_GOOD(appendMore(**ledger, 1));
  std::mt19937_64 chance(3);
  for (int i = 0; i < 20; ++i) {
    TempHome after(Medium::kMemory);
    disk.losePower(after.path(), chance);
    ASSERT_TRUE(fs::exists(after.file("ledger.db")));
    for (const auto& entry : fs::directory_iterator(after.path())) {
      EXPECT_EQ(slurp(entry.path()).find("the-secret"), std::string::npos) << entry.path();
    }
  }
}

// After a failed flush the page cache shows data that no later flush will write. A server that
// finds the events there at its start may only build on them once they are written anew.
TEST(DiskTest, WhatARestartFindsAfterAFailedFlushIsMadeDurableFirst) {
  TempHome home(Medium::kMemory);
  TempHome after(Medium::kMemory);
  TestRng random;
  BrokenDisk disk("deceiving");
  {
    auto ledger = openOn(home.path(), random);
    ASSERT_GOOD(ledger);
    ASSERT_GOOD(appendMore(**ledger, 2));
  }
  disk.remember();
  {
    auto ledger = openOn(home.path(), random, disk.name());
    ASSERT_GOOD(ledger);
    ASSERT_GOOD(appendMore(**ledger, 1));
    disk.judgeBy([](DiskOp op, const std::string&) {
      return op == DiskOp::kSync ? SQLITE_IOERR_FSYNC : SQLITE_OK;
    });
    ASSERT_FALSE(appendMore(**ledger, 2));
    // From here on the server is as good as killed: it does not tidy up.
    disk.judgeBy([](DiskOp, const std::string&) { return SQLITE_IOERR; });
  }
  disk.heal();
  auto ledger = openOn(home.path(), random, disk.name());
  ASSERT_GOOD(ledger);
  const auto found = (*ledger)->status().lastSequence;
  EXPECT_EQ(found, 5u);
  for (const auto* name : {"ledger.key", "ledger.pub"}) fs::copy(home.file(name), after.file(name));
  std::mt19937_64 chance(1);
  disk.losePower(after.path(), chance);
  auto again = openOn(after.path(), random);
  ASSERT_GOOD(again);
  EXPECT_EQ((*again)->status().lastSequence, found);
}

// Power fails at the nth write or flush; what the disk kept is opened again.
TEST(DiskTest, APowerLossAtAnyInstantLosesNothingThatWasAcknowledged) {
  std::uint64_t losses = 0;
  std::mt19937_64 chance(20261130);
  for (int run = 0; run < 300; ++run) {
    TempHome home(Medium::kMemory);
    TempHome after(Medium::kMemory);
    TestRng random;
    BrokenDisk disk("losing");
    Progress progress;
    {
      auto fresh = openOn(home.path(), random);
      ASSERT_GOOD(fresh);
      ASSERT_GOOD(appendMore(**fresh, 3));
    }
    disk.remember();
    std::uint64_t left = 1 + chance() % 220;
    bool off = false;
    disk.judgeBy([&](DiskOp op, const std::string&) {
      if (op == DiskOp::kRead || op == DiskOp::kOpen) return SQLITE_OK;
      off = off || --left == 0;
      return off ? SQLITE_IOERR : SQLITE_OK;
    });
    {
      auto ledger = openOn(home.path(), random, disk.name());
      if (ledger)
        progress = work(**ledger, 14);
      else
        progress.said = progress.tried = 3;
      if (off) ++losses;
    }
    fs::copy(home.file("ledger.key"), after.file("ledger.key"));
    fs::copy(home.file("ledger.pub"), after.file("ledger.pub"));
    disk.losePower(after.path(), chance);
    if (!fs::exists(after.file("ledger.db"))) continue;  // never written to
    {
      auto ledger = openOn(after.path(), random);
      ASSERT_TRUE(ledger) << "run " << run << ": " << ledger.error().message();
      const auto last = (*ledger)->status().lastSequence;
      EXPECT_TRUE(last == progress.said || last == progress.tried)
          << "run " << run << ": found " << last << ", said " << progress.said << ", tried "
          << progress.tried;
      EXPECT_TRUE((*ledger)->newestSnapshot());
      ASSERT_GOOD(appendMore(**ledger, 1));
      expectSound(after.path(), last + 1);
    }
    if (HasFailure()) break;
  }
  EXPECT_GT(losses, 200u);
}

TEST(DiskTest, APowerLossDuringTheFirstStartLeavesAHomeThatStarts) {
  std::mt19937_64 chance(7);
  bool over = false;
  for (std::uint64_t nth = 1; !over && !::testing::Test::HasFailure(); ++nth) {
    TempHome home(Medium::kMemory);
    TempHome after(Medium::kMemory);
    TestRng random;
    BrokenDisk disk("new");
    disk.remember();
    std::uint64_t seen = 0;
    disk.judgeBy([&](DiskOp op, const std::string&) {
      if (op != DiskOp::kRead && op != DiskOp::kOpen) ++seen;
      return seen >= nth ? SQLITE_IOERR : SQLITE_OK;
    });
    static_cast<void>(openOn(home.path(), random, disk.name()));
    over = seen < nth;
    std::ofstream(after.file("ledger.db")).close();  // made and flushed before SQLite has it
    for (const auto* name : {"ledger.key", "ledger.pub"}) {
      if (fs::exists(home.file(name))) fs::copy(home.file(name), after.file(name));
    }
    disk.losePower(after.path(), chance);
    auto ledger = openOn(after.path(), random);
    ASSERT_TRUE(ledger) << "operation " << nth << ": " << ledger.error().message();
    EXPECT_TRUE((*ledger)->notices().empty());
    ASSERT_GOOD(appendMore(**ledger, 1));
    expectSound(after.path(), 1);
  }
}

// A small file system of its own, if this user may mount one.
class SmallDisk {
 public:
  SmallDisk(const std::string& path, const char* size) : path_(path) {
    mounted_ = ::mount("tmpfs", path.c_str(), "tmpfs", 0, size) == 0;
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  ~SmallDisk() {
    if (mounted_) ::umount2(path_.c_str(), MNT_DETACH);
  }
  [[nodiscard]] bool mounted() const { return mounted_; }
  void makeReadOnly() { ASSERT_EQ(::mount("", path_.c_str(), "", MS_REMOUNT | MS_RDONLY, ""), 0); }

  // Takes all the space that is left but `spare` bytes.
  void fill(std::size_t spare) {
    const auto left = fs::space(path_).available;
    std::ofstream(path_ + "/filler") << std::string(left > spare ? left - spare : 0, 'x');
  }
  void clear() { fs::remove(path_ + "/filler"); }

 private:
  std::string path_;
  bool mounted_;
};

class FullDiskTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!disk_.mounted()) GTEST_SKIP() << "mounting a tmpfs is not permitted here";
  }
  Result<std::unique_ptr<SqliteLedger>> open() {
    auto options = optionsFor(home_.path(), random_);
    options.reserve = kMiB * 2;
    return openLedger(options);
  }
  // Ordinary appends until the disk is full; the number of events then.
  static std::uint64_t fillWithEvents(SqliteLedger& ledger) {
    while (true) {
      const auto last = ledger.status().lastSequence;
      const auto result = ledger.append(std::vector{makeEvent(last + 1, std::string(30'000, 'b'))});
      if (result) continue;
      EXPECT_EQ(result.error().code, ErrorCode::kUnavailable) << result.error().message();
      EXPECT_NE(result.error().message().find("full"), std::string::npos);
      EXPECT_EQ(ledger.status().lastSequence, last);
      EXPECT_TRUE(ledger.status().writable);
      return last;
    }
  }

  TempHome home_;
  SmallDisk disk_{home_.path(), "size=12m"};
  TestRng random_;
};

TEST_F(FullDiskTest, StopsAreStillRecordedAndWorkGoesOnWhenThereIsRoomAgain) {
  auto ledger = open();
  ASSERT_GOOD(ledger);
  ASSERT_TRUE((*ledger)->reserveHeld());
  disk_.fill(5 << 20);
  auto last = fillWithEvents(**ledger);
  EXPECT_GT(last, 10u);
  EXPECT_TRUE((*ledger)->reserveHeld());
  for (int i = 0; i < 300; ++i) {
    ASSERT_GOOD((*ledger)->appendUrgent(std::vector{makeEvent(++last, std::string(1000, 's'))}));
  }
  EXPECT_FALSE((*ledger)->reserveHeld());
  // What was freed is for the urgent ones alone.
  const auto refused = appendMore(**ledger, 1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_FALSE((*ledger)->restoreReserve());
  disk_.clear();
  ASSERT_GOOD(appendMore(**ledger, 1));
  EXPECT_TRUE((*ledger)->reserveHeld());
  expectSound(home_.path(), last + 1);
}

TEST_F(FullDiskTest, TheReserveIsNotMadeAnewBeforeThereIsRoomBesideIt) {
  auto ledger = open();
  ASSERT_GOOD(ledger);
  disk_.fill(3 << 20);
  auto last = fillWithEvents(**ledger);
  ASSERT_GOOD((*ledger)->appendUrgent(std::vector{makeEvent(last + 1, std::string(30'000, 'u'))}));
  ASSERT_FALSE((*ledger)->reserveHeld());
  disk_.clear();
  disk_.fill((2 << 20) + (200 << 10));
  const auto refused = (*ledger)->restoreReserve();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(refused.error().expected, "at least 2.5 MiB");
  EXPECT_FALSE(fs::exists(home_.file("reserve")));
  disk_.clear();
  ASSERT_GOOD((*ledger)->restoreReserve());
}

TEST_F(FullDiskTest, AServerStartsOnAFullDiskAndRecordsWhatEnded) {
  std::uint64_t last = 0;
  {
    auto ledger = open();
    ASSERT_GOOD(ledger);
    disk_.fill(5 << 20);
    last = fillWithEvents(**ledger);
  }
  disk_.fill(0);
  fs::rename(home_.file("filler"), home_.file("filler2"));
  disk_.fill(0);
  ASSERT_LT(fs::space(home_.path()).available, 4096u);
  auto ledger = open();
  ASSERT_GOOD(ledger);
  EXPECT_FALSE((*ledger)->notices().empty());
  EXPECT_FALSE(appendMore(**ledger, 1));
  ASSERT_GOOD((*ledger)->appendUrgent(makeEvents(last + 1, 50)));
  EXPECT_EQ(readAll(**ledger).size(), last + 50);
}

TEST_F(FullDiskTest, AReadOnlyFileSystemIsSaidSoAndCanBeRead) {
  {
    auto ledger = open();
    ASSERT_GOOD(ledger);
    ASSERT_GOOD(appendMore(**ledger, 4));
  }
  disk_.makeReadOnly();
  const auto refused = open();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable) << refused.error().message();
  EXPECT_NE(refused.error().message().find("ead-only"), std::string::npos)
      << refused.error().message();
  auto options = optionsFor(home_.path(), random_);
  options.mode = OpenMode::kReadOnly;
  auto ledger = openLedger(options);
  ASSERT_GOOD(ledger);
  EXPECT_EQ(readAll(**ledger).size(), 4u);
  EXPECT_FALSE((*ledger)->status().writable);
  EXPECT_EQ(appendMore(**ledger, 1).error().code, ErrorCode::kUnavailable);
  expectSound(home_.path(), 4);
}

}  // namespace
}  // namespace bole::ledger
