// Logs: every byte that a rank writes, in order and with its time, in files of bounded size.
#include <sys/resource.h>

#include <memory>

#include "engine/local/supervise/rank_log.h"
#include "engine/local/supervise/testing/attempt_world.h"

namespace bole::supervise {
namespace {

class Logs : public ::testing::Test {
 protected:
  Logs() { std::filesystem::create_directories(temp_.path() + "/log"); }

  [[nodiscard]] RankLog make(std::size_t bytes, std::uint32_t files) {
    return RankLog(temp_.path(), 0, Bytes(static_cast<std::int64_t>(bytes)), files,
                   [this](std::string_view head) { heads.emplace_back(head); });
  }
  [[nodiscard]] std::string fileName(std::uint32_t number) const {
    return logPath(temp_.path(), 0) + (number == 0 ? "" : "." + std::to_string(number));
  }
  // All records, oldest first; every line of every file is one.
  [[nodiscard]] std::vector<LogLine> records(std::uint32_t files) {
    texts_.clear();
    std::vector<LogLine> found;
    for (auto number = files; number-- > 0;) {
      const auto& text =
          texts_.emplace_back(std::make_unique<std::string>(testing::readText(fileName(number))));
      EXPECT_TRUE(text->empty() || text->back() == '\n');
      for (std::string_view rest = *text; !rest.empty();) {
        const auto line = rest.substr(0, rest.find('\n'));
        rest.remove_prefix(line.size() + 1);
        const auto parsed = parseLogLine(line);
        EXPECT_TRUE(parsed) << line.substr(0, 100);
        if (parsed) found.push_back(*parsed);
      }
    }
    return found;
  }
  [[nodiscard]] std::string textOf(const std::vector<LogLine>& lines, LogStream stream) const {
    std::string text;
    for (const auto& line : lines) {
      if (line.stream != stream) continue;
      EXPECT_LE(line.text.size(), kLogLineBytes);
      text.append(line.text).append(line.continues ? "" : "\n");
    }
    return text;
  }

  std::vector<std::string> heads;
  testing::TempDir temp_;

 private:
  std::vector<std::unique_ptr<std::string>> texts_;
};

TEST_F(Logs, BytesAreKeptAsTheyCame) {
  std::string everything;
  for (int byte = 0; byte < 256; ++byte) everything += static_cast<char>(byte);
  auto log = make(1u << 20, 2);
  log.feed(LogStream::kOut, everything, Timestamp{1});
  log.feed(LogStream::kErr, "\xff\xfe\n", Timestamp{2});
  log.finish(Timestamp{3});
  const auto lines = records(2);
  EXPECT_EQ(textOf(lines, LogStream::kOut), everything + "\n");
  EXPECT_EQ(textOf(lines, LogStream::kErr), "\xff\xfe\n");
}

TEST_F(Logs, TheTwoStreamsDoNotMixWithinALine) {
  auto log = make(1u << 20, 2);
  log.feed(LogStream::kOut, "one ", Timestamp{1});
  log.feed(LogStream::kErr, "two ", Timestamp{2});
  log.feed(LogStream::kOut, "three\n", Timestamp{3});
  log.feed(LogStream::kErr, "four\n", Timestamp{4});
  log.finish(Timestamp{5});
  const auto lines = records(2);
  EXPECT_EQ(textOf(lines, LogStream::kOut), "one three\n");
  EXPECT_EQ(textOf(lines, LogStream::kErr), "two four\n");
}

// Whatever the pieces, and wherever a file ends: with files enough nothing is lost.
TEST_F(Logs, NothingIsLostWhereFilesAreRotated) {
  std::string all;
  for (int i = 0; all.size() < 60'000; ++i)
    all += std::string(static_cast<std::size_t>(i * 37 % 301), 'x') + std::to_string(i) + "\n";
  for (const std::size_t piece : std::initializer_list<std::size_t>{1, 7, 64, 4096, 50'000}) {
    SCOPED_TRACE(piece);
    constexpr std::uint32_t kFiles = 60;
    for (std::uint32_t number = 0; number < kFiles; ++number) ::unlink(fileName(number).c_str());
    auto log = make(4096, kFiles);
    for (std::size_t at = 0; at < all.size(); at += piece) {
      log.feed(LogStream::kOut, std::string_view(all).substr(at, piece), Timestamp{1'000'000});
    }
    log.finish(Timestamp{2'000'000});
    EXPECT_EQ(textOf(records(kFiles), LogStream::kOut), all);
    EXPECT_TRUE(pathExists(fileName(10)));
    EXPECT_FALSE(pathExists(fileName(kFiles - 1))) << "there must be files enough for this test";
    for (std::uint32_t number = 0; number < kFiles; ++number)
      EXPECT_LE(testing::readText(fileName(number)).size(), 4096U);
  }
}

TEST_F(Logs, TheyTakeNoMoreThanTheirSizeAndTheNewestStays) {
  constexpr std::size_t kBytes = 64u << 10;
  auto log = make(kBytes, 3);
  std::uint64_t number = 0;
  for (int i = 0; i < 400; ++i) {
    std::string chunk;
    while (chunk.size() < 4096) chunk += "line " + std::to_string(number++) + "\n";
    log.feed(LogStream::kOut, chunk, Timestamp{1'000'000 + i});
  }
  log.finish(Timestamp{2'000'000});
  EXPECT_FALSE(pathExists(fileName(3)));
  for (std::uint32_t file = 0; file < 3; ++file)
    EXPECT_LE(testing::readText(fileName(file)).size(), kBytes);
  const auto lines = records(3);
  ASSERT_GT(lines.size(), 1000U);
  EXPECT_EQ(lines.back().text, "line " + std::to_string(number - 1));
  for (std::size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i].text, "line " + std::to_string(number - lines.size() + i));  // without a gap
  }
}

TEST_F(Logs, AVeryLongLineIsCutButWhole) {
  constexpr std::size_t kLength = 3u << 20;
  const std::string line(kLength, 'y');
  auto log = make(1u << 20, 8);
  log.feed(LogStream::kOut, "BOLE " + line, Timestamp{1});
  log.feed(LogStream::kOut, "\nnext\n", Timestamp{2});
  log.finish(Timestamp{3});
  EXPECT_EQ(textOf(records(8), LogStream::kOut), "BOLE " + line + "\nnext\n");
  ASSERT_EQ(heads.size(), 2U);
  EXPECT_EQ(heads[0].size(), RankLog::kHeadBytes);
  EXPECT_EQ(heads[0].substr(0, 6), "BOLE y");
}

TEST_F(Logs, ALineWithoutAnEndIsSeenAndGoesOn) {
  auto log = make(1u << 20, 2);
  log.feed(LogStream::kOut, "50 %", Timestamp{1});
  EXPECT_TRUE(log.hasPartial());
  log.flushPartial(Timestamp{2});
  EXPECT_EQ(testing::readText(fileName(0)), "2 O 50 %\n");
  EXPECT_FALSE(log.hasPartial());
  log.feed(LogStream::kOut, " 100 %\n", Timestamp{3});
  log.finish(Timestamp{4});
  EXPECT_EQ(testing::readText(fileName(0)), "2 O 50 %\n3 o  100 %\n");
  EXPECT_EQ(heads, std::vector<std::string>{"50 % 100 %"});
}

TEST_F(Logs, OneFileAlone) {
  auto log = make(4096, 1);
  for (int i = 0; i < 1000; ++i)
    log.feed(LogStream::kOut, std::string(100, 'z') + "\n", Timestamp{1});
  log.finish(Timestamp{2});
  EXPECT_LE(testing::readText(fileName(0)).size(), 4096U);
  EXPECT_FALSE(pathExists(fileName(1)));
}

TEST_F(Logs, WhatTheDiskRefusesIsCountedAndSaid) {
  auto log = make(1u << 20, 2);
  log.feed(LogStream::kOut, "before\n", Timestamp{1});
  // As a full disk does: nothing can be written any more, and later it can.
  const rlimit old = [] {
    rlimit limit{};
    ::getrlimit(RLIMIT_FSIZE, &limit);
    return limit;
  }();
  ::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{12, old.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  log.feed(LogStream::kOut, "lost 1\nlost 2\n", Timestamp{2});
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &old), 0);
  log.feed(LogStream::kOut, "after\n", Timestamp{3});
  log.finish(Timestamp{4});
  const auto lines = records(2);
  EXPECT_EQ(textOf(lines, LogStream::kOut), "before\nafter\n");
  EXPECT_EQ(textOf(lines, LogStream::kBole), "2 lines were lost: File too large\n");
}

class RealLogs : public testing::AttemptWorld {};

// A rank that writes faster than anyone reads.
TEST_F(RealLogs, AFloodIsBoundedAndItsEndIsKept) {
  launch.logBytes = kMiB;
  launch.logFiles = 3;
  addShell("seq 1 2000000; echo the end");
  EXPECT_EQ(run().cause, EndCause::kCompleted);
  std::uintmax_t size = 0;
  for (const auto& file : std::filesystem::directory_iterator(dir + "/log"))
    size += file.file_size();
  EXPECT_LE(size, 3u << 20);
  const auto text = output();
  EXPECT_EQ(text.substr(text.size() - 16), "2000000\nthe end\n");
}

TEST_F(RealLogs, NothingIsLostOnTheWay) {
  launch.logBytes = kMiB;
  launch.logFiles = 64;
  addShell("i=0; while [ $i -lt 20 ]; do seq $i 20 60000; i=$((i+1)); done");
  run();
  std::string expected;
  for (int i = 0; i < 20; ++i) {
    for (int number = i; number <= 60'000; number += 20) expected += std::to_string(number) + "\n";
  }
  EXPECT_TRUE(output() == expected);  // too long to print
}

TEST_F(RealLogs, ProgressInTheMiddleOfAFlood) {
  addShell("seq 1 100000; echo BOLE progress epoch=7; seq 1 100000");
  run();
  const auto progress = readProgress(dir);
  ASSERT_TRUE(progress && *progress);
  EXPECT_EQ((*progress)->ranks.at(0).values.at(0).second, "7");
}

}  // namespace
}  // namespace bole::supervise
