#include "server/streams.h"

#include <fmt/format.h>

#include <charconv>
#include <map>

#include "codec/codec.h"
#include "server/views.h"

namespace bole::server {
namespace {

// A place has some 40 bytes a rank, and each line repeats it: with more than these only the last
// line of what is read at once has an id, and with more than a header may have, none has.
constexpr std::size_t kLongPosition = 2 * 1024;
constexpr std::size_t kLongestPosition = 8 * 1024;
constexpr std::size_t kEventsAtOnce = 64;

// How many lines of each rank were told behind a position. The lines of one rank always come in the
// same order, so these are what a reader that comes back has seen, however the ranks are merged
// then.
using Told = std::map<std::uint32_t, std::uint64_t>;

// "<attempt's number>/<rank>=<lines>,.../<position>"
std::string makeId(std::uint32_t attempt, const Told& told, const std::string& position) {
  std::string id = std::to_string(attempt) + "/";
  for (const auto& [rank, lines] : told) {
    if (id.back() != '/') id += ',';
    id += fmt::format("{}={}", rank, lines);
  }
  return id + "/" + position;
}

struct Place {
  std::uint32_t attempt = 0;
  Told told;
  std::string position;
};

template <class T>
bool takeNumber(std::string_view& text, T& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

bool takeChar(std::string_view& text, char c) {
  if (text.empty() || text.front() != c) return false;
  text.remove_prefix(1);
  return true;
}

std::optional<Place> parseId(std::string_view text) {
  Place place;
  if (!takeNumber(text, place.attempt) || place.attempt == 0 || !takeChar(text, '/')) return {};
  while (!takeChar(text, '/')) {
    std::uint32_t rank = 0;
    std::uint64_t lines = 0;
    if (!takeNumber(text, rank) || !takeChar(text, '=') || !takeNumber(text, lines)) return {};
    if (lines == 0) return {};
    place.told[rank] = lines;
    takeChar(text, ',');
  }
  place.position = text;
  return place;
}

class LogStream : public Stream {
 public:
  LogStream(const ServerOptions& options, LogFollow follow, Place place)
      : options_(options), follow_(std::move(follow)), place_(std::move(place)) {}

  Portion pull(std::size_t maxBytes) override {
    Portion portion;
    const auto snapshot = options_.commands->snapshot();
    const auto* job = snapshot->tables.jobs.find(follow_.job);
    if (!job) {  // its retention ended: there is nothing more to tell
      portion.end = true;
      return portion;
    }
    const auto scene = makeScene(*snapshot, options_, follow_.caller, options_.clock->wall());
    // The end is told when the lines are: until then the state that says so waits.
    if (!model::isTerminal(job->state)) tellState(scene, *job, portion.text);
    const bool drained = tellLines(*snapshot, *job, maxBytes, portion);
    tellProgress(scene, *job, portion.text);
    if (drained && isOver(*snapshot, *job)) {
      tellState(scene, *job, portion.text);
      appendEvent(portion.text, "end", codec::toJson(jobDetail(scene, *job)));
      portion.end = true;
    }
    return portion;
  }

  // Where a reader comes back, his place is looked for at once, so that a wrong one can be refused.
  Result<void> comeBack() {
    const auto snapshot = options_.commands->snapshot();
    const auto* job = snapshot->tables.jobs.find(follow_.job);
    const auto* attempt = job ? attemptNumbered(snapshot->tables, *job, place_.attempt) : nullptr;
    return attempt ? openCursor(*attempt) : Result<void>();
  }

 private:
  void tellState(const Scene& scene, const model::JobRecord& job, std::string& out) {
    auto view = jobView(scene, job);
    // What grows by itself is no news.
    auto key = fmt::format("{}/{}/{}", static_cast<int>(view.state), view.attempts, view.reason);
    if (key == toldState_) return;
    toldState_ = std::move(key);
    appendEvent(out, "state", codec::toJson(view));
  }

  void tellProgress(const Scene& scene, const model::JobRecord& job, std::string& out) {
    const auto progress = progressOf(scene, job);
    if (!progress) return;
    auto json = codec::toJson(*progress);
    if (json == toldProgress_) return;
    appendEvent(out, "progress", json);
    toldProgress_ = std::move(json);
  }

  [[nodiscard]] bool isOver(const controller::Snapshot& snapshot,
                            const model::JobRecord& job) const {
    if (follow_.attempt == 0) return model::isTerminal(job.state);
    const auto* attempt = attemptNumbered(snapshot.tables, job, follow_.attempt);
    return !attempt || !attempt->live;
  }

  // True where nothing is left to tell of the attempts there are and no line will come to them.
  bool tellLines(const controller::Snapshot& snapshot, const model::JobRecord& job,
                 std::size_t maxBytes, Portion& portion) {
    if (place_.attempt == 0) place_.attempt = follow_.attempt > 0 ? follow_.attempt : job.attempts;
    if (place_.attempt == 0) return true;  // never started so far
    const auto* attempt = attemptNumbered(snapshot.tables, job, place_.attempt);
    if (attempt) {
      const auto read = readSome(*attempt, maxBytes, portion);
      if (!read) tellTrouble(read.error(), portion);
      if (portion.more) return false;
      if (attempt->live) {
        portion.lookAgain = read ? options_.limits.logPoll : seconds(1);
        return false;
      }
    }
    if (follow_.attempt > 0 || place_.attempt >= job.attempts) return true;
    place_ = Place{place_.attempt + 1, {}, {}};
    follow_.tail.reset();  // of the attempt that was the newest; a new one is told whole
    cursor_.reset();
    chunk_ = LogChunk();
    next_ = 0;
    portion.more = true;
    return false;
  }

  Result<void> openCursor(const model::AttemptRecord& attempt) {
    const LogQuery query{attempt.id, follow_.rank, follow_.since, follow_.tail};
    BOLE_ASSIGN(cursor_, options_.logs->follow(query, place_.position));
    skip_ = std::exchange(place_.told, {});
    return {};
  }

  Result<void> readSome(const model::AttemptRecord& attempt, std::size_t maxBytes,
                        Portion& portion) {
    if (!cursor_) BOLE_TRY(openCursor(attempt));
    if (next_ == chunk_.lines.size()) BOLE_TRY(readChunk(maxBytes, portion.text));
    tellChunk(maxBytes, portion.text);
    const bool told = next_ == chunk_.lines.size();
    portion.more = !told || chunk_.more || (!attempt.live && !chunk_.lines.empty());
    return {};
  }

  Result<void> readChunk(std::size_t maxBytes, std::string& out) {
    const auto before = cursor_->position();
    chunk_ = LogChunk();
    next_ = 0;
    BOLE_ASSIGN(chunk_, cursor_->next(maxBytes));
    if (chunk_.lost > 0) {
      appendEvent(out, "lost", fmt::format("{{\"lines\":{}}}", chunk_.lost));
      skip_.clear();
    }
    if (skip_.empty()) place_ = Place{place_.attempt, {}, before};
    return {};
  }

  // What does not fit is told the next time: short lines grow much with their ids.
  void tellChunk(std::size_t maxBytes, std::string& out) {
    const auto after = cursor_->position();
    while (next_ < chunk_.lines.size() && out.size() < maxBytes) {
      const auto& line = chunk_.lines[next_++];
      ++place_.told[line.rank];
      if (!wasTold(line.rank)) appendEvent(out, "line", codec::toJson(line), idOfLine(after));
    }
    if (next_ == chunk_.lines.size() && skip_.empty()) place_ = Place{place_.attempt, {}, after};
  }

  // Of the line told last. `after`: the position behind the chunk.
  [[nodiscard]] std::string idOfLine(const std::string& after) const {
    const bool last = next_ == chunk_.lines.size() && skip_.empty();
    if (last && after.size() <= kLongestPosition) return makeId(place_.attempt, {}, after);
    if (last || place_.position.size() > kLongPosition) return {};
    return makeId(place_.attempt, place_.told, place_.position);
  }

  // Lines that a reader had seen when he went away are passed over.
  bool wasTold(std::uint32_t rank) {
    const auto left = skip_.find(rank);
    if (left == skip_.end()) return false;
    if (--left->second == 0) skip_.erase(left);
    return true;
  }

  // The logs cannot be read: said where lines would stand; the rest of the stream goes on.
  void tellTrouble(const Error& error, Portion& portion) {
    if (std::exchange(toldTrouble_, error.message()) == error.message()) return;
    model::LogLineView line;
    line.time = options_.clock->wall();
    line.stream = "err";
    line.text = "bole: the logs cannot be read: " + error.message();
    appendEvent(portion.text, "line", codec::toJson(line));
  }

  const ServerOptions& options_;
  LogFollow follow_;
  Place place_;  // attempt 0: not begun
  std::unique_ptr<LogCursor> cursor_;
  LogChunk chunk_;        // what was read last
  std::size_t next_ = 0;  // of its lines, to be told
  Told skip_;             // still to be passed over
  std::string toldState_;
  std::string toldProgress_;
  std::string toldTrouble_;
};

class EventStream : public Stream {
 public:
  EventStream(const ServerOptions& options, std::uint64_t from, std::string kind)
      : options_(options), next_(from), kind_(std::move(kind)) {}

  Portion pull(std::size_t maxBytes) override {
    Portion portion;
    if (options_.commands->snapshot()->tables.sequence < next_) return portion;
    const auto list = options_.readEvents(next_, kEventsAtOnce);
    if (!list) {
      appendEvent(portion.text, "error", errorAnswer(list.error()).body);
      portion.end = true;
      return portion;
    }
    for (const auto& event : list->events) {
      if (portion.text.size() >= maxBytes) break;
      next_ = event.sequence + 1;
      if (!kind_.empty() && event.kind != kind_) continue;
      appendEvent(portion.text, "event", codec::toJson(event), std::to_string(event.sequence));
    }
    portion.more = !list->events.empty();
    if (!portion.more) portion.lookAgain = options_.limits.logPoll;
    return portion;
  }

 private:
  const ServerOptions& options_;
  std::uint64_t next_;
  std::string kind_;
};

}  // namespace

Result<std::shared_ptr<Stream>> followLogs(const ServerOptions& options, LogFollow follow) {
  Place place;
  if (!follow.lastEventId.empty()) {
    auto parsed = parseId(follow.lastEventId);
    if (!parsed || (follow.attempt > 0 && parsed->attempt != follow.attempt)) {
      return fail(makeError(ErrorCode::kInvalid, "this is no place in these logs")
                      .at("Last-Event-ID")
                      .foundValue(follow.lastEventId.substr(0, 100))
                      .expectedValue("the id of an event of this stream")
                      .withHint("leave it out to begin anew"));
    }
    place = std::move(*parsed);
  }
  const bool comesBack = place.attempt > 0;
  auto stream = std::make_shared<LogStream>(options, std::move(follow), std::move(place));
  if (comesBack) BOLE_TRY(stream->comeBack());
  return stream;
}

std::shared_ptr<Stream> followEvents(const ServerOptions& options, std::uint64_t from,
                                     std::string kind) {
  return std::make_shared<EventStream>(options, std::max<std::uint64_t>(from, 1), std::move(kind));
}

}  // namespace bole::server
