#include "app/what_if.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>

#include "codec/codec.h"
#include "scheduler/scheduler.h"
#include "spec/policy.h"
#include "spec/spec.h"
#include "state/state.h"

namespace bole::app {
namespace {

// "0-3,6".
std::string rangesText(std::vector<std::uint32_t> numbers) {
  std::sort(numbers.begin(), numbers.end());
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    auto last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] <= numbers[last] + 1) ++last;
    text += (text.empty() ? "" : ",") + std::to_string(numbers[i]);
    if (numbers[last] != numbers[i]) text += "-" + std::to_string(numbers[last]);
    i = last + 1;
  }
  return text;
}

// "box-1[0-3], box-2[0]"; a node alone where no GPU is asked for.
std::string whereText(const model::Tables& tables, const std::vector<model::RankPlacement>& ranks) {
  std::map<NodeId, std::vector<std::uint32_t>> gpus;
  for (const auto& rank : ranks) {
    auto& own = gpus[rank.node];
    own.insert(own.end(), rank.gpus.begin(), rank.gpus.end());
  }
  std::string text;
  for (const auto& [id, indices] : gpus) {
    text += (text.empty() ? "" : ", ") + tables.nodes.find(id)->node->name;
    if (!indices.empty()) text += "[" + rangesText(indices) + "]";
  }
  return text;
}

struct Decision {
  std::string what = "goes on waiting";
  std::string where;
  std::string why;
  bool operator==(const Decision&) const = default;
};
using Decisions = std::map<JobId, Decision>;

Decisions decide(const state::State& state) {
  const auto& tables = state.tables();
  std::vector<JobId> queue;
  for (const auto& key : state.queued()) queue.push_back(key.job);
  const auto plan = scheduler::plan(tables, queue, tables.time, scheduler::Options());
  Decisions out;
  for (const auto& start : plan.starts)
    out[start.job] = {"starts", whereText(tables, start.ranks), ""};
  for (const auto& eviction : plan.evictions) {
    const auto& job = *tables.jobs.find(eviction.job);
    out[eviction.job] = {"is stopped", whereText(tables, tables.attempts.find(job.attempt)->ranks),
                         fmt::format("for job {}", eviction.beneficiary.value)};
  }
  for (const auto& waiting : plan.waiting)
    out[waiting.job].why = scheduler::explain(waiting.reasons);
  for (const auto& reservation : plan.reservations) {
    auto& decision = out[reservation.job];
    decision.what = "a place is kept";
    for (const auto id : reservation.nodes)
      decision.where += (decision.where.empty() ? "" : ", ") + tables.nodes.find(id)->node->name;
  }
  return out;
}

// Queues keep their numbers by their names, as when the policy is set.
Result<model::Policy> otherPolicy(const cli::PlanInput& input, const model::Tables& tables) {
  BOLE_ASSIGN(auto parsed, spec::parsePolicy({input.policy, input.policyName}));
  auto& policy = parsed.policy;
  std::unordered_map<std::uint64_t, QueueId> numbers;
  auto last = tables.lastQueue;
  for (auto& queue : policy.queues) {
    const auto* known = tables.policy->find(queue.name);
    const auto number = known ? known->id : QueueId(++last);
    numbers[queue.id.value] = number;
    queue.id = number;
    if (queue.parent.isSet()) queue.parent = numbers[queue.parent.value];
  }
  for (auto& booking : policy.bookings) booking.queue = numbers[booking.queue.value];
  return policy;
}

class WhatIf {
 public:
  explicit WhatIf(model::Tables tables) : state_(std::move(tables)) {}

  Result<void> setPolicy(model::Policy policy) {
    return apply(model::PolicySet{std::move(policy)});
  }

  Result<void> submit(const cli::PlanInput& input) {
    spec::ParseContext context;
    context.directory = input.directory;
    context.user = input.user;
    BOLE_ASSIGN(const auto file, spec::parseSpec({input.spec, input.specName}, context));
    for (const auto& parsed : file.jobs) {
      auto shape = parsed.spec.shape;
      const auto* queue = state_.tables().policy->find(parsed.spec.text.queue);
      if (!queue || state_.tables().policy->isParent(queue->id)) {
        return fail(makeError(ErrorCode::kNotFound, "no such queue in this snapshot")
                        .at("queue")
                        .foundValue(parsed.spec.text.queue));
      }
      shape.queue = queue->id;
      BOLE_TRY(scheduler::canEverRun(state_.tables(), shape));
      const auto count = std::max<std::size_t>(parsed.spec.array.size(), 1);
      const JobId first(state_.tables().lastJob + 1);
      for (std::size_t i = 0; i < count; ++i) {
        const JobId id(state_.tables().lastJob + 1);
        if (!parsed.spec.array.empty())
          shape.array = model::ArrayPlace{first, static_cast<std::uint32_t>(count),
                                          parsed.spec.array[i], parsed.spec.arrayMost};
        BOLE_TRY(apply(model::JobSubmitted{id, ProjectId(), UserId(), shape, SideId()}));
        added_.emplace(id, parsed.spec.text.name);
      }
    }
    return {};
  }

  [[nodiscard]] const state::State& state() const { return state_; }
  [[nodiscard]] const std::map<JobId, std::string>& added() const { return added_; }

 private:
  Result<void> apply(const model::Event& event) {
    return state_.apply(event, state_.tables().sequence + 1, state_.tables().time);
  }

  state::State state_;
  std::map<JobId, std::string> added_;
};

std::string textOf(const Decision& decision) {
  auto text = decision.what;
  if (!decision.where.empty()) text += " on " + decision.where;
  return text;
}

}  // namespace

Result<cli::PlanOutcome> whatIf(const cli::PlanInput& input) {
  auto read = codec::decodeTables(input.snapshot);
  if (!read) {
    auto error = std::move(read).error();
    error.where = input.snapshotName + (error.where.empty() ? "" : ", " + error.where);
    return fail(std::move(error).withHint("`bole snapshot` writes such a file"));
  }
  if (auto sound = state::checkInvariants(*read); !sound)
    return fail(Error(sound.error()).at(input.snapshotName));
  WhatIf now(*read);
  WhatIf then(std::move(*read));
  if (!input.policy.empty()) {
    BOLE_ASSIGN(auto policy, otherPolicy(input, then.state().tables()));
    BOLE_TRY(then.setPolicy(std::move(policy)));
  }
  if (!input.spec.empty()) BOLE_TRY(then.submit(input));
  const auto before = decide(now.state());
  const auto after = decide(then.state());
  cli::PlanOutcome outcome;
  outcome.at = now.state().tables().time;
  for (const auto& [id, decision] : after) {
    cli::PlanRow row{id, "", decision.what, decision.where, decision.why, ""};
    if (const auto added = then.added().find(id); added != then.added().end())
      row.added = added->second;
    const auto old = before.find(id);
    if (row.added.empty() && (old == before.end() || textOf(old->second) != textOf(decision)))
      row.before = old == before.end() ? "goes on running" : textOf(old->second);
    outcome.rows.push_back(std::move(row));
  }
  for (const auto& [id, decision] : before) {
    if (after.contains(id)) continue;
    outcome.rows.push_back({id, "", "goes on running", "", "", textOf(decision)});
  }
  return outcome;
}

}  // namespace bole::app
