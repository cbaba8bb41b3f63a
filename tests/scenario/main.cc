// scenario_test [--accept] FILE...: runs scenario files; see README.md. Exit code 0 where all is as
// expected (or was accepted), 1 where something is not, 2 where a file is wrong.
#include <fmt/format.h>

#include <fstream>
#include <iostream>
#include <sstream>

#include "scenario/run.h"

namespace {

constexpr int kDiffers = 1;
constexpr int kWrong = 2;

int runFile(const std::string& file, bool accept) {
  std::ifstream in(file);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in) {
    std::cerr << file << ": cannot be read\n";
    return kWrong;
  }
  const auto outcome = bole::test::runScenario(text.str(), file);
  if (!outcome) {
    std::cerr << outcome.error().message() << "\n";
    return kWrong;
  }
  for (const auto& difference : outcome->differences) std::cerr << difference << "\n";
  if (!accept || outcome->accepted == text.str())
    return outcome->differences.empty() ? 0 : kDiffers;
  std::ofstream out(file);
  out << outcome->accepted << std::flush;
  if (!out) {
    std::cerr << file << ": cannot be written\n";
    return kWrong;
  }
  std::cerr << file << ": accepted\n";
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  bool accept = false;
  int worst = 0;
  int files = 0;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--accept") {
      accept = true;
      continue;
    }
    ++files;
    worst = std::max(worst, runFile(argument, accept));
  }
  if (files > 0) return worst;
  std::cerr << "scenario_test [--accept] FILE...\n";
  return kWrong;
}
