#include "scenario/scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "scenario/cloud.h"
#include "spec/bole_yaml.h"
#include "spec/policy.h"
#include "spec/reader.h"
#include "spec/spec.h"
#include "spec/yaml_tree.h"

namespace bole::test {
namespace {

using spec::Reader;
using spec::Value;

constexpr std::int64_t kMostCopies = 100'000;

std::vector<std::string_view> linesOf(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size() - 1);
    lines.push_back(text.substr(0, end + 1));
    text.remove_prefix(end + 1);
  }
  return lines;
}

bool isBlank(std::string_view line) {
  return line.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

// The first line behind what belongs to a key of this indentation; `line` is the key's own, from 0.
std::size_t endOfBlock(const std::vector<std::string_view>& lines, std::size_t line,
                       std::size_t indent) {
  auto end = line + 1;
  for (auto i = end; i < lines.size(); ++i) {
    if (isBlank(lines[i])) continue;
    if (lines[i].find_first_not_of(' ') <= indent) break;
    end = i + 1;
  }
  return end;
}

// What stands behind a key, alone, at the lines and columns where it stands in the whole.
std::string alone(const std::string& whole, const spec::Position& key,
                  const spec::Position& value) {
  const auto lines = linesOf(whole);
  const auto end = endOfBlock(lines, key.line - 1, key.column - 1);
  std::string out(value.line - 1, '\n');
  out += std::string(value.column - 1, ' ');
  out += lines[value.line - 1].substr(std::min(value.column - 1, lines[value.line - 1].size()));
  for (auto i = value.line; i < end; ++i) out += lines[i];
  return out;
}

Result<std::uint32_t> numberIn(std::string_view text) {
  std::uint32_t number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem == std::errc() && end == text.data() + text.size() && !text.empty()) return number;
  return fail(makeError(ErrorCode::kInvalid, "not numbers in brackets")
                  .expectedValue("name-[1-3,7] or n1[0-3]"));
}

class FileReader {
 public:
  FileReader(const std::string& text, const std::string& file) : reader_(file) {
    scenario_.file = file;
    scenario_.text = text;
  }

  Result<Scenario> read() {
    BOLE_ASSIGN(const auto documents, spec::readYaml(scenario_.text, scenario_.file));
    if (documents.size() != 1) {
      return fail(reader_.error(spec::Position{}, "not one scenario")
                      .foundValue(fmt::format("{} YAML documents", documents.size()))
                      .expectedValue("one: `title`, `cloud`, `steps`"));
    }
    const Value top{documents[0].get(), "", documents[0]->at};
    BOLE_TRY(reader_.readFields(
        top, {{"title",
               [&](const Value& v) -> Result<void> {
                 BOLE_ASSIGN(scenario_.title, reader_.readLine(v, "one line"));
                 return {};
               }},
              {"elsewhere", [&](const Value& v) { return readProse(v); }},
              {"right", [&](const Value& v) { return readProse(v); }},
              {"cloud",
               [&](const Value& v) -> Result<void> {
                 BOLE_ASSIGN(scenario_.nodes, readCloud(reader_, v));
                 return {};
               }},
              {"policy",
               [&](const Value& v) -> Result<void> {
                 BOLE_ASSIGN(scenario_.policy, readPolicy(keyOf(top, "policy"), v));
                 return {};
               }},
              {"stops_after", [&](const Value& v) { return readTime(v, scenario_.stopsAfter); }},
              {"steps", [&](const Value& v) { return readSteps(v, scenario_.steps); }}}));
    if (scenario_.title.empty()) return lacks(top, "title", "`title: what is right`");
    if (scenario_.nodes.empty()) return lacks(top, "cloud", "`cloud: 2x[8xA100-SXM4-80GB]`");
    if (tables_ == 0) return lacks(top, "table", "`- expect:` among the steps");
    return std::move(scenario_);
  }

 private:
  [[nodiscard]] Result<Scenario> lacks(const Value& top, const char* what,
                                       const char* wanted) const {
    return fail(
        reader_.error(top.at, fmt::format("the scenario has no {}", what)).expectedValue(wanted));
  }

  [[nodiscard]] Result<void> readProse(const Value& value) const {
    BOLE_TRY(reader_.readText(value, "a sentence or more"));
    return {};
  }

  [[nodiscard]] static spec::Position keyOf(const Value& map, std::string_view name) {
    for (const auto& field : map.node->fields)
      if (field.key == name) return field.at;
    return map.at;
  }

  Result<model::Policy> readPolicy(const spec::Position& key, const Value& value) const {
    if (!value.is(spec::NodeKind::kMap))
      return fail(reader_.error(value, "not a policy").expectedValue("`queues: ...`"));
    BOLE_ASSIGN(auto parsed,
                spec::parsePolicy({alone(scenario_.text, key, value.at), scenario_.file}));
    return std::move(parsed.policy);
  }

  Result<void> readTime(const Value& value, Duration& out) const {
    return spec::readBy(reader_, value, "a time (90s, 10m, 2h)", spec::parseDuration, out);
  }

  Result<void> readSteps(const Value& value, std::vector<Step>& out) {
    return reader_.readItems(value, [&](const Value& item) { return readStep(item, out); });
  }

  Result<void> readStep(const Value& item, std::vector<Step>& out) {
    if (!item.is(spec::NodeKind::kMap) || item.node->fields.size() != 1) {
      return fail(reader_.error(item, "a step is one field")
                      .expectedValue("`- submit: ...`, `- after: 10m`, `- expect: |`, ..."));
    }
    Step step;
    step.place = spec::formatPlace(scenario_.file, item.node->fields[0].at);
    BOLE_TRY(reader_.readFields({item.node, "", item.at}, stepReaders(item, step)));
    out.push_back(std::move(step));
    return {};
  }

  std::vector<spec::FieldReader> stepReaders(const Value& item, Step& step) {
    using model::AttemptOutcome;
    const auto ends = [&](AttemptOutcome outcome, bool ofStopping = false) {
      return [this, &step, outcome, ofStopping](const Value& v) {
        return readEnd(v, step.what.emplace<End>(End{{}, outcome, 0, 1, ofStopping}));
      };
    };
    const auto table = [&](const char* name, bool ofQueues) {
      return [this, &item, &step, name, ofQueues](const Value& v) {
        return readTable(keyOf(item, name), v, step.what.emplace<Table>(Table{ofQueues, {}, 1, 0}));
      };
    };
    const auto health = [&](model::GpuHealth to) {
      return [this, &step, to](const Value& v) {
        auto& set = step.what.emplace<SetHealth>(SetHealth{{}, to});
        return readNames(v, set.gpus);
      };
    };
    const auto presence = [&](bool present) {
      return [this, &step, present](const Value& v) {
        return readNames(v, step.what.emplace<SetPresence>(SetPresence{{}, present}).nodes);
      };
    };
    return {
        {"submit", [&](const Value& v) { return readSubmit(v, step.what.emplace<Submit>()); }},
        {"after", [&](const Value& v) { return readTime(v, step.what.emplace<Pass>().time); }},
        {"completes", ends(AttemptOutcome::kCompleted)},
        {"fails", ends(AttemptOutcome::kFailed)},
        {"loses_rank", ends(AttemptOutcome::kRankLost)},
        {"is_lost", ends(AttemptOutcome::kSupervisorLost)},
        {"stopped", ends(AttemptOutcome::kStopped, true)},
        {"checkpoint",
         [&](const Value& v) { return readNames(v, step.what.emplace<Checkpoint>().jobs); }},
        {"cancel", [&](const Value& v) { return readNames(v, step.what.emplace<Cancel>().jobs); }},
        {"policy",
         [&](const Value& v) -> Result<void> {
           BOLE_ASSIGN(step.what.emplace<Share>().policy, readPolicy(keyOf(item, "policy"), v));
           return {};
         }},
        {"gpu_fails", health(model::GpuHealth::kDown)},
        {"gpu_suspect", health(model::GpuHealth::kSuspect)},
        {"gpu_returns", health(model::GpuHealth::kHealthy)},
        {"node_fails", presence(false)},
        {"node_returns", presence(true)},
        {"restart",
         [&](const Value& v) -> Result<void> {
           BOLE_TRY(reader_.readWord(v, {"server"}));
           step.what = Restart{};
           return {};
         }},
        {"expect", table("expect", false)},
        {"queues", table("queues", true)},
        {"repeat", [&](const Value& v) { return readRepeat(v, step); }},
    };
  }

  Result<void> readNames(const Value& value, std::vector<std::string>& out) const {
    const auto one = [&](const Value& v) -> Result<void> {
      BOLE_ASSIGN(auto name, reader_.readLine(v, "a name"));
      out.push_back(std::move(name));
      return {};
    };
    if (value.is(spec::NodeKind::kSequence)) return reader_.readItems(value, one);
    return one(value);
  }

  // A name, a list of names, or fields.
  Result<void> readEnd(const Value& value, End& end) const {
    if (!value.is(spec::NodeKind::kMap)) return readNames(value, end.jobs);
    std::vector<spec::FieldReader> readers = {
        {"job", [&](const Value& v) { return readNames(v, end.jobs); }}};
    if (end.outcome == model::AttemptOutcome::kFailed) {
      readers.push_back({"code", [&](const Value& v) -> Result<void> {
                           BOLE_ASSIGN(const auto code, reader_.readWhole(v, 1, 255));
                           end.code = static_cast<std::int32_t>(code);
                           return {};
                         }});
    }
    readers.push_back({"rank", [&](const Value& v) -> Result<void> {
                         BOLE_ASSIGN(const auto rank, reader_.readWhole(v, 0, 65'535));
                         end.rank = static_cast<std::uint32_t>(rank);
                         return {};
                       }});
    BOLE_TRY(reader_.readFields(value, readers));
    if (!end.jobs.empty()) return {};
    return fail(reader_.error(value.at, "of which job is not said").expectedValue("`job: NAME`"));
  }

  Result<void> readTable(const spec::Position& key, const Value& value, Table& table) {
    if (inRepeat_) return fail(reader_.error(key, "a table cannot stand in what is repeated"));
    ++tables_;
    table.line = key.line;
    table.indent = key.column - 1;
    if (value.is(spec::NodeKind::kNull)) return {};
    BOLE_ASSIGN(table.text, reader_.readText(value, "a table, or nothing for --accept to fill in"));
    return {};
  }

  Result<void> readRepeat(const Value& value, Step& step) {
    auto repeat = std::make_shared<Repeat>();
    const bool outer = std::exchange(inRepeat_, true);
    BOLE_TRY(reader_.readFields(
        value, {{"times",
                 [&](const Value& v) -> Result<void> {
                   BOLE_ASSIGN(const auto times, reader_.readWhole(v, 1, kMostCopies));
                   repeat->times = static_cast<std::uint32_t>(times);
                   return {};
                 }},
                {"steps", [&](const Value& v) { return readSteps(v, repeat->steps); }}}));
    inRepeat_ = outer;
    step.what = RepeatBox(std::move(repeat));
    return {};
  }

  Result<void> readSubmit(const Value& value, Submit& submit) {
    const auto one = [&](const Value& v) -> Result<void> {
      BOLE_ASSIGN(auto job, readSubmission(v));
      submit.jobs.push_back(std::move(job));
      return {};
    };
    if (value.is(spec::NodeKind::kSequence)) return reader_.readItems(value, one);
    return one(value);
  }

  // A job of bole.yaml, with a few fields of our own beside its own, and a command where none is.
  Result<Submission> readSubmission(const Value& value) {
    Submission out;
    if (!value.is(spec::NodeKind::kMap))
      return fail(reader_.error(value, "not a job").expectedValue("{name: big, gpus: 8}"));
    if (inRepeat_) out.count = 1;
    spec::Node job = *value.node;
    BOLE_TRY(takeOwnFields(value, job, out));
    addCommands(job);
    spec::ParseContext context;
    context.directory = "/home/" + out.user;
    context.user = out.user;
    std::vector<std::string> missing;
    spec::Session session(reader_, context, missing);
    BOLE_ASSIGN(auto parsed, spec::readBoleYaml(session, job));
    out.spec = std::move(parsed.spec);
    out.project = parsed.project.empty() ? "default" : parsed.project;
    return out;
  }

  Result<void> takeOwnFields(const Value& value, spec::Node& job, Submission& out) const {
    const std::vector<spec::FieldReader> own = {
        {"user",
         [&](const Value& v) -> Result<void> {
           BOLE_ASSIGN(out.user, reader_.readLine(v, "a name"));
           return {};
         }},
        {"count",
         [&](const Value& v) -> Result<void> {
           BOLE_ASSIGN(const auto count, reader_.readWhole(v, 1, kMostCopies));
           out.count = static_cast<std::uint32_t>(count);
           return {};
         }},
        {"takes", [&](const Value& v) { return readTime(v, out.takes); }},
        {"launch", [&](const Value& v) -> Result<void> {
           BOLE_TRY(reader_.readWord(v, {"fails"}));
           out.cannotStart = true;
           return {};
         }}};
    for (const auto& reader : own) {
      const auto found = std::find_if(job.fields.begin(), job.fields.end(),
                                      [&](const auto& field) { return field.key == reader.name; });
      if (found == job.fields.end()) continue;
      BOLE_TRY(reader.read(reader_.fieldOf(value, *found)));
      job.fields.erase(found);
    }
    return {};
  }

  static void addCommand(spec::Node& task) {
    const bool given = std::any_of(task.fields.begin(), task.fields.end(),
                                   [](const auto& field) { return field.key == "command"; });
    if (given) return;
    auto command = std::make_shared<spec::Node>();
    command->kind = spec::NodeKind::kScalar;
    command->at = task.at;
    command->plain = true;
    command->text = "./run";
    task.fields.push_back({"command", task.at, std::move(command)});
  }

  static void addCommands(spec::Node& job) {
    const auto tasks = std::find_if(job.fields.begin(), job.fields.end(),
                                    [](const auto& field) { return field.key == "tasks"; });
    if (tasks == job.fields.end()) return addCommand(job);
    auto list = std::make_shared<spec::Node>(*tasks->value);
    for (auto& item : list->items) {
      auto task = std::make_shared<spec::Node>(*item);
      if (task->kind == spec::NodeKind::kMap) addCommand(*task);
      item = std::move(task);
    }
    tasks->value = std::move(list);
  }

  Reader reader_;
  Scenario scenario_;
  std::size_t tables_ = 0;
  bool inRepeat_ = false;
};

void indented(std::string& out, const std::string& table, std::size_t indent) {
  for (const auto line : linesOf(table)) {
    if (!isBlank(line)) out += std::string(indent, ' ');
    out += line;
  }
}

}  // namespace

Result<Scenario> readScenario(const std::string& text, const std::string& file) {
  return FileReader(text, file).read();
}

std::string withTables(const Scenario& scenario, const std::vector<std::string>& tables) {
  const auto lines = linesOf(scenario.text);
  std::string out;
  std::size_t at = 0;
  std::size_t next = 0;
  for (const auto& step : scenario.steps) {
    const auto* table = std::get_if<Table>(&step.what);
    if (!table || next == tables.size()) continue;
    for (; at + 1 < table->line; ++at) out += lines[at];
    out += lines[at].substr(0, table->indent);
    out += table->ofQueues ? "queues: |\n" : "expect: |\n";
    indented(out, tables[next++], table->indent + 2);
    at = endOfBlock(lines, at, table->indent);
  }
  for (; at < lines.size(); ++at) out += lines[at];
  return out;
}

Result<Numbered> numbersIn(const std::string& pattern) {
  const auto open = pattern.find('[');
  if (open == std::string::npos || !pattern.ends_with(']')) {
    return fail(makeError(ErrorCode::kInvalid, "numbers in brackets are missing")
                    .foundValue(pattern)
                    .expectedValue("n1[3] or n1[0-3]"));
  }
  Numbered out;
  out.name = pattern.substr(0, open);
  auto rest = std::string_view(pattern).substr(open + 1);
  rest.remove_suffix(1);
  while (true) {
    const auto comma = std::min(rest.find(','), rest.size());
    const auto part = rest.substr(0, comma);
    const auto dash = std::min(part.find('-'), part.size());
    BOLE_ASSIGN(const auto first, numberIn(part.substr(0, dash)));
    auto last = first;
    if (dash < part.size()) {
      BOLE_ASSIGN(last, numberIn(part.substr(dash + 1)));
    }
    if (last < first || last - first > kMostCopies)
      return fail(makeError(ErrorCode::kInvalid, "not a range of numbers").foundValue(pattern));
    for (auto i = first; i <= last; ++i) out.numbers.push_back(i);
    if (comma == rest.size()) return out;
    rest.remove_prefix(comma + 1);
  }
}

Result<std::vector<std::string>> namesIn(const std::string& pattern) {
  if (pattern.find('[') == std::string::npos) return std::vector{pattern};
  BOLE_ASSIGN(const auto numbered, numbersIn(pattern));
  std::vector<std::string> out;
  out.reserve(numbered.numbers.size());
  for (const auto number : numbered.numbers)
    out.push_back(fmt::format("{}{}", numbered.name, number));
  return out;
}

}  // namespace bole::test
