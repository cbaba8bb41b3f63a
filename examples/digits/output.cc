#include "output.h"

#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>

namespace digits {
namespace {

// One write(2) a line: no lock that a thread which dies of a signal could hold, no buffer that is
// lost with it.
void writeLine(int fd, const std::string& line) {
  const std::string bytes = line + "\n";
  std::size_t written = 0;
  while (written < bytes.size()) {
    const auto n = ::write(fd, bytes.data() + written, bytes.size() - written);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;  // no one is left to be told
    written += static_cast<std::size_t>(n);
  }
}

}  // namespace

void printLine(const std::string& line) {
  writeLine(STDOUT_FILENO, line);
}
void printErrorLine(const std::string& line) {
  writeLine(STDERR_FILENO, line);
}

std::string format(const char* pattern, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, pattern);
  std::vsnprintf(text, sizeof(text), pattern, arguments);
  va_end(arguments);
  return text;
}

}  // namespace digits
