#include "scheduler/match.h"

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

namespace bole::scheduler {
namespace {

std::vector<std::string> words(std::string_view text) {
  std::vector<std::string> out(1);
  for (const char c : text) {
    if (c == '-' || c == ' ' || c == '_' || c == '/') {
      if (!out.back().empty()) out.emplace_back();
    } else {
      out.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  if (out.back().empty()) out.pop_back();
  std::erase(out, "nvidia");
  return out;
}

}  // namespace

bool namesModel(std::string_view wanted, std::string_view model) {
  const auto asked = words(wanted);
  const auto has = words(model);
  return !asked.empty() &&
         std::search(has.begin(), has.end(), asked.begin(), asked.end()) != has.end();
}

bool matches(const model::GpuRequest& request, const model::Gpu& gpu) {
  if (gpu.health != model::GpuHealth::kHealthy) return false;
  if (request.memoryMin && gpu.memory < *request.memoryMin) return false;
  if (request.memoryMax && gpu.memory > *request.memoryMax) return false;
  if (request.shareMemory && gpu.memory < *request.shareMemory) return false;
  if (request.computeMin > 0 && computeTenths(gpu.computeCapability) < request.computeMin)
    return false;
  if (request.models.empty()) return true;
  return std::any_of(request.models.begin(), request.models.end(),
                     [&](const std::string& wanted) { return namesModel(wanted, gpu.model); });
}

model::GpuGrant grantOf(const model::GpuRequest& request, const model::Gpu& gpu) {
  if (request.isWhole()) return {};
  model::GpuGrant grant{request.share, request.shareMemory.value_or(Bytes(0))};
  const auto total = static_cast<__int128>(std::max<std::int64_t>(gpu.memory.value, 1));
  if (!request.shareMemory)
    grant.memory = Bytes(static_cast<std::int64_t>(total * request.share.value / kWholeGpu.value));
  if (request.share.value == 0) {
    const auto part =
        static_cast<std::int64_t>(__int128{grant.memory.value} * kWholeGpu.value / total);
    grant.share = MilliGpu(std::clamp<std::int64_t>(part, 1, kWholeGpu.value));
  }
  return grant;
}

std::uint32_t computeTenths(const std::string& capability) {
  const auto dot = std::min(capability.find('.'), capability.size());
  const auto minor = capability.substr(std::min(dot + 1, capability.size()), 1);
  const auto digits = capability.substr(0, dot) + (minor.empty() ? "0" : minor);
  const bool number =
      digits.size() > 1 && digits.size() < 6 &&
      std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
  std::uint32_t tenths = 0;
  for (const char c : digits)
    if (number) tenths = tenths * 10 + static_cast<std::uint32_t>(c - '0');
  return tenths;
}

bool hasLabels(const model::Node& node,
               const std::vector<std::pair<std::string, std::string>>& labels) {
  return std::all_of(labels.begin(), labels.end(), [&](const auto& wanted) {
    return std::find(node.labels.begin(), node.labels.end(), wanted) != node.labels.end();
  });
}

bool labelsMatch(const model::TaskShape& task, const model::Node& node) {
  return hasLabels(node, task.nodeLabels);
}

std::string labelsText(const model::TaskShape& task) {
  std::string text;
  for (const auto& [name, value] : task.nodeLabels)
    text += (text.empty() ? "" : ", ") + name + "=" + value;
  return text;
}

std::string kindText(const model::GpuRequest& request) {
  std::string text;
  for (const auto& model : request.models) text += (text.empty() ? "" : " or ") + model;
  if (text.empty())
    text = "GPU";
  else
    text += " GPU";
  if (request.memoryMin && request.memoryMax) {
    text += " of " + formatBytes(*request.memoryMin) + " to " + formatBytes(*request.memoryMax);
  } else if (request.memoryMin) {
    text += " of " + formatBytes(*request.memoryMin) + " or more";
  } else if (request.memoryMax) {
    text += " of " + formatBytes(*request.memoryMax) + " or less";
  }
  if (request.computeMin > 0) {
    text += " of compute capability " + std::to_string(request.computeMin / 10) + "." +
            std::to_string(request.computeMin % 10) + " or more";
  }
  return text;
}

}  // namespace bole::scheduler
