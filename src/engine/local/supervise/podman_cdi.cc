#include "engine/local/supervise/podman_cdi.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "engine/local/supervise/posix.h"

namespace bole::supervise {
namespace {

using Json = nlohmann::json;

constexpr char kKind[] = "nvidia.com/gpu";
constexpr std::size_t kLargest = 4u << 20;

// "/dev/nvidia7", and not "/dev/nvidiactl".
bool isGpuNode(std::string_view path) {
  constexpr std::string_view kPrefix = "/dev/nvidia";
  if (path.substr(0, kPrefix.size()) != kPrefix || path.size() == kPrefix.size()) return false;
  const auto rest = path.substr(kPrefix.size());
  return std::all_of(rest.begin(), rest.end(), [](char c) { return c >= '0' && c <= '9'; });
}

struct Device {
  std::string name;
  std::vector<std::string> gpus;
};

void keep(const Device& device, CdiNames& names) {
  if (device.name.empty() || device.gpus.size() != 1) return;
  names.emplace(device.gpus.front(), std::string(kKind) + "=" + device.name);
}

std::string stringOf(const Json& json, const char* key) {
  const auto found = json.is_object() ? json.find(key) : json.end();
  return json.is_object() && found != json.end() && found->is_string() ? found->get<std::string>()
                                                                       : "";
}

const Json* memberOf(const Json& json, const char* key) {
  if (!json.is_object()) return nullptr;
  const auto found = json.find(key);
  return found == json.end() ? nullptr : &*found;
}

CdiNames parseJson(const Json& json) {
  CdiNames names;
  const auto* devices = memberOf(json, "devices");
  if (stringOf(json, "kind") != kKind || !devices || !devices->is_array()) return names;
  for (const auto& entry : *devices) {
    Device device;
    device.name = stringOf(entry, "name");
    const auto* edits = memberOf(entry, "containerEdits");
    const auto* nodes = edits ? memberOf(*edits, "deviceNodes") : nullptr;
    for (const auto& node : nodes && nodes->is_array() ? *nodes : Json::array()) {
      if (const auto path = stringOf(node, "path"); isGpuNode(path)) device.gpus.push_back(path);
    }
    keep(device, names);
  }
  return names;
}

std::string unquoted(std::string text) {
  while (!text.empty() && (text.back() == ' ' || text.back() == '\r')) text.pop_back();
  if (text.size() >= 2 && text.front() == text.back() &&
      (text.front() == '"' || text.front() == '\'')) {
    return text.substr(1, text.size() - 2);
  }
  return text;
}

// One line of the block style that nvidia-ctk writes: where it begins, whether a list's item does,
// and "key: value".
struct Line {
  std::size_t indent = 0;
  bool isItem = false;
  std::string key;
  std::string value;
};

std::optional<Line> parseLine(const std::string& text) {
  Line line;
  line.indent = text.find_first_not_of(' ');
  if (line.indent == std::string::npos || text[line.indent] == '#') return std::nullopt;
  auto at = line.indent;
  if (text.compare(at, 2, "- ") == 0) {
    line.isItem = true;
    at = text.find_first_not_of(' ', at + 2);
    if (at == std::string::npos) return std::nullopt;
  }
  const auto colon = text.find(':', at);
  if (colon == std::string::npos) return line;
  line.key = text.substr(at, colon - at);
  const auto value = text.find_first_not_of(' ', colon + 1);
  if (value != std::string::npos) line.value = unquoted(text.substr(value));
  return line;
}

CdiNames parseYaml(std::string_view text) {
  CdiNames names;
  Device device;
  bool ofKind = false;
  bool inDevices = false;
  std::optional<std::size_t> items;  // where the devices' own items begin
  std::istringstream lines{std::string(text)};
  for (std::string row; std::getline(lines, row);) {
    const auto line = parseLine(row);
    if (!line) continue;
    if (line->indent == 0 && !line->isItem) {
      if (line->key == "kind") ofKind = line->value == kKind;
      keep(device, names);
      device = {};
      inDevices = line->key == "devices";
      continue;
    }
    if (!inDevices) continue;
    if (!items) items = line->indent;
    if (line->isItem && line->indent == *items) {
      keep(device, names);
      device = {};
    }
    if (line->key == "path" && isGpuNode(line->value)) device.gpus.push_back(line->value);
    const bool own = line->isItem ? line->indent == *items : line->indent == *items + 2;
    if (line->key == "name" && own) device.name = line->value;
  }
  keep(device, names);
  return ofKind ? names : CdiNames();
}

}  // namespace

CdiNames parseCdi(std::string_view text) {
  const auto json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  return json.is_discarded() ? parseYaml(text) : parseJson(json);
}

CdiNames readCdi(const std::vector<std::string>& directories) {
  CdiNames names;
  for (const auto& directory : directories) {
    std::vector<std::string> files;
    std::error_code lost;
    for (std::filesystem::directory_iterator at(directory, lost), end; !lost && at != end;
         at.increment(lost)) {
      const auto kind = at->path().extension();
      if (kind == ".yaml" || kind == ".json") files.push_back(at->path().string());
    }
    std::sort(files.begin(), files.end());
    for (const auto& file : files) {
      if (const auto text = readFile(file, kLargest)) names.merge(parseCdi(*text));
    }
  }
  return names;
}

GpuDevices deviceOptions(const std::vector<std::string>& nodes, const CdiNames& names) {
  GpuDevices out;
  const bool anyGpu = std::any_of(nodes.begin(), nodes.end(), isGpuNode);
  const bool named =
      anyGpu && std::all_of(nodes.begin(), nodes.end(), [&](const std::string& node) {
        return !isGpuNode(node) || names.count(node) > 0;
      });
  for (const auto& node : nodes) {
    if (named && isGpuNode(node)) {
      out.options.insert(out.options.end(), {"--device", names.at(node)});
    } else if (!named || node.compare(0, 11, "/dev/nvidia") != 0) {
      // What all GPUs share (/dev/nvidiactl, ...) is in the specification too.
      out.options.insert(out.options.end(), {"--device", node});
    }
  }
  if (anyGpu && !named) {
    out.note =
        "GPUs are given as bare device nodes, so that the image must bring the driver's libraries: "
        "no CDI "
        "specification names them (nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml)";
  }
  return out;
}

}  // namespace bole::supervise
