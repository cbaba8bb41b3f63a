// support: one archive for a bug report.
//
// In it: what the server says of itself, the machines, the GPUs, the jobs as listed and the newest
// events; facts of the system; the end of the server's log. Not in it: commands, environments,
// tokens, keys, the jobs' output.
#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>

#include "cli/commands.h"
#include "cli/files.h"
#include "cli/redact.h"
#include "cli/text.h"
#include "cli/wording.h"
#include "codec/writer.h"

namespace bole::cli {
namespace {

constexpr std::size_t kMaxFact = 64 * 1024;
constexpr std::size_t kMaxLog = 64 * 1024 * 1024;
constexpr std::size_t kLogKept = 1024 * 1024;

struct Part {
  std::string name;
  std::string text;
};

constexpr std::array<std::pair<const char*, const char*>, 8> kAnswers = {
    {{"status.json", "/v1/status"},
     {"nodes.json", "/v1/nodes"},
     {"gpus.json", "/v1/gpus"},
     {"topology.json", "/v1/topology"},
     {"queues.json", "/v1/queues"},
     {"policy.json", "/v1/policy"},
     {"jobs.json", "/v1/jobs?all=1&limit=1000"},
     {"events.json", "/v1/events?limit=2000"}}};

constexpr std::array<std::pair<const char*, const char*>, 6> kFacts = {
    {{"system/os-release", "/etc/os-release"},
     {"system/kernel", "/proc/version"},
     {"system/meminfo", "/proc/meminfo"},
     {"system/cgroups", "/proc/self/cgroup"},
     {"system/limits", "/proc/self/limits"},
     {"system/nvidia-driver", "/proc/driver/nvidia/version"}}};

std::string serverLog(const std::string& home) {
  const auto text = readFile(home + "/server.log", kMaxLog);
  if (!text) return text.error().message() + "\n";
  auto start = text->size() - std::min(text->size(), kLogKept);
  if (start > 0) start = std::min(text->find('\n', start), text->size() - 1) + 1;
  return redacted(std::string_view(*text).substr(start));
}

std::vector<Part> gather(Context& context) {
  std::vector<Part> parts;
  const auto now = context.environment().clock->wall();
  parts.push_back(
      {"about.txt", fmt::format("bole {}\nmade {}\nhome {}\n", context.environment().version,
                                timeText(now), context.home())});
  for (const auto& [name, path] : kAnswers) {
    const auto body = context.get(path);
    parts.push_back(
        {name, body ? redacted(indented(*body)) + "\n" : body.error().message() + "\n"});
  }
  for (const auto& [name, path] : kFacts) {
    if (auto text = readFile(path, kMaxFact)) parts.push_back({name, std::move(*text)});
  }
  parts.push_back({"server.log", serverLog(context.home())});
  return parts;
}

struct FreeArchive {
  void operator()(archive* writer) const { archive_write_free(writer); }
};
struct FreeEntry {
  void operator()(archive_entry* entry) const { archive_entry_free(entry); }
};

Result<void> writeArchive(const std::string& path, const std::string& folder,
                          const std::vector<Part>& parts, Timestamp now) {
  const std::unique_ptr<archive, FreeArchive> writer(archive_write_new());
  const auto broken = [&] {
    const int number = archive_errno(writer.get());
    return fail(systemError(number > 0 ? number : EIO, "cannot write the archive", path));
  };
  archive_write_set_format_gnutar(writer.get());
  archive_write_add_filter_gzip(writer.get());
  if (archive_write_open_filename(writer.get(), path.c_str()) != ARCHIVE_OK) return broken();
  for (const auto& part : parts) {
    const std::unique_ptr<archive_entry, FreeEntry> entry(archive_entry_new());
    archive_entry_set_pathname(entry.get(), (folder + "/" + part.name).c_str());
    archive_entry_set_mode(entry.get(), AE_IFREG | 0600);
    archive_entry_set_mtime(entry.get(), now.micros / 1'000'000, 0);
    archive_entry_set_size(entry.get(), static_cast<la_int64_t>(part.text.size()));
    if (archive_write_header(writer.get(), entry.get()) < ARCHIVE_WARN) return broken();
    if (archive_write_data(writer.get(), part.text.data(), part.text.size()) < 0) return broken();
  }
  if (archive_write_close(writer.get()) != ARCHIVE_OK) return broken();
  return {};
}

// "bole-support-20261130-124309"
std::string folderName(Timestamp now) {
  std::string name = "bole-support-";
  for (const char c : formatTimestamp(now)) {
    if (c >= '0' && c <= '9')
      name += c;
    else if (c == ' ')
      name += '-';
  }
  return name;
}

}  // namespace

int runCommand(Context& context, const SupportArgs& args) {
  const auto now = context.environment().clock->wall();
  const auto folder = folderName(now);
  const auto name = args.output.empty() ? folder + ".tar.gz" : args.output;
  const auto parts = gather(context);
  const auto written = writeArchive(context.absolute(name), folder, parts, now);
  if (!written) return context.report(written.error());
  if (context.json()) {
    std::string path;
    codec::appendJsonString(path, context.absolute(name));
    return context.printJson("{\"path\":" + path + "}") ? kExitOk : kExitOutputClosed;
  }
  context.print(neutralised(name) + ": please look through it before you send it on\n");
  return kExitOk;
}

}  // namespace bole::cli
