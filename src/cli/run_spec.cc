#include "cli/run_spec.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>

#include "codec/writer.h"

namespace bole::cli {
namespace {

constexpr std::size_t kMaxName = 63;

// JSON's strings are YAML's too.
std::string quoted(const std::string& text) {
  std::string out;
  codec::appendJsonString(out, text);
  return out;
}

bool isPlain(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '-' || c == '+';
  });
}

class Lines {
 public:
  void add(const std::string& line, const std::string& flag) {
    spec_.text += line + "\n";
    spec_.flags.push_back(flag);
  }
  void text(const std::string& field, const std::string& value, const std::string& flag) {
    if (!value.empty()) add(field + ": " + quoted(value), flag);
  }
  void list(const std::string& field, const std::vector<std::string>& values,
            const std::string& flag) {
    if (values.empty()) return;
    add(field + ":", flag);
    for (const auto& value : values) add("  - " + quoted(value), flag);
  }
  [[nodiscard]] RunSpec take() { return std::move(spec_); }

 private:
  RunSpec spec_;
};

std::string commandLine(const std::vector<std::string>& command) {
  std::string text = "command: [";
  for (const auto& word : command) text += (text.back() == '[' ? "" : ", ") + quoted(word);
  return text + "]";
}

std::uint32_t ranksOf(const RunArgs& args) {
  return args.ranks.value_or(args.nodes.value_or(1));
}

// Below the directory as a relative path, so that it counts as part of what comes along.
std::string startDirectory(const std::string& workdir, const std::string& directory) {
  namespace fs = std::filesystem;
  if (workdir.empty()) return {};
  auto path = (fs::path(directory) / workdir).lexically_normal().string();
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  if (path == directory) return {};
  if (directory != "/" && path.starts_with(directory + "/"))
    return path.substr(directory.size() + 1);
  return path;
}

bool isInterpreter(std::string_view name) {
  constexpr std::array<std::string_view, 9> kNames = {"python", "sh",  "bash",     "zsh",   "node",
                                                      "perl",   "env", "torchrun", "mpirun"};
  while (!name.empty() && ((name.back() >= '0' && name.back() <= '9') || name.back() == '.')) {
    name.remove_suffix(1);
  }
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

std::string stem(const std::string& word) {
  const auto name = std::filesystem::path(word).filename().string();
  const auto dot = name.rfind('.');
  return dot == std::string::npos || dot == 0 ? name : name.substr(0, dot);
}

// Only letters, digits and '-', beginning and ending with no '-'.
std::string asName(const std::string& text) {
  std::string name;
  for (const char c : text) {
    const char lower = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    const bool good = (lower >= 'a' && lower <= 'z') || (lower >= '0' && lower <= '9');
    if (good)
      name += lower;
    else if (!name.empty() && name.back() != '-')
      name += '-';
  }
  name.resize(std::min(name.size(), kMaxName - 4));
  while (name.ends_with('-')) name.pop_back();
  const bool digits = name.find_first_not_of("0123456789") == std::string::npos;
  return digits && !name.empty() ? "job-" + name : name;
}

}  // namespace

std::string nameAfter(const std::vector<std::string>& command) {
  for (std::size_t i = 0; i < command.size(); ++i) {
    const auto& word = command[i];
    const bool assignment = i > 0 && word.find('=') != std::string::npos;
    if (word.starts_with('-')) {
      if (word == "-c" || word == "-m") break;  // what follows is no file
      continue;
    }
    if (assignment || isInterpreter(stem(word))) continue;
    if (auto name = asName(stem(word)); !name.empty()) return name;
    break;
  }
  auto name = command.empty() ? std::string() : asName(stem(command.front()));
  return name.empty() ? "job" : name;
}

RunSpec makeRunSpec(const RunArgs& args, const std::string& directory) {
  Lines lines;
  lines.text("name", args.name.empty() ? nameAfter(args.command) : args.name, "--name");
  lines.add("replicas: " + std::to_string(ranksOf(args)), args.ranks ? "--ntasks" : "--nodes");
  lines.add(commandLine(args.command), "COMMAND");
  lines.text("image", args.image, "--image");
  lines.text("gpus", args.gpus, "--gpus");
  lines.text("cpus", args.cpus, "--cpus-per-task");
  lines.text("memory", args.memory, "--mem");
  lines.text("shm_size", args.shmSize, "--shm-size");
  lines.text("time_limit", args.time, "--time");
  lines.text("begin", args.begin, "--begin");
  lines.list("after", args.after, "--after");
  lines.text("array", args.array, "--array");
  lines.text("queue", args.queue, "--queue");
  if (args.spot) lines.add("spot: true", "--spot");
  if (args.noPreempt) lines.add("preemptible: false", "--no-preempt");
  if (isPlain(args.priority))
    lines.add("priority: " + args.priority, "--priority");
  else
    lines.text("priority", args.priority, "--priority");
  if (args.retries) {
    const auto count = std::to_string(*args.retries);
    lines.add(*args.retries == 0 ? "restart: never" : "restart: on-failure:" + count, "--retries");
  }
  lines.list("env", args.env, "--env");
  lines.list("mounts", args.mounts, "--volume");
  lines.list("ports", args.ports, "--publish");
  lines.text("network", args.network, "--network");
  lines.text("working_dir", startDirectory(args.workdir, directory), "--workdir");
  return lines.take();
}

namespace {

// The flag of the line in "run:LINE:COLUMN..."; "" where there is none such.
std::string flagAt(const RunSpec& spec, const std::string& where) {
  const std::string prefix = std::string(kRunSpecName) + ":";
  if (!where.starts_with(prefix)) return {};
  std::size_t line = 0;
  const auto* begin = where.data() + prefix.size();
  const auto* end = where.data() + where.size();
  if (std::from_chars(begin, end, line).ec != std::errc()) return {};
  return line < 1 || line > spec.flags.size() ? std::string() : spec.flags[line - 1];
}

// The field's name means nothing to who gave a flag.
std::string withoutField(std::string text) {
  const auto field = text.find_first_not_of("abcdefghijklmnopqrstuvwxyz_[]0123456789.");
  if (field != std::string::npos && field > 0 && text.substr(field, 2) == ": ") {
    text.erase(0, field + 2);
  }
  return text;
}

}  // namespace

Error errorOfFlag(const RunSpec& spec, Error error) {
  auto flag = flagAt(spec, error.where);
  if (flag.empty()) return error;
  error.where = std::move(flag);
  error.what = withoutField(std::move(error.what));
  return error;
}

std::string warningOfFlag(const RunSpec& spec, const std::string& warning) {
  const auto flag = flagAt(spec, warning);
  const auto space = warning.find(": ");
  if (flag.empty() || space == std::string::npos) return warning;
  const auto text = warning.substr(space + 2);
  const bool ofJob = warning.substr(0, space) == std::string(kRunSpecName) + ":1:1";
  return ofJob ? text : flag + ": " + withoutField(text);
}

}  // namespace bole::cli
