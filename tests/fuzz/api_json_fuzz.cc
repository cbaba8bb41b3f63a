// What the API takes: requests in JSON, and the jobs described inside of them.
#include <cstddef>
#include <cstdint>
#include <string>

#include "codec/codec.h"
#include "fuzz/check.h"
#include "fuzz/spec_checks.h"

namespace bole::fuzz {
namespace {

// What is read can be written and read again, and is then the same.
template <class T>
void holdRoundTrip(std::string_view text) {
  const auto value = codec::fromJson<T>(text, "request");
  if (!value) return holdError(value.error(), Speaker::kJson);
  const auto written = codec::toJson(*value);
  const auto again = codec::fromJson<T>(written, "again");
  hold(again.has_value(), "what we wrote is read", again ? "" : again.error().message());
  hold(codec::toJson(*again) == written, "JSON is written the same again", written);
}

void submit(const model::SubmitRequest& request) {
  spec::ParseContext context;
  context.directory = request.directory;
  context.user = "ada";
  context.env = request.env;
  context.projectOverride = request.project;
  context.upload = request.upload;
  const auto parsed = spec::parseSpec({request.spec, request.fileName}, context);
  if (!parsed) return holdError(parsed.error(), Speaker::kSpec);
  if (!parsed->missingEnv.empty()) return;
  for (const auto& job : parsed->jobs) holdJob(job.spec);
}

}  // namespace
}  // namespace bole::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace bole;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  fuzz::holdRoundTrip<model::SubmitRequest>(text);
  fuzz::holdRoundTrip<model::StopCommand>(text);
  fuzz::holdRoundTrip<model::JobSpec>(text);
  if (const auto request = codec::fromJson<model::SubmitRequest>(text)) fuzz::submit(*request);
  return 0;
}
