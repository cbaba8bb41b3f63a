#include "base/result.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <system_error>

namespace bole {

std::string_view errorCodeName(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalid:
      return "invalid";
    case ErrorCode::kNotFound:
      return "not_found";
    case ErrorCode::kConflict:
      return "conflict";
    case ErrorCode::kRefused:
      return "refused";
    case ErrorCode::kPermission:
      return "permission";
    case ErrorCode::kUnavailable:
      return "unavailable";
    case ErrorCode::kUnsupported:
      return "unsupported";
    case ErrorCode::kCorrupt:
      return "corrupt";
    case ErrorCode::kInternal:
      return "internal";
  }
  return "internal";
}

std::string Error::message() const {
  std::string text;
  if (!where.empty()) text += where + ": ";
  text += what;
  if (!found.empty()) text += ": found " + found;
  if (!expected.empty()) text += (found.empty() ? ": expected " : ", expected ") + expected;
  if (!hint.empty()) text += "; " + hint;
  return text;
}

Error systemError(int errnoValue, std::string what, std::string where) {
  auto code = ErrorCode::kInternal;
  switch (errnoValue) {
    case ENOENT:
      code = ErrorCode::kNotFound;
      break;
    case EACCES:
    case EPERM:
      code = ErrorCode::kPermission;
      break;
    case ENOSPC:
    case EDQUOT:
    case EROFS:
    case EMFILE:
    case ENFILE:
      code = ErrorCode::kUnavailable;
      break;
    default:
      break;
  }
  auto error =
      makeError(code, std::move(what) + ": " + std::generic_category().message(errnoValue));
  error.where = std::move(where);
  return error;
}

void assertFailed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "bole: internal fault: '%s' does not hold at %s:%d\n", condition, file,
               line);
  std::abort();
}

}  // namespace bole
