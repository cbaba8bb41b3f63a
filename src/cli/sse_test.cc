#include "cli/sse.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <vector>

namespace bole::cli {
namespace {

std::vector<ServerEvent> parsed(const std::vector<std::string>& pieces) {
  EventParser parser;
  std::vector<ServerEvent> events;
  for (const auto& piece : pieces) {
    const auto goOn = parser.feed(piece, [&](const ServerEvent& event) {
      events.push_back(event);
      return true;
    });
    EXPECT_TRUE(goOn && *goOn);
  }
  return events;
}

TEST(Events, NamesDataAndIds) {
  const auto events =
      parsed({"id: 1/0=3/x\nevent: line\ndata: {\"a\":1}\n\n: heartbeat\n\ndata: "
              "plain\r\ndata:two\r\n\r\n"});
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].name, "line");
  EXPECT_EQ(events[0].data, "{\"a\":1}");
  EXPECT_EQ(events[0].id, "1/0=3/x");
  EXPECT_EQ(events[1].name, "message");
  EXPECT_EQ(events[1].data, "plain\ntwo");
  EXPECT_EQ(events[1].id, "1/0=3/x");
}

TEST(Events, AnUnfinishedEventIsNotTold) {
  EXPECT_TRUE(parsed({"event: line\ndata: x\n"}).empty());
}

RC_GTEST_PROP(Events, PiecesDoNotMatter, (const std::vector<std::uint8_t>& sizes)) {
  const std::string whole =
      "event: line\nid: 5\ndata: {\"text\":\"a b\"}\n\n:\n\nevent: end\ndata: {}\n\n";
  std::vector<std::string> pieces;
  std::size_t at = 0;
  for (const auto size : sizes) {
    pieces.push_back(whole.substr(std::min(at, whole.size()), size % 8U));
    at += size % 8U;
  }
  pieces.push_back(whole.substr(std::min(at, whole.size())));
  const auto events = parsed(pieces);
  RC_ASSERT(events.size() == 2U);
  RC_ASSERT(events[0].data == "{\"text\":\"a b\"}");
  RC_ASSERT(events[0].id == "5");
  RC_ASSERT(events[1].name == "end");
}

TEST(Events, TheReaderMayStop) {
  EventParser parser;
  int seen = 0;
  const auto goOn = parser.feed("data: 1\n\ndata: 2\n\n", [&](const ServerEvent&) {
    ++seen;
    return false;
  });
  ASSERT_TRUE(goOn);
  EXPECT_FALSE(*goOn);
  EXPECT_EQ(seen, 1);
}

TEST(Events, MemoryIsBounded) {
  EventParser parser;
  const auto never = [](const ServerEvent&) { return true; };
  const std::string piece = "data: " + std::string(1024 * 1024, 'x') + "\n";
  Result<bool> result = true;
  for (int i = 0; i < 20 && result; ++i) result = parser.feed(piece, never);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kInvalid);
}

}  // namespace
}  // namespace bole::cli
