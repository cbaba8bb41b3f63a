// The Podman runtime as the supervisor uses it: one container for each rank, with bole-init as its
// first process.
//
// What it adds to the common way of a rank (its init, its pipes, its status record are those of all
// runtimes): images first, the command that makes the container, published ports, what a failure of
// Podman means, and that no container is left.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/local/supervise/attempt_files.h"
#include "engine/local/supervise/podman_cdi.h"
#include "engine/local/supervise/podman_host.h"
#include "engine/local/supervise/podman_images.h"
#include "engine/local/supervise/podman_ports.h"
#include "engine/local/supervise/rank_process.h"
#include "engine/local/supervise/sandbox.h"

namespace bole::supervise {

class PodmanRuntime {
 public:
  struct Place {
    std::string directory;  // of the attempt
    std::string programs;   // where bole-init lies
    std::string tag;
    Bytes machineMemory;
    std::uint32_t processes = 0;  // of a rank, at most
  };
  PodmanRuntime(Place place, const Launch& launch) : place_(std::move(place)), launch_(launch) {}

  // In the machine's network, before the gang's own is entered: looks at the host, opens the
  // published ports, and writes down the names of the containers to come. Errors for people.
  [[nodiscard]] Result<void> prepare();

  // Sees to the images; `entrances` as in SpawnPlan, `say` writes to the job's logs. Then, until
  // busy() is false, children that ended are handed over, and failure() tells.
  [[nodiscard]] Result<void> beginImages(std::vector<std::string> entrances,
                                         std::function<void(const std::string&)> say);
  [[nodiscard]] bool busy() const { return images_ && images_->pending(); }
  [[nodiscard]] bool childEnded(pid_t pid, int status) {
    return images_ && images_->childEnded(pid, status);
  }
  [[nodiscard]] std::optional<std::string> failure() const;
  void cancelImages() {
    if (images_) images_->cancel();
  }

  // Adds what makes this rank's container; the command and its environment are in the plan already.
  // Returns what is mounted, as it was looked at.
  [[nodiscard]] Result<std::vector<MountSeen>> plan(const RankLaunch& rank, SpawnPlan& plan);

  // The rank's init said hello: where its container's group is becomes known.
  void rankIsUp(std::uint32_t rank, pid_t init);
  [[nodiscard]] bool oomKilled(std::uint32_t rank) const;

  // Of the standard error of a rank that never came up, what happened and what to do.
  [[nodiscard]] std::string whyNotUp(const RankLaunch& rank, const std::string& said) const;

  // Where this rank's ports are, for its log: the job's owner has no other way to know a chosen
  // one.
  [[nodiscard]] std::vector<std::string> published(const RankLaunch& rank) const;
  [[nodiscard]] PortForwarder& ports() { return ports_; }
  [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }

  // No process of the attempt is left: nor shall a container be. Waits for Podman.
  [[nodiscard]] Result<void> remove();

 private:
  [[nodiscard]] std::vector<std::string> podman() const;
  [[nodiscard]] Result<void> openPorts();
  void note(const std::string& text);

  Place place_;
  const Launch& launch_;
  PodmanFacts facts_;
  CdiNames cdi_;
  Fd machineNetwork_;
  PortForwarder ports_;
  std::optional<PodmanImages> images_;
  std::map<std::uint32_t, std::string>
      memoryEvents_;  // the file that counts a rank's kills for memory
  std::vector<std::string> notes_;
};

}  // namespace bole::supervise
