#include "cli/table.h"

#include <gtest/gtest.h>

#include <sstream>

#include "cli/text.h"

namespace bole::cli {
namespace {

TEST(Table, ColumnsAreAligned) {
  Table table({{"JOB", Align::kRight}, {"NAME", Align::kLeft, 6}, {"STATE"}});
  table.add({"7", "digits", "RUNNING"});
  table.add({"12", "伯乐", "QUEUED"});
  EXPECT_EQ(table.render({}),
            "JOB  NAME    STATE\n"
            "  7  digits  RUNNING\n"
            " 12  伯乐    QUEUED\n");
}

TEST(Table, TheWidestColumnThatMayShrinkIsCut) {
  Table table({{"JOB", Align::kRight}, {"NAME", Align::kLeft, 6}, {"WHAT", Align::kLeft, 8}});
  table.add({"1", "a-rather-long-name", "waits for 8 A100 GPUs: 2 are free now"});
  const auto text = table.render({40, false});
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(displayWidth(line), 40U) << line;
  EXPECT_NE(text.find("…"), std::string::npos);
  EXPECT_EQ(text,
            "JOB  NAME              WHAT\n"
            "  1  a-rather-long-n…  waits for 8 A100…\n");
}

TEST(Table, WhatMayNotShrinkStays) {
  Table table({{"ID"}, {"KEY"}});
  table.add({"1234567890", "abcdefghij"});
  EXPECT_NE(table.render({10, false}).find("1234567890  abcdefghij"), std::string::npos);
}

TEST(Table, ColourSurroundsTheTextAlone) {
  Table table({{"STATE"}, {"N", Align::kRight}});
  table.add({Cell("FAILED", Tint::kRed), "1"});
  EXPECT_EQ(table.render({100, true}),
            "\x1b[1mSTATE\x1b[0m   \x1b[1mN\x1b[0m\n\x1b[31mFAILED\x1b[0m  1\n");
}

TEST(Table, ForeignTextCannotBreakIt) {
  Table table({{"NAME"}});
  table.add({"a\n\x1b[31mb"});
  EXPECT_EQ(table.render({}), "NAME\na??[31mb\n");
}

TEST(Facts, ValuesStandInOneColumnAndAreWrappedUnderThemselves) {
  Facts facts;
  facts.add("State", "QUEUED");
  facts.add("Reason", "waits for four GPUs of the kind A100 and more words");
  EXPECT_EQ(facts.render({35, false}),
            "State:   QUEUED\n"
            "Reason:  waits for four GPUs of the\n"
            "         kind A100 and more words\n");
}

}  // namespace
}  // namespace bole::cli
