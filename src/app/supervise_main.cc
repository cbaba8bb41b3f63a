// bole-supervise DIRECTORY: keeps one attempt to its end. See engine/local/supervise/supervisor.h.
#include <cstdio>
#include <filesystem>

#include "engine/local/supervise/supervisor.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: bole-supervise ATTEMPT-DIRECTORY (the server starts it)\n");
    return 2;
  }
  std::error_code lost;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", lost);
  const auto done = bole::supervise::supervise({argv[1], self.parent_path().string()});
  if (done) return 0;
  std::fprintf(stderr, "bole-supervise: %s\n", done.error().message().c_str());
  return 1;
}
