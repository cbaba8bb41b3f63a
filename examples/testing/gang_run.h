// Runs the ranks of an example as plain processes on this machine, as an engine would: standard
// variables, output read through pipes, nothing shared but the directory.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace examples {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A port of the loopback interface that was free a moment ago.
int freePort();

// A directory that goes when this goes.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  [[nodiscard]] std::string path(const std::string& name = "") const;
  [[nodiscard]] std::string read(const std::string& name) const;
  void write(const std::string& name, const std::string& text) const;

 private:
  std::string path_;
};

// How a process ended: its exit code, or minus the signal that killed it.
using Ending = int;

class GangRun {
 public:
  // Kills what is left at the end.
  explicit GangRun(std::string directory) : directory_(std::move(directory)), port_(freePort()) {}
  ~GangRun();
  GangRun(const GangRun&) = delete;
  GangRun& operator=(const GangRun&) = delete;

  // Starts `argv` as rank `rank` of `worldSize`; worldSize 0: without the standard variables.
  void start(int rank, int worldSize, const std::vector<std::string>& argv,
             const std::map<std::string, std::string>& environment = {});
  void startAll(int worldSize, const std::vector<std::string>& argv);

  // Reads on until a line of that rank holds `text`; false when the time is over or the rank has
  // closed its output.
  [[nodiscard]] bool waitForLine(int rank, const std::string& text,
                                 milliseconds patience = seconds(60));
  // Nothing when the rank has not ended in time.
  [[nodiscard]] std::optional<Ending> waitForEnd(int rank, milliseconds patience = seconds(120));
  // -1000 stands for a rank that did not end.
  [[nodiscard]] std::vector<Ending> waitForAll(milliseconds patience = seconds(120));

  void signal(int rank, int number);
  void signalAll(int number);

  // What the rank has said on both outputs, as far as it was read.
  [[nodiscard]] const std::string& output(int rank) const { return ranks_.at(rank).output; }
  [[nodiscard]] int port() const { return port_; }

 private:
  struct Rank {
    pid_t pid = -1;
    int pidfd = -1;
    int pipe = -1;
    std::string output;
    std::optional<Ending> ending;
  };

  // Reads what there is of all ranks; waits until `deadline` at most for something to happen.
  bool pump(std::chrono::steady_clock::time_point deadline);
  void reap(Rank& rank);
  void readFrom(Rank& rank);

  std::string directory_;
  int port_;
  std::map<int, Rank> ranks_;
};

// The value of `key=` in the last line that holds it; empty: there is none.
std::string lastValue(const std::string& output, const std::string& key);
std::vector<std::string> linesWith(const std::string& output, const std::string& text);

}  // namespace examples
