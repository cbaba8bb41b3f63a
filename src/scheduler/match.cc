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
  if (request.models.empty()) return true;
  return std::any_of(request.models.begin(), request.models.end(),
                     [&](const std::string& wanted) { return namesModel(wanted, gpu.model); });
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
  return text;
}

}  // namespace bole::scheduler
