#include "scenario/cloud.h"

#include <fmt/format.h>

#include "gpu/emulated.h"
#include "spec/job_draft.h"
#include "spec/spec.h"

namespace bole::test {
namespace {

using spec::Reader;
using spec::Value;

constexpr std::uint8_t kBridge = 4;  // NVLinks of a pair
constexpr std::size_t kMostNodes = 1024;

gpu::HostInfo aHost() {
  gpu::HostInfo host;
  host.hostname = "host";
  host.cpus = 8;
  host.memory = kGiB * 64;
  host.numaNodes = {{0, "0-7"}};
  return host;
}

// What is said of the nodes of one entry.
struct Variation {
  std::optional<Value> emulate;
  std::int64_t nodes = 1;  // of those without GPUs
  std::optional<MilliCpu> cpus;
  std::optional<Bytes> memory;
  std::optional<Bytes> gpuMemory;
  model::EnvList labels;
  std::int64_t sockets = 0;
  std::optional<Value> pairsAt;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs;
};

class CloudReader {
 public:
  explicit CloudReader(const Reader& reader) : reader_(reader) {}

  Result<std::vector<model::Node>> read(const Value& value) {
    if (value.is(spec::NodeKind::kScalar)) {
      Variation plain;
      plain.emulate = value;
      BOLE_TRY(add(value, plain));
    } else if (value.is(spec::NodeKind::kMap)) {
      BOLE_TRY(readEntry(value));
    } else {
      BOLE_TRY(reader_.readItems(value, [&](const Value& item) { return readEntry(item); }));
    }
    if (nodes_.empty() || nodes_.size() > kMostNodes)
      return fail(reader_.error(value, "not a cloud").expectedValue("1 to 1024 nodes"));
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      nodes_[i].name = fmt::format("n{}", i + 1);
      for (auto& gpu : nodes_[i].gpus)
        gpu.uuid = fmt::format("GPU-{}-{}", nodes_[i].name, gpu.minor);
    }
    return std::move(nodes_);
  }

 private:
  Result<void> readEntry(const Value& value) {
    if (value.is(spec::NodeKind::kScalar)) {
      Variation plain;
      plain.emulate = value;
      return add(value, plain);
    }
    Variation to;
    BOLE_TRY(reader_.readFields(
        value, {{"emulate",
                 [&](const Value& v) -> Result<void> {
                   to.emulate = v;
                   return {};
                 }},
                {"nodes", [&](const Value& v) { return readNumber(v, 1, 1000, to.nodes); }},
                {"cpus",
                 [&](const Value& v) {
                   return spec::readBy(reader_, v, "CPUs (64)", spec::parseCpus, to.cpus.emplace());
                 }},
                {"memory", [&](const Value& v) { return readSize(v, to.memory.emplace()); }},
                {"gpu_memory", [&](const Value& v) { return readSize(v, to.gpuMemory.emplace()); }},
                {"labels", [&](const Value& v) { return spec::readLabels(reader_, v, to.labels); }},
                {"sockets", [&](const Value& v) { return readNumber(v, 1, 8, to.sockets); }},
                {"nvlink", [&](const Value& v) { return readPairs(v, to); }}}));
    return add(value, to);
  }

  Result<void> readNumber(const Value& value, std::int64_t least, std::int64_t most,
                          std::int64_t& out) const {
    BOLE_ASSIGN(out, reader_.readWhole(value, least, most));
    return {};
  }

  Result<void> readSize(const Value& value, Bytes& out) const {
    return spec::readBy(reader_, value, "a size (512GiB)", spec::parseSize, out);
  }

  Result<void> readPairs(const Value& value, Variation& to) const {
    to.pairsAt = value;
    return reader_.readItems(value, [&](const Value& pair) -> Result<void> {
      std::vector<std::uint32_t> ends;
      BOLE_TRY(reader_.readItems(pair, [&](const Value& end) -> Result<void> {
        BOLE_ASSIGN(const auto gpu, reader_.readWhole(end, 0, 15));
        ends.push_back(static_cast<std::uint32_t>(gpu));
        return {};
      }));
      if (ends.size() != 2 || ends[0] == ends[1])
        return fail(reader_.error(pair, "not a pair").expectedValue("two GPUs: [0, 2]"));
      to.pairs.emplace_back(ends[0], ends[1]);
      return {};
    });
  }

  Result<void> add(const Value& at, const Variation& variation) {
    std::vector<model::Node> made;
    if (variation.emulate) {
      BOLE_ASSIGN(const auto text,
                  reader_.readText(*variation.emulate, "GPUs (2x[8xA100-SXM4-80GB])"));
      auto parsed = gpu::parseEmulation(text, aHost());
      if (!parsed) return fail(reader_.error(*variation.emulate, std::move(parsed).error()));
      made = std::move(*parsed);
    } else if (variation.cpus && variation.memory) {
      made.assign(static_cast<std::size_t>(variation.nodes), model::Node());
    } else {
      return fail(
          reader_.error(at.at, "what these nodes are is not said")
              .expectedValue("`emulate: 8xA100-SXM4-80GB`, or `cpus` and `memory` for nodes "
                             "without GPUs"));
    }
    for (auto& node : made) {
      BOLE_TRY(vary(node, variation));
      nodes_.push_back(std::move(node));
    }
    return {};
  }

  Result<void> vary(model::Node& node, const Variation& variation) const {
    node.emulated = true;
    node.labels = variation.labels;
    if (variation.cpus) node.cpus = *variation.cpus;
    if (variation.memory) node.memory = *variation.memory;
    for (auto& gpu : node.gpus)
      if (variation.gpuMemory) gpu.memory = *variation.gpuMemory;
    const auto gpus = node.gpus.size();
    if (variation.sockets > 0) {
      node.numaNodes = static_cast<std::int32_t>(variation.sockets);
      for (std::size_t i = 0; i < gpus; ++i) {
        node.gpus[i].numaNode =
            static_cast<std::int32_t>(i * static_cast<std::size_t>(variation.sockets) / gpus);
      }
    }
    if (variation.sockets > 0 || variation.pairsAt) linkBySockets(node);
    for (const auto& [a, b] : variation.pairs) {
      if (a >= gpus || b >= gpus) {
        return fail(reader_.error(variation.pairsAt->at, "nvlink: no such GPU on a node")
                        .foundValue(fmt::format("[{}, {}]", a, b))
                        .expectedValue(fmt::format("0 to {}", gpus - 1)));
      }
      node.links[a * gpus + b] = node.links[b * gpus + a] = {model::LinkKind::kNvLink, kBridge};
    }
    return {};
  }

  static void linkBySockets(model::Node& node) {
    const auto gpus = node.gpus.size();
    for (std::size_t a = 0; a < gpus; ++a) {
      for (std::size_t b = 0; b < gpus; ++b) {
        const bool same = node.gpus[a].numaNode == node.gpus[b].numaNode;
        node.links[a * gpus + b] = {a == b ? model::LinkKind::kSelf
                                    : same ? model::LinkKind::kNode
                                           : model::LinkKind::kSys,
                                    0};
      }
    }
  }

  const Reader& reader_;
  std::vector<model::Node> nodes_;
};

}  // namespace

Result<std::vector<model::Node>> readCloud(const Reader& reader, const Value& value) {
  return CloudReader(reader).read(value);
}

}  // namespace bole::test
