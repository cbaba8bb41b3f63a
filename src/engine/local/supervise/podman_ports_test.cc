// Published ports over real sockets of the loopback.
#include "engine/local/supervise/podman_ports.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <functional>

namespace bole::supervise {
namespace {

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

std::uint16_t portOf(const Fd& socket) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.sin_port);
}

Fd listener() {
  Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const auto address = loopback(0);
  EXPECT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(::listen(socket.get(), 512), 0);
  return socket;
}

std::uint16_t freePort() {
  return portOf(listener());
}

Fd client(std::uint16_t port) {
  Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto address = loopback(port);
  EXPECT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
            0);
  return socket;
}

class PodmanPorts : public ::testing::Test {
 protected:
  PodmanPorts() : server(listener()), published(freePort()) {
    const auto opened = ports.listen({"127.0.0.1", published, portOf(server)});
    EXPECT_TRUE(opened) << opened.error().message();
  }

  // Lets the forwarder work until the condition holds.
  bool until(const std::function<bool()>& condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > end) return false;
      pollfd file{ports.events().get(), POLLIN, 0};
      ::poll(&file, 1, 5);
      ports.turn();
    }
    return true;
  }
  Fd accepted() {
    Fd socket;
    until([&] {
      socket = Fd(::accept4(server.get(), nullptr, nullptr, SOCK_CLOEXEC));
      return socket.isOpen();
    });
    return socket;
  }
  // What comes until the other side ends.
  std::string rest(const Fd& socket) {
    std::string all;
    until([&] {
      char chunk[65536];
      const auto got = ::recv(socket.get(), chunk, sizeof chunk, MSG_DONTWAIT);
      if (got > 0) all.append(chunk, static_cast<std::size_t>(got));
      return got == 0 || (got < 0 && errno != EAGAIN);
    });
    return all;
  }

  PortForwarder ports;
  Fd server;
  std::uint16_t published;
};

TEST_F(PodmanPorts, BytesGoBothWaysAndEndsArePassedOn) {
  const auto mine = client(published);
  ASSERT_EQ(::send(mine.get(), "question", 8, 0), 8);
  ::shutdown(mine.get(), SHUT_WR);
  const auto theirs = accepted();
  ASSERT_TRUE(theirs.isOpen());
  EXPECT_EQ(rest(theirs), "question");
  ASSERT_EQ(::send(theirs.get(), "answer", 6, 0), 6);
  ::shutdown(theirs.get(), SHUT_WR);
  EXPECT_EQ(rest(mine), "answer");
  EXPECT_TRUE(until([&] { return ports.connections() == 0; }));
}

TEST_F(PodmanPorts, MuchIsCarriedWithoutLoss) {
  const auto mine = client(published);
  const auto theirs = accepted();
  std::string sent(8u << 20, '\0');
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<char>(i * 2654435761u >> 24);
  std::size_t put = 0;
  std::string got;
  EXPECT_TRUE(until([&] {
    if (put < sent.size()) {
      const auto wrote =
          ::send(theirs.get(), sent.data() + put, sent.size() - put, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (wrote > 0) put += static_cast<std::size_t>(wrote);
      if (put == sent.size()) ::shutdown(theirs.get(), SHUT_WR);
    }
    char chunk[65536];
    const auto read = ::recv(mine.get(), chunk, sizeof chunk, MSG_DONTWAIT);
    if (read > 0) got.append(chunk, static_cast<std::size_t>(read));
    return read == 0;
  }));
  EXPECT_EQ(got, sent);
}

TEST_F(PodmanPorts, WhereNobodyListensTheConnectionIsClosed) {
  server.close();
  const auto mine = client(published);
  EXPECT_EQ(rest(mine), "");
  EXPECT_TRUE(until([&] { return ports.connections() == 0; }));
}

TEST_F(PodmanPorts, OneThatDoesNotReadDoesNotHoldUpOthers) {
  const auto deaf = client(published);
  const auto toDeaf = accepted();
  const std::string flood(1u << 20, 'x');
  // Until nothing goes in any more.
  for (int full = 0; full < 50;) {
    const auto put = ::send(toDeaf.get(), flood.data(), flood.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    full = put > 0 ? 0 : full + 1;
    ports.turn();
  }
  const auto mine = client(published);
  const auto theirs = accepted();
  ASSERT_EQ(::send(theirs.get(), "hello", 5, 0), 5);
  ::shutdown(theirs.get(), SHUT_WR);
  EXPECT_EQ(rest(mine), "hello");
}

// A client that has gone while its rank does not read what it left: nothing happens, and nothing is
// busy.
TEST_F(PodmanPorts, AnEndThatHungUpIsNotToldAgainAndAgain) {
  auto mine = client(published);
  const auto theirs = accepted();
  const std::string flood(64u << 10, 'x');
  for (int full = 0; full < 50;) {
    const auto put = ::send(mine.get(), flood.data(), flood.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    full = put > 0 ? 0 : full + 1;
    ports.turn();
  }
  ::shutdown(theirs.get(), SHUT_WR);
  EXPECT_EQ(rest(mine), "");
  ::shutdown(mine.get(), SHUT_WR);
  mine.close();
  pollfd file{ports.events().get(), POLLIN, 0};
  for (int turns = 0; turns < 100; ++turns) ports.turn();
  EXPECT_EQ(::poll(&file, 1, 100), 0);
  EXPECT_GT(rest(theirs).size(), 0u);
  EXPECT_TRUE(until([&] { return ports.connections() == 0; }));
}

TEST_F(PodmanPorts, ThereAreSoManyAtOnceAndTheOthersWait) {
  std::vector<Fd> clients;
  for (int i = 0; i < 300; ++i) {
    clients.push_back(client(published));
    for (int turns = 0; turns < 4; ++turns) ports.turn();
  }
  EXPECT_LE(ports.connections(), 256u);
  EXPECT_TRUE(until([&] { return ports.connections() == 256; }));
  clients.erase(clients.begin(), clients.begin() + 200);  // these give up
  std::vector<Fd> served;
  server = Fd();  // and the rest is refused by a server that is gone
  EXPECT_TRUE(until([&] { return ports.connections() == 0; }));
}

TEST_F(PodmanPorts, ATakenPortIsToldWithWhatToDo) {
  PortForwarder other;
  const auto opened = other.listen({"127.0.0.1", published, 80});
  ASSERT_FALSE(opened);
  EXPECT_NE(opened.error().message().find("127.0.0.1:" + std::to_string(published)),
            std::string::npos);
  EXPECT_NE(opened.error().message().find("choose another port"), std::string::npos);
  EXPECT_FALSE(other.listen({"not an address", published, 80}));
  EXPECT_FALSE(other.listen({"192.0.2.1", published, 80}));  // of no machine
}

}  // namespace
}  // namespace bole::supervise
