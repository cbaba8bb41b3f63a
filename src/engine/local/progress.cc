#include "engine/local/progress.h"

#include <charconv>
#include <filesystem>

namespace bole::engine {
namespace {

const std::string* valueOf(const supervise::ProgressValues& values, std::string_view name) {
  const std::string* found = nullptr;
  for (const auto& [key, value] : values) {
    if (key == name) found = &value;
  }
  return found;
}

// Whole numbers; of "3.7" the whole part, for some count in halves.
std::optional<std::uint64_t> numberOf(const supervise::ProgressValues& values,
                                      std::string_view name) {
  const auto* text = valueOf(values, name);
  if (!text) return std::nullopt;
  std::uint64_t number = 0;
  const auto* last = text->data() + text->size();
  const auto [end, error] = std::from_chars(text->data(), last, number);
  if (error != std::errc() || (end != last && *end != '.')) return std::nullopt;
  return number;
}

model::ProgressView viewOf(const supervise::RankProgress& rank) {
  model::ProgressView view;
  view.at = rank.at;
  const auto epoch = numberOf(rank.values, "epoch");
  const auto step = numberOf(rank.values, "step");
  std::string_view total;
  if (epoch) {
    view.done = *epoch;
    view.unit = "epoch";
    total = "epochs";
  } else if (step) {
    view.done = *step;
    view.unit = "step";
    total = "steps";
  }
  view.total = numberOf(rank.values, total).value_or(0);
  for (const auto& value : rank.values) {
    if (value.first != view.unit && value.first != total) view.values.push_back(value);
  }
  return view;
}

std::optional<std::uint64_t> epochIn(const supervise::ProgressValues& values) {
  if (const auto epoch = numberOf(values, "epoch")) return epoch;
  return numberOf(values, "step");
}

}  // namespace

std::optional<model::ProgressView> progressOf(const supervise::Progress& progress) {
  const supervise::RankProgress* first = nullptr;
  for (const auto& rank : progress.ranks) {
    if (!first || rank.rank < first->rank) first = &rank;
  }
  if (!first) return std::nullopt;
  return viewOf(*first);
}

std::vector<Checkpoint> checkpointsOf(const supervise::Progress& progress,
                                      const supervise::Launch* launch) {
  std::vector<Checkpoint> found;
  for (const auto& report : progress.checkpoints) {
    auto epoch = epochIn(report.values);
    // Without a number of its own, the announcement itself tells one "latest.ckpt" from the next.
    const auto which =
        epoch ? "#" + std::to_string(*epoch) : "@" + std::to_string(report.at.micros);
    for (const auto& rank : progress.ranks) {
      if (!epoch && rank.rank == report.rank) epoch = epochIn(rank.values);
    }
    std::filesystem::path path(report.path);
    if (path.is_relative() && launch && report.rank < launch->ranks.size()) {
      path = std::filesystem::path(launch->ranks[report.rank].cwd) / path;
    }
    auto text = path.lexically_normal().string();
    while (text.size() > 1 && text.back() == '/') text.pop_back();
    auto key = text + which;
    found.push_back({epoch.value_or(0), std::move(text), std::move(key)});
  }
  return found;
}

}  // namespace bole::engine
