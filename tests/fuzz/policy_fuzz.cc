// Policy files: what is accepted can be set, and survives its own text and its own JSON.
#include <cstddef>
#include <cstdint>
#include <string>

#include "codec/codec.h"
#include "fuzz/check.h"
#include "fuzz/spec_checks.h"
#include "spec/policy.h"
#include "state/state.h"

namespace bole::fuzz {
namespace {

void holdAmounts(const model::Amounts& amounts) {
  if (amounts.gpus) hold(*amounts.gpus <= spec::kMaxQueueGpus, "GPUs have a most");
  if (amounts.cpus) hold(*amounts.cpus <= spec::kMaxQueueCpus, "CPUs have a most");
  if (amounts.memory) hold(*amounts.memory <= spec::kMaxQueueMemory, "memory has a most");
  for (const auto& kind : amounts.kinds)
    hold(!kind.kind.empty() && kind.gpus <= spec::kMaxQueueGpus, "a kind has a name", kind.kind);
}

void holdPolicy(const spec::ParsedPolicy& parsed, const std::string& name) {
  const auto& policy = parsed.policy;
  const auto sound = state::checkPolicy(policy);
  hold(sound.has_value(), "what is read can be set", sound ? "" : sound.error().message());
  for (const auto& queue : policy.queues) {
    for (const auto* amounts : {&queue.guaranteed, &queue.limit, &queue.perUser})
      holdAmounts(*amounts);
  }
  for (const auto& warning : parsed.warnings)
    hold(warning.starts_with(name + ":") && warning.size() < 4096, "a warning has a place",
         warning);
  const auto text = spec::writePolicy(policy);
  const auto again = spec::parsePolicy({text, "written.yaml"});
  hold(again.has_value(), "what is written is read", again ? text : again.error().message());
  hold(again->policy == policy, "what is written is the same policy", text);
  hold(spec::writePolicy(again->policy) == text, "equal policies have equal texts", text);
  const auto body = codec::encodeBody(model::PolicySet{policy});
  const auto event = codec::decodeEvent(model::PolicySet::kKind, 1, body);
  hold(event.has_value(), "a policy's own JSON is read", event ? "" : event.error().message());
  hold(std::get<model::PolicySet>(*event).policy == policy, "a policy survives JSON", body);
}

}  // namespace
}  // namespace bole::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const bole::spec::SpecFile file{std::string(reinterpret_cast<const char*>(data), size),
                                  "policy.yaml"};
  const auto parsed = bole::spec::parsePolicy(file);
  if (parsed)
    bole::fuzz::holdPolicy(*parsed, file.name);
  else
    bole::fuzz::holdSpecError(parsed.error(), file);
  return 0;
}
