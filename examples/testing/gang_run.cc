#include "gang_run.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>

namespace examples {
namespace {

using Clock = std::chrono::steady_clock;

int millisUntil(Clock::time_point deadline) {
  const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000));
}

[[noreturn]] void failed(const std::string& what) {
  throw std::runtime_error(what + ": " + std::strerror(errno));
}

// In the child: becomes the command or ends with 127. Memory was prepared before the fork.
[[noreturn]] void become(const std::string& directory, int output, char* const* argv,
                         char* const* environment, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // a test that crashes leaves nothing behind
  if (::getppid() != parent) ::_exit(127);
  const int none = ::open("/dev/null", O_RDONLY);
  if (::chdir(directory.c_str()) == 0 && ::dup2(none, 0) >= 0 && ::dup2(output, 1) >= 0 &&
      ::dup2(output, 2) >= 0) {
    ::execvpe(argv[0], argv, environment);
  }
  ::_exit(127);
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> all;
  for (auto& text : strings) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

}  // namespace

int freePort() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (::bind(fd, generic, size) != 0 || ::getsockname(fd, generic, &size) != 0)
    failed("no free port");
  ::close(fd);
  return ntohs(address.sin_port);
}

TempDir::TempDir() {
  path_ = (std::filesystem::temp_directory_path() / "bole-example-XXXXXX").string();
  if (::mkdtemp(path_.data()) == nullptr) failed("mkdtemp " + path_);
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TempDir::path(const std::string& name) const {
  return name.empty() ? path_ : path_ + "/" + name;
}

std::string TempDir::read(const std::string& name) const {
  std::ifstream file(path(name), std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void TempDir::write(const std::string& name, const std::string& text) const {
  std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
  std::ofstream(path(name), std::ios::binary) << text;
}

GangRun::~GangRun() {
  signalAll(SIGKILL);
  for (auto& [number, rank] : ranks_) {
    if (!rank.ending) ::waitpid(rank.pid, nullptr, 0);
    ::close(rank.pidfd);
    if (rank.pipe >= 0) ::close(rank.pipe);
  }
}

void GangRun::start(int rank, int worldSize, const std::vector<std::string>& argv,
                    const std::map<std::string, std::string>& environment) {
  auto values = environment;
  values.emplace("PATH", "/usr/local/bin:/usr/bin:/bin");
  values.emplace("OMP_NUM_THREADS", "1");
  if (worldSize > 0) {
    values.emplace("RANK", std::to_string(rank));
    values.emplace("LOCAL_RANK", std::to_string(rank));
    values.emplace("WORLD_SIZE", std::to_string(worldSize));
    values.emplace("MASTER_ADDR", "127.0.0.1");
    values.emplace("MASTER_PORT", std::to_string(port_));
  }
  std::vector<std::string> settings;
  for (const auto& [name, value] : values) settings.push_back(name + "=" + value);
  auto arguments = argv;
  auto argumentPointers = pointers(arguments);
  auto settingPointers = pointers(settings);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) failed("pipe");
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) failed("fork");
  if (pid == 0)
    become(directory_, ends[1], argumentPointers.data(), settingPointers.data(), parent);
  ::close(ends[1]);
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  const int pidfd = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  if (pidfd < 0) failed("pidfd_open");
  ranks_[rank] = Rank{pid, pidfd, ends[0], "", std::nullopt};
}

void GangRun::startAll(int worldSize, const std::vector<std::string>& argv) {
  for (int rank = 0; rank < worldSize; ++rank) start(rank, worldSize, argv);
}

void GangRun::readFrom(Rank& rank) {
  char bytes[4096];
  for (;;) {
    const auto n = ::read(rank.pipe, bytes, sizeof(bytes));
    if (n > 0) {
      rank.output.append(bytes, static_cast<std::size_t>(n));
      continue;
    }
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) {
      ::close(rank.pipe);
      rank.pipe = -1;
    }
    return;
  }
}

void GangRun::reap(Rank& rank) {
  int status = 0;
  if (rank.ending || ::waitpid(rank.pid, &status, WNOHANG) != rank.pid) return;
  rank.ending = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

bool GangRun::pump(Clock::time_point deadline) {
  std::vector<pollfd> polled;
  for (const auto& [number, rank] : ranks_) {
    polled.push_back({rank.pipe, POLLIN, 0});  // negative: ignored
    polled.push_back({rank.ending ? -1 : rank.pidfd, POLLIN, 0});
  }
  if (::poll(polled.data(), polled.size(), millisUntil(deadline)) < 0 && errno != EINTR)
    failed("poll");
  for (auto& [number, rank] : ranks_) {
    if (rank.pipe >= 0) readFrom(rank);
    reap(rank);
  }
  return Clock::now() < deadline;
}

bool GangRun::waitForLine(int rank, const std::string& text, milliseconds patience) {
  const auto deadline = Clock::now() + patience;
  auto& one = ranks_.at(rank);
  for (bool more = true;;) {
    const auto at = one.output.find(text);
    if (at != std::string::npos && one.output.find('\n', at) != std::string::npos) return true;
    if (one.pipe < 0 || !more) return false;
    more = pump(deadline);
  }
}

std::optional<Ending> GangRun::waitForEnd(int rank, milliseconds patience) {
  const auto deadline = Clock::now() + patience;
  auto& one = ranks_.at(rank);
  while (!one.ending && pump(deadline)) {
  }
  return one.ending;
}

std::vector<Ending> GangRun::waitForAll(milliseconds patience) {
  const auto deadline = Clock::now() + patience;
  std::vector<Ending> endings;
  for (auto& [number, rank] : ranks_) {
    while (!rank.ending && pump(deadline)) {
    }
    if (rank.pipe >= 0) readFrom(rank);
    endings.push_back(rank.ending.value_or(-1000));
  }
  return endings;
}

void GangRun::signal(int rank, int number) {
  const auto& one = ranks_.at(rank);
  if (!one.ending) ::syscall(SYS_pidfd_send_signal, one.pidfd, number, nullptr, 0);
}

void GangRun::signalAll(int number) {
  for (const auto& [rank, ignored] : ranks_) signal(rank, number);
}

std::string lastValue(const std::string& output, const std::string& key) {
  const auto at = output.rfind(" " + key + "=");
  if (at == std::string::npos) return "";
  const auto start = at + key.size() + 2;
  return output.substr(start, output.find_first_of(" \n", start) - start);
}

std::vector<std::string> linesWith(const std::string& output, const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(output);
  for (std::string line; std::getline(stream, line);) {
    if (line.find(text) != std::string::npos) lines.push_back(line);
  }
  return lines;
}

}  // namespace examples
