#include <gtest/gtest.h>

#include <cerrno>

#include "base/result.h"
#include "base/units.h"

namespace bole {
namespace {

TEST(Error, ReadsAsOneLineWithAllThatIsKnown) {
  const auto error = makeError(ErrorCode::kInvalid, "unknown field")
                         .at("bole.yaml:3:5")
                         .foundValue("gpu")
                         .expectedValue("one of gpus, cpus")
                         .withHint("did you mean 'gpus'?");
  const auto text = error.message();
  for (const auto* part :
       {"bole.yaml:3:5", "unknown field", "gpu", "one of gpus, cpus", "did you mean 'gpus'?"}) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }
  EXPECT_EQ(text.find('\n'), std::string::npos);
}

TEST(Error, OfTheSystemIsCodedByWhatCanBeDone) {
  EXPECT_EQ(systemError(ENOSPC, "cannot write", "x").code, ErrorCode::kUnavailable);
  EXPECT_EQ(systemError(EROFS, "cannot write", "x").code, ErrorCode::kUnavailable);
  EXPECT_EQ(systemError(ENOENT, "cannot read", "x").code, ErrorCode::kNotFound);
  EXPECT_EQ(systemError(EACCES, "cannot read", "x").code, ErrorCode::kPermission);
  EXPECT_EQ(systemError(EIO, "cannot read", "x").code, ErrorCode::kInternal);
}

Result<int> half(int n) {
  if (n % 2) return fail(ErrorCode::kInvalid, "odd");
  return n / 2;
}
Result<int> quarter(int n) {
  BOLE_ASSIGN(const auto once, half(n));
  BOLE_TRY(half(once));
  return once / 2;
}

TEST(Result, ErrorsPassThroughTheMacros) {
  EXPECT_EQ(*quarter(8), 2);
  EXPECT_FALSE(quarter(7));
  EXPECT_FALSE(quarter(6));
}

TEST(Format, BytesDurationsAndTimesForPeople) {
  EXPECT_EQ(formatBytes(kGiB * 80), "80 GiB");
  EXPECT_EQ(formatBytes(Bytes(1536LL * 1024 * 1024)), "1.5 GiB");
  EXPECT_EQ(formatBytes(kMiB * 512), "512 MiB");
  EXPECT_EQ(formatBytes(Bytes(0)), "0 B");
  EXPECT_EQ(formatDuration(minutes(62)), "1h 02m");
  EXPECT_EQ(formatDuration(milliseconds(3200)), "3.2s");
  EXPECT_EQ(formatTimestamp(Timestamp{1'796'042'589'000'000}), "2026-11-30 12:43:09");
}

}  // namespace
}  // namespace bole
