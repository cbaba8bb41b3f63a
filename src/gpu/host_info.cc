#include "gpu/host_info.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <optional>

namespace bole::gpu {
namespace {

namespace fs = std::filesystem;

constexpr std::int32_t kMostCpus = 1 << 20;  // a list that names more is not the kernel's

Error unreadable(const fs::path& path) {
  return makeError(ErrorCode::kUnsupported, "cannot read what this machine has")
      .at(path.string())
      .withHint("are /proc and /sys mounted?");
}

Result<std::string> readText(const fs::path& path) {
  std::ifstream file(path);
  if (!file) return fail(unreadable(path));
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

std::optional<std::int64_t> number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Result<Bytes> readMemory(const fs::path& root) {
  const auto path = root / "proc/meminfo";
  BOLE_ASSIGN(const std::string text, readText(path));
  constexpr std::string_view kName = "MemTotal:";
  const auto at = text.find(kName);
  if (at == std::string::npos) return fail(unreadable(path));
  const auto start = text.find_first_not_of(' ', at + kName.size());
  const auto end = text.find(' ', start);
  const auto kib = start == std::string::npos
                       ? std::nullopt
                       : number(std::string_view(text).substr(start, end - start));
  if (!kib || *kib <= 0) return fail(unreadable(path));
  return kKiB * *kib;
}

// Where the kernel knows no NUMA there is one node with every CPU.
Result<std::vector<NumaNode>> readNumaNodes(const fs::path& root, const std::string& allCpus) {
  const auto directory = root / "sys/devices/system/node";
  const auto online = readText(directory / "online");
  if (!online) return std::vector<NumaNode>{{0, allCpus}};
  BOLE_ASSIGN(const auto ids, parseCpuList(*online));
  std::vector<NumaNode> nodes;
  for (const auto id : ids) {
    BOLE_ASSIGN(auto cpus, readText(directory / ("node" + std::to_string(id)) / "cpulist"));
    nodes.push_back({id, std::move(cpus)});
  }
  if (nodes.empty()) nodes.push_back({0, allCpus});
  return nodes;
}

}  // namespace

Result<std::vector<std::int32_t>> parseCpuList(std::string_view text) {
  std::vector<std::int32_t> cpus;
  const auto bad = [&] {
    return fail(makeError(ErrorCode::kInvalid, "not a list of CPUs")
                    .foundValue(std::string(text))
                    .expectedValue("numbers and ranges such as 0-3,8"));
  };
  if (text.empty()) return cpus;
  for (std::size_t start = 0; start <= text.size();) {
    const auto comma = std::min(text.find(',', start), text.size());
    const auto item = text.substr(start, comma - start);
    const auto dash = item.find('-');
    const auto first = number(item.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : number(item.substr(dash + 1));
    if (!first || !last || *first < 0 || *first > *last || *last >= kMostCpus) return bad();
    for (auto cpu = *first; cpu <= *last; ++cpu) cpus.push_back(static_cast<std::int32_t>(cpu));
    start = comma + 1;
  }
  std::sort(cpus.begin(), cpus.end());
  if (std::adjacent_find(cpus.begin(), cpus.end()) != cpus.end()) return bad();
  return cpus;
}

Result<HostInfo> readHostInfo(const fs::path& root) {
  HostInfo host;
  BOLE_ASSIGN(host.hostname, readText(root / "proc/sys/kernel/hostname"));
  BOLE_ASSIGN(host.bootId, readText(root / "proc/sys/kernel/random/boot_id"));
  BOLE_ASSIGN(host.memory, readMemory(root));
  const auto onlinePath = root / "sys/devices/system/cpu/online";
  BOLE_ASSIGN(const std::string online, readText(onlinePath));
  BOLE_ASSIGN(const auto cpus, parseCpuList(online));
  if (cpus.empty()) return fail(unreadable(onlinePath));
  host.cpus = static_cast<std::int32_t>(cpus.size());
  BOLE_ASSIGN(host.numaNodes, readNumaNodes(root, online));
  return host;
}

model::Node hostNode(const HostInfo& host) {
  model::Node node;
  node.name = host.hostname;
  node.cpus = MilliCpu(1000) * host.cpus;
  node.memory = host.memory;
  node.numaNodes = static_cast<std::int32_t>(host.numaNodes.size());
  for (const auto& numa : host.numaNodes) {
    if (!numa.cpuList.empty()) node.labels.emplace_back(numaCpusLabel(numa.id), numa.cpuList);
  }
  return node;
}

std::string numaCpusLabel(std::int32_t numaNode) {
  return "bole.numa-" + std::to_string(numaNode) + ".cpus";
}

}  // namespace bole::gpu
