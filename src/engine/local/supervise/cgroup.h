// The control groups of one attempt: containment (cgroup.kill) and limits.
//
// Processes live in a leaf for each rank, ATTEMPT/rank-N of the cgroup v2 tree (also the `unified`
// tree of a hybrid hierarchy). Limits are set there where v2 has the controllers, else in the v1
// hierarchies below the supervisor's own group. What cannot be had is a note for people and no
// error: the job runs without it.
//
// Attempts of one home share the directories above theirs; whoever leaves last removes them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/units.h"

namespace bole::supervise {

// Of one rank; 0: none.
struct RankLimits {
  Bytes memory;
  MilliCpu cpu;
  std::uint32_t processes = 0;  // and threads
};

class AttemptCgroup {
 public:
  // `relative`: below the root of the v2 tree; empty: no groups are made. `root`: where cgroups are
  // mounted.
  explicit AttemptCgroup(const std::string& relative, std::string root = "/sys/fs/cgroup");

  // Makes the leaf of a rank and sets its limits.
  void addRank(std::uint32_t rank, const RankLimits& limits);

  // The files that a process writes "0" into to join a rank's groups. May be empty.
  [[nodiscard]] std::vector<std::string> entrances(std::uint32_t rank) const;

  [[nodiscard]] bool contains() const { return !path_.empty(); }  // there is a v2 group
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }
  // All directories made in v1 hierarchies: whoever comes after a supervisor that died cannot guess
  // them.
  [[nodiscard]] std::vector<std::string> v1Groups() const;
  // Whether a group bounds the number of this rank's processes.
  [[nodiscard]] bool limitsProcesses(std::uint32_t rank) const;

  [[nodiscard]] bool oomKilled(std::uint32_t rank) const;
  void kill() const;  // everything in it, at once
  void killRank(std::uint32_t rank) const;
  [[nodiscard]] bool populated() const;  // a process is left
  void remove();                         // what is empty

 private:
  struct Leaf {
    std::uint32_t rank = 0;
    std::string v2;
    std::string memoryV1;
    std::string cpuV1;
    std::string pidsV1;
    bool processesLimited = false;
  };

  void makeAttempt(const std::string& relative);
  void setMemory(Leaf& leaf, Bytes memory);
  void setCpu(Leaf& leaf, MilliCpu cpu);
  void setProcesses(Leaf& leaf, std::uint32_t processes);
  [[nodiscard]] std::string makeV1(const std::string& controller, std::uint32_t rank);
  [[nodiscard]] const Leaf* find(std::uint32_t rank) const;
  void note(const std::string& text);

  std::string root_;
  std::string top_;  // of the v2 tree
  std::string path_;
  std::string label_;  // of the v1 groups
  bool memoryV2_ = false;
  bool cpuV2_ = false;
  bool pidsV2_ = false;
  std::vector<Leaf> leaves_;
  std::vector<std::string> notes_;
};

// Kills everything in the group of an attempt that has no supervisor any more, and in those below
// it. True while processes are left; the empty groups are removed.
[[nodiscard]] bool killGroup(const std::string& relative,
                             const std::string& root = "/sys/fs/cgroup");

}  // namespace bole::supervise
