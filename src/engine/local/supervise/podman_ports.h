// The published ports of a gang: what comes to a port of the machine goes on to the same machine's
// other network, the gang's own loopback.
//
// No bridge, no address translation and no proxy program: the supervisor has a foot in each network
// (a socket stays in the namespace where it was made) and copies bytes. Made for notebooks,
// TensorBoard and metrics, not for data. Bounded: so many connections at once, the rest waits in
// the kernel's queue; a side that does not read is not read from.
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/local/supervise/attempt_files.h"
#include "engine/local/supervise/posix.h"

namespace bole::supervise {

class PortForwarder {
 public:
  // Listens, in the network namespace that the caller is in now. Errors for people: the port is
  // taken, the address is none of this machine.
  [[nodiscard]] Result<void> listen(const PortMap& port);

  // From now on connections to ranks are made in the caller's present network namespace.
  [[nodiscard]] bool any() const { return !doors_.empty(); }
  [[nodiscard]] const Fd& events() const { return epoll_; }  // readable: call turn()
  void turn();
  [[nodiscard]] std::size_t connections() const { return links_.size(); }

 private:
  static constexpr std::size_t kBufferBytes = 64 * 1024;
  static constexpr std::size_t kMostLinks = 256;

  struct Door {
    Fd socket;
    std::uint16_t target = 0;
    bool open = true;  // false: too many connections, the others wait
  };
  // One direction: what was read and is not yet written.
  struct Flow {
    std::vector<char> bytes;
    std::size_t begin = 0;
    std::size_t end = 0;
    bool readEnded = false;
    bool writeEnded = false;
  };
  struct Link {
    std::uint64_t id = 0;
    std::array<Fd, 2> ends;  // the client, the rank
    std::array<std::uint32_t, 2> interest{};
    std::array<Flow, 2> flows;  // from ends[i] to the other
    std::uint16_t target = 0;
    bool connecting = true;
    bool secondFamily = false;  // ::1 is tried after 127.0.0.1
    bool broken = false;
  };

  void accept(Door& door);
  void setDoors(bool open);
  [[nodiscard]] bool connect(Link& link);
  void onLink(std::uint64_t id, std::size_t end, std::uint32_t happened);
  void connected(Link& link);
  static void move(Link& link, std::size_t from);
  void setInterest(Link& link);

  Fd epoll_;
  std::vector<Door> doors_;
  std::list<Link> links_;
  std::uint64_t nextLink_ = 1;
};

}  // namespace bole::supervise
