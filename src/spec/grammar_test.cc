#include "spec/grammar.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <utility>
#include <vector>

#include "spec/kubernetes.h"
#include "spec/quote.h"

namespace bole::spec {
namespace {

using Texts = std::vector<std::string_view>;

TEST(Duration, ReadsUnitsInFallingOrder) {
  const std::vector<std::pair<std::string_view, Duration>> table = {
      {"90s", seconds(90)},
      {"30m", minutes(30)},
      {"2h", hours(2)},
      {"1d", hours(24)},
      {"1w", hours(168)},
      {"1h30m", minutes(90)},
      {"1h 30m", minutes(90)},
      {"2 hours", hours(2)},
      {"1 min 5 secs", seconds(65)},
      {"250ms", milliseconds(250)},
      {"0s", Duration()},
      {" 5m ", minutes(5)},
      {"3660d", hours(24 * 3660)},
      {"1d2h3m4s5ms", hours(26) + seconds(184) + milliseconds(5)},
  };
  for (const auto& [text, expected] : table) {
    const auto got = parseDuration(text);
    ASSERT_TRUE(got) << text;
    EXPECT_EQ(*got, expected) << text;
  }
}

TEST(Duration, ReadsClocksOfSbatch) {
  EXPECT_EQ(*parseDuration("01:30:00"), minutes(90));
  EXPECT_EQ(*parseDuration("100:00:00"), hours(100));
  EXPECT_EQ(*parseDuration("2-00"), hours(48));
  EXPECT_EQ(*parseDuration("2-03:30"), hours(51) + minutes(30));
  EXPECT_EQ(*parseDuration("0-00:00:01"), seconds(1));
}

TEST(Duration, RefusesWhatIsUnclear) {
  for (const auto text : Texts{"",
                               " ",
                               "90",
                               "1:30",
                               "1.5h",
                               "-5s",
                               "+5s",
                               "1h1h",
                               "1m1h",
                               "5 apples",
                               "1H",
                               "h",
                               "1:2:3",
                               "00:60:00",
                               "00:00:60",
                               "1-24",
                               "1-",
                               "-1",
                               "1-1-1",
                               "1:00:00:00",
                               "3661d",
                               "99999999999999999999s",
                               "999999999999999999w",
                               "999999999999-00",
                               "1e3s",
                               "1_0s",
                               "\xff",
                               "5m\n"}) {
    const auto got = parseDuration(text);
    ASSERT_FALSE(got) << text << " became " << formatDuration(*got);
    EXPECT_FALSE(got.error().what.empty());
    EXPECT_FALSE(got.error().expected.empty()) << text;
    EXPECT_TRUE(got.error().where.empty());
  }
}

TEST(Size, ReadsUnits) {
  const std::vector<std::pair<std::string_view, std::int64_t>> table = {
      {"0", 0},
      {"1B", 1},
      {"512MiB", 512LL << 20},
      {"512Mi", 512LL << 20},
      {"512M", 512LL << 20},
      {"512m", 512LL << 20},
      {"512MB", 512'000'000},
      {"16 GiB", 16LL << 30},
      {"16g", 16LL << 30},
      {"1.5GB", 1'500'000'000},
      {"1.5KiB", 1536},
      {"0.001KB", 1},
      {"0.0001KB", 1},  // rounded up
      {"1024TiB", 1LL << 50},
      {"1PiB", 1LL << 50},
  };
  for (const auto& [text, expected] : table) {
    const auto got = parseSize(text);
    ASSERT_TRUE(got) << text;
    EXPECT_EQ(got->value, expected) << text;
  }
}

TEST(Size, RefusesTheRest) {
  for (const auto text : Texts{"", "512", "MiB", "-1GB", "+1GB", "1e9B", "0x10MB", "010MB", "1_0MB",
                               "16 apples", "1.GB", ".5GB", "1..2GB", "1025TiB",
                               "9999999999999999999GB", "2PiB", "1 2GB", "1GB2", "1,5GB"}) {
    ASSERT_FALSE(parseSize(text)) << text;
    EXPECT_FALSE(parseSize(text).error().expected.empty()) << text;
  }
}

TEST(Cpus, ReadsThousandths) {
  EXPECT_EQ(*parseCpus("2"), MilliCpu(2000));
  EXPECT_EQ(*parseCpus("0.5"), MilliCpu(500));
  EXPECT_EQ(*parseCpus("500m"), MilliCpu(500));
  EXPECT_EQ(*parseCpus("0.001"), MilliCpu(1));
  EXPECT_EQ(*parseCpus("0"), MilliCpu(0));
  EXPECT_EQ(*parseCpus("100000"), kMaxCpus);
  for (const auto text : Texts{"", "-1", "1e3", "0.0001", "0.5m", "100001", "2 cores", "010", "all",
                               "0x2", "9999999999999999999"})
    EXPECT_FALSE(parseCpus(text)) << text;
}

TEST(KubernetesQuantity, ReadsSuffixesAndExponents) {
  EXPECT_EQ(parseKubernetesBytes("512Mi")->value, 512LL << 20);
  EXPECT_EQ(parseKubernetesBytes("512M")->value, 512'000'000);
  EXPECT_EQ(parseKubernetesBytes("1e9")->value, 1'000'000'000);
  EXPECT_EQ(parseKubernetesBytes("1E9")->value, 1'000'000'000);
  EXPECT_EQ(parseKubernetesBytes("1.5Gi")->value, 1536LL << 20);
  EXPECT_EQ(parseKubernetesBytes("1500m")->value, 2);  // rounded up
  EXPECT_EQ(parseKubernetesBytes("1k")->value, 1000);
  EXPECT_EQ(*parseKubernetesCpus("100m"), MilliCpu(100));
  EXPECT_EQ(*parseKubernetesCpus("0.1"), MilliCpu(100));
  EXPECT_EQ(*parseKubernetesCpus("2"), MilliCpu(2000));
  for (const auto text : Texts{"", "512MB", "512MiB", "1K", "-1", "1e19", "1E", "1e", "1ee1",
                               "1Pi1", "9E", "99999999999999999999", "Mi", "1 Gi", "1e-3"})
    EXPECT_FALSE(parseKubernetesBytes(text)) << text;
}

TEST(GoDuration, ReadsWhatGoWrites) {
  EXPECT_EQ(*parseGoDuration("10m"), minutes(10));
  EXPECT_EQ(*parseGoDuration("1h30m0s"), minutes(90));
  EXPECT_EQ(*parseGoDuration("1.5h"), minutes(90));
  EXPECT_EQ(*parseGoDuration("0"), Duration());
  EXPECT_EQ(*parseGoDuration("300ms"), milliseconds(300));
  for (const auto text : Texts{"", "10", "-1m", "1d", "1h ", "h", "99999999h", "1hh"})
    EXPECT_FALSE(parseGoDuration(text)) << text;
}

TEST(Port, ReadsWhatDockerTakes) {
  EXPECT_EQ(*parsePort("80"), (model::Port{80, 0, "127.0.0.1"}));
  EXPECT_EQ(*parsePort("8080:80"), (model::Port{80, 8080, "127.0.0.1"}));
  EXPECT_EQ(*parsePort("0.0.0.0:8080:80/tcp"), (model::Port{80, 8080, "0.0.0.0"}));
  EXPECT_EQ(*parsePort("[::1]:8080:80"), (model::Port{80, 8080, "::1"}));
  for (const auto text : Texts{"", "0", "65536", "080808", ":80", "80:", "::80", "a:80",
                               "1.2.3:8080:80", "1.2.3.4.5:1:2", "::1:8080:80", "[::1]:80",
                               "[::1:8080:80", "[]:1:2", "80/udp", "80-90", "1:2:3:4", "-1"})
    EXPECT_FALSE(parsePort(text)) << text;
}

TEST(Path, IsMadeAbsolute) {
  EXPECT_EQ(*resolvePath("data", "/home/ada"), "/home/ada/data");
  EXPECT_EQ(*resolvePath("./a//b/../c/", "/home/ada"), "/home/ada/a/c");
  EXPECT_EQ(*resolvePath("../../../..", "/home/ada"), "/");
  EXPECT_EQ(*resolvePath("/a/./b", "/x"), "/a/b");
  for (const auto text : Texts{"", "~/x", "$HOME/x", "a\nb", "a\x01"})
    EXPECT_FALSE(resolvePath(text, "/home/ada")) << text;
  EXPECT_FALSE(resolvePath(std::string(4097, 'a'), "/"));
}

TEST(Mount, KeepsTheSystemItself) {
  EXPECT_EQ(*parseMount("./data:/data:ro", "/home/ada"),
            (model::Mount{"/home/ada/data", "/data", true}));
  EXPECT_EQ(*parseMount("/data:/data", "/home/ada"), (model::Mount{"/data", "/data", false}));
  for (const auto text :
       Texts{"", ":", "/a", "/a:", ":/a", "a:/a", "/a:b", "/a:/", "/a:/proc", "/a:/x/../sys/fs",
             "/a:/dev/sda", "/a:/dev/shm", "/a:/b:rox", "/a:/b:ro:z", "~/a:/b"})
    EXPECT_FALSE(parseMount(text, "/home/ada")) << text;
}

TEST(Name, IsOneOfADomain) {
  EXPECT_TRUE(parseName("a"));
  EXPECT_TRUE(parseName("7-b"));
  EXPECT_TRUE(parseName(std::string(63, 'a')));
  for (const auto& text :
       {std::string(), std::string(64, 'a'), std::string("-a"), std::string("a-"), std::string("A"),
        std::string("a_b"), std::string("a.b"), std::string("\xc3\xbc"), std::string("a\0b", 3)})
    EXPECT_FALSE(parseName(text)) << text;
  EXPECT_TRUE(parseName("2024"));
  EXPECT_FALSE(parseJobName("2024"));
}

TEST(Image, IsAReference) {
  for (const auto text : Texts{"debian", "debian:12", "docker.io/library/debian:12",
                               "localhost:5000/a/b@sha256:0123"})
    EXPECT_TRUE(parseImage(text)) << text;
  for (const auto text : Texts{"", "-v", "--privileged", "a b", "a;b", "a\n", ".a", "a:", "/a"})
    EXPECT_FALSE(parseImage(text)) << text;
}

TEST(Quoted, ShowsWhatAnEyeWouldMiss) {
  EXPECT_EQ(spec::quoted("plain"), "'plain'");
  EXPECT_EQ(spec::quoted("a\nb\tc\x1b[31m\x7f"), "'a\\nb\\tc\\x1b[31m\\x7f'");
  EXPECT_EQ(spec::quoted("a\xc2\xa0"
                         "b\xef\xbb\xbf\xe2\x80\xae"),
            "'a\\u00a0b\\ufeff\\u202e'");
  EXPECT_EQ(spec::quoted("\xff\xc3"), "'\\xff\\xc3'");
  EXPECT_EQ(spec::quoted("gr\xc3\xbc\xc3\x9f"
                         "e \xe4\xbc\xaf\xe4\xb9\x90"),
            "'gr\xc3\xbc\xc3\x9f"
            "e \xe4\xbc\xaf\xe4\xb9\x90'");
  EXPECT_EQ(spec::quoted(std::string(61, 'x')), "'" + std::string(60, 'x') + "...'");
}

TEST(GrammarProperty, WhatIsShownIsShortAndHarmless) {
  rc::check([](const std::string& text) {
    const auto out = spec::quoted(text);
    RC_ASSERT(out.size() <= 660U);
    for (const char c : out) RC_ASSERT(!isControl(c));
  });
}

TEST(GrammarProperty, DurationsComeBackFromTheirUnits) {
  rc::check([] {
    const auto h = *rc::gen::inRange(0, 80'000);
    const auto m = *rc::gen::inRange(0, 1000);
    const auto s = *rc::gen::inRange(0, 1000);
    const auto text = std::to_string(h) + "h" + std::to_string(m) + "m " + std::to_string(s) + " s";
    RC_ASSERT(*parseDuration(text) == hours(h) + minutes(m) + seconds(s));
  });
}

TEST(GrammarProperty, SizesAreExactOrRoundedUp) {
  rc::check([] {
    const auto mib = *rc::gen::inRange<std::int64_t>(0, 1 << 20);
    const auto tenths = *rc::gen::inRange<std::int64_t>(0, 10);
    const auto text = std::to_string(mib) + "." + std::to_string(tenths) + "MiB";
    const auto exact = mib * 10 + tenths;  // tenths of MiB
    RC_ASSERT(parseSize(text)->value == (exact * (1 << 20) + 9) / 10);
  });
}

}  // namespace
}  // namespace bole::spec
