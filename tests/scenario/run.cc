#include "scenario/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "scenario/scenario.h"
#include "scenario/table.h"
#include "scenario/view.h"
#include "scenario/world.h"

namespace bole::test {
namespace {

class Run {
 public:
  explicit Run(const Scenario& scenario) : scenario_(scenario), world_(scenario) {}

  Result<Outcome> run() {
    BOLE_TRY(world_.start());
    for (const auto& step : scenario_.steps) {
      BOLE_TRY(world_.take(step));
      for (const auto& fault : world_.takeFaults()) say(step.place, fault);
      if (const auto* table = std::get_if<Table>(&step.what)) BOLE_TRY(compare(step, *table));
    }
    if (world_.hasRefused()) {
      const auto table = jobTable({}, moment(), usualColumns(false), world_.takeRefused());
      say(scenario_.steps.back().place,
          "something was refused and no table behind it shows it:\n" + markTable(table, {}));
    }
    outcome_.accepted = withTables(scenario_, tables_);
    return std::move(outcome_);
  }

 private:
  [[nodiscard]] Moment moment() { return {world_.snapshot(), world_.names(), world_.now()}; }

  void say(const std::string& place, const std::string& what) {
    outcome_.differences.push_back(
        fmt::format("{}: at {}: {}", place, formatTimestamp(world_.now()), what));
  }

  Result<void> compare(const Step& step, const Table& table) {
    auto parsed = parseTable(table.text);
    if (!parsed) {
      auto error = std::move(parsed).error();
      error.where = fmt::format("{}:{}", scenario_.file, table.line + std::stoul(error.where));
      return fail(std::move(error));
    }
    auto expected = std::move(*parsed);
    if (expected.columns.empty()) expected.columns = usualColumns(table.ofQueues);
    auto actual = make(table, expected.columns);
    if (!actual) {
      auto error = std::move(actual).error();
      error.where = step.place;
      return fail(std::move(error));
    }
    tables_.push_back(formatTable(*actual));
    if (expected != *actual || table.text.empty()) {
      say(step.place, fmt::format("the table is another. Expected:\n{}  and it is:\n{}",
                                  markTable(expected, *actual), markTable(*actual, expected)));
    }
    if (!table.ofQueues) return compareRestart(step);
    return {};
  }

  Result<TextTable> make(const Table& table, const std::vector<std::string>& columns) {
    if (table.ofQueues) return queueTable(world_.snapshot(), columns);
    for (const auto& column : columns) {
      const auto& known = jobColumns();
      if (std::find(known.begin(), known.end(), column) != known.end()) continue;
      return fail(makeError(ErrorCode::kInvalid, "no such column")
                      .foundValue(column)
                      .expectedValue("job, state, where, why, user, queue, priority, attempts, "
                                     "ranks, kept, gpu-hours or checkpoint"));
    }
    std::vector<JobId> shown;
    for (const auto id : everyJob(world_.snapshot().tables)) {
      const bool ended = model::isTerminal(world_.snapshot().tables.jobs.find(id)->state);
      if (!ended || endsShown_.insert(id).second) shown.push_back(id);
    }
    return jobTable(shown, moment(), columns, world_.takeRefused());
  }

  // Whoever looks at everything anew decides the same and gives the same reasons.
  Result<void> compareRestart(const Step& step) {
    const auto other = world_.asAfterRestart();
    if (!other) {
      say(step.place, other.error().message());
      return {};
    }
    const auto& tables = world_.snapshot().tables;
    const auto before = jobTable(everyJob(tables), moment(), whatDecides());
    const auto after = jobTable(everyJob((*other)->tables), {**other, world_.names(), world_.now()},
                                whatDecides());
    if (before != after) {
      say(step.place, fmt::format("a server that starts now would decide otherwise. As it is:\n{}  "
                                  "after a restart:\n{}",
                                  markTable(before, after), markTable(after, before)));
    }
    return {};
  }

  const Scenario& scenario_;
  ScenarioWorld world_;
  Outcome outcome_;
  std::vector<std::string> tables_;
  std::set<JobId> endsShown_;
};

}  // namespace

Result<Outcome> runScenario(const std::string& text, const std::string& file) {
  BOLE_ASSIGN(const auto scenario, readScenario(text, file));
  return Run(scenario).run();
}

}  // namespace bole::test
