// The small languages inside of values: sizes, CPUs, ports, mounts, names. (Durations and GPUs are
// of the door, spec.h.)
//
// Each takes text and gives a value or an Error without a place (`what`, `expected`, `hint`);
// Reader::error() adds the place. No floating point: decimals are exact or refused.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "model/job.h"
#include "spec/spec.h"

namespace bole::spec {

inline constexpr std::int64_t kMaxReplicas = 65'536;
inline constexpr std::size_t kMaxTasks = 64;
inline constexpr std::int64_t kMaxPriority = 1'000'000;
inline constexpr std::uint32_t kMaxGpus = 1024;             // for one replica
inline constexpr MilliCpu kMaxCpus{100'000'000};            // 100,000 CPUs
inline constexpr Bytes kMaxSize{1LL << 50};                 // 1 PiB
inline constexpr Bytes kMinMemory = kMiB;                   // a limit below this starts nothing
inline constexpr Duration kMaxDuration = hours(24 * 3660);  // ten years
inline constexpr std::size_t kMaxNameLength = 63;

// [a-z0-9-], 1 to 63, beginning and ending with a letter or digit.
[[nodiscard]] Result<std::string> parseName(std::string_view text);
// parseName, and not digits alone: a job's name stands where its number may.
[[nodiscard]] Result<std::string> parseJobName(std::string_view text);

// [A-Za-z_][A-Za-z0-9_]*
[[nodiscard]] Result<std::string> parseEnvName(std::string_view text);

// "8080", "8080:80", "127.0.0.1:8080:80", "[::1]:8080:80", each with "/tcp" or without.
[[nodiscard]] Result<model::Port> parsePort(std::string_view text);

// "source:target[:ro|rw]"; a relative source begins at `directory`.
[[nodiscard]] Result<model::Mount> parseMount(std::string_view text, std::string_view directory);
// The parts given one by one; checks both paths.
[[nodiscard]] Result<model::Mount> makeMount(std::string_view source, std::string_view target,
                                             std::string_view directory);

// A reference to an OCI image.
[[nodiscard]] Result<std::string> parseImage(std::string_view text);

// `path`, absolute and without "." and ".."; a relative one begins at `directory`. '~' and '$' at
// the start are refused: nothing expands them.
[[nodiscard]] Result<std::string> resolvePath(std::string_view path, std::string_view directory);

// A compute capability of GPUs, "8.0" or "9", in tenths.
[[nodiscard]] Result<std::uint32_t> parseComputeCapability(std::string_view text);

// As parseSize and parseCpus, of something larger than one replica. `most`: whole PiB, whole CPUs.
[[nodiscard]] Result<Bytes> parseSizeUpTo(std::string_view text, Bytes most);
[[nodiscard]] Result<MilliCpu> parseCpusUpTo(std::string_view text, MilliCpu most);

// Kubernetes quantities: "512Mi" (2^20), "512M" (10^6), "1e9", "100m"; bytes are rounded up.
[[nodiscard]] Result<Bytes> parseKubernetesBytes(std::string_view text);
[[nodiscard]] Result<MilliCpu> parseKubernetesCpus(std::string_view text);

}  // namespace bole::spec
