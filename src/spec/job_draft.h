// What both formats share: the work on one file, the tasks of one job as they are collected, and
// the checks across them.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "model/job.h"
#include "spec/reader.h"
#include "spec/spec.h"

namespace bole::spec {

// One file in work.
struct Session {
  Reader& reader;
  const ParseContext& context;
  std::vector<std::string>& missingEnv;
  std::size_t grown = 0;  // bytes that no longer stand in the text itself: values of variables,
                          // directories before paths
};

// Counts such bytes, so that a small text cannot become huge jobs: kInvalid beyond 16 MiB a file.
[[nodiscard]] Result<void> grow(Session& session, const Value& value, std::size_t bytes);

struct TaskDraft {
  model::TaskShape shape;
  model::TaskText text;
  Position at;       // of the task
  Position imageAt;  // of its image, where it has one
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
// differ, every task has a command, one runtime for all. Fills in runtime, tasks, user, directory
// and upload.
[[nodiscard]] Result<Parsed> finishJob(Session& session, JobDraft draft);

// Adds name and value; the last of a name counts.
void setEnv(model::EnvList& list, std::string name, std::string value);

// A bare name: its value from the context, or one more missing name.
[[nodiscard]] Result<void> takeBareEnv(Session& session, const Value& value,
                                       const std::string& name, model::EnvList& list);

// Reads a scalar by a grammar of grammar.h or spec.h.
template <class T, class Parse>
[[nodiscard]] Result<void> readBy(const Reader& reader, const Value& value,
                                  std::string_view expected, Parse&& parse, T& out) {
  BOLE_ASSIGN(const auto text, reader.readText(value, expected));
  auto parsed = parse(text);
  if (!parsed) return fail(reader.error(value, std::move(parsed).error()));
  out = std::move(*parsed);
  return {};
}

}  // namespace bole::spec
