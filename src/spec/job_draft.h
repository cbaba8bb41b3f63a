// What both formats share: the work on one file, the tasks of one job as they are collected, and
// the checks across them.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/job.h"
#include "spec/reader.h"
#include "spec/spec.h"

namespace bole::spec {

// One file in work.
struct Session {
  Session(Reader& theReader, const ParseContext& theContext, std::vector<std::string>& theMissing);

  Reader& reader;
  const ParseContext& context;
  std::vector<std::string>& missingEnv;
  std::map<std::string_view, std::string_view> given;  // the context's variables by name
  std::set<std::string, std::less<>> missing;          // the same as missingEnv, for looking up
  std::size_t grown = 0;  // bytes that no longer stand in the text itself: values of variables,
                          // directories before paths
};

// Counts such bytes, so that a small text cannot become huge jobs: kInvalid beyond 16 MiB a file.
[[nodiscard]] Result<void> grow(Session& session, const Value& value, std::size_t bytes);

// A task's variables as they are collected: the last of a name counts.
class Environment {
 public:
  void set(std::string name, std::string value);
  [[nodiscard]] const std::string* find(std::string_view name) const;
  [[nodiscard]] model::EnvList take();  // in the order written

 private:
  model::EnvList entries_;  // one that a later one replaced has no name
  std::map<std::string, std::size_t, std::less<>> places_;
};

struct TaskDraft {
  model::TaskShape shape;
  model::TaskText text;
  Position at;                     // of the task
  Position imageAt;                // of its image, where it has one
  std::optional<Position> gpusAt;  // of its GPUs, where one field names them
  std::optional<Bytes> gpuMemory;  // of each of them
  std::optional<Position> gpuMemoryAt;
  std::uint32_t computeMin = 0;  // of each of them
  std::optional<Position> computeAt;
  std::optional<Position> envAt;  // of its variables, the same
};

struct JobDraft {
  model::JobSpec spec;  // without tasks
  std::string project;
  std::vector<TaskDraft> tasks;
  std::vector<std::string> files;
  std::string
      workingDir;  // absolute: of the tasks that have none of their own; empty: the context's
  Position at;
};

// The checks that need the whole job: at least one task, at most 64 and at most 65,536 ranks, names
// differ, every task has a command that Linux can start, one runtime for all. Fills in runtime,
// tasks, user, directory and upload.
[[nodiscard]] Result<Parsed> finishJob(Session& session, JobDraft draft);

// A bare name: its value from the context, or one more missing name.
[[nodiscard]] Result<void> takeBareEnv(Session& session, const Value& value,
                                       const std::string& name, Environment& env);

// Free names with values, as both formats have them.
[[nodiscard]] Result<void> readLabels(const Reader& reader, const Value& value,
                                      model::EnvList& labels);

// What Linux takes for one argument, and for one variable with its name; execve(2), MAX_ARG_STRLEN.
inline constexpr std::size_t kMaxArgument = 128 * 1024 - 1;

}  // namespace bole::spec
