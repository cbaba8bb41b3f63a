// "did you mean": the nearest of the names that would have been right.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace bole::spec {

// The candidate that a person most likely meant, or "" where none is near. Upper and lower case,
// '-' and '_' count as alike.
[[nodiscard]] std::string_view nearest(std::string_view found,
                                       const std::vector<std::string_view>& candidates);

// "a, b or c"
[[nodiscard]] std::string joinAlternatives(const std::vector<std::string_view>& names);

}  // namespace bole::spec
