#include "engine/local/supervise/podman_ports.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace bole::supervise {
namespace {

constexpr int kBacklog = 128;
constexpr int kEventsAtOnce = 64;

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;
};

std::optional<Address> addressOf(const std::string& text, std::uint16_t port) {
  Address address;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&address.storage);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
  if (::inet_pton(AF_INET, text.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    address.size = sizeof *v4;
    return address;
  }
  if (::inet_pton(AF_INET6, text.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    address.size = sizeof *v6;
    return address;
  }
  return std::nullopt;
}

Fd streamSocket(int family) {
  return Fd(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

// An event's tag: the door's index, or the link's id and which end.
constexpr std::uint64_t kDoorBit = std::uint64_t{1} << 63;

void add(const Fd& epoll, const Fd& file, std::uint32_t events, std::uint64_t tag) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = tag;
  ::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, file.get(), &event);
}

void change(const Fd& epoll, const Fd& file, std::uint32_t events, std::uint64_t tag) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = tag;
  ::epoll_ctl(epoll.get(), EPOLL_CTL_MOD, file.get(), &event);
}

}  // namespace

Result<void> PortForwarder::listen(const PortMap& port) {
  const auto where = port.address + ":" + std::to_string(port.host);
  const auto address = addressOf(port.address, port.host);
  if (!address) {
    return fail(makeError(ErrorCode::kInvalid, "a port cannot be published on this address")
                    .foundValue(port.address)
                    .expectedValue("an address of this machine, for example 127.0.0.1"));
  }
  if (!epoll_.isOpen()) epoll_ = Fd(::epoll_create1(EPOLL_CLOEXEC));
  Door door;
  door.target = port.container;
  door.socket = streamSocket(address->storage.ss_family);
  const int on = 1;
  ::setsockopt(door.socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (address->storage.ss_family == AF_INET6) {
    ::setsockopt(door.socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  }
  const auto* raw = reinterpret_cast<const sockaddr*>(&address->storage);
  if (!epoll_.isOpen() || !door.socket.isOpen() ||
      ::bind(door.socket.get(), raw, address->size) != 0 ||
      ::listen(door.socket.get(), kBacklog) != 0) {
    return fail(systemError(errno, "cannot publish the port", where)
                    .withHint("`ss -ltnp` tells who has it; choose another port of the machine, or "
                              "leave it out to "
                              "have a free one chosen"));
  }
  add(epoll_, door.socket, EPOLLIN, kDoorBit | doors_.size());
  doors_.push_back(std::move(door));
  return {};
}

void PortForwarder::turn() {
  std::array<epoll_event, kEventsAtOnce> events;
  const int count = ::epoll_wait(epoll_.get(), events.data(), kEventsAtOnce, 0);
  for (int i = 0; i < count; ++i) {
    const auto& event = events[static_cast<std::size_t>(i)];
    const auto tag = event.data.u64;
    if ((tag & kDoorBit) != 0) {
      accept(doors_[tag & ~kDoorBit]);
    } else {
      onLink(tag >> 1, tag & 1, event.events);
    }
  }
  links_.remove_if([](const Link& link) { return link.broken; });
  setDoors(links_.size() < kMostLinks);
}

void PortForwarder::setDoors(bool open) {
  for (std::size_t i = 0; i < doors_.size(); ++i) {
    if (doors_[i].open == open) continue;
    doors_[i].open = open;
    change(epoll_, doors_[i].socket, open ? EPOLLIN : 0u, kDoorBit | i);
  }
}

void PortForwarder::accept(Door& door) {
  while (links_.size() < kMostLinks) {
    Fd client(::accept4(door.socket.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!client.isOpen()) return;
    Link link;
    link.id = nextLink_++;
    link.target = door.target;
    link.ends[0] = std::move(client);
    for (auto& flow : link.flows) flow.bytes.resize(kBufferBytes);
    if (!connect(link)) continue;
    add(epoll_, link.ends[0], 0, link.id << 1);
    links_.push_back(std::move(link));
  }
}

// To the ranks' loopback: IPv4 first, since what listens on "localhost" listens there as a rule.
bool PortForwarder::connect(Link& link) {
  for (;; link.secondFamily = true) {
    const auto address = addressOf(link.secondFamily ? "::1" : "127.0.0.1", link.target);
    auto socket = streamSocket(address->storage.ss_family);
    const auto* raw = reinterpret_cast<const sockaddr*>(&address->storage);
    const bool begun = socket.isOpen() &&
                       (::connect(socket.get(), raw, address->size) == 0 || errno == EINPROGRESS);
    if (begun) {
      link.ends[1] = std::move(socket);
      link.interest[1] = EPOLLOUT;
      add(epoll_, link.ends[1], EPOLLOUT, link.id << 1 | 1);
      return true;
    }
    if (link.secondFamily) return false;
  }
}

void PortForwarder::connected(Link& link) {
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(link.ends[1].get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error == 0) {
    link.connecting = false;
    const int on = 1;
    for (const auto& end : link.ends)
      ::setsockopt(end.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return;
  }
  link.ends[1].close();
  if (link.secondFamily) {
    link.broken = true;
    return;
  }
  link.secondFamily = true;
  link.broken = !connect(link);
}

void PortForwarder::onLink(std::uint64_t id, std::size_t end, std::uint32_t happened) {
  const auto found =
      std::find_if(links_.begin(), links_.end(), [&](const Link& link) { return link.id == id; });
  if (found == links_.end() || found->broken) return;
  auto& link = *found;
  if (link.connecting) {
    // The client may give up first.
    if (end == 0) {
      link.broken = (happened & (EPOLLERR | EPOLLHUP)) != 0;
    } else {
      connected(link);
    }
    if (link.connecting || link.broken) return;
  } else if ((happened & EPOLLERR) != 0) {
    link.broken = true;
    return;
  }
  move(link, 0);
  move(link, 1);
  const auto done = [](const Flow& flow) { return flow.writeEnded; };
  if (std::all_of(link.flows.begin(), link.flows.end(), done)) link.broken = true;
  if (!link.broken) setInterest(link);
}

// As much as goes through without waiting; a bounded number of rounds, so that nobody keeps the
// others from their turn.
void PortForwarder::move(Link& link, std::size_t from) {
  auto& flow = link.flows[from];
  const int in = link.ends[from].get();
  const int out = link.ends[1 - from].get();
  for (int rounds = 0; rounds < 16 && !link.broken; ++rounds) {
    if (flow.begin == flow.end && !flow.readEnded) {
      const auto got = ::recv(in, flow.bytes.data(), flow.bytes.size(), MSG_DONTWAIT);
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
      if (got < 0) link.broken = true;
      flow.begin = 0;
      flow.end = got > 0 ? static_cast<std::size_t>(got) : 0;
      flow.readEnded = got == 0;
    }
    if (flow.begin == flow.end) break;
    const auto put = ::send(out, flow.bytes.data() + flow.begin, flow.end - flow.begin,
                            MSG_DONTWAIT | MSG_NOSIGNAL);
    if (put < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (put < 0) link.broken = true;
    if (put > 0) flow.begin += static_cast<std::size_t>(put);
  }
  if (flow.begin == flow.end && flow.readEnded && !flow.writeEnded) {
    flow.writeEnded = true;
    ::shutdown(out, SHUT_WR);
  }
}

void PortForwarder::setInterest(Link& link) {
  for (std::size_t end = 0; end < 2; ++end) {
    const auto& outward = link.flows[1 - end];  // what is written to this end
    const auto& inward = link.flows[end];
    // With both its directions over, an end is hung up, which would be told again and again.
    if (inward.readEnded && outward.writeEnded) {
      ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, link.ends[end].get(), nullptr);
      continue;
    }
    std::uint32_t wanted = 0;
    if (inward.begin == inward.end && !inward.readEnded) wanted |= EPOLLIN;
    if (outward.begin != outward.end) wanted |= EPOLLOUT;
    if (wanted == link.interest[end]) continue;
    link.interest[end] = wanted;
    change(epoll_, link.ends[end], wanted, link.id << 1 | end);
  }
}

}  // namespace bole::supervise
