#include "spec/volcano_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>

#include "spec/job_draft.h"
#include "spec/kubernetes.h"

namespace bole::spec {
namespace {

using model::PolicyAction;
using model::PolicyEvent;

const std::vector<std::string_view> kEventNames = {
    "*",       "PodFailed",  "PodEvicted", "TaskCompleted",
    "Unknown", "TaskFailed", "PodPending", "JobUpdated"};
constexpr std::array kEvents = {
    PolicyEvent::kAny,        PolicyEvent::kPodFailed,
    PolicyEvent::kPodEvicted, PolicyEvent::kTaskCompleted,
    PolicyEvent::kUnknown,    PolicyEvent::kTaskFailed};  // the rest never happen here

const std::vector<std::string_view> kActionNames = {"AbortJob",   "RestartJob",      "RestartTask",
                                                    "RestartPod", "TerminateJob",    "CompleteJob",
                                                    "ResumeJob",  "RestartPartition"};
constexpr std::array kActions = {PolicyAction::kAbortJob,     PolicyAction::kRestartJob,
                                 PolicyAction::kRestartTask,  PolicyAction::kRestartPod,
                                 PolicyAction::kTerminateJob, PolicyAction::kCompleteJob,
                                 PolicyAction::kResumeJob,    PolicyAction::kRestartJob};

struct Policy {
  std::vector<std::pair<std::size_t, Position>> events;  // index into kEventNames
  std::optional<std::pair<std::int32_t, Position>> exitCode;
  std::optional<std::size_t> action;
  Duration timeout;
};

class PolicyReader {
 public:
  PolicyReader(Reader& reader, std::int32_t task, std::vector<model::LifecycleRule>& rules)
      : reader_(reader), task_(task), rules_(rules) {}

  Result<void> readAll(const Value& list) {
    BOLE_TRY(reader_.readItems(list, [&](const Value& item) { return readOne(item); }));
    const auto any = events_.find(0);
    if (any == events_.end() || events_.size() == 1) return {};
    return fail(reader_.error(any->second, "the event '*' stands beside other events")
                    .expectedValue("'*' alone, or single events")
                    .withHint("'*' means every event, so what should happen would be unclear"));
  }

 private:
  Result<void> readOne(const Value& item) {
    Policy policy;
    ObjectFields fields;
    fields.readers = {
        {"event", [&](const Value& v) { return readEvent(v, policy); }},
        {"events",
         [&](const Value& v) {
           return reader_.readItems(v, [&](const Value& e) { return readEvent(e, policy); });
         }},
        {"exitCode", [&](const Value& v) { return readExitCode(v, policy); }},
        {"action", [&](const Value& v) { return readAction(v, policy); }},
        {"timeout",
         [&](const Value& v) {
           return readBy(reader_, v, "a duration", parseGoDuration, policy.timeout);
         }},
    };
    BOLE_TRY(readObject(reader_, item, fields));
    BOLE_TRY(check(item, policy));
    addRules(item, policy);
    return {};
  }

  Result<void> readEvent(const Value& value, Policy& policy) const {
    BOLE_ASSIGN(const auto index, reader_.readWord(value, kEventNames));
    const auto known = [&](const auto& event) { return event.first == index; };
    if (std::none_of(policy.events.begin(), policy.events.end(), known))
      policy.events.emplace_back(index, value.at);
    return {};
  }

  Result<void> readExitCode(const Value& value, Policy& policy) const {
    if (value.is(NodeKind::kScalar) && value.text() == "0") {
      return fail(reader_.error(value, "0 means success and is no failure to act upon")
                      .expectedValue("an exit code from 1 to 255"));
    }
    auto code = reader_.readWhole(value, 1, 255);
    if (!code) return fail(std::move(code).error().expectedValue("an exit code from 1 to 255"));
    policy.exitCode.emplace(static_cast<std::int32_t>(*code), value.at);
    return {};
  }

  Result<void> readAction(const Value& value, Policy& policy) const {
    BOLE_ASSIGN(policy.action, reader_.readWord(value, kActionNames));
    const auto name = kActionNames[*policy.action];
    if (name == "RestartTask" || name == "RestartPod" || name == "RestartPartition") {
      reader_.warn(
          value.at,
          fmt::format("{}: {} restarts the whole job here: the ranks of a gang start together",
                      value.path, name));
    } else if (name == "ResumeJob") {
      warnOfLoss(reader_, value, "there is no aborted job that could be resumed");
    }
    return {};
  }

  Result<void> check(const Value& item, const Policy& policy) {
    if (!policy.events.empty() && policy.exitCode) {
      return fail(reader_.error(item.at, item.path + ": an event and an exitCode in one policy")
                      .expectedValue("one of them")
                      .withHint("write two policies"));
    }
    if (policy.events.empty() && !policy.exitCode) {
      return fail(reader_.error(item.at, item.path + ": neither event nor exitCode")
                      .expectedValue("when the action is to be taken"));
    }
    if (!policy.action)
      return fail(reader_.error(item.at, item.path + ": no action")
                      .expectedValue("what is to be done, for example RestartJob"));
    for (const auto& [event, at] : policy.events)
      BOLE_TRY(once(events_, event, at, fmt::format("the event {}", kEventNames[event])));
    if (policy.exitCode) {
      const auto [code, at] = *policy.exitCode;
      BOLE_TRY(once(codes_, code, at, fmt::format("exit code {}", code)));
    }
    return {};
  }

  template <class Key>
  Result<void> once(std::map<Key, Position>& seen, Key key, Position at,
                    const std::string& what) const {
    const auto [first, isNew] = seen.emplace(key, at);
    if (isNew) return {};
    return fail(reader_.error(at, "two policies for " + what)
                    .expectedValue("one policy for each event and code")
                    .withHint(fmt::format("the first one stands in line {}", first->second.line)));
  }

  void addRules(const Value& item, const Policy& policy) {
    if (policy.timeout.value > 0) {
      reader_.warn(item.at, fmt::format("{}.timeout is not honoured: the action is taken at once",
                                        item.path));
    }
    model::LifecycleRule rule;
    rule.task = task_;
    rule.action = kActions.at(*policy.action);
    rule.timeout = policy.timeout;
    if (policy.exitCode) {
      rule.event = PolicyEvent::kExitCode;
      rule.exitCode = policy.exitCode->first;
      rules_.push_back(rule);
    }
    for (const auto& [event, at] : policy.events) {
      if (event >= kEvents.size()) {
        reader_.warn(at, fmt::format("{}: {} never happens here, so the policy does nothing",
                                     item.path, kEventNames[event]));
        continue;
      }
      rule.event = kEvents.at(event);
      if (warnOfEvent(item, at, rule)) rules_.push_back(rule);
    }
  }

  // False: nothing here would ever ask for the rule.
  bool warnOfEvent(const Value& item, Position at, const model::LifecycleRule& rule) {
    if (rule.event == PolicyEvent::kUnknown) {
      reader_.warn(at, fmt::format("{}: Unknown never happens here, so the policy does nothing: a "
                                   "rank that was lost has failed (PodFailed)",
                                   item.path));
      return false;
    }
    const bool ends = rule.action == PolicyAction::kAbortJob ||
                      rule.action == PolicyAction::kTerminateJob ||
                      rule.action == PolicyAction::kCompleteJob;
    if (rule.event != PolicyEvent::kPodEvicted || !ends) return true;
    reader_.warn(at, fmt::format("{}: PodEvicted is not honoured: a job that has to make room is "
                                 "queued again",
                                 item.path));
    return false;
  }

  Reader& reader_;
  std::int32_t task_;
  std::vector<model::LifecycleRule>& rules_;
  std::map<std::size_t, Position> events_;
  std::map<std::int32_t, Position> codes_;
};

}  // namespace

Result<void> readPolicies(Reader& reader, const Value& list, std::int32_t task,
                          std::vector<model::LifecycleRule>& rules) {
  return PolicyReader(reader, task, rules).readAll(list);
}

}  // namespace bole::spec
