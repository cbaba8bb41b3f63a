#include "gpu/emulated.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <utility>

#include "gpu/catalog.h"

namespace bole::gpu {
namespace {

constexpr std::string_view kExample =
    "for example 8xA100-SXM4-80GB, 4x[8xH100] or 2x[8xH100]+1x[4xT4]";

// What one term of the specification asks for.
struct Term {
  const Product* product = nullptr;
  std::size_t gpus = 0;
  std::size_t nodes = 1;
};

std::string_view trim(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0)
    text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0)
    text.remove_suffix(1);
  return text;
}

Error invalid(std::string what, std::string_view found) {
  return makeError(ErrorCode::kInvalid, std::move(what))
      .at("--emulate")
      .foundValue(std::string(found));
}

// "8x" off the front of `text`; nothing where there is no count. A count over a million reads as a
// million, which every limit refuses.
std::optional<std::size_t> takeCount(std::string_view& text) {
  std::size_t digits = 0;
  std::size_t value = 0;
  while (digits < text.size() && std::isdigit(static_cast<unsigned char>(text[digits])) != 0) {
    value =
        std::min<std::size_t>(value * 10 + static_cast<std::size_t>(text[digits] - '0'), 1'000'000);
    ++digits;
  }
  const auto rest = trim(text.substr(digits));
  if (digits == 0 || rest.empty() || (rest[0] != 'x' && rest[0] != 'X' && rest[0] != '*'))
    return std::nullopt;
  text = trim(rest.substr(1));
  return value;
}

// Cuts at commas and pluses outside brackets.
Result<std::vector<std::string_view>> split(std::string_view spec) {
  std::vector<std::string_view> terms;
  bool inside = false;
  std::size_t start = 0;
  for (std::size_t i = 0; i <= spec.size(); ++i) {
    const char c = i < spec.size() ? spec[i] : ',';
    if (i == spec.size() && inside) break;
    if ((c == '[' && inside) || (c == ']' && !inside)) {
      return fail(invalid("brackets do not match", spec).expectedValue(std::string(kExample)));
    }
    if (c == '[' || c == ']') inside = c == '[';
    if (inside || (c != ',' && c != '+')) continue;
    terms.push_back(trim(spec.substr(start, i - start)));
    start = i + 1;
  }
  if (inside) {
    return fail(invalid("a bracket is not closed", spec).expectedValue(std::string(kExample)));
  }
  return terms;
}

Error unknownModel(std::string_view name) {
  auto error = invalid("no such GPU can be emulated", name);
  const auto closest = closestName(name);
  if (!closest.empty()) return std::move(error).withHint("did you mean '" + closest + "'?");
  std::string all;
  for (const auto& model : emulatedModels()) all += (all.empty() ? "" : ", ") + model;
  return std::move(error).expectedValue("one of " + all);
}

Result<Term> checkGpus(Term term, std::string_view text) {
  const auto most = term.product->boards.back().most();
  if (term.gpus == 0)
    return fail(invalid("a machine needs a GPU", text).expectedValue("1 or more"));
  if (term.gpus <= most) return term;
  return fail(
      invalid(fmt::format("no machine holds so many {}", term.product->written), text)
          .expectedValue(fmt::format("at most {} in one machine", most))
          .withHint(fmt::format("for several machines write {}x[{}x{}]",
                                (term.gpus + most - 1) / most, most, term.product->written)));
}

// "8xA100" or "DGX-A100": what one machine holds.
Result<Term> parseMachine(std::string_view text) {
  const auto whole = text;
  const auto count = takeCount(text);
  if (text.empty())
    return fail(invalid("a GPU is missing", whole).expectedValue(std::string(kExample)));
  if (const auto* machine = findMachine(text)) {
    return Term{findProduct(machine->product), machine->gpus, count.value_or(1)};
  }
  const auto* product = findProduct(text);
  if (product == nullptr) return fail(unknownModel(text));
  return checkGpus({product, count.value_or(1), 1}, whole);
}

// "4x[8xH100]", "[8xH100]", or a machine without brackets.
Result<Term> parseTerm(std::string_view text) {
  const auto open = text.find('[');
  if (open == std::string_view::npos) return parseMachine(text);
  auto front = text.substr(0, open);
  auto rest = text;
  const auto count = takeCount(rest);
  if ((!count && !trim(front).empty()) || rest.front() != '[' || rest.back() != ']') {
    return fail(invalid("not a number of machines", text).expectedValue(std::string(kExample)));
  }
  const auto inner = trim(rest.substr(1, rest.size() - 2));
  if (inner.find_first_of(",+") != std::string_view::npos) {
    return fail(
        invalid("a machine holds one model of GPU", inner).expectedValue(std::string(kExample)));
  }
  BOLE_ASSIGN(Term term, parseMachine(inner));
  if (term.nodes != 1) {
    return fail(invalid("this names several machines inside one", inner)
                    .withHint("leave the brackets out"));
  }
  term.nodes = count.value_or(1);
  if (term.nodes == 0) return fail(invalid("no machines", text).expectedValue("1 or more"));
  return term;
}

// SplitMix64: a hash that is the same on every machine for ever.
std::uint64_t mix(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15ULL;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

std::string emulatedUuid(std::size_t node, std::size_t gpu, std::string_view product) {
  std::uint64_t seed = node * 64 + gpu;
  for (const char c : product) seed = mix(seed ^ static_cast<unsigned char>(c));
  const auto high = mix(seed);
  const auto low = mix(high);
  return fmt::format("GPU-{:08x}-{:04x}-{:04x}-{:04x}-{:012x}", high >> 32, (high >> 16) & 0xffff,
                     high & 0xffff, low >> 48, low & 0xffff'ffff'ffffULL);
}

// The CPUs of one of `nodes` equal NUMA nodes: a block of cores and, after all cores, their
// siblings.
std::string cpuList(std::int32_t cpus, std::int32_t nodes, std::int32_t node) {
  const auto half = cpus / 2;
  const auto first = half * node / nodes;
  const auto last = half * (node + 1) / nodes - 1;
  if (last < first) return "";
  return fmt::format("{}-{},{}-{}", first, last, half + first, half + last);
}

// A machine of which only `gpus` are taken looks like a virtual machine cut out of it: its part of
// the CPUs and the memory, and only the NUMA nodes of those GPUs, numbered anew.
struct Cut {
  std::int32_t cpus = 0;
  Bytes memory;
  std::vector<std::int32_t> numa;  // of each GPU
  std::int32_t numaNodes = 1;
};

Cut cutOut(const Board& board, std::size_t gpus) {
  const auto part = static_cast<std::int64_t>(gpus);
  const auto all = static_cast<std::int64_t>(board.most());
  Cut cut;
  cut.numa.assign(board.numa.begin(), board.numa.begin() + part);
  cut.memory = Bytes(kGiB.value * board.memoryGiB * part / all);
  if (part == all) {
    cut.cpus = board.cpus;
    cut.numaNodes = board.numaNodes;
    return cut;
  }
  cut.cpus = static_cast<std::int32_t>(board.cpus * part / all / 2 * 2);
  auto used = cut.numa;
  std::sort(used.begin(), used.end());
  used.erase(std::unique(used.begin(), used.end()), used.end());
  for (auto& numa : cut.numa) {
    numa =
        static_cast<std::int32_t>(std::lower_bound(used.begin(), used.end(), numa) - used.begin());
  }
  cut.numaNodes = static_cast<std::int32_t>(used.size());
  return cut;
}

std::vector<model::Link> linksOf(const Board& board, std::size_t gpus) {
  std::vector<model::Link> links;
  links.reserve(gpus * gpus);
  for (std::size_t a = 0; a < gpus; ++a) {
    for (std::size_t b = 0; b < gpus; ++b) {
      links.push_back(a == b ? model::Link{model::LinkKind::kSelf, 0} : board.link(a, b));
    }
  }
  return links;
}

void addLabels(model::Node& node, const Board& board, const HostInfo& host, std::int32_t cpus) {
  node.labels.emplace_back("bole.machine", board.name);
  node.labels.emplace_back("bole.host.cpus", std::to_string(host.cpus));
  node.labels.emplace_back("bole.host.memory", formatBytes(host.memory));
  for (std::int32_t numa = 0; numa < node.numaNodes; ++numa) {
    node.labels.emplace_back(numaCpusLabel(numa), cpuList(cpus, node.numaNodes, numa));
  }
}

model::Node makeNode(const Term& term, std::size_t number, std::size_t ofItsKind,
                     const HostInfo& host) {
  const auto& product = *term.product;
  const auto& board =
      *std::find_if(product.boards.begin(), product.boards.end(),
                    [&](const Board& candidate) { return candidate.most() >= term.gpus; });
  const auto cut = cutOut(board, term.gpus);
  model::Node node;
  node.name = fmt::format("emu-{}-{}", product.shortName, ofItsKind);
  node.emulated = true;
  node.cpus = MilliCpu(1000) * cut.cpus;
  node.memory = cut.memory;
  node.numaNodes = cut.numaNodes;
  for (std::size_t i = 0; i < term.gpus; ++i) {
    model::Gpu gpu;
    gpu.uuid = emulatedUuid(number, i, product.name);
    gpu.model = product.name;
    gpu.memory = kMiB * product.memoryMiB;
    gpu.pciBusId = fmt::format("0000:{:02x}:00.0", board.buses[i]);
    gpu.minor = static_cast<std::uint32_t>(i);
    gpu.numaNode = cut.numa[i];
    gpu.computeCapability = product.computeCapability;
    node.gpus.push_back(std::move(gpu));
  }
  node.links = linksOf(board, term.gpus);
  addLabels(node, board, host, cut.cpus);
  return node;
}

}  // namespace

Result<std::vector<model::Node>> parseEmulation(std::string_view spec, const HostInfo& host) {
  spec = trim(spec);
  if (spec.empty())
    return fail(invalid("nothing to emulate", spec).expectedValue(std::string(kExample)));
  BOLE_ASSIGN(const auto texts, split(spec));
  std::vector<Term> terms;
  std::size_t total = 0;
  for (const auto text : texts) {
    if (text.empty())
      return fail(invalid("a machine is missing", spec).expectedValue(std::string(kExample)));
    BOLE_ASSIGN(const Term term, parseTerm(text));
    if (term.nodes == 0) return fail(invalid("no machines", text).expectedValue("1 or more"));
    total += term.nodes;
    if (total > kMostEmulatedNodes) {
      return fail(invalid("too many machines", spec)
                      .expectedValue(fmt::format("at most {}", kMostEmulatedNodes)));
    }
    terms.push_back(term);
  }
  std::vector<model::Node> nodes;
  std::map<std::string_view, std::size_t> ofKind;
  for (const auto& term : terms) {
    for (std::size_t i = 0; i < term.nodes; ++i) {
      nodes.push_back(makeNode(term, nodes.size(), ++ofKind[term.product->shortName], host));
    }
  }
  return nodes;
}

std::vector<model::Node> defaultEmulation(const HostInfo& host) {
  auto nodes = parseEmulation(kDefaultEmulation, host);
  BOLE_ASSERT(nodes.has_value());
  return std::move(*nodes);
}

std::vector<std::string> emulatedModels() {
  std::vector<std::string> models;
  for (const auto& product : products()) models.emplace_back(product.written);
  for (const auto& machine : machines()) models.emplace_back(machine.written);
  return models;
}

}  // namespace bole::gpu
