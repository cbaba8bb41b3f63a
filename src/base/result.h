// Result<T> and Error: how every function of Bole that can fail says so.
//
// An Error is written for the person who will read it at night: what happened, to what (`where`),
// what was found, what was expected, and what to do (`hint`). Waiting is not an error. See
// docs/errors.md.
#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace bole {

enum class ErrorCode {
  kInvalid,  // the input is wrong and will stay wrong: a typo, an impossible number (HTTP 400, exit
             // 2)
  kNotFound,  // no such job, file, node (404)
  kConflict,  // legal in itself, not in the present state (409)
  kRefused,   // understood and can never be done here: "needs 9 GPUs, the largest node has 8" (422)
  kPermission,   // not yours (403)
  kUnavailable,  // not now: disk full, shutting down, read-only (503)
  kUnsupported,  // this build or this machine cannot (501)
  kCorrupt,      // stored data is not what was written (500)
  kInternal,     // a fault of Bole's own (500)
};

[[nodiscard]] std::string_view errorCodeName(ErrorCode code);

struct [[nodiscard]] Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string what;      // one sentence without a full stop: "unknown field"
  std::string where;     // file:line:column, a path, an id; may be empty
  std::string found;     // the value found; may be empty
  std::string expected;  // what would have been right; may be empty
  std::string hint;      // what to do; may be empty

  // One line: "bole.yaml:3:5: unknown field: found 'gpu', expected one of ...; did you mean
  // 'gpus'?"
  [[nodiscard]] std::string message() const;

  // The builder form keeps call sites readable: makeError(ErrorCode::kInvalid, "bad
  // size").foundValue("3 apples")
  Error&& at(std::string value) && {
    where = std::move(value);
    return std::move(*this);
  }
  Error&& foundValue(std::string value) && {
    found = std::move(value);
    return std::move(*this);
  }
  Error&& expectedValue(std::string value) && {
    expected = std::move(value);
    return std::move(*this);
  }
  Error&& withHint(std::string value) && {
    hint = std::move(value);
    return std::move(*this);
  }
};

[[nodiscard]] inline Error makeError(ErrorCode code, std::string what) {
  Error error;
  error.code = code;
  error.what = std::move(what);
  return error;
}

// An error of the operating system: `what` failed on `where` with `errnoValue` (kUnavailable for a
// full or read-only disk, kNotFound for ENOENT, kPermission for EACCES and EPERM, kInternal
// otherwise).
[[nodiscard]] Error systemError(int errnoValue, std::string what, std::string where);

template <class T>
using Result = tl::expected<T, Error>;

using Unexpected = tl::unexpected<Error>;
[[nodiscard]] inline Unexpected fail(Error error) {
  return Unexpected(std::move(error));
}
[[nodiscard]] inline Unexpected fail(ErrorCode code, std::string what) {
  return Unexpected(makeError(code, std::move(what)));
}

// Our own bug: prints what and where and aborts. For conditions that only a mistake in Bole can
// break.
[[noreturn]] void assertFailed(const char* condition, const char* file, int line);
#define BOLE_ASSERT(condition) \
  ((condition) ? static_cast<void>(0) : ::bole::assertFailed(#condition, __FILE__, __LINE__))

// BOLE_TRY(expression): returns the error of a Result<void> (or of any Result, dropping its value)
// to the caller.
#define BOLE_TRY(expression)                                                     \
  do {                                                                           \
    auto boleTryResult_ = (expression);                                          \
    if (!boleTryResult_) return ::bole::fail(std::move(boleTryResult_).error()); \
  } while (false)

#define BOLE_CONCAT_(a, b) a##b
#define BOLE_CONCAT(a, b) BOLE_CONCAT_(a, b)
// BOLE_ASSIGN(auto x, expression): x is the value, or the error is returned to the caller.
// NOLINTBEGIN(bugprone-macro-parentheses): a declaration cannot stand in parentheses.
#define BOLE_ASSIGN(target, expression)                                         \
  auto BOLE_CONCAT(boleResult_, __LINE__) = (expression);                       \
  if (!BOLE_CONCAT(boleResult_, __LINE__))                                      \
    return ::bole::fail(std::move(BOLE_CONCAT(boleResult_, __LINE__)).error()); \
  target = std::move(*BOLE_CONCAT(boleResult_, __LINE__))
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace bole
