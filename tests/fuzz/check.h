// What a fuzz target says when a promise is broken: the promise, the input's part that matters, and
// an abort, which both drivers turn into a saved input.
#pragma once

#include <string_view>

#include "base/result.h"

namespace bole::fuzz {

[[noreturn]] void broken(std::string_view promise, std::string_view detail);

inline void hold(bool condition, std::string_view promise, std::string_view detail = {}) {
  if (!condition) broken(promise, detail);
}

// Who speaks: a whole file's errors name line and column; a small grammar's say what is expected
// and leave the place to whoever calls it; those of JSON name the path inside of the document,
// which is empty at its root.
enum class Speaker { kSpec, kGrammar, kJson };

// An error that a person can use: it says what is wrong and whose fault it is; those of specs stay
// on one line of readable length, with nothing in it that a terminal would obey.
void holdError(const Error& error, Speaker speaker);

}  // namespace bole::fuzz
