// The control groups of one attempt: containment (cgroup.kill) and limits.
//
// Processes live in a leaf for each rank, ATTEMPT/rank-N of the cgroup v2 tree (also the `unified` tree of a hybrid
// hierarchy). Limits are set there where v2 has the controllers, else in the v1 hierarchies below the supervisor's own
// group. What cannot be had is a note for people and no error: the job runs without it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/units.h"

namespace bole::supervise {

class AttemptCgroup {
 public:
  // `relative`: below the root of the v2 tree; empty: no groups are made. `root`: where cgroups are mounted.
  explicit AttemptCgroup(std::string relative, std::string root = "/sys/fs/cgroup");

  // Makes the leaf of a rank and sets its limits (0: none).
  void addRank(std::uint32_t rank, Bytes memory, MilliCpu cpu);

  // The files that a process writes "0" into to join a rank's groups. May be empty.
  [[nodiscard]] std::vector<std::string> entrances(std::uint32_t rank) const;

  [[nodiscard]] bool contains() const { return !path_.empty(); }  // there is a v2 group
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }

  [[nodiscard]] bool oomKilled(std::uint32_t rank) const;
  void kill() const;                     // everything in it, at once
  [[nodiscard]] bool populated() const;  // a process is left
  void remove();                         // what is empty

 private:
  struct Leaf {
    std::uint32_t rank = 0;
    std::string v2;
    std::string memoryV1;
    std::string cpuV1;
  };

  void makeAttempt(const std::string& relative);
  void setMemory(Leaf& leaf, Bytes memory);
  void setCpu(Leaf& leaf, MilliCpu cpu);
  [[nodiscard]] std::string makeV1(const std::string& controller, std::uint32_t rank);
  [[nodiscard]] const Leaf* find(std::uint32_t rank) const;
  void note(const std::string& text);

  std::string root_;
  std::string path_;
  std::string label_;  // of the v1 groups
  bool memoryV2_ = false;
  bool cpuV2_ = false;
  std::vector<Leaf> leaves_;
  std::vector<std::string> notes_;
};

// Kills everything in the group of an attempt that has no supervisor any more, and in those below it. True while
// processes are left; the empty groups are removed.
[[nodiscard]] bool killGroup(const std::string& relative, const std::string& root = "/sys/fs/cgroup");

}  // namespace bole::supervise
