// From an order to what the supervisor is to run: launch.json. Pure: every fact of the host comes
// in.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/local/supervise/attempt_files.h"
#include "ports/engine.h"

namespace bole::engine {

// What the launch depends on besides the order. Does not change while the engine lives.
struct HostFacts {
  std::uint32_t baseUid = 200'000;  // a project's ranks run as baseUid + project id
  bool mayChangeUid = false;        // the server is root
  std::uint32_t ownUid = 0;         // the server's
  std::uint32_t ownGid = 0;
  std::string instance;                    // of this home among others on the machine: "1a2b3c"
  std::string etcHosts;                    // the machine's /etc/hosts
  std::vector<std::string> gpuDevices;     // what every user of a GPU needs: /dev/nvidiactl, ...
  std::vector<std::string> fabricDevices;  // /dev/infiniband/...
  std::vector<std::string> maskPaths;      // hidden from every rank
  Bytes logBytes = kMiB * 64;
  std::uint32_t logFiles = 4;
};

// Where this attempt lives.
struct LaunchPlace {
  std::string attemptDirectory;
  std::string workDirectory;  // of the job
  std::uint16_t masterPort = 29500;
  std::vector<std::uint16_t> ports;  // free ones, as many as portsToChoose() says
};

// A file that the launch mounts, to be written below the attempt's directory first.
struct GeneratedFile {
  std::string path;  // absolute
  std::string content;
};

struct BuiltLaunch {
  supervise::Launch launch;
  std::vector<GeneratedFile> files;
  std::vector<std::string> notes;  // what of the order is not done as written, for people
};

// Errors: kInvalid and kUnsupported, for people: the order contradicts itself or the machine.
[[nodiscard]] Result<BuiltLaunch> buildLaunch(const ports::AttemptOrder& order,
                                              const HostFacts& host, const LaunchPlace& place);

// How many free ports of the host the order leaves to the engine to choose (Port::host is 0).
[[nodiscard]] std::size_t portsToChoose(const ports::AttemptOrder& order);

// True where ranks meet on the machine's own loopback, so that the gang's port must be a free one
// there.
[[nodiscard]] bool sharesHostNetwork(const model::JobShape& shape);

// The uid that the job's ranks run as and that owns its work directory.
[[nodiscard]] std::uint32_t uidOf(const ports::AttemptOrder& order, const HostFacts& host);

// Where the job's checkpoints lie on the machine; empty: it has none. `workDirectory` as in
// LaunchPlace.
[[nodiscard]] std::string checkpointDirectory(const model::JobShape& shape,
                                              const model::JobText& text,
                                              const std::string& workDirectory);

// Below the root of the cgroup v2 tree.
[[nodiscard]] std::string cgroupOf(AttemptId attempt, const HostFacts& host);

}  // namespace bole::engine
