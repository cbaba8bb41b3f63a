// JSON answers as views. Compiled once, for it needs the JSON library.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "model/views.h"

namespace bole::cli {

// For T among: every answer of model/views.h that the command line reads. An answer that cannot be
// read is kInternal and says that the versions may differ.
template <class T>
[[nodiscard]] Result<T> decode(std::string_view text);

// The number in the body of a `lost` event; 0 where there is none.
[[nodiscard]] std::uint64_t decodeLost(std::string_view text);

// Any JSON document, indented for people.
[[nodiscard]] std::string indented(std::string_view json);

}  // namespace bole::cli
