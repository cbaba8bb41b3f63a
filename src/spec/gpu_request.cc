// The grammar of GPUs: [models][:memory][:count].
#include <algorithm>
#include <optional>
#include <vector>

#include "spec/grammar.h"
#include "spec/number.h"
#include "spec/quote.h"

namespace bole::spec {
namespace {

constexpr auto kExpected =
    "a count (2), a model and count (A100:2), with memory (A100:80GB:2) or memory alone (24GB..)";
constexpr std::size_t kLongest = 256;
constexpr std::size_t kMaxModels = 16;
// Names of models that begin with a digit begin with so many: 4090, 1080Ti, 6000-Ada. What has
// fewer is more likely a number gone wrong: 1e3, 0x10, 4x.
constexpr std::size_t kShortestModelNumber = 3;
constexpr std::size_t kLongestModelNumber = 5;

Error refuse(std::string what, std::string hint = {}) {
  return makeError(ErrorCode::kInvalid, std::move(what))
      .expectedValue(kExpected)
      .withHint(std::move(hint));
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> out;
  while (true) {
    const auto at = text.find(separator);
    out.push_back(trim(text.substr(0, at)));
    if (at == std::string_view::npos) return out;
    text.remove_prefix(at + 1);
  }
}

std::string upper(std::string_view text) {
  std::string out;
  for (const char c : text) out += toUpper(c);
  return out;
}

// A size in GPU terms. Products are named in GB, and what a device offers lies between a little
// less than that many 10^9 bytes (a T4 of 16 GB: 15,109 MiB) and that many 2^30 bytes (an A100 of
// 80 GB: 81,920 MiB). Sizes in GiB and MiB are taken literally.
struct MemorySize {
  Bytes least;
  Bytes most;
  bool literal = false;
};

std::optional<MemorySize> takeMemory(std::string_view text) {
  auto rest = text;
  const auto number = takeDecimal(rest);
  if (!number || number->digits == 0) return std::nullopt;
  const auto unit = upper(trim(rest));
  const auto binary = unit == "GIB" || unit == "GI"   ? kGiB.value
                      : unit == "MIB" || unit == "MI" ? kMiB.value
                                                      : 0;
  if (binary != 0) {
    const auto bytes = scaleUp(*number, binary);
    if (!bytes || *bytes > kMaxSize.value) return std::nullopt;
    return MemorySize{Bytes(*bytes), Bytes(*bytes), true};
  }
  if (unit != "GB" && unit != "G") return std::nullopt;
  constexpr std::int64_t kLeastOfGb = 970'000'000;  // 3 % below 10^9
  const auto least = scaleUp(*number, kLeastOfGb);
  const auto most = scaleUp(*number, kGiB.value);
  if (!least || !most || *most > kMaxSize.value) return std::nullopt;
  return MemorySize{Bytes(*least), Bytes(*most), false};
}

// (TI is no unit here: 1080Ti.)
bool looksLikeMemory(std::string_view part) {
  if (part.find("..") != std::string_view::npos) return true;
  auto rest = part;
  if (!takeDecimal(rest)) return false;
  const auto unit = upper(trim(rest));
  for (const auto* known : {"B", "K", "KB", "KI", "KIB", "M", "MB", "MI", "MIB", "G", "GB", "GI",
                            "GIB", "T", "TB", "TIB"}) {
    if (unit == known) return true;
  }
  return false;
}

Result<void> readRange(std::string_view part, model::GpuRequest& out) {
  const auto dots = part.find("..");
  const auto low = trim(part.substr(0, dots));
  const auto high = trim(part.substr(dots + 2));
  if (low.empty() && high.empty()) return fail(refuse("a range without ends"));
  const std::string hint = "write sizes in GB, for example 24GB..48GB";
  if (!low.empty()) {
    const auto size = takeMemory(low);
    if (!size) return fail(refuse("the lower end is not a memory size", hint));
    out.memoryMin = size->least;
  }
  if (!high.empty()) {
    const auto size = takeMemory(high);
    if (!size) return fail(refuse("the upper end is not a memory size", hint));
    out.memoryMax = size->most;
  }
  if (out.memoryMin && out.memoryMax && *out.memoryMin > *out.memoryMax) {
    return fail(refuse("the lower end is above the upper one"));
  }
  return {};
}

Result<void> readMemory(std::string_view part, model::GpuRequest& out) {
  if (part.find("..") != std::string_view::npos) return readRange(part, out);
  const auto size = takeMemory(part);
  if (!size) return fail(refuse("not a memory size of GPUs", "write it in GB, for example 80GB"));
  if (size->literal) {
    return fail(refuse("an exact size in GiB or MiB fits hardly any GPU",
                       "write the product's size (80GB), or a range (" + shown(part) + "..)"));
  }
  out.memoryMin = size->least;
  out.memoryMax = size->most;
  return {};
}

bool isModelCharacter(char c) {
  return isLetter(c) || isDigit(c) || c == '-' || c == '_' || c == ' ' || c == '.' || c == '/' ||
         c == '+';
}

// "A100-80GB", as other tools write it, is model A100 with 80 GB; but the GB in "GH200-480GB" are
// of the CPU's memory.
std::optional<std::string_view> memorySuffix(std::string_view name) {
  const auto dash = name.rfind('-');
  if (dash == std::string_view::npos || dash == 0) return std::nullopt;
  const auto tail = name.substr(dash + 1);
  auto rest = tail;
  const bool size = takeWhole(rest).has_value() && rest == "GB";
  if (!size || name.starts_with("GH") || name.starts_with("NVIDIA-GH")) return std::nullopt;
  return tail;
}

// Words that other tools, and other readers of YAML, give a meaning.
bool isNoModel(std::string_view model) {
  for (const auto* word : {"NVIDIA", "ALL", "ANY", "AUTO", "MAX", "TRUE", "FALSE", "YES", "NO",
                           "ON", "OFF", "Y", "N", "NONE", "NULL", "NAN", "GPU", "GPUS"}) {
    if (model == word) return true;
  }
  if (!isDigit(model[0])) return !isLetter(model[0]);
  const auto end = std::find_if_not(model.begin(), model.end(), isDigit);
  const auto digits = static_cast<std::size_t>(end - model.begin());
  const bool joined = end == model.end() || isLetter(*end) || *end == '-';
  return model[0] == '0' || !joined || digits < kShortestModelNumber ||
         digits > kLongestModelNumber;
}

Result<std::string> readModel(std::string_view name) {
  if (name.empty()) return fail(refuse("an empty model name"));
  if (!std::all_of(name.begin(), name.end(), isModelCharacter))
    return fail(refuse("a model name with strange characters"));
  auto model = upper(name);
  std::replace(model.begin(), model.end(), ' ', '-');
  if (looksLikeMemory(model))
    return fail(refuse(quoted(name) + " is memory where a model belongs",
                       "the order is model:memory:count, for example H100,A100:80GB:8"));
  if (!isNoModel(model)) return model;
  const bool none =
      model == "NO" || model == "NONE" || model == "OFF" || model == "FALSE" || model == "NULL";
  return fail(refuse(quoted(name) + " names no model",
                     none ? "for no GPU write 0" : "write how many GPUs, for example 4"));
}

// Sizes written into the model names count as the memory part; all must agree.
Result<std::string> readModels(std::string_view part, model::GpuRequest& out) {
  std::optional<std::string> memory;
  bool first = true;
  for (const auto name : split(part, ',')) {
    BOLE_ASSIGN(auto model, readModel(name));
    const auto suffix = memorySuffix(model);
    const std::optional<std::string> own =
        suffix ? std::optional<std::string>(*suffix) : std::nullopt;
    if (!first && own != memory)
      return fail(refuse("the models ask for different memory",
                         "write one size for all, for example H100,A100:80GB:8"));
    memory = own;
    first = false;
    if (own) {
      model.resize(model.size() - own->size() - 1);
      BOLE_TRY(readModel(model));  // what is left must still name one
      if (memorySuffix(model)) return fail(refuse("memory is given twice in one model's name"));
    }
    if (std::find(out.models.begin(), out.models.end(), model) == out.models.end())
      out.models.push_back(std::move(model));
  }
  if (out.models.size() > kMaxModels)
    return fail(refuse("more than " + std::to_string(kMaxModels) + " models"));
  return memory.value_or(std::string());
}

bool isNumber(std::string_view part) {
  auto rest = part;
  return takeDecimal(rest).has_value() && rest.empty();
}

bool isNegative(std::string_view part) {
  return part.starts_with('-') && isNumber(part.substr(1));
}

Error negative() {
  return refuse("a count cannot be negative", "for no GPU write 0");
}

Result<void> readCount(std::string_view part, model::GpuRequest& out) {
  if (isNegative(part)) return fail(negative());
  auto rest = part;
  const auto number = takeDecimal(rest);
  const auto milli = number ? scaleExactly(*number, 1000) : std::nullopt;
  if (!milli || !rest.empty() || hasLeadingZero(part))
    return fail(refuse(quoted(part) + " is not a count of GPUs"));
  if (*milli >= 1000 && *milli % 1000 != 0)
    return fail(refuse("a fraction above one GPU", "whole GPUs, or one part below 1 (0.5)"));
  if (number->decimals > 0 && *milli == 0)
    return fail(refuse("a fraction of nothing", "for no GPU write 0"));
  if (*milli / 1000 > kMaxGpus) {
    const auto text = shown(part);
    return fail(refuse("more GPUs than one replica can have",
                       "for the model " + text + " write " + text + ":1"));
  }
  out.count = *milli < 1000 && *milli > 0 ? 1 : static_cast<std::uint32_t>(*milli / 1000);
  out.share = *milli < 1000 && *milli > 0 ? MilliGpu(*milli) : kWholeGpu;
  return {};
}

Result<model::GpuRequest> parseParts(std::vector<std::string_view> parts) {
  model::GpuRequest out;
  out.count = 1;
  std::string memoryInName;
  std::size_t next = 0;
  const auto left = [&] { return parts.size() - next; };
  if (isNegative(parts[0])) return fail(negative());
  const bool numberNamesModel =
      isNumber(parts[0]) && parts.size() > 1 && parts[0].size() >= kShortestModelNumber;
  if (numberNamesModel || (!isNumber(parts[0]) && !looksLikeMemory(parts[0]))) {
    BOLE_ASSIGN(memoryInName, readModels(parts[next++], out));
  }
  if (left() > 0 && looksLikeMemory(parts[next])) {
    if (!memoryInName.empty()) return fail(refuse("memory is given twice", "write A100:80GB:2"));
    BOLE_TRY(readMemory(parts[next++], out));
  } else if (!memoryInName.empty()) {
    BOLE_TRY(readMemory(memoryInName, out));
  }
  if (left() > 0) BOLE_TRY(readCount(parts[next++], out));
  if (left() > 0)
    return fail(refuse("more than model, memory and count", "the order is model:memory:count"));
  return out;
}

}  // namespace

Result<model::GpuRequest> parseGpuRequest(std::string_view text) {
  const auto fault = [&](Error error) { return fail(std::move(error).foundValue(quoted(text))); };
  const auto trimmed = trim(text);
  if (trimmed.empty() || text.size() > kLongest) return fault(refuse("not a request for GPUs"));
  auto parts = split(trimmed, ':');
  if (parts.size() > 1 && upper(parts[0]) == "GPU")
    parts.erase(parts.begin());  // sbatch's gpu:a100:2
  auto request = parseParts(std::move(parts));
  if (!request) return fault(std::move(request).error());
  if (request->count == 0) return model::GpuRequest{};
  return request;
}

Result<std::uint32_t> parseComputeCapability(std::string_view text) {
  const auto refused = [] {
    return fail(makeError(ErrorCode::kInvalid, "not a compute capability")
                    .expectedValue("a number such as 8.0 or 9.0"));
  };
  auto rest = text;
  const auto number = takeDecimal(rest);
  const auto tenths = number ? scaleExactly(*number, 10) : std::nullopt;
  constexpr std::int64_t kMost = 999;
  if (!tenths || !rest.empty() || hasLeadingZero(text) || *tenths < 10 || *tenths > kMost)
    return refused();
  return static_cast<std::uint32_t>(*tenths);
}

}  // namespace bole::spec
