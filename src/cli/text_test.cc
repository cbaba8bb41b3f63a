#include "cli/text.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace bole::cli {
namespace {

TEST(Text, WidthCountsColumns) {
  EXPECT_EQ(displayWidth(""), 0U);
  EXPECT_EQ(displayWidth("bole"), 4U);
  EXPECT_EQ(displayWidth("伯乐"), 4U);
  EXPECT_EQ(displayWidth("é"), 1U);
  EXPECT_EQ(displayWidth("e\u0301"), 1U);
  EXPECT_EQ(displayWidth("\xff\xfe"), 2U);
}

TEST(Text, TruncationNeverSplitsACharacter) {
  EXPECT_EQ(truncated("digits", 6), "digits");
  EXPECT_EQ(truncated("digits", 4), "dig…");
  EXPECT_EQ(truncated("伯乐相马", 5), "伯乐…");
  EXPECT_EQ(truncated("伯乐相马", 4), "伯…");
  EXPECT_EQ(truncated("digits", 0), "");
}

RC_GTEST_PROP(Text, TruncatedTextFits, (const std::string& text, std::uint8_t columns)) {
  RC_ASSERT(displayWidth(truncated(text, columns)) <= columns);
}

TEST(Text, ForeignSentencesStayOneHarmlessLine) {
  EXPECT_EQ(neutralised("a\nb\x1b[2Jc\x7f"), "a?b?[2Jc?");
  EXPECT_EQ(neutralised("\u202Egpj.exe"), "?gpj.exe");
  EXPECT_EQ(neutralised("x\u009b31m"), "x?31m");
  EXPECT_EQ(neutralised("伯乐\xff"), "伯乐?");
}

TEST(Text, JobsKeepTheirColoursAndNothingElse) {
  EXPECT_EQ(terminalLine("\x1b[31mred\x1b[0m"), "\x1b[31mred\x1b[0m\x1b[0m");
  EXPECT_EQ(terminalLine("\x1b[31mred"), "\x1b[31mred\x1b[0m");
  EXPECT_EQ(terminalLine("a\x1b[2Jb\x1b[Hc"), "abc");
  EXPECT_EQ(terminalLine("\x1b]0;title\a."), ".");
  EXPECT_EQ(terminalLine("\x1b]8;;http://x\x1b\\link"), "link");
  EXPECT_EQ(terminalLine("\x1bP1$r0m\x1b\\x"), "x");
  EXPECT_EQ(terminalLine("\u009b2Jx"), "x");
  EXPECT_EQ(terminalLine("tab\there\b\x07"), "tab\there");
  EXPECT_EQ(terminalLine("\x1b(0qqq"), "qqq");
  EXPECT_EQ(terminalLine("unfinished \x1b["), "unfinished ");
}

TEST(Text, OverwrittenTextIsNotShown) {
  EXPECT_EQ(terminalLine(" 10%\r 20%\r 30%"), " 30%");
  EXPECT_EQ(terminalLine("done\r"), "done");
}

RC_GTEST_PROP(Text, NoEscapeButColourSurvives, (const std::string& text)) {
  const auto shown = terminalLine(text);
  for (std::size_t at = 0; at < shown.size(); ++at) {
    const auto byte = static_cast<unsigned char>(shown[at]);
    if (byte != 0x1b) {
      RC_ASSERT(byte >= 0x20 || byte == '\t');
      RC_ASSERT(byte != 0x7f);
      continue;
    }
    const auto end = shown.find('m', at);
    RC_ASSERT(end != std::string::npos);
    RC_ASSERT(shown.substr(at + 1, 1) == "[");
    RC_ASSERT(
        shown.substr(at + 2, end - at - 2).find_first_not_of("0123456789;:<=>?!\"#$%&'()*+,-./ ") ==
        std::string::npos);
    at = end;
  }
}

TEST(Text, WrapsAtSpaces) {
  EXPECT_EQ(wrapped("waits for 4 GPUs", 9), (std::vector<std::string>{"waits for", "4 GPUs"}));
  EXPECT_EQ(wrapped("", 9), std::vector<std::string>{""});
  EXPECT_EQ(wrapped("immeasurable", 4), std::vector<std::string>{"immeasurable"});
}

TEST(Text, DistanceIsSymmetricAndCountsChanges) {
  EXPECT_EQ(editDistance("logs", "logs"), 0U);
  EXPECT_EQ(editDistance("lgos", "logs"), 2U);
  EXPECT_EQ(editDistance("", "ps"), 2U);
  EXPECT_EQ(editDistance("attach", "atach"), 1U);
}

TEST(Text, QuotedOnlyWhereTheShellNeedsIt) {
  EXPECT_EQ(shellQuoted("train.py"), "train.py");
  EXPECT_EQ(shellQuoted("a b"), "'a b'");
  EXPECT_EQ(shellQuoted("it's"), "'it'\\''s'");
  EXPECT_EQ(shellQuoted(""), "''");
}

}  // namespace
}  // namespace bole::cli
