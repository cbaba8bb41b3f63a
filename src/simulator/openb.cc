#include "simulator/openb.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <limits>

namespace bole::simulator {
namespace {

constexpr std::int64_t kMostGpus = 64;
constexpr std::int64_t kMostCpuMilli = 1'000'000'000;
constexpr std::int64_t kMostMemoryMib = std::int64_t{1} << 40;
constexpr std::int64_t kMostSeconds = 1'000'000'000'000;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const auto end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

// One column by name: where it stands, or that the list has none.
struct Column {
  std::string_view name;
  std::optional<std::size_t> at;
};

// The table's lines one after the other, with the place of what is looked at for errors.
class Lines {
 public:
  Lines(std::string_view text, const std::string& file) : rest_(text), file_(file) {
    if (rest_.substr(0, kByteOrderMark.size()) == kByteOrderMark)
      rest_.remove_prefix(kByteOrderMark.size());
  }

  Result<void> readNames() {
    if (!next()) return fail(error("the list is empty", 0).expectedValue("a line of column names"));
    names_ = fields_;
    for (std::size_t i = 0; i < names_.size(); ++i) {
      if (std::find(names_.begin(), names_.begin() + static_cast<std::ptrdiff_t>(i), names_[i]) !=
          names_.begin() + static_cast<std::ptrdiff_t>(i)) {
        return fail(error("the same column twice", i)
                        .foundValue(quoted(names_[i]))
                        .expectedValue("each name once"));
      }
    }
    return {};
  }

  [[nodiscard]] Column optional(std::string_view name) const {
    const auto at = std::find(names_.begin(), names_.end(), name);
    if (at == names_.end()) return {name, std::nullopt};
    return {name, static_cast<std::size_t>(at - names_.begin())};
  }

  [[nodiscard]] Result<Column> needed(std::string_view name) const {
    auto column = optional(name);
    if (column.at) return column;
    std::string there;
    for (const auto& other : names_) there += (there.empty() ? "" : ",") + std::string(other);
    return fail(error("a column is missing", 0)
                    .foundValue(quoted(there))
                    .expectedValue("a column '" + std::string(name) + "'"));
  }

  // The next line that is not empty, split; false at the end.
  bool next() {
    while (!rest_.empty()) {
      const auto end = rest_.find('\n');
      auto line = rest_.substr(0, end);
      rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
      ++number_;
      if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
      if (line.empty()) continue;
      fields_ = split(line, ',');
      return true;
    }
    return false;
  }

  [[nodiscard]] Result<void> checkWidth() const {
    if (fields_.size() == names_.size()) return {};
    return fail(error("a line of another width", std::min(fields_.size(), names_.size()) - 1)
                    .foundValue(std::to_string(fields_.size()) + " fields")
                    .expectedValue(std::to_string(names_.size()) + ", one for each column name"));
  }

  [[nodiscard]] std::string_view text(const Column& column) const {
    return column.at ? fields_[*column.at] : std::string_view();
  }

  [[nodiscard]] Result<std::int64_t> number(const Column& column, std::int64_t most) const {
    const auto field = text(column);
    std::int64_t value = 0;
    const auto [end, code] = std::from_chars(field.data(), field.data() + field.size(), value);
    if (code == std::errc() && end == field.data() + field.size() && value >= 0 && value <= most)
      return value;
    return fail(wrong(column, "a whole number from 0 to " + std::to_string(most)));
  }

  // A time in seconds; nothing where the column or the value is absent.
  [[nodiscard]] Result<std::optional<Duration>> time(const Column& column) const {
    if (text(column).empty()) return std::optional<Duration>();
    BOLE_ASSIGN(const auto value, number(column, kMostSeconds));
    return std::optional<Duration>(seconds(value));
  }

  [[nodiscard]] Error wrong(const Column& column, std::string expected) const {
    return error("a wrong value of " + std::string(column.name), *column.at)
        .foundValue(quoted(text(column)))
        .expectedValue(std::move(expected));
  }

 private:
  static std::string quoted(std::string_view text) { return "'" + std::string(text) + "'"; }

  // `field` counts from 0; the column in the place is that of its first byte, from 1.
  [[nodiscard]] Error error(std::string what, std::size_t field) const {
    std::size_t byte = 1;
    for (std::size_t i = 0; i < field && i < fields_.size(); ++i) byte += fields_[i].size() + 1;
    return makeError(ErrorCode::kInvalid, std::move(what))
        .at(file_ + ":" + std::to_string(std::max<std::size_t>(number_, 1)) + ":" +
            std::to_string(byte));
  }

  std::string_view rest_;
  const std::string& file_;
  std::vector<std::string_view> names_;
  std::vector<std::string_view> fields_;
  std::size_t number_ = 0;
};

struct NodeColumns {
  Column name, cpus, memory, gpus, model;
};

Result<NodeColumns> nodeColumns(const Lines& lines) {
  NodeColumns columns;
  BOLE_ASSIGN(columns.name, lines.needed("sn"));
  BOLE_ASSIGN(columns.cpus, lines.needed("cpu_milli"));
  BOLE_ASSIGN(columns.memory, lines.needed("memory_mib"));
  BOLE_ASSIGN(columns.gpus, lines.needed("gpu"));
  BOLE_ASSIGN(columns.model, lines.needed("model"));
  return columns;
}

Result<OpenbNode> parseNode(const Lines& lines, const NodeColumns& columns) {
  OpenbNode node;
  node.name = lines.text(columns.name);
  if (node.name.empty()) return fail(lines.wrong(columns.name, "a name"));
  BOLE_ASSIGN(const auto cpus, lines.number(columns.cpus, kMostCpuMilli));
  BOLE_ASSIGN(const auto memory, lines.number(columns.memory, kMostMemoryMib));
  BOLE_ASSIGN(const auto gpus, lines.number(columns.gpus, kMostGpus));
  node.cpus = MilliCpu(cpus);
  node.memory = kMiB * memory;
  node.gpus = static_cast<std::uint32_t>(gpus);
  node.model = lines.text(columns.model);
  if (node.model.empty() && node.gpus > 0)
    return fail(lines.wrong(columns.model, "the model of the node's GPUs"));
  return node;
}

struct PodColumns {
  Column name, cpus, memory, gpus, perGpu;
  Column models, qos, phase, created, deleted, scheduled;
};

Result<PodColumns> podColumns(const Lines& lines) {
  PodColumns columns;
  BOLE_ASSIGN(columns.name, lines.needed("name"));
  BOLE_ASSIGN(columns.cpus, lines.needed("cpu_milli"));
  BOLE_ASSIGN(columns.memory, lines.needed("memory_mib"));
  BOLE_ASSIGN(columns.gpus, lines.needed("num_gpu"));
  BOLE_ASSIGN(columns.perGpu, lines.needed("gpu_milli"));
  columns.models = lines.optional("gpu_spec");
  columns.qos = lines.optional("qos");
  columns.phase = lines.optional("pod_phase");
  columns.created = lines.optional("creation_time");
  columns.deleted = lines.optional("deletion_time");
  columns.scheduled = lines.optional("scheduled_time");
  return columns;
}

std::vector<std::string> modelsOf(std::string_view text) {
  std::vector<std::string> models;
  for (const auto model : split(text, '|')) {
    if (!model.empty()) models.emplace_back(model);
  }
  std::sort(models.begin(), models.end());
  models.erase(std::unique(models.begin(), models.end()), models.end());
  return models;
}

Result<OpenbPod> parsePod(const Lines& lines, const PodColumns& columns) {
  OpenbPod pod;
  pod.name = lines.text(columns.name);
  if (pod.name.empty()) return fail(lines.wrong(columns.name, "a name"));
  BOLE_ASSIGN(const auto cpus, lines.number(columns.cpus, kMostCpuMilli));
  BOLE_ASSIGN(const auto memory, lines.number(columns.memory, kMostMemoryMib));
  BOLE_ASSIGN(const auto gpus, lines.number(columns.gpus, kMostGpus));
  BOLE_ASSIGN(const auto perGpu, lines.number(columns.perGpu, kWholeGpu.value));
  if ((gpus == 0) != (perGpu == 0)) {
    return fail(lines.wrong(
        columns.perGpu, gpus == 0 ? "0, since num_gpu is 0" : "1 to 1000, since num_gpu is not 0"));
  }
  pod.cpus = MilliCpu(cpus);
  pod.memory = kMiB * memory;
  pod.gpus = static_cast<std::uint32_t>(gpus);
  pod.perGpu = MilliGpu(perGpu);
  pod.models = modelsOf(lines.text(columns.models));
  pod.qos = lines.text(columns.qos);
  pod.phase = lines.text(columns.phase);
  BOLE_ASSIGN(pod.created, lines.time(columns.created));
  BOLE_ASSIGN(pod.deleted, lines.time(columns.deleted));
  BOLE_ASSIGN(pod.scheduled, lines.time(columns.scheduled));
  return pod;
}

template <class Row, class Columns>
Result<std::vector<Row>> parseRows(std::string_view text, const std::string& file,
                                   Result<Columns> (*columnsOf)(const Lines&),
                                   Result<Row> (*parseRow)(const Lines&, const Columns&)) {
  Lines lines(text, file);
  BOLE_TRY(lines.readNames());
  BOLE_ASSIGN(const auto columns, columnsOf(lines));
  std::vector<Row> rows;
  while (lines.next()) {
    BOLE_TRY(lines.checkWidth());
    BOLE_ASSIGN(auto row, parseRow(lines, columns));
    rows.push_back(std::move(row));
  }
  return rows;
}

Result<std::string> readFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    return fail(
        makeError(ErrorCode::kNotFound, "the trace cannot be opened")
            .at(path)
            .withHint("the openb trace is published at "
                      "github.com/alibaba/clusterdata/tree/master/cluster-trace-gpu-v2023"));
  }
  std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (in.bad())
    return fail(makeError(ErrorCode::kUnavailable, "the trace cannot be read").at(path));
  return text;
}

}  // namespace

Result<std::vector<OpenbNode>> parseOpenbNodes(std::string_view text, const std::string& file) {
  return parseRows<OpenbNode, NodeColumns>(text, file, nodeColumns, parseNode);
}

Result<std::vector<OpenbPod>> parseOpenbPods(std::string_view text, const std::string& file) {
  return parseRows<OpenbPod, PodColumns>(text, file, podColumns, parsePod);
}

Result<std::vector<OpenbNode>> readOpenbNodes(const std::string& path) {
  BOLE_ASSIGN(const auto text, readFile(path));
  return parseOpenbNodes(text, path);
}

Result<std::vector<OpenbPod>> readOpenbPods(const std::string& path) {
  BOLE_ASSIGN(const auto text, readFile(path));
  return parseOpenbPods(text, path);
}

}  // namespace bole::simulator
