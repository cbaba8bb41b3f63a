// The images of an attempt, before its ranks start: present, or pulled, or a reason why not.
//
// One Podman at a time, as children of the supervisor, which goes on with its loop: a pull can take
// an hour, and a stop ends it. What is there is not pulled again.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/local/supervise/podman_child.h"

namespace bole::supervise {

class PodmanImages {
 public:
  struct Options {
    std::vector<std::string> podman;     // the program and its global options
    std::string output;                  // a file for what Podman says
    std::vector<std::string> entrances;  // of the group that Podman runs in
    int network = -1;                    // where registries are reached from
  };
  // `say`: a line for the logs of the job.
  PodmanImages(Options options, std::vector<std::string> images,
               std::function<void(const std::string&)> say);

  // Looks for the first. Errors as in startPodman.
  [[nodiscard]] Result<void> begin();
  [[nodiscard]] bool pending() const { return child_.has_value(); }
  // A child of the supervisor has ended: true if it was this one's, and then it either goes on
  // (pending), or all images are there, or `failure` tells.
  [[nodiscard]] bool childEnded(pid_t pid, int status);
  [[nodiscard]] const std::optional<Error>& failure() const { return failure_; }
  // Ends what runs; it is still pending until its child has ended.
  void cancel();

 private:
  enum class Step { kLook, kPull };
  void next(Step step);
  [[nodiscard]] Error whyNotPulled(const std::string& image) const;

  Options options_;
  std::vector<std::string> images_;
  std::function<void(const std::string&)> say_;
  std::size_t at_ = 0;
  Step step_ = Step::kLook;
  std::optional<pid_t> child_;
  bool cancelled_ = false;
  std::optional<Error> failure_;
};

}  // namespace bole::supervise
