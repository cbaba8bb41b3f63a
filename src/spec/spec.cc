#include "spec/spec.h"

#include <algorithm>

#include "spec/bole_yaml.h"
#include "spec/grammar.h"
#include "spec/volcano.h"
#include "spec/yaml_tree.h"

namespace bole::spec {
namespace {

constexpr std::size_t kMaxJobs = 1000;  // of one file

// What the caller adds must be as sound as the text itself.
Result<void> checkContext(const Reader& reader, const ParseContext& context) {
  const Position start;
  if (!context.directory.starts_with('/') || !resolvePath(context.directory, "/")) {
    return fail(reader.error(start, "the directory of the job is not an absolute path")
                    .foundValue(quoted(context.directory)));
  }
  if (!context.projectOverride.empty()) {
    auto project = parseName(context.projectOverride);
    if (!project) {
      auto error = std::move(project).error();
      error.what = "not the name of a project";
      error.found = quoted(context.projectOverride);
      return fail(std::move(error).at("--project"));  // it stands in no file
    }
  }
  const auto isHex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  const bool upload =
      context.upload.empty() || (context.upload.size() == 64 &&
                                 std::all_of(context.upload.begin(), context.upload.end(), isHex));
  if (!upload)
    return fail(reader.error(start, "not the name of an upload")
                    .foundValue(quoted(context.upload))
                    .expectedValue("its SHA-256 in hex"));
  return {};
}

Result<Parsed> readDocument(Session& session, const Node& root) {
  return isKubernetesObject(root) ? readVolcanoJob(session, root) : readBoleYaml(session, root);
}

}  // namespace

Result<ParsedFile> parseSpec(const SpecFile& file, const ParseContext& context) {
  const auto name = shownName(file.name);
  Reader reader(name);
  BOLE_TRY(checkContext(reader, context));
  BOLE_ASSIGN(const auto documents, readYaml(file.text, name));
  if (documents.empty()) {
    return fail(reader.error(Position{}, "the file describes no job")
                    .expectedValue("`name: ...`, `command: ...`"));
  }
  if (documents.size() > kMaxJobs) {
    return fail(reader.error(documents[kMaxJobs]->at, "too many jobs in one file")
                    .expectedValue("at most " + std::to_string(kMaxJobs)));
  }
  ParsedFile parsed;
  Session session(reader, context, parsed.missingEnv);
  for (const auto& document : documents) {
    BOLE_ASSIGN(auto job, readDocument(session, *document));
    job.spec.text.specSource = name;
    parsed.jobs.push_back(std::move(job));
  }
  return parsed;
}

}  // namespace bole::spec
