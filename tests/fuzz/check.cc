#include "fuzz/check.h"

#include <cstdio>
#include <cstdlib>
#include <string>

namespace bole::fuzz {

void broken(std::string_view promise, std::string_view detail) {
  std::fprintf(stderr, "broken promise: %.*s: %.*s\n", static_cast<int>(promise.size()),
               promise.data(), static_cast<int>(detail.size()), detail.data());
  std::abort();
}

void holdError(const Error& error, Speaker speaker) {
  const auto message = error.message();
  hold(!error.what.empty(), "an error says what is wrong", message);
  const bool isOfInput = error.code == ErrorCode::kInvalid || error.code == ErrorCode::kRefused ||
                         error.code == ErrorCode::kUnsupported;
  hold(isOfInput, "bad input is no fault of ours", message);
  if (speaker == Speaker::kSpec) hold(!error.where.empty(), "an error names its place", message);
  if (speaker == Speaker::kGrammar)
    hold(!error.expected.empty(), "a grammar says what it expects", message);
  if (speaker == Speaker::kJson) return;
  hold(message.size() < 4096, "an error is short", message);
  for (const char c : message) {
    hold(static_cast<unsigned char>(c) >= 0x20 && c != 0x7F, "an error has no control characters",
         message);
  }
}

}  // namespace bole::fuzz
