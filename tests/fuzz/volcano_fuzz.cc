// Volcano Jobs: the file as it is, and as the `spec` of an otherwise sound job, so that few inputs
// fail at the first line.
#include <cstddef>
#include <cstdint>

#include "fuzz/spec_checks.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto context = bole::fuzz::submitter();
  bole::fuzz::parseAndHold({text, "job.yaml"}, context);
  if (text.starts_with("apiVersion")) return 0;
  std::string job =
      "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: fuzz}\nspec:\n  ";
  for (const char c : text) {
    job += c;
    if (c == '\n') job += "  ";
  }
  bole::fuzz::parseAndHold({job, "job.yaml"}, context);
  return 0;
}
