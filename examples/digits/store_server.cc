#include "store_server.h"

#include <netdb.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstring>

namespace digits {
namespace {

constexpr std::size_t kMostStrangers = 64;  // connections beyond the ranks
constexpr auto kBindPatience = std::chrono::seconds(3);

Result<Fd> listenOn(const addrinfo& address, const std::string& where) {
  const auto deadline = std::chrono::steady_clock::now() + kBindPatience;
  for (;;) {
    Fd listener(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int yes = 1;
    ::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    if (::bind(listener.get(), address.ai_addr, address.ai_addrlen) == 0 &&
        ::listen(listener.get(), SOMAXCONN) == 0) {
      return listener;
    }
    const int error = errno;
    // The rank 0 of an attempt that is just ending may still hold the port.
    if (error == EADDRINUSE && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      continue;
    }
    std::string advice;
    if (error == EADDRINUSE)
      advice = "; another program uses this port: set MASTER_PORT to a free one";
    if (error == EADDRNOTAVAIL)
      advice = "; MASTER_ADDR must be an address of the machine of rank 0";
    return failed("rank 0 cannot listen on " + where + ": " + std::strerror(error) + advice);
  }
}

}  // namespace

std::string helloText(const Place& place, std::uint64_t fingerprint) {
  return "digits1 " + std::to_string(place.rank) + " " + std::to_string(place.worldSize) + " " +
         std::to_string(fingerprint);
}

Result<std::unique_ptr<StoreServer>> StoreServer::start(const Place& place,
                                                        std::uint64_t fingerprint) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int code =
      ::getaddrinfo(place.masterAddr.c_str(), place.masterPort.c_str(), &hints, &found);
  if (code != 0) {
    return failed("MASTER_ADDR '" + place.masterAddr +
                  "' is not a known name or address: " + ::gai_strerror(code));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  auto listener = listenOn(*found, place.masterAddr + ":" + place.masterPort);
  if (!listener) return passOn(listener.error());
  Fd stop(::eventfd(0, EFD_CLOEXEC));
  if (!stop.isOpen()) return failed(std::string("eventfd: ") + std::strerror(errno));
  return std::unique_ptr<StoreServer>(
      new StoreServer(std::move(*listener), std::move(stop), place.worldSize, fingerprint));
}

StoreServer::StoreServer(Fd listener, Fd stop, std::size_t worldSize, std::uint64_t fingerprint)
    : listener_(std::move(listener)),
      stop_(std::move(stop)),
      worldSize_(worldSize),
      fingerprint_(fingerprint),
      present_(worldSize, false),
      thread_([this] { serve(); }) {}

StoreServer::~StoreServer() {
  ::eventfd_write(stop_.get(), 1);
  thread_.join();
}

void StoreServer::serve() {
  for (;;) {
    std::vector<pollfd> polled = {{stop_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
    for (const auto& client : clients_) polled.push_back({client->socket.get(), POLLIN, 0});
    if (::poll(polled.data(), polled.size(), -1) < 0) {
      if (errno == EINTR) continue;
      return;
    }
    if (polled[0].revents != 0) return;
    for (std::size_t i = 2; i < polled.size(); ++i) {
      if (polled[i].revents != 0) receive(*clients_[i - 2]);
    }
    std::erase_if(clients_, [](const auto& client) { return client->done; });
    if (polled[1].revents != 0) accept();  // last: it changes clients_
  }
}

void StoreServer::accept() {
  Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket.isOpen() || clients_.size() >= worldSize_ + kMostStrangers) return;
  const timeval patience{5, 0};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  clients_.push_back(std::make_unique<Client>());
  clients_.back()->socket = std::move(socket);
}

void StoreServer::receive(Client& client) {
  char bytes[4096];
  const auto n = ::recv(client.socket.get(), bytes, sizeof(bytes), MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0) {
    client.done = true;
    if (client.rank >= 0) rankLeft(client.rank);
    return;
  }
  client.received.append(bytes, static_cast<std::size_t>(n));
  Frame frame;
  while (!client.done) {
    const auto decoded = decode(client.received, frame);
    if (decoded == Decoded::kMore) return;
    if (decoded == Decoded::kBad) client.done = true;
    if (decoded == Decoded::kFrame) handle(client, std::move(frame));
  }
}

void StoreServer::handle(Client& client, Frame frame) {
  if (frame.tag == Tag::kHello && client.rank < 0) return hello(client, frame.value);
  if (client.rank < 0) {
    client.done = true;
    return;
  }
  if (frame.tag == Tag::kBye) {
    client.done = true;
  } else if (!failure_.empty()) {
    answer(client, Tag::kError, failure_);
  } else if (frame.tag == Tag::kSet) {
    answer(client, Tag::kOk, "");
    put(frame.key, std::move(frame.value));
  } else if (const auto value = values_.find(frame.key); value != values_.end()) {
    answer(client, Tag::kOk, value->second);
  } else {
    client.waitsFor = frame.key;
  }
}

void StoreServer::hello(Client& client, const std::string& text) {
  std::size_t rank = 0;
  std::size_t worldSize = 0;
  std::uint64_t print = 0;
  std::string refusal;
  if (std::sscanf(text.c_str(), "digits1 %zu %zu %" SCNu64, &rank, &worldSize, &print) != 3) {
    refusal = "this is rank 0 of the digits example, and the caller is something else";
  } else if (worldSize != worldSize_) {
    refusal = "WORLD_SIZE is " + std::to_string(worldSize) + " here and " +
              std::to_string(worldSize_) + " for rank 0";
  } else if (rank >= worldSize_ || present_[rank]) {
    refusal = "there already is a rank " + std::to_string(rank) +
              ": give each process its own RANK, and each gang its own MASTER_PORT";
  } else if (print != fingerprint_) {
    refusal = "--epochs, --seed, --samples, --batch or --lr differ from those of rank 0";
  }
  if (!refusal.empty()) {
    answer(client, Tag::kError, refusal);
    client.done = true;
    return;
  }
  present_[rank] = true;
  client.rank = static_cast<int>(rank);
  answer(client, Tag::kOk, "");
}

void StoreServer::put(const std::string& key, std::string value) {
  for (const auto& client : clients_) {
    if (client->waitsFor != key) continue;
    client->waitsFor.clear();
    answer(*client, Tag::kOk, value);
  }
  values_[key] = std::move(value);
}

void StoreServer::rankLeft(int rank) {
  if (failure_.empty()) {
    failure_ = "rank " + std::to_string(rank) + " left while the ranks were finding each other";
  }
  for (const auto& client : clients_) {
    if (client->waitsFor.empty()) continue;
    client->waitsFor.clear();
    answer(*client, Tag::kError, failure_);
  }
}

void StoreServer::answer(Client& client, Tag tag, std::string text) {
  // A client that is gone is noticed when its socket is read.
  static_cast<void>(sendAll(client.socket.get(), encode({tag, "", std::move(text)})));
}

}  // namespace digits
