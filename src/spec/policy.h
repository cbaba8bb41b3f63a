// How the cloud is shared, as people write it (docs/queues.md): a policy file to model::Policy, and
// back.
//
// YAML by the rules of bole.yaml, one document. An error is of kInvalid and its `where` is
// NAME:LINE:COLUMN. What is accepted keeps to everything that state::checkPolicy asks for.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "model/policy.h"
#include "spec/spec.h"

namespace bole::spec {

inline constexpr MilliGpu kMaxQueueGpus{10'000'000'000};  // ten million
inline constexpr MilliCpu kMaxQueueCpus{10'000'000'000};
inline constexpr Bytes kMaxQueueMemory{1LL << 53};  // 8 PiB: a thousand of them still add up
inline constexpr std::uint32_t kMaxQueueRunning = 1'000'000;

struct ParsedPolicy {
  // Parents first, kinds of GPU in the order of their names. The numbers of queues are provisional:
  // the default one has 1, the others 2, 3, ... as they are written.
  model::Policy policy;
  std::vector<std::string> warnings;  // "NAME:LINE:COLUMN: ...", in the order of the text
};

[[nodiscard]] Result<ParsedPolicy> parsePolicy(const SpecFile& file);

// The canonical text of a policy that state::checkPolicy accepts: read again it is the same policy
// but for its numbers, and equal policies have equal texts.
[[nodiscard]] std::string writePolicy(const model::Policy& policy);

// As the grammars of spec.h read them back, exactly: "1536MiB"; "7d", "1h30m".
[[nodiscard]] std::string writeSize(Bytes size);
[[nodiscard]] std::string writeDuration(Duration duration);  // whole milliseconds, 0 or more
// "8", "0.5": of thousandths.
[[nodiscard]] std::string writeThousandths(std::int64_t thousandths);

}  // namespace bole::spec
