// What the local engine looks up on the machine: devices, the own user, free ports.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "engine/local/launch_builder.h"

namespace bole::engine {

// HostFacts as found now, without what is the operator's to set (baseUid, maskPaths, logs). `home`
// tells this server from others on the machine.
[[nodiscard]] HostFacts probeHost(const std::string& home);

// Whether the PATH of this environment ("NAME=value") has such a program.
[[nodiscard]] bool inPath(const std::vector<std::string>& environment, const std::string& program);

// TCP ports of the loopback that no one listens on now, below the range from which the kernel takes
// ports by itself. The caller keeps in mind what it has given out: a port is only taken once
// somebody listens.
class FreePorts {
 public:
  explicit FreePorts(Rng& rng) : rng_(rng) {}
  [[nodiscard]] Result<std::uint16_t> choose(const std::set<std::uint16_t>& taken);

 private:
  Rng& rng_;
};

}  // namespace bole::engine
