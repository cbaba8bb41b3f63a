// The environment of a rank: what it is told about its place in the gang and about what was
// allocated to it.
//
// docs/job-environment.md describes every variable. Counts are of the allocation, never of the
// machine. A job's own variables win, but over those that say what was allocated: a program that is
// told of more than it was given fails where no one looks. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ports/engine.h"

namespace bole::engine {

struct EnvironmentFacts {
  std::string workDirectory;        // as the rank sees it
  std::string checkpointDirectory;  // absolute, as the rank sees it; empty: none
  std::string masterAddress = "127.0.0.1";
  std::uint16_t masterPort = 29500;
  bool ownNetwork = true;  // the ranks share a network namespace that has nothing but loopback
  bool hostNames = true;   // /etc/hosts of the ranks knows the names of the svc plugin
};

struct RankEnvironment {
  std::vector<std::string> variables;  // "NAME=value", each name once
  std::vector<std::string> ignored;    // names that the job sets and that are not its to set
};

// Errors: kInvalid (a name that no environment can hold).
[[nodiscard]] Result<RankEnvironment> rankEnvironment(const ports::AttemptOrder& order,
                                                      std::uint32_t rank,
                                                      const EnvironmentFacts& facts);

// Volcano's name of a replica's host: "JOB-TASK-INDEX.JOB".
[[nodiscard]] std::string hostName(const model::JobText& text, const model::RankPlacement& rank);

[[nodiscard]] bool hasPlugin(const model::JobText& text, std::string_view name);

}  // namespace bole::engine
