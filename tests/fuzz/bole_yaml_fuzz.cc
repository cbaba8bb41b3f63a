// bole.yaml, and whatever else is taken for one.
#include <cstddef>
#include <cstdint>

#include "fuzz/spec_checks.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto context = bole::fuzz::submitter();
  context.plain = size % 2 == 1;
  bole::fuzz::parseAndHold({std::string(reinterpret_cast<const char*>(data), size), "bole.yaml"},
                           context);
  return 0;
}
