#include "server/testing/fake_logs.h"

#include <sstream>

namespace bole::server::testing {

class FakeCursor final : public LogCursor {
 public:
  FakeCursor(FakeLogs& logs, LogQuery query, FakeLogs::Places places)
      : logs_(logs), query_(std::move(query)), places_(std::move(places)) {}

  Result<LogChunk> next(std::size_t maxBytes) override {
    const std::lock_guard lock(logs_.mutex_);
    if (logs_.broken_) return fail(*logs_.broken_);
    LogChunk chunk;
    for (auto& [rank, log] : logs_.logs_[query_.attempt]) {
      auto& place = places_[rank];
      if (place >= log.gone) continue;
      chunk.lost += log.gone - place;
      place = log.gone;
    }
    std::size_t size = 0;
    while (const auto rank = logs_.nextRank(query_, places_)) {
      if (size >= maxBytes) {
        chunk.more = true;
        break;
      }
      auto& place = places_[*rank];
      chunk.lines.push_back(logs_.logs_[query_.attempt][*rank].lines[place++]);
      size += chunk.lines.back().text.size() + 1;
    }
    return chunk;
  }

  std::string position() const override {
    std::string text = "p";
    for (const auto& [rank, place] : places_) {
      text += "," + std::to_string(rank) + "=" + std::to_string(place);
    }
    return text;
  }

 private:
  FakeLogs& logs_;
  LogQuery query_;
  FakeLogs::Places places_;
};

void FakeLogs::add(AttemptId attempt, std::uint32_t rank, Timestamp at, std::string text,
                   std::string stream) {
  const std::lock_guard lock(mutex_);
  logs_[attempt][rank].lines.push_back({at, rank, std::move(stream), std::move(text)});
}

void FakeLogs::addRotated(AttemptId attempt, std::uint32_t rank,
                          const std::vector<std::string>& texts, std::size_t lost) {
  const std::lock_guard lock(mutex_);
  auto& log = logs_[attempt][rank];
  log.gone = log.lines.size() + lost;
  for (const auto& text : texts) log.lines.push_back({{}, rank, "out", text});
}

void FakeLogs::breakWith(std::optional<Error> error) {
  const std::lock_guard lock(mutex_);
  broken_ = std::move(error);
}

void FakeLogs::favourLowRanks() {
  const std::lock_guard lock(mutex_);
  lowFirst_ = true;
}

std::optional<std::uint32_t> FakeLogs::nextRank(const LogQuery& query, const Places& places) {
  std::optional<std::uint32_t> best;
  for (const auto& [rank, log] : logs_[query.attempt]) {
    if (query.rank && *query.rank != rank) continue;
    const auto place = places.contains(rank) ? places.at(rank) : 0;
    if (place >= log.lines.size()) continue;
    if (!best || (!lowFirst_ && log.lines[place].time <
                                    logs_[query.attempt][*best].lines[places.at(*best)].time)) {
      best = rank;
    }
  }
  return best;
}

Result<model::LogPage> FakeLogs::page(const LogQuery& query, std::size_t maxLines) {
  const std::lock_guard lock(mutex_);
  if (broken_) return fail(*broken_);
  Places places;
  for (const auto& [rank, log] : logs_[query.attempt]) places[rank] = log.gone;
  model::LogPage page;
  while (const auto rank = nextRank(query, places)) {
    const auto& line = logs_[query.attempt][*rank].lines[places[*rank]++];
    if (line.time >= query.since) page.lines.push_back(line);
  }
  const auto wanted = std::min(maxLines, query.tail.value_or(maxLines));
  if (page.lines.size() > wanted) {
    page.lines.erase(page.lines.begin(), page.lines.end() - static_cast<std::ptrdiff_t>(wanted));
  }
  return page;
}

Result<std::unique_ptr<LogCursor>> FakeLogs::follow(const LogQuery& query,
                                                    const std::string& position) {
  const std::lock_guard lock(mutex_);
  Places places;
  for (const auto& [rank, log] : logs_[query.attempt]) places[rank] = log.gone;
  if (position.empty()) {
    std::size_t left = 0;
    for (const auto& [rank, log] : logs_[query.attempt]) left += log.lines.size() - log.gone;
    for (; query.tail && left > *query.tail; --left) ++places[*nextRank(query, places)];
    return std::make_unique<FakeCursor>(*this, query, std::move(places));
  }
  std::istringstream text(position);
  std::string field;
  if (!std::getline(text, field, ',') || field != "p") {
    return fail(makeError(ErrorCode::kInvalid, "no such position").foundValue(position));
  }
  while (std::getline(text, field, ',')) {
    std::uint32_t rank = 0;
    std::size_t place = 0;
    if (std::sscanf(field.c_str(), "%u=%zu", &rank, &place) != 2) {
      return fail(makeError(ErrorCode::kInvalid, "no such position").foundValue(position));
    }
    places[rank] = place;
  }
  return std::make_unique<FakeCursor>(*this, query, std::move(places));
}

}  // namespace bole::server::testing
