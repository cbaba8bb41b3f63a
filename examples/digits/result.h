// Result<T>: how a function of this example says that it failed. Exceptions of Gloo are caught
// where Gloo is called (gang.cc) and go no further.
#pragma once

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace digits {

inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;

struct Failure {
  std::string message;  // what happened, to what, and what to do
  int exitCode = kExitFailed;
};

template <class T>
using Result = tl::expected<T, Failure>;

[[nodiscard]] inline tl::unexpected<Failure> failed(std::string message) {
  return tl::unexpected<Failure>(Failure{std::move(message), kExitFailed});
}
[[nodiscard]] inline tl::unexpected<Failure> misused(std::string message) {
  return tl::unexpected<Failure>(Failure{std::move(message), kExitUsage});
}
[[nodiscard]] inline tl::unexpected<Failure> passOn(Failure failure) {
  return tl::unexpected<Failure>(std::move(failure));
}

}  // namespace digits
