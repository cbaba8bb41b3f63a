// The grammar of GPUs: what people write and what is asked of the scheduler.
#include <gtest/gtest.h>

#include <vector>

#include "spec/spec.h"

namespace bole::spec {
namespace {

using Models = std::vector<std::string>;

model::GpuRequest read(std::string_view text) {
  auto request = parseGpuRequest(text);
  EXPECT_TRUE(request) << text << ": " << (request ? "" : request.error().message());
  return request.value_or(model::GpuRequest{});
}

TEST(GpuRequest, Counts) {
  EXPECT_EQ(read("2").count, 2U);
  EXPECT_EQ(read("1024").count, 1024U);
  EXPECT_EQ(read(" 2 ").count, 2U);
  EXPECT_EQ(read("2.0").count, 2U);
  EXPECT_EQ(read("0"), model::GpuRequest{});
  EXPECT_EQ(read("A100:0"), model::GpuRequest{});
}

TEST(GpuRequest, FractionsAreOfOneGpu) {
  EXPECT_EQ(read("0.5").count, 1U);
  EXPECT_EQ(read("0.5").share, MilliGpu(500));
  EXPECT_EQ(read("A100:0.125").share, MilliGpu(125));
  EXPECT_EQ(read("1").share, kWholeGpu);
}

TEST(GpuRequest, Models) {
  EXPECT_EQ(read("A100:2").models, Models{"A100"});
  EXPECT_EQ(read("A100:2").count, 2U);
  EXPECT_EQ(read("a100").models, Models{"A100"});
  EXPECT_EQ(read("A100").count, 1U);
  EXPECT_EQ(read("H100,A100:8").models, (Models{"H100", "A100"}));
  EXPECT_EQ(read("A100,A100:8").models, Models{"A100"});
  EXPECT_EQ(read("RTX 4090:1").models, Models{"RTX-4090"});
  EXPECT_EQ(read("4090:2").models, Models{"4090"});
  EXPECT_EQ(read("1080Ti:2").models, Models{"1080TI"});
  EXPECT_EQ(read("6000-Ada").models, Models{"6000-ADA"});
  EXPECT_EQ(read("gpu:a100:2").models, Models{"A100"});  // sbatch --gres
  EXPECT_EQ(read("gpu:2").count, 2U);
}

TEST(GpuRequest, MemoryIsOfTheProductsName) {
  const auto request = read("A100:80GB:2");
  EXPECT_EQ(request.models, Models{"A100"});
  EXPECT_EQ(request.count, 2U);
  EXPECT_EQ(request.memoryMin, Bytes(80 * 970'000'000LL));
  EXPECT_EQ(request.memoryMax, kGiB * 80);
  EXPECT_EQ(read("A100-80GB:2"), request);
  EXPECT_EQ(read("80GB").models, Models{});
  EXPECT_EQ(read("80GB").count, 1U);
  EXPECT_EQ(read("80G:4").count, 4U);
  // What the devices of these names offer is found, and the next smaller product is not.
  EXPECT_LE(*read("16GB").memoryMin, kMiB * 15'360);  // T4
  EXPECT_LE(*read("80GB").memoryMin, kMiB * 81'559);  // H100
  EXPECT_GT(*read("80GB").memoryMin, kGiB * 48);
}

TEST(GpuRequest, MemoryRanges) {
  EXPECT_EQ(read("24GB..").memoryMin, Bytes(24 * 970'000'000LL));
  EXPECT_FALSE(read("24GB..").memoryMax);
  EXPECT_EQ(read("..24GB").memoryMax, kGiB * 24);
  EXPECT_FALSE(read("..24GB").memoryMin);
  EXPECT_EQ(read("16GB..48GB:1").memoryMax, kGiB * 48);
  EXPECT_EQ(read("20GiB..").memoryMin, kGiB * 20);
  EXPECT_EQ(read("A100:40GB..:2").count, 2U);
  EXPECT_EQ(read("1.5GB..").memoryMin, Bytes(1'455'000'000));
}

TEST(GpuRequest, RefusesWithTheWholeGrammar) {
  for (const auto* text : {"",
                           " ",
                           ":",
                           "::",
                           "A100:",
                           ":2",
                           "-1",
                           "+1",
                           "1.5",
                           "0.0001",
                           "0.0",
                           "1025",
                           "4090",
                           "2:A100",
                           "A100:2:3",

                           "A100:80GB:80GB:2",
                           "A100-80GB:40GB:1",
                           "A100,512Mi:1",
                           "A100-40GB-80GB",
                           "no-24GB",
                           "1024TiB-24GB",
                           "H100-80GB,A100-40GB:2",
                           "all",
                           "any",
                           "none",
                           "no",
                           "off",
                           "true",
                           "null",
                           "nan",
                           "1e3",
                           "0x10",
                           "0o17",
                           "1_000",
                           "010",
                           "A100:010",
                           "4.",
                           ".5",
                           "1:30",
                           "..",
                           "A100:..:1",
                           "48GB..24GB",
                           "24MB..",
                           "80GiB",
                           "1TB",
                           "0GB",

                           "A100;2",
                           "A100\n:2",
                           "\xff",
                           "nvidia",
                           "99999999999999999999",
                           "A100:1,2"}) {
    const auto request = parseGpuRequest(text);
    ASSERT_FALSE(request) << text;
    EXPECT_FALSE(request.error().what.empty());
    EXPECT_FALSE(request.error().found.empty());
    EXPECT_FALSE(request.error().expected.empty());
    EXPECT_TRUE(request.error().where.empty());
  }
  EXPECT_FALSE(parseGpuRequest(std::string(257, 'A')));
  EXPECT_FALSE(parseGpuRequest("A1,A2,A3,A4,A5,A6,A7,A8,A9,B1,B2,B3,B4,B5,B6,B7,B8:1"));
}

}  // namespace
}  // namespace bole::spec
