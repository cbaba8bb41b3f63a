// What jobs say of each other.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "codec/describe_model.h"
#include "controller/batch.h"

namespace bole::controller {
namespace {

// Of all elements of an array together, so that what is handed in cannot become huge.
constexpr std::size_t kMostLinks = 100'000;

std::optional<JobId> asNumber(const std::string& text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return JobId(number);
}

Error noSuchJob(const std::string& name) {
  return makeError(ErrorCode::kNotFound, "there is no such job to wait for")
      .at("after")
      .foundValue(name)
      .withHint("`bole ps --all` lists the jobs");
}

bool canNever(model::DependencyKind kind, model::JobState end) {
  if (!model::isTerminal(end) || kind == model::DependencyKind::kAny) return false;
  return (kind == model::DependencyKind::kOk) != (end == model::JobState::kSucceeded);
}

}  // namespace

// One handed in together with it, else the newest of the caller's own; of an array all elements.
Result<std::vector<JobId>> Controller::jobsNamed(const SubmitJobs& message, const std::string& name,
                                                 const model::SubmitAnswer& before) const {
  std::vector<JobId> ids;
  const auto addAll = [&](JobId first, std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i)
      if (first.isSet()) ids.emplace_back(first.value + i);
  };
  for (auto job = before.jobs.rbegin(); job != before.jobs.rend(); ++job) {
    if (job->name != name) continue;
    addAll(job->id, job->count);
    return ids;
  }
  const auto user = userIds_.find(message.caller.user);
  bool found = false;
  state_.tables().jobs.forEachNewestFirst([&](JobId id, const model::JobRecord& job) {
    const auto* text = texts_.find(job.text);
    const bool own = user != userIds_.end() && job.user == user->second;
    if (!own || !text || (*text)->name != name) return true;
    found = true;
    if (job.shape->array)
      addAll(job.shape->array->first, job.shape->array->count);
    else
      ids.push_back(id);
    return false;
  });
  if (!found) return fail(noSuchJob(name));
  // Elements that have ended long ago are no longer known, and need not be waited for.
  std::erase_if(ids, [&](JobId id) { return !state_.tables().jobs.find(id); });
  return ids;
}

Result<std::vector<model::Dependency>> Controller::dependenciesOf(
    const SubmitJobs& message, std::size_t index, const model::SubmitAnswer& before) const {
  const auto& spec = message.jobs[index];
  std::vector<model::Dependency> out;
  for (const auto& [word, name] : spec.after) {
    const auto kind = codec::enumFromName<model::DependencyKind>(word);
    if (!kind) {
      return fail(makeError(ErrorCode::kInvalid, "no such kind of end to wait for")
                      .at("after")
                      .foundValue(word)
                      .expectedValue("ok, notok or any"));
    }
    std::vector<JobId> ids;
    if (const auto number = asNumber(name)) {
      if (!state_.tables().jobs.find(*number)) return fail(noSuchJob(name));
      ids = {*number};
    } else {
      BOLE_ASSIGN(ids, jobsNamed(message, name, before));
    }
    for (const auto id : ids) {
      const auto& job = *state_.tables().jobs.find(id);
      if (canNever(*kind, job.state)) {
        return fail(
            makeError(ErrorCode::kConflict,
                      "what the job would wait for can never come: it has ended otherwise")
                .at("after")
                .foundValue(fmt::format("job {}: {}", id.value, codec::enumName(job.state))));
      }
      const auto same = [&](const auto& other) { return other.job == id && other.kind == *kind; };
      if (std::none_of(out.begin(), out.end(), same)) out.push_back({id, *kind});
    }
    if (out.size() * std::max<std::size_t>(spec.array.size(), 1) > kMostLinks) {
      return fail(makeError(ErrorCode::kInvalid, "too many jobs wait for too many others")
                      .at("after")
                      .expectedValue(fmt::format("at most {} pairs", kMostLinks))
                      .withHint("let a job without work stand between two arrays"));
    }
  }
  return out;
}

// Each of these may be what others wait for in turn.
void Controller::endBroken(Batch& batch) {
  while (!batch.broken.empty()) {
    const auto id = batch.broken.back();
    batch.broken.pop_back();
    const auto* job = state_.tables().jobs.find(id);
    if (!job || job->state != model::JobState::kQueued) continue;
    waiting_.erase(id);
    const auto project = job->project;
    static_cast<void>(emit(
        batch, model::JobEnded{id, model::JobState::kCancelled, model::StopReason::kDependency},
        Caller{"", "server", ""}, project));
  }
}

}  // namespace bole::controller
