#include "spec/links.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "spec/grammar.h"
#include "spec/number.h"
#include "spec/quote.h"

namespace bole::spec {
namespace {

constexpr std::int64_t kMostIndex = 1'000'000'000;
constexpr auto kArrayExpected = "what its elements are called (0-9; 1,3,7; 0-100:10; 0-9%2)";
constexpr auto kAfterExpected = "jobs by number or name, each with ok:, notok: or any: before it";

Error refuse(std::string what, std::string_view text, std::string_view expected) {
  return makeError(ErrorCode::kInvalid, std::move(what))
      .foundValue(quoted(text))
      .expectedValue(std::string(expected));
}

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (;;) {
    const auto end = text.find(at);
    parts.push_back(trim(text.substr(0, end)));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string_view kindNamed(std::string_view word) {
  if (word == "ok" || word == "afterok") return "ok";
  if (word == "notok" || word == "afternotok") return "notok";
  if (word == "any" || word == "afterany") return "any";
  return {};
}

bool isNumber(std::string_view text) {
  return !text.empty() && text.size() <= 18 && std::all_of(text.begin(), text.end(), isDigit);
}

// One number or one range with a step, added to `elements`.
bool addRange(std::string_view text, std::vector<std::uint32_t>& elements, bool& tooMany) {
  const auto first = takeWhole(text);
  auto last = first;
  std::int64_t step = 1;
  if (first && text.starts_with('-')) {
    text.remove_prefix(1);
    last = takeWhole(text);
    if (last && text.starts_with(':')) {
      text.remove_prefix(1);
      step = takeWhole(text).value_or(0);
    }
  }
  if (!first || !last || !text.empty() || step < 1 || *last < *first || *last > kMostIndex)
    return false;
  for (auto i = *first; i <= *last; i += step) {
    tooMany = elements.size() > model::JobSpec::kMostElements;
    if (tooMany) return true;
    elements.push_back(static_cast<std::uint32_t>(i));
  }
  return true;
}

}  // namespace

Result<model::EnvList> parseAfter(std::string_view text) {
  model::EnvList out;
  for (const auto part : split(text, ',')) {
    auto words = split(part, ':');
    std::string_view kind = "ok";
    if (words.size() > 1) {
      kind = kindNamed(words.front());
      words.erase(words.begin());
    }
    for (const auto job : words) {
      if (kind.empty() || (!isNumber(job) && !parseJobName(job)))
        return fail(refuse("not what a job may wait for", text, kAfterExpected));
      out.emplace_back(std::string(kind), std::string(job));
    }
  }
  return out;
}

Result<ArrayAsk> parseArray(std::string_view text) {
  const auto parts = split(text, '%');
  ArrayAsk ask;
  bool good = parts.size() <= 2;
  if (parts.size() == 2) {
    auto rest = parts[1];
    const auto most = takeWhole(rest);
    good = most && rest.empty() && *most >= 1 && *most <= kMostIndex;
    if (good) ask.most = static_cast<std::uint32_t>(*most);
  }
  bool tooMany = false;
  for (const auto part : split(parts.front(), ','))
    good = good && !tooMany && addRange(part, ask.elements, tooMany);
  if (!good) return fail(refuse("not an array", text, kArrayExpected));
  if (tooMany || ask.elements.size() > model::JobSpec::kMostElements) {
    return fail(refuse("an array of too many elements", text,
                       fmt::format("at most {}", model::JobSpec::kMostElements)));
  }
  std::sort(ask.elements.begin(), ask.elements.end());
  const auto twice = std::adjacent_find(ask.elements.begin(), ask.elements.end());
  if (twice == ask.elements.end()) return ask;
  return fail(refuse(fmt::format("the element {} is named twice", *twice), text, kArrayExpected));
}

}  // namespace bole::spec
