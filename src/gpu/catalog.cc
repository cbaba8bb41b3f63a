#include "gpu/catalog.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <numeric>
#include <string>

namespace bole::gpu {
namespace {

using model::Link;
using model::LinkKind;

// DGX-1 with V100: a hybrid cube mesh, six links a GPU. Rows and columns are GPUs, values are
// NVLinks. Source: `nvidia-smi topo -m` of a DGX-1; NVIDIA DGX-1 system architecture white paper,
// figure 4.
constexpr std::array<std::array<std::uint8_t, 8>, 8> kCubeMesh = {{{0, 1, 1, 2, 2, 0, 0, 0},
                                                                   {1, 0, 2, 1, 0, 2, 0, 0},
                                                                   {1, 2, 0, 2, 0, 0, 1, 0},
                                                                   {2, 1, 2, 0, 0, 0, 0, 1},
                                                                   {2, 0, 0, 0, 0, 1, 1, 2},
                                                                   {0, 2, 0, 0, 1, 0, 2, 1},
                                                                   {0, 0, 1, 0, 1, 2, 0, 2},
                                                                   {0, 0, 0, 1, 2, 1, 2, 0}}};

Link cubeMesh(std::size_t a, std::size_t b) {
  const auto links = kCubeMesh[a][b];
  return links > 0 ? Link{LinkKind::kNvLink, links} : Link{LinkKind::kSys, 0};
}

template <std::uint8_t kLinks>
Link allToAll(std::size_t, std::size_t) {
  return {LinkKind::kNvLink, kLinks};
}

// Cards 0 and 1, 2 and 3, ... carry an NVLink bridge; kPerSocket cards hang at each CPU.
template <std::uint8_t kLinks, std::size_t kPerSocket>
Link bridgedPairs(std::size_t a, std::size_t b) {
  if (a / 2 == b / 2) return {LinkKind::kNvLink, kLinks};
  return {a / kPerSocket == b / kPerSocket ? LinkKind::kNode : LinkKind::kSys, 0};
}

// Every card at a root port of its own.
template <std::size_t kPerSocket>
Link rootPorts(std::size_t a, std::size_t b) {
  return {a / kPerSocket == b / kPerSocket ? LinkKind::kNode : LinkKind::kSys, 0};
}

// Two cards behind each PCIe switch, two switches at each CPU.
Link switchedPairs(std::size_t a, std::size_t b) {
  if (a / 2 == b / 2) return {LinkKind::kPix, 0};
  return {a / 4 == b / 4 ? LinkKind::kNode : LinkKind::kSys, 0};
}

// A desktop: both cards at the CPU's one host bridge.
Link oneHostBridge(std::size_t, std::size_t) {
  return {LinkKind::kPhb, 0};
}

using Buses = std::vector<std::uint8_t>;
using Numa = std::vector<std::int32_t>;

const Numa kTwoAndTwo = {0, 0, 1, 1};
const Numa kFourAndFour = {0, 0, 0, 0, 1, 1, 1, 1};

Board dgx1() {
  return {"DGX-1", {0x06, 0x07, 0x0a, 0x0b, 0x85, 0x86, 0x89, 0x8a}, kFourAndFour, 2, 80, 512,
          cubeMesh};
}

Board dgx2() {
  const Buses buses = {0x34, 0x36, 0x39, 0x3b, 0x57, 0x59, 0x5c, 0x5e,
                       0xb7, 0xb9, 0xbc, 0xbe, 0xe0, 0xe2, 0xe5, 0xe7};
  return {"DGX-2", buses,      {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1}, 2, 96,
          1536,    allToAll<6>};
}

// Four GPUs wired to each other without a switch, on a server with eight NUMA nodes.
Board hgxA100Four() {
  return {"HGX A100 4-GPU", {0x03, 0x44, 0x84, 0xc4}, {3, 1, 7, 5}, 8, 96, 512, allToAll<4>};
}

Board dgxA100(std::int64_t memoryGiB) {
  const Buses buses = {0x07, 0x0f, 0x47, 0x4e, 0x87, 0x90, 0xb7, 0xbd};
  return {"DGX A100", buses, {3, 3, 1, 1, 7, 7, 5, 5}, 8, 256, memoryGiB, allToAll<12>};
}

Board hgxHopperFour(std::string_view name) {
  return {name, {0x19, 0x3b, 0xab, 0xcd}, kTwoAndTwo, 2, 96, 512, allToAll<6>};
}

Board hgxEight(std::string_view name) {
  const Buses buses = {0x1b, 0x43, 0x52, 0x61, 0x9d, 0xc3, 0xd1, 0xdf};
  return {name, buses, kFourAndFour, 2, 224, 2048, allToAll<18>};
}

template <std::uint8_t kLinks>
std::vector<Board> bridgedServers() {
  return {{"2-socket server",
           {0x17, 0x65, 0xca, 0xe3},
           kTwoAndTwo,
           2,
           128,
           512,
           bridgedPairs<kLinks, 2>},
          {"2-socket server",
           {0x01, 0x25, 0x41, 0x61, 0x81, 0xa1, 0xc1, 0xe1},
           kFourAndFour,
           2,
           128,
           1024,
           bridgedPairs<kLinks, 4>}};
}

Board cardServerEight() {
  const Buses buses = {0x1a, 0x1b, 0x3d, 0x3e, 0x88, 0x89, 0xb1, 0xb2};
  return {"2-socket server", buses, kFourAndFour, 2, 128, 1024, switchedPairs};
}

std::vector<Board> cardServers() {
  return {{"2-socket server", {0x3b, 0x5e, 0xaf, 0xd8}, kTwoAndTwo, 2, 96, 384, rootPorts<2>},
          cardServerEight()};
}

std::vector<Board> desktops() {
  return {{"desktop", {0x01, 0x02}, {0, 0}, 1, 32, 128, oneHostBridge},
          {"workstation", {0x01, 0x21, 0x41, 0x61}, {0, 0, 0, 0}, 1, 64, 256, rootPorts<4>},
          cardServerEight()};
}

std::vector<Product> makeProducts() {
  return {
      {"P100-PCIE-16GB", "Tesla P100-PCIE-16GB", "p100", 16384, "6.0", {"p100"}, cardServers()},
      {"V100-SXM2-16GB",
       "Tesla V100-SXM2-16GB",
       "v100",
       16384,
       "7.0",
       {"v100", "v10016gb"},
       {dgx1()}},
      {"V100-SXM2-32GB", "Tesla V100-SXM2-32GB", "v100", 32768, "7.0", {"v10032gb"}, {dgx1()}},
      {"V100-SXM3-32GB", "Tesla V100-SXM3-32GB", "v100", 32768, "7.0", {}, {dgx2()}},
      {"V100-PCIE-32GB", "Tesla V100-PCIE-32GB", "v100", 32768, "7.0", {"v100pcie"}, cardServers()},
      {"T4", "Tesla T4", "t4", 15360, "7.5", {}, cardServers()},
      {"A100-SXM4-40GB",
       "A100-SXM4-40GB",
       "a100",
       40960,
       "8.0",
       {"a10040gb", "a100sxm40gb"},
       {hgxA100Four(), dgxA100(1024)}},
      {"A100-SXM4-80GB",
       "A100-SXM4-80GB",
       "a100",
       81920,
       "8.0",
       {"a100", "a10080gb", "a100sxm", "a100sxm4", "a100sxm80gb"},
       {hgxA100Four(), dgxA100(2048)}},
      {"A100-PCIE-40GB",
       "A100-PCIE-40GB",
       "a100",
       40960,
       "8.0",
       {"a100pcie", "a10040gbpcie"},
       bridgedServers<12>()},
      {"A100-PCIE-80GB",
       "A100 80GB PCIe",
       "a100",
       81920,
       "8.0",
       {"a100pcie80gb"},
       bridgedServers<12>()},
      {"A30", "A30", "a30", 24576, "8.0", {}, bridgedServers<4>()},
      {"A10", "A10", "a10", 23028, "8.6", {}, cardServers()},
      {"A10G", "A10G", "a10g", 23028, "8.6", {}, cardServers()},
      {"A40", "A40", "a40", 46068, "8.6", {}, bridgedServers<4>()},
      {"RTX-A6000", "RTX A6000", "a6000", 49140, "8.6", {"a6000"}, bridgedServers<4>()},
      {"RTX-3090", "GeForce RTX 3090", "3090", 24576, "8.6", {"3090"}, desktops()},
      {"RTX-4090", "GeForce RTX 4090", "4090", 24564, "8.9", {"4090"}, desktops()},
      {"L4", "L4", "l4", 23034, "8.9", {}, cardServers()},
      {"L40S", "L40S", "l40s", 46068, "8.9", {}, cardServers()},
      {"H100-PCIE-80GB", "H100 PCIe", "h100", 81559, "9.0", {"h100pcie"}, bridgedServers<12>()},
      {"H100-SXM5-80GB",
       "H100 80GB HBM3",
       "h100",
       81559,
       "9.0",
       {"h100", "h10080gb", "h100sxm", "h100sxm5", "h100sxm80gb"},
       {hgxHopperFour("HGX H100 4-GPU"), hgxEight("HGX H100")}},
      {"H200-SXM5-141GB",
       "H200",
       "h200",
       143771,
       "9.0",
       {"h200", "h200sxm", "h200sxm5", "h200141gb"},
       {hgxHopperFour("HGX H200 4-GPU"), hgxEight("HGX H200")}},
      {"B200-SXM6-180GB",
       "B200",
       "b200",
       183359,
       "10.0",
       {"b200", "b200sxm", "b200sxm6", "b200180gb"},
       {hgxEight("HGX B200")}},
  };
}

std::size_t editDistance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const auto change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({change, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

const std::vector<Product>& products() {
  static const std::vector<Product> all = makeProducts();
  return all;
}

const std::vector<Machine>& machines() {
  static const std::vector<Machine> all = {
      {"DGX-1", "V100-SXM2-16GB", 8},     {"DGX-2", "V100-SXM3-32GB", 16},
      {"DGX-A100", "A100-SXM4-80GB", 8},  {"HGX-A100", "A100-SXM4-80GB", 8},
      {"DGX-H100", "H100-SXM5-80GB", 8},  {"HGX-H100", "H100-SXM5-80GB", 8},
      {"DGX-H200", "H200-SXM5-141GB", 8}, {"HGX-H200", "H200-SXM5-141GB", 8},
      {"DGX-B200", "B200-SXM6-180GB", 8}, {"HGX-B200", "B200-SXM6-180GB", 8}};
  return all;
}

std::string fold(std::string_view name) {
  std::string folded;
  for (const char c : name) {
    if (c == '-' || c == '_' || c == ' ' || c == '/') continue;
    folded += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  for (const std::string_view maker : {"nvidia", "tesla", "geforce"}) {
    if (const auto at = folded.find(maker); at != std::string::npos) folded.erase(at, maker.size());
  }
  return folded;
}

const Product* findProduct(std::string_view name) {
  const auto wanted = fold(name);
  for (const auto& product : products()) {
    const auto& aliases = product.aliases;
    if (wanted == fold(product.written) || wanted == fold(product.name) ||
        std::find(aliases.begin(), aliases.end(), wanted) != aliases.end()) {
      return &product;
    }
  }
  return nullptr;
}

const Machine* findMachine(std::string_view name) {
  const auto wanted = fold(name);
  for (const auto& machine : machines()) {
    if (wanted == fold(machine.written)) return &machine;
  }
  return nullptr;
}

std::string closestName(std::string_view name) {
  const auto wanted = fold(name);
  std::size_t best = std::max<std::size_t>(1, wanted.size() / 3) + 1;
  std::string closest;
  const auto consider = [&](std::string_view candidate, std::string_view written) {
    const auto distance = editDistance(wanted, fold(candidate));
    if (distance >= best) return;
    best = distance;
    closest = written;
  };
  for (const auto& product : products()) {
    consider(product.written, product.written);
    consider(product.name, product.written);
    for (const auto alias : product.aliases) consider(alias, product.written);
  }
  for (const auto& machine : machines()) consider(machine.written, machine.written);
  return closest;
}

}  // namespace bole::gpu
