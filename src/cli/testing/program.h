// The command line as a test calls it: arguments in; exit code, output and errors out. Time stands
// still but for what the test adds.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "cli/cli.h"

namespace bole::cli::testing {

class TempDirectory {
 public:
  TempDirectory() {
    std::string name = "/tmp/bole-cli-XXXXXX";
    if (::mkdtemp(name.data()))
      path_ = name;
    else
      ADD_FAILURE() << "no temporary directory";
  }
  ~TempDirectory() { std::filesystem::remove_all(path_); }
  TempDirectory(const TempDirectory&) = delete;
  TempDirectory& operator=(const TempDirectory&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string operator/(const std::string& name) const { return path_ + "/" + name; }

  // Makes the directories above, too.
  void write(const std::string& name, const std::string& text) const {
    const auto path = std::filesystem::path(path_) / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
  }

 private:
  std::string path_;
};

class StandingClock final : public Clock {
 public:
  Timestamp wall() override { return wallTime; }
  Duration monotonic() override { return steady += step; }
  Duration boottime() override { return steady; }

  Timestamp wallTime{1'790'000'000'000'000};  // 2026-09-21 14:13:20 UTC
  Duration steady = seconds(1);
  Duration step;  // that monotonic() gains with each look
};

class CountingRng final : public Rng {
 public:
  void fill(void* bytes, std::size_t size) override {
    for (std::size_t i = 0; i < size; ++i) static_cast<unsigned char*>(bytes)[i] = next_++;
  }

 private:
  unsigned char next_ = 1;
};

struct Outcome {
  int code = 0;
  std::string out;
  std::string err;
};

// Everything lies below one temporary directory: the user's home, the server's, the working
// directory ("work").
class Program {
 public:
  Program() {
    std::filesystem::create_directories(home());
    std::filesystem::create_directories(directory / "user");
    std::filesystem::create_directories(work());
  }

  [[nodiscard]] std::string home() const { return directory / "home"; }
  [[nodiscard]] std::string work() const { return directory / "work"; }
  [[nodiscard]] std::string socket() const { return home() + "/bole.sock"; }

  Outcome run(const std::vector<std::string>& arguments) {
    Outcome outcome;
    Environment environment = base;
    environment.version = "0.1.0";
    environment.variables.emplace("BOLE_HOME", home());
    environment.variables.emplace("TMPDIR", directory.path());
    environment.homeDirectory = directory / "user";
    environment.workingDirectory = work();
    environment.clock = &clock;
    environment.rng = &rng;
    environment.out = [&](std::string_view text) {
      outcome.out += text;
      if (onOut) onOut(outcome.out);
      return outcome.out.size() < outputLimit;
    };
    environment.err = [&](std::string_view text) {
      outcome.err += text;
      return true;
    };
    environment.readInput = [this]() -> Result<std::string> { return input; };
    std::vector<const char*> argv{"bole"};
    for (const auto& argument : arguments) argv.push_back(argument.c_str());
    outcome.code = runCli(static_cast<int>(argv.size()), argv.data(), std::move(environment));
    return outcome;
  }

  TempDirectory directory;
  StandingClock clock;
  CountingRng rng;
  Environment base;  // what a test changes of it
  std::string input;
  std::size_t outputLimit = SIZE_MAX;  // the reader goes away behind so many bytes
  std::function<void(const std::string& soFar)> onOut;
};

}  // namespace bole::cli::testing
