// Sizes and CPUs, as people write them and as Kubernetes does.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "spec/grammar.h"
#include "spec/number.h"
#include "spec/quote.h"

namespace bole::spec {
namespace {

using Unit = std::pair<std::string_view, std::int64_t>;

constexpr std::array<std::int64_t, 5> kBinary = {1LL << 10, 1LL << 20, 1LL << 30, 1LL << 40,
                                                 1LL << 50};
constexpr std::array<std::int64_t, 6> kDecimal = {1'000,
                                                  1'000'000,
                                                  1'000'000'000,
                                                  1'000'000'000'000,
                                                  1'000'000'000'000'000,
                                                  1'000'000'000'000'000'000};
constexpr std::string_view kLetters = "kmgtp";

constexpr auto kSizeExpected = "a size with a unit (512MiB, 16GiB, 16G, 1.5GB)";
constexpr auto kCpusExpected = "a number of CPUs (2, 0.5, 500m)";
constexpr auto kLeadingZero = "a leading 0 means octal to some readers: leave it out";
constexpr auto kQuantityExpected = "a Kubernetes quantity (512Mi, 16Gi, 1G)";

Unexpected refuse(std::string_view found, const char* what, const char* expected,
                  std::string hint = {}) {
  return fail(makeError(ErrorCode::kInvalid, what)
                  .foundValue(quoted(found))
                  .expectedValue(expected)
                  .withHint(std::move(hint)));
}

std::string lower(std::string_view text) {
  std::string out;
  for (const char c : text) out += toLower(c);
  return out;
}

// The factor of a unit as people write it; 0: none such.
std::int64_t humanScale(std::string_view unit) {
  const auto name = lower(unit);
  if (name == "b" || name == "bytes") return 1;
  const auto power = name.empty() ? std::string_view::npos : kLetters.find(name[0]);
  if (power == std::string_view::npos) return 0;
  const auto rest = std::string_view(name).substr(1);
  if (rest.empty() || rest == "i" || rest == "ib") return kBinary.at(power);
  return rest == "b" ? kDecimal.at(power) : 0;
}

// A quantity's suffix as a factor above 1, or below 1 (of thousandths) for "m".
struct Suffix {
  std::int64_t times = 0;
  bool milli = false;
};

Suffix kubernetesSuffix(std::string_view text) {
  if (text.empty()) return {1, false};
  if (text == "m") return {1, true};
  if (text.size() == 2 && text[1] == 'i') {
    const auto power = std::string_view("KMGTP").find(text[0]);
    return {power == std::string_view::npos ? 0 : kBinary.at(power), false};
  }
  if (text.size() == 1) {
    const auto power = std::string_view("kMGTPE").find(text[0]);
    if (power != std::string_view::npos) return {kDecimal.at(power), false};
  }
  if (text[0] != 'e' && text[0] != 'E') return {};
  auto exponent = text.substr(1);
  if (exponent.starts_with('+')) exponent.remove_prefix(1);
  const auto power = takeWhole(exponent);
  if (!power || !exponent.empty() || *power > 18) return {};
  std::int64_t times = 1;
  for (std::int64_t i = 0; i < *power; ++i) times *= 10;
  return {times, false};
}

// The quantity in units of 1/perUnit, rounded up.
Result<std::int64_t> parseQuantity(std::string_view text, std::int64_t perUnit, std::int64_t most) {
  auto rest = trim(text);
  const auto number = takeDecimal(rest);
  const auto suffix = kubernetesSuffix(rest);
  if (!number || suffix.times == 0) {
    return refuse(text, "not a quantity", kQuantityExpected,
                  humanScale(rest) > 0
                      ? "Kubernetes writes Mi, Gi (2^20, 2^30) or M, G (10^6, 10^9), without B"
                      : "");
  }
  auto value = *number;
  if (suffix.milli) value.decimals += 3;
  const auto limit = std::numeric_limits<std::int64_t>::max() / suffix.times;
  const auto scaled = limit < perUnit ? std::nullopt : scaleUp(value, suffix.times * perUnit);
  if (!scaled || *scaled > most) return refuse(text, "too large", kQuantityExpected);
  return *scaled;
}

}  // namespace

Result<Bytes> parseSize(std::string_view text) {
  return parseSizeUpTo(text, kMaxSize);
}

Result<Bytes> parseSizeUpTo(std::string_view text, Bytes most) {
  auto rest = trim(text);
  if (hasLeadingZero(rest)) return refuse(text, "not a size", kSizeExpected, kLeadingZero);
  const auto number = takeDecimal(rest);
  rest = trim(rest);
  if (!number) return refuse(text, "not a size", kSizeExpected);
  if (rest.empty()) {
    if (number->digits == 0) return Bytes(0);
    const auto written = std::string(trim(text));
    return refuse(text, "a size without a unit", kSizeExpected,
                  "write " + written + "MiB or " + written + "GiB?");
  }
  const auto scale = humanScale(rest);
  if (scale == 0)
    return refuse(text, "not a size", kSizeExpected,
                  "units are B, KiB MiB GiB TiB (2^10 each) and KB MB GB TB (10^3 each)");
  const auto bytes = scaleUp(*number, scale);
  if (!bytes || *bytes > most.value) {
    const auto expected = fmt::format("at most {} PiB", most.value >> 50);
    return refuse(text, "too large", expected.c_str());
  }
  return Bytes(*bytes);
}

Result<MilliCpu> parseCpus(std::string_view text) {
  return parseCpusUpTo(text, kMaxCpus);
}

Result<MilliCpu> parseCpusUpTo(std::string_view text, MilliCpu most) {
  auto rest = trim(text);
  if (hasLeadingZero(rest))
    return refuse(text, "not a number of CPUs", kCpusExpected, kLeadingZero);
  const auto number = takeDecimal(rest);
  if (!number || (!rest.empty() && rest != "m"))
    return refuse(text, "not a number of CPUs", kCpusExpected);
  const auto milli = scaleExactly(*number, rest == "m" ? 1 : 1000);
  if (!milli) return refuse(text, "finer than a thousandth of a CPU, or too large", kCpusExpected);
  if (*milli > most.value) {
    const auto expected = fmt::format("at most {} CPUs", most.value / 1000);
    return refuse(text, "too large", expected.c_str());
  }
  return MilliCpu(*milli);
}

Result<Bytes> parseKubernetesBytes(std::string_view text) {
  BOLE_ASSIGN(const auto bytes, parseQuantity(text, 1, kMaxSize.value));
  return Bytes(bytes);
}

Result<MilliCpu> parseKubernetesCpus(std::string_view text) {
  BOLE_ASSIGN(const auto milli, parseQuantity(text, 1000, kMaxCpus.value));
  return MilliCpu(milli);
}

}  // namespace bole::spec
