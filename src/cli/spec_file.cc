#include "cli/spec_file.h"

#include <sys/stat.h>
#include <yaml-cpp/yaml.h>

#include <cctype>
#include <cerrno>

#include "cli/files.h"

namespace bole::cli {
namespace {

bool isDirectory(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

bool isThere(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0;
}

std::string parentOf(const std::string& path) {
  const auto at = path.rfind('/');
  return at == 0 || at == std::string::npos ? "/" : path.substr(0, at);
}

void addFiles(const YAML::Node& files, Luggage& luggage) {
  if (files.IsScalar()) luggage.files.push_back(files.Scalar());
  if (!files.IsSequence()) return;
  for (const auto& item : files) {
    if (item.IsScalar()) luggage.files.push_back(item.Scalar());
  }
}

bool hasImage(const YAML::Node& job) {
  if (job["image"]) return true;
  const auto tasks = job["tasks"];
  if (!tasks || !tasks.IsSequence()) return false;
  for (const auto& task : tasks) {
    if (task.IsMap() && task["image"]) return true;
  }
  return false;
}

void addMounts(const YAML::Node& task, Luggage& luggage) {
  const auto mounts = task["mounts"];
  if (!mounts || !mounts.IsSequence()) return;
  for (const auto& mount : mounts) {
    if (mount.IsScalar()) {
      luggage.mounts.push_back(mount.Scalar().substr(0, mount.Scalar().find(':')));
    } else if (mount.IsMap() && mount["source"] && mount["source"].IsScalar()) {
      luggage.mounts.push_back(mount["source"].Scalar());
    }
  }
}

void addJob(const YAML::Node& job, Luggage& luggage) {
  if (!job.IsMap() || job["apiVersion"]) return;
  addMounts(job, luggage);
  if (const auto tasks = job["tasks"]; tasks && tasks.IsSequence()) {
    for (const auto& task : tasks) {
      if (task.IsMap()) addMounts(task, luggage);
    }
  }
  luggage.image = luggage.image || hasImage(job);
  if (const auto files = job["files"]) {
    addFiles(files, luggage);
    return;
  }
  const auto directory = job["working_dir"];
  const bool elsewhere = directory && directory.IsScalar() && directory.Scalar().starts_with('/');
  luggage.all = luggage.all || !elsewhere;
}

// The documents of a file. yaml-cpp's own way of reading several never ends on a text such as ",";
// a single one it reads.
std::vector<std::string> documentsOf(std::string_view text) {
  std::vector<std::string> documents(1);
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size() - 1) + 1;
    auto line = text.substr(0, end);
    text.remove_prefix(end);
    const bool marked =
        line.starts_with("---") &&
        (line.size() == 3 || std::isspace(static_cast<unsigned char>(line[3])) != 0);
    if (marked) {
      documents.emplace_back();
      line.remove_prefix(3);
    }
    documents.back() += line;
  }
  return documents;
}

}  // namespace

Result<SpecFile> readSpecFile(const std::string& path, const std::string& shown) {
  SpecFile spec;
  auto file = path;
  spec.name = shown;
  if (isDirectory(path)) {
    const char* name =
        isThere(path + "/bole.yaml") || !isThere(path + "/bole.yml") ? "bole.yaml" : "bole.yml";
    file += path == "/" ? name : std::string("/") + name;
    spec.name = shown == "." ? name : shown + (shown.ends_with('/') ? "" : "/") + name;
  }
  auto text = readFile(file, kMaxSpecBytes);
  if (!text) {
    auto error = std::move(text).error();
    if (error.code == ErrorCode::kNotFound) {
      error = makeError(ErrorCode::kNotFound, "there is no such file")
                  .at(spec.name)
                  .withHint("name one with 'bole submit -f FILE', or use 'bole run -- COMMAND'");
    }
    return fail(std::move(error));
  }
  spec.text = std::move(*text);
  spec.directory = parentOf(file);
  return spec;
}

Luggage luggageOf(std::string_view spec) {
  Luggage luggage;
  try {
    for (const auto& document : documentsOf(spec)) addJob(YAML::Load(document), luggage);
    luggage.readable = true;
  } catch (const std::exception&) {
    return {};
  }
  if (luggage.all) luggage.files.clear();
  return luggage;
}

}  // namespace bole::cli
