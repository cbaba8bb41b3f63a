#include "engine/local/log_reader.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "engine/local/testing/test_support.h"

namespace bole::engine {
namespace {

using testing::TempDir;
using testing::writeText;
namespace fs = std::filesystem;

// Writes and rotates as a supervisor does.
class LogWriter {
 public:
  LogWriter(std::string directory, std::uint32_t rank, int files = 4)
      : path_(std::move(directory) + "/rank-" + std::to_string(rank) + ".log"), files_(files) {
    fs::create_directories(fs::path(path_).parent_path());
    out_.open(path_, std::ios::binary | std::ios::app);
  }
  void line(std::int64_t at, const std::string& text, char stream = 'o') {
    out_ << at << ' ' << stream << ' ' << text << '\n' << std::flush;
  }
  void raw(const std::string& bytes) { out_ << bytes << std::flush; }
  void rotate() {
    out_.close();
    for (int i = files_ - 1; i >= 1; --i) {
      const auto from = i == 1 ? path_ : path_ + "." + std::to_string(i - 1);
      if (fs::exists(from)) fs::rename(from, path_ + "." + std::to_string(i));
    }
    out_.open(path_, std::ios::binary | std::ios::app);
  }

 private:
  std::string path_;
  int files_;
  std::ofstream out_;
};

class LogReaderTest : public ::testing::Test {
 protected:
  std::string directory_() { return temp_.path() + "/attempts/7/log"; }
  LogReader reader_() { return LogReader(Layout{temp_.path(), temp_.path() + "/uploads"}); }
  static LogQuery query(std::optional<std::uint32_t> rank = {}) {
    return {AttemptId(7), rank, Timestamp{}, std::nullopt};
  }
  static std::string show(const std::vector<model::LogLineView>& lines) {
    std::string text;
    for (const auto& line : lines) text += std::to_string(line.rank) + ":" + line.text + " ";
    return text;
  }
  std::string page(const LogQuery& asked, std::size_t most = 100) {
    const auto result = reader_().page(asked, most);
    if (!result) return result.error().message();
    return show(result->lines);
  }
  std::unique_ptr<LogCursor> follow(const LogQuery& asked, const std::string& position = "") {
    auto result = reader_().follow(asked, position);
    if (!result) ADD_FAILURE() << result.error().message();
    return result ? std::move(*result) : nullptr;
  }
  std::string next(LogCursor& cursor, std::size_t bytes = 1 << 20) {
    const auto chunk = cursor.next(bytes);
    if (!chunk) return chunk.error().message();
    lost_ += chunk->lost;
    more_ = chunk->more;
    return show(chunk->lines);
  }

  TempDir temp_;
  std::uint64_t lost_ = 0;
  bool more_ = false;
};

TEST_F(LogReaderTest, NothingWrittenYet) {
  EXPECT_EQ(page(query()), "");
  const auto cursor = follow(query());
  EXPECT_EQ(next(*cursor), "");
  LogWriter log(directory_(), 0);
  EXPECT_EQ(next(*cursor), "");
  log.line(10, "a");
  EXPECT_EQ(next(*cursor), "0:a ");
}

TEST_F(LogReaderTest, RanksAreMergedByTimeOverRotatedFiles) {
  LogWriter zero(directory_(), 0);
  LogWriter one(directory_(), 1);
  zero.line(10, "a");
  one.line(11, "b", 'e');
  zero.line(12, "c");
  zero.rotate();
  zero.line(13, "d");
  one.line(13, "e");
  zero.rotate();
  one.line(14, "f", 'b');
  zero.line(15, "");
  EXPECT_EQ(page(query()), "0:a 1:b 0:c 0:d 1:e 1:f 0: ");
  EXPECT_EQ(next(*follow(query())), "0:a 1:b 0:c 0:d 1:e 1:f 0: ");
  EXPECT_EQ(page(query(1)), "1:b 1:e 1:f ");
  EXPECT_EQ(next(*follow(query(1))), "1:b 1:e 1:f ");
  EXPECT_EQ(page(query(), 3), "1:e 1:f 0: ");
  const auto lines = reader_().page(query(1), 10)->lines;
  EXPECT_EQ(lines.at(0).stream, "err");
  EXPECT_EQ(lines.at(1).stream, "out");
  EXPECT_EQ(lines.at(2).stream, "bole");
  EXPECT_EQ(lines.at(0).time, Timestamp{11});
}

TEST_F(LogReaderTest, TailAndSince) {
  LogWriter log(directory_(), 0);
  for (int i = 1; i <= 9; ++i) {
    log.line(i * 10, std::to_string(i));
    if (i % 3 == 0) log.rotate();
  }
  auto asked = query();
  asked.tail = 4;
  EXPECT_EQ(page(asked), "0:6 0:7 0:8 0:9 ");
  EXPECT_EQ(next(*follow(asked)), "0:6 0:7 0:8 0:9 ");
  asked.since = Timestamp{75};
  EXPECT_EQ(page(asked), "0:8 0:9 ");
  EXPECT_EQ(next(*follow(asked)), "0:8 0:9 ");
  asked.tail.reset();
  EXPECT_EQ(page(asked), "0:8 0:9 ");
  EXPECT_EQ(next(*follow(asked)), "0:8 0:9 ");
  asked.since = Timestamp{91};
  EXPECT_EQ(page(asked), "");
  EXPECT_EQ(next(*follow(asked)), "");
  asked.since = Timestamp{};
  asked.tail = 0;
  EXPECT_EQ(page(asked), "");
  const auto cursor = follow(asked);
  EXPECT_EQ(next(*cursor), "");
  log.line(100, "new");
  EXPECT_EQ(next(*cursor), "0:new ");
}

TEST_F(LogReaderTest, TailOfZeroStartsBehindHalfALine) {
  LogWriter log(directory_(), 0);
  log.line(10, "whole");
  log.raw("11 o ha");
  auto asked = query();
  asked.tail = 0;
  const auto cursor = follow(asked);
  log.raw("lf\n");
  EXPECT_EQ(next(*cursor), "0:half ");
}

TEST_F(LogReaderTest, HalfALineIsNotALine) {
  LogWriter log(directory_(), 0);
  const auto cursor = follow(query());
  log.line(10, "whole");
  log.raw("11 o ha");
  EXPECT_EQ(page(query()), "0:whole ");
  EXPECT_EQ(next(*cursor), "0:whole ");
  EXPECT_EQ(next(*cursor), "");
  log.raw("lf\n");
  EXPECT_EQ(next(*cursor), "0:half ");
}

TEST_F(LogReaderTest, TornAndForeignTextIsPassedOver) {
  LogWriter log(directory_(), 0);
  log.raw("garbage\n\n5 x y\n");
  log.line(10, "a");
  log.raw("11 o torn by a crash");
  log.rotate();
  log.line(12, "b");
  writeText(directory_() + "/rank-x.log", "13 o no\n");
  writeText(directory_() + "/rank-0.log.bak", "13 o no\n");
  EXPECT_EQ(page(query()), "0:a 0:b ");
  EXPECT_EQ(next(*follow(query())), "0:a 0:b ");
}

TEST_F(LogReaderTest, LongLinesAndBytesOfAllKinds) {
  LogWriter log(directory_(), 0);
  const std::string longest(64 * 1024, 'x');
  log.line(10, longest);
  log.line(11, std::string("\0\xff\t\x1b[31m", 8));
  log.line(12, longest);
  const auto result = reader_().page(query(), 10);
  ASSERT_EQ(result->lines.size(), 3U);
  EXPECT_EQ(result->lines[0].text, longest);
  EXPECT_EQ(result->lines[1].text, std::string("\0\xff\t\x1b[31m", 8));
  const auto cursor = follow(query());
  const auto chunk = cursor->next(1 << 20);
  ASSERT_EQ(chunk->lines.size(), 3U);
  EXPECT_EQ(chunk->lines[2].text, longest);
}

TEST_F(LogReaderTest, AFileThatIsNoLogAtAllDoesNotHoldUpTheRest) {
  LogWriter log(directory_(), 0);
  log.raw(std::string(500'000, 'z') + "\n");
  log.line(10, "a");
  EXPECT_EQ(next(*follow(query())), "0:a ");
  EXPECT_EQ(page(query()), "0:a ");
}

TEST_F(LogReaderTest, ChunksAreBoundedAndSayThatThereIsMore) {
  LogWriter zero(directory_(), 0);
  LogWriter one(directory_(), 1);
  for (int i = 0; i < 100; ++i) (i % 2 == 0 ? zero : one).line(i + 1, std::string(99, 'x'));
  const auto cursor = follow(query());
  std::size_t lines = 0;
  for (int calls = 0; calls < 10; ++calls) {
    const auto chunk = cursor->next(1000);
    EXPECT_EQ(chunk->lines.size(), 10U);
    lines += chunk->lines.size();
    EXPECT_EQ(chunk->more, calls < 9);
  }
  EXPECT_EQ(lines, 100U);
  EXPECT_EQ(next(*cursor), "");
}

TEST_F(LogReaderTest, PositionsSurviveReadersAndRotations) {
  LogWriter zero(directory_(), 0);
  LogWriter one(directory_(), 1);
  zero.line(10, "a");
  one.line(11, "b");
  zero.line(12, "c");
  auto cursor = follow(query());
  EXPECT_EQ(next(*cursor, 3), "0:a 1:b ");
  const auto position = cursor->position();
  EXPECT_EQ(position.find_first_of(" \n\r"), std::string::npos);
  zero.rotate();
  zero.line(13, "d");
  zero.rotate();
  one.rotate();
  one.line(14, "e");
  EXPECT_EQ(next(*follow(query(), position)), "0:c 0:d 1:e ");
  EXPECT_EQ(next(*cursor), "0:c 0:d 1:e ");
  EXPECT_EQ(lost_, 0U);
  cursor = follow(query(), cursor->position());
  EXPECT_EQ(next(*cursor), "");
}

TEST_F(LogReaderTest, WhatWasRotatedAwayIsCountedAsAGap) {
  LogWriter log(directory_(), 0, 2);
  log.line(10, "a");
  const auto cursor = follow(query());
  EXPECT_EQ(next(*cursor), "0:a ");
  const auto position = cursor->position();
  for (int i = 1; i <= 3; ++i) {
    log.rotate();
    log.line(10 + i, std::to_string(i));
  }
  EXPECT_EQ(next(*cursor), "0:2 0:3 ");
  EXPECT_EQ(lost_, 1U);
  EXPECT_EQ(next(*follow(query(), position)), "0:2 0:3 ");
  EXPECT_EQ(lost_, 2U);
}

TEST_F(LogReaderTest, AnInodeThatIsUsedAgainIsAnotherFile) {
  {
    LogWriter log(directory_(), 0);
    log.line(10, "a");
  }
  const auto cursor = follow(query());
  EXPECT_EQ(next(*cursor), "0:a ");
  fs::resize_file(directory_() + "/rank-0.log", 0);  // the same inode, as after a removal
  LogWriter log(directory_(), 0);
  log.line(20, "b");
  log.line(21, "c");
  EXPECT_EQ(next(*cursor), "0:b 0:c ");
  EXPECT_EQ(lost_, 1U);
}

TEST_F(LogReaderTest, WrongPositionsAreRefused) {
  for (const auto* wrong : {"x", "1:0", "1:0.1.2", "1:0.1.2.3.4", "1:-1.0.0.0", "2:0.1.2.3",
                            "1:zzzzzzzz.1.1.1", "1:0.1.2.zzzzzzzzzzzzzzzzz"}) {
    const auto result = reader_().follow(query(), wrong);
    ASSERT_FALSE(result) << wrong;
    EXPECT_EQ(result.error().code, ErrorCode::kInvalid);
  }
}

TEST_F(LogReaderTest, SinceFindsItsPlaceInLargeFiles) {
  LogWriter log(directory_(), 0);
  std::string text;
  for (int i = 1; i <= 50'000; ++i) {
    text += std::to_string(i * 10) + " o " + std::string(static_cast<std::size_t>(i % 90), 'x') +
            std::to_string(i) + "\n";
  }
  log.raw(text);
  for (const int from : {1, 2, 777, 25'000, 49'999, 50'000}) {
    auto asked = query();
    asked.since = Timestamp{from * 10};
    const auto cursor = follow(asked);
    const auto chunk = cursor->next(1);
    ASSERT_EQ(chunk->lines.size(), 1U) << from;
    EXPECT_EQ(chunk->lines[0].time, Timestamp{from * 10});
  }
}

// Whatever is written and rotated in between: a cursor that is taken up again after each chunk
// gives every line once, in each rank's order; and the newest page is the end of that.
TEST_F(LogReaderTest, PropertyEveryLineOnce) {
  EXPECT_TRUE(rc::check([] {
    const TempDir temp;
    const auto directory = temp.path() + "/attempts/7/log";
    const LogReader reader(Layout{temp.path(), ""});
    const auto ranks = *rc::gen::inRange<std::uint32_t>(1, 4);
    std::vector<std::unique_ptr<LogWriter>> logs;
    for (std::uint32_t r = 0; r < ranks; ++r) {
      logs.push_back(std::make_unique<LogWriter>(directory, r, 1000));
    }
    std::vector<std::vector<std::string>> written(ranks);
    std::vector<std::vector<std::string>> read(ranks);
    std::string position;
    std::int64_t now = 1000;
    const auto drain = [&](std::size_t bytes) {
      const auto cursor = reader.follow(query(), position);
      const auto chunk = (*cursor)->next(bytes);
      RC_ASSERT(chunk->lost == 0U);
      for (const auto& line : chunk->lines) read[line.rank].push_back(line.text);
      position = (*cursor)->position();
      return chunk->more;
    };
    const auto steps = *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 100));
    for (const int step : steps) {
      const auto rank = static_cast<std::uint32_t>(step) % ranks;
      if (step < 60) {
        now += step % 7 - 1;  // also backwards
        const auto text = std::to_string(written[rank].size()) +
                          std::string(static_cast<std::size_t>(step % 13 * 9), 'y');
        logs[rank]->line(now, text);
        written[rank].push_back(text);
      } else if (step < 75) {
        logs[rank]->rotate();
      } else {
        drain(static_cast<std::size_t>(step - 70) * 10);
      }
    }
    for (int i = 0; i < 1000 && drain(64); ++i) {
    }
    drain(1 << 20);
    RC_ASSERT(read == written);
    const auto all = reader.page(query(), 100'000);
    std::vector<std::vector<std::string>> paged(ranks);
    for (const auto& line : all->lines) paged[line.rank].push_back(line.text);
    RC_ASSERT(paged == written);
  }));
}

}  // namespace
}  // namespace bole::engine
