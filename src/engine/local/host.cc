#include "engine/local/host.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "engine/local/files.h"

namespace bole::engine {
namespace {

constexpr std::uint16_t kFirstPort = 29'500;  // PyTorch's own, and 3,000 more: all below 32,768
constexpr std::uint16_t kPortCount = 3'000;

bool isDevice(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISCHR(info.st_mode);
}

std::vector<std::string> gpuDevices() {
  std::vector<std::string> found;
  for (const auto* path :
       {"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset"}) {
    if (isDevice(path)) found.emplace_back(path);
  }
  return found;
}

std::vector<std::string> fabricDevices() {
  std::vector<std::string> found;
  std::error_code error;
  for (std::filesystem::directory_iterator at("/dev/infiniband", error), end; !error && at != end;
       at.increment(error)) {
    if (isDevice(at->path().string())) found.push_back(at->path().string());
  }
  std::sort(found.begin(), found.end());
  return found;
}

// FNV-1a: only to tell a few homes on one machine apart.
std::string shortHash(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  char digits[16];
  std::snprintf(digits, sizeof digits, "%06x", static_cast<unsigned>(hash & 0xffffffU));
  return digits;
}

// Bound on every address, so that a port that anyone has is not free.
bool isFree(std::uint16_t port) {
  const Fd any(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  return any.isOpen() &&
         ::bind(any.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

}  // namespace

HostFacts probeHost(const std::string& home) {
  HostFacts facts;
  facts.ownUid = ::geteuid();
  facts.ownGid = ::getegid();
  facts.mayChangeUid = facts.ownUid == 0;
  facts.instance = shortHash(home);
  facts.etcHosts = readFile("/etc/hosts", 256 * 1024).value_or("");
  facts.gpuDevices = gpuDevices();
  facts.fabricDevices = fabricDevices();
  return facts;
}

bool inPath(const std::vector<std::string>& environment, const std::string& program) {
  constexpr std::string_view kName = "PATH=";
  for (const auto& variable : environment) {
    if (variable.compare(0, kName.size(), kName) != 0) continue;
    for (std::size_t at = kName.size(); at < variable.size();) {
      const auto end = std::min(variable.find(':', at), variable.size());
      const auto path = variable.substr(at, end - at) + "/" + program;
      if (::access(path.c_str(), X_OK) == 0) return true;
      at = end + 1;
    }
  }
  return false;
}

Result<std::uint16_t> FreePorts::choose(const std::set<std::uint16_t>& taken) {
  std::uint16_t start = 0;
  rng_.fill(&start, sizeof start);
  for (std::uint32_t i = 0; i < kPortCount; ++i) {
    const auto port = static_cast<std::uint16_t>(kFirstPort + (start + i) % kPortCount);
    if (taken.count(port) == 0 && isFree(port)) return port;
  }
  return fail(makeError(ErrorCode::kUnavailable, "no port is free for the ranks to meet at")
                  .at("ports " + std::to_string(kFirstPort) + " to " +
                      std::to_string(kFirstPort + kPortCount - 1)));
}

}  // namespace bole::engine
