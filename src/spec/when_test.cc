#include "spec/when.h"

#include <gtest/gtest.h>

#include "spec/links.h"

namespace bole::spec {
namespace {

std::int64_t at(const char* text) {
  const auto time = parseTime(text);
  EXPECT_TRUE(time) << text << ": " << (time ? "" : time.error().message());
  return time ? time->micros / 1'000'000 : -1;
}

TEST(Time, IsReadWithItsOffset) {
  EXPECT_EQ(at("1970-01-01T00:00Z"), 0);
  EXPECT_EQ(at("1970-01-01T08:00:05+08:00"), 5);
  EXPECT_EQ(at("2026-12-24 20:00:00-03:30"), at("2026-12-24T23:30Z"));
  EXPECT_EQ(at("2024-02-29T12:00Z"), 1'709'208'000);
  EXPECT_EQ(writeTime(Timestamp{1'709'208'000'000'000}), "2024-02-29T12:00:00Z");
}

TEST(Time, WhatIsNoneIsRefused) {
  for (const auto* text :
       {"", "tomorrow", "2026-12-24", "2026-13-01T00:00Z", "2026-02-29T00:00Z", "2026-12-24T24:00Z",
        "2026-12-24T20:60Z", "2026-12-24T20:00:61Z", "2026-12-24T20:00+15:00", "2026-12-24T20:00Zx",
        "1969-12-31T00:00Z", "2026-12-24T20:00+8"}) {
    EXPECT_FALSE(parseTime(text)) << text;
  }
  const auto zoneless = parseTime("2026-12-24T20:00");
  ASSERT_FALSE(zoneless);
  EXPECT_NE(zoneless.error().hint.find("+08:00"), std::string::npos) << zoneless.error().hint;
}

TEST(Begin, IsATimeOrAWait) {
  EXPECT_EQ(parseBegin("2h")->delay, hours(2));
  EXPECT_EQ(parseBegin("+90s")->delay, seconds(90));
  EXPECT_EQ(parseBegin("2026-12-24T20:00Z")->at.micros / 1'000'000, at("2026-12-24T20:00Z"));
  EXPECT_FALSE(parseBegin("soon"));
}

TEST(Window, IsReadAndWrittenAlike) {
  const auto same = [](const char* text) {
    const auto window = parseWindow(text);
    ASSERT_TRUE(window) << text;
    EXPECT_EQ(writeWindow(*window), text);
  };
  for (const auto* text : {"mon-fri 20:00-08:00", "sat,sun", "22:00-06:00", "mon-sun",
                           "tue,thu 09:00-24:00", "mon,wed-fri 10:00-10:00"})
    same(text);
  const auto night = *parseWindow("Mon-Fri 20:00-08:00");
  EXPECT_EQ(night.days, 0x1F);
  EXPECT_EQ(night.from, 20 * 60);
  EXPECT_EQ(night.length, 12 * 60);
  EXPECT_EQ(parseWindow("sat-mon")->days, 0x61);
}

TEST(Window, WhatIsNoneIsRefused) {
  for (const auto* text : {"", "someday", "mon-", "mon 8-9", "24:00-06:00", "20:00", "20:00-25:00",
                           "mon,20:00-21:00", "monday", "mon 20:00-21:00 x"})
    EXPECT_FALSE(parseWindow(text)) << text;
}

TEST(Offset, IsReadAndWrittenAlike) {
  for (const auto* text : {"+08:00", "-03:30", "+00:00", "+14:00"})
    EXPECT_EQ(writeOffset(*parseOffset(text)), text);
  EXPECT_EQ(parseOffset("Z")->value, 0);
  for (const auto* text : {"", "8", "+8:00", "+14:01", "08:00"}) EXPECT_FALSE(parseOffset(text));
}

using Pairs = model::EnvList;

TEST(After, NamesJobsAndTheEndsThatCount) {
  EXPECT_EQ(*parseAfter("12"), (Pairs{{"ok", "12"}}));
  EXPECT_EQ(*parseAfter("prep"), (Pairs{{"ok", "prep"}}));
  EXPECT_EQ(*parseAfter("any:12, notok:prep"), (Pairs{{"any", "12"}, {"notok", "prep"}}));
  EXPECT_EQ(*parseAfter("afterok:12:13"), (Pairs{{"ok", "12"}, {"ok", "13"}}));
  for (const auto* text : {"", ":", "ok:", "later:12", "12,", "Not A Name", "ok:12:"})
    EXPECT_FALSE(parseAfter(text)) << text;
}

TEST(Array, NamesItsElements) {
  using Elements = std::vector<std::uint32_t>;
  EXPECT_EQ(parseArray("0-3")->elements, (Elements{0, 1, 2, 3}));
  EXPECT_EQ(parseArray("7,1,3")->elements, (Elements{1, 3, 7}));
  EXPECT_EQ(parseArray("0-100:50%2")->elements, (Elements{0, 50, 100}));
  EXPECT_EQ(parseArray("0-100:50%2")->most, 2U);
  EXPECT_EQ(parseArray("0-9999")->elements.size(), model::JobSpec::kMostElements);
  for (const auto* text : {"", "3-1", "1,1", "0-2,2", "0-10000", "0-9%0", "0-9%", "-3", "a", "1:2",
                           "0-9:0", "0-2000000000", "1%2%3", "0-4000000000:4000000000"})
    EXPECT_FALSE(parseArray(text)) << text;
}

}  // namespace
}  // namespace bole::spec
