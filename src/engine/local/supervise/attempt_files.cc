#include "engine/local/supervise/attempt_files.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "engine/local/init/record.h"
#include "engine/local/supervise/posix.h"
#include "engine/local/supervise/processes.h"

namespace bole::supervise {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;
// What end.json takes: a note of some length, and each rank's fields with the largest numbers.
constexpr std::size_t kEndRoom = 16u << 10;
constexpr std::size_t kEndRoomOfRank = 320;
constexpr std::size_t kMaximum = 64u << 20;  // of a file; a launch of 65,536 ranks is well below

// ---- reading: the first mistake is kept with its field, and everything after it is default
// ------------------------

class Reader {
 public:
  Reader(const Json& json, std::string path, std::optional<Error>& error)
      : json_(json), path_(std::move(path)), error_(error) {
    if (!json_.is_object()) wrong("", "an object");
  }

  void get(const char* key, std::string& value) {
    if (const auto* found = find(key)) {
      if (found->is_string())
        value = found->get_ref<const std::string&>();
      else
        wrong(key, "a text");
    }
  }
  void get(const char* key, bool& value) {
    if (const auto* found = find(key)) {
      if (found->is_boolean())
        value = found->get<bool>();
      else
        wrong(key, "true or false");
    }
  }
  template <class Int>
  requires std::is_integral_v<Int>
  void get(const char* key, Int& value) {
    const auto* found = find(key);
    if (found == nullptr) return;
    if (found->is_number_unsigned() && std::in_range<Int>(found->get<std::uint64_t>())) {
      value = static_cast<Int>(found->get<std::uint64_t>());
    } else if (found->is_number_integer() && !found->is_number_unsigned() &&
               std::in_range<Int>(found->get<std::int64_t>())) {
      value = static_cast<Int>(found->get<std::int64_t>());
    } else {
      wrong(key, "a whole number in range");
    }
  }
  void get(const char* key, Timestamp& value) { get(key, value.micros); }
  template <class Tag>
  void get(const char* key, Quantity<Tag>& value) {
    get(key, value.value);
  }
  template <class T>
  void get(const char* key, std::optional<T>& value) {
    if (find(key) != nullptr) get(key, value.emplace());
  }
  void get(const char* key, std::vector<std::string>& values) {
    eachOf(key, [&](const Json& item) {
      if (item.is_string())
        values.push_back(item.get<std::string>());
      else
        wrong(key, "a list of texts");
    });
  }
  void get(const char* key, ProgressValues& values) {
    eachOf(key, [&](const Json& item) {
      if (item.is_array() && item.size() == 2 && item[0].is_string() && item[1].is_string()) {
        values.emplace_back(item[0].get<std::string>(), item[1].get<std::string>());
      } else {
        wrong(key, "pairs of texts");
      }
    });
  }
  template <class Enum, std::size_t kSize>
  void get(const char* key, Enum& value, const std::array<Enum, kSize>& all) {
    std::string text;
    get(key, text);
    if (text.empty()) return;
    for (const Enum one : all) {
      if (name(one) == text) return static_cast<void>(value = one);
    }
    wrong(key, "a known word");
  }
  // read(Reader&, T&) for every object of the list.
  template <class T, class Read>
  void list(const char* key, std::vector<T>& values, Read read) {
    std::size_t index = 0;
    eachOf(key, [&](const Json& item) {
      Reader reader(item, path_ + key + "[" + std::to_string(index++) + "].", error_);
      read(reader, values.emplace_back());
    });
  }

 private:
  const Json* find(const char* key) const {
    if (!json_.is_object()) return nullptr;
    const auto found = json_.find(key);
    return found == json_.end() || found->is_null() ? nullptr : &*found;
  }
  template <class Visit>
  void eachOf(const char* key, Visit visit) {
    const auto* found = find(key);
    if (found == nullptr) return;
    if (!found->is_array()) return wrong(key, "a list");
    for (const auto& item : *found) visit(item);
  }
  void wrong(const char* key, const char* expected) {
    if (error_) return;
    error_ = makeError(ErrorCode::kCorrupt, "the field '" + path_ + key + "' cannot be understood")
                 .expectedValue(expected);
  }

  const Json& json_;
  std::string path_;
  std::optional<Error>& error_;
};

// decode(Reader&, T&) of the file's object; empty if there is no file.
template <class T, class Decode>
Result<std::optional<T>> readJson(const std::string& path, Decode decode) {
  auto text = readFile(path, kMaximum);
  if (!text && text.error().code == ErrorCode::kNotFound) return std::optional<T>();
  if (!text) return fail(std::move(text).error());
  const auto json = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) {
    return fail(makeError(ErrorCode::kCorrupt, "the file is no JSON text").at(path));
  }
  std::optional<Error> error;
  Reader reader(json, "", error);
  int version = kVersion;
  reader.get("version", version);
  if (version != kVersion) {
    return fail(makeError(ErrorCode::kCorrupt, "the file is of another version of Bole")
                    .at(path)
                    .foundValue(std::to_string(version))
                    .expectedValue(std::to_string(kVersion)));
  }
  T value;
  decode(reader, value);
  if (error) return fail(std::move(*error).at(path));
  return std::optional<T>(std::move(value));
}

Result<void> writeJson(const std::string& path, const Json& json, Flush flush = Flush::kYes) {
  return replaceFile(path, json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n", flush);
}

// ---- the parts
// ----------------------------------------------------------------------------------------------------

constexpr std::array kRuntimes{RuntimeKind::kPlain, RuntimeKind::kProcess, RuntimeKind::kPodman};
constexpr std::array kNetworks{NetworkKind::kHost, NetworkKind::kGang};
constexpr std::array kContainments{Containment::kCgroup, Containment::kPidns,
                                   Containment::kSubreaper};
constexpr std::array kOutcomes{EndOutcome::kExited, EndOutcome::kLaunchFailed};
constexpr std::array kCauses{EndCause::kCompleted,   EndCause::kRankFailed, EndCause::kRankLost,
                             EndCause::kAborted,     EndCause::kStopped,    EndCause::kTimeLimit,
                             EndCause::kLaunchFailed};
constexpr std::array kEvents{RuleEvent::kExited, RuleEvent::kFailed, RuleEvent::kAny,
                             RuleEvent::kTaskCompleted};

template <class T>
Json orNull(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

template <class T, class Encode>
Json listOf(const std::vector<T>& values, Encode encode) {
  Json list = Json::array();
  for (const auto& value : values) list.push_back(encode(value));
  return list;
}

Json encodeMount(const Mount& mount) {
  return {{"source", mount.source},
          {"target", mount.target},
          {"readOnly", mount.readOnly},
          {"fromBole", mount.fromBole}};
}

void decodeMount(Reader& in, Mount& mount) {
  in.get("source", mount.source);
  in.get("target", mount.target);
  in.get("readOnly", mount.readOnly);
  in.get("fromBole", mount.fromBole);
}

Json encodePort(const PortMap& port) {
  return {{"address", port.address}, {"host", port.host}, {"container", port.container}};
}

void decodePort(Reader& in, PortMap& port) {
  in.get("address", port.address);
  in.get("host", port.host);
  in.get("container", port.container);
}

Json encodeRule(const EndRule& rule) {
  return {{"task", rule.task}, {"event", name(rule.event)}, {"exitCode", orNull(rule.exitCode)}};
}

void decodeRule(Reader& in, EndRule& rule) {
  in.get("task", rule.task);
  in.get("event", rule.event, kEvents);
  in.get("exitCode", rule.exitCode);
}

Json encodeRank(const RankLaunch& rank) {
  return {{"rank", rank.rank},
          {"task", rank.task},
          {"argv", rank.argv},
          {"env", rank.env},
          {"cwd", rank.cwd},
          {"uid", rank.uid},
          {"gid", rank.gid},
          {"devices", rank.devices},
          {"memoryBytes", rank.memory.value},
          {"milliCpus", rank.cpu.value},
          {"shmBytes", rank.shm.value},
          {"image", rank.image},
          {"mounts", listOf(rank.mounts, encodeMount)},
          {"ports", listOf(rank.ports, encodePort)}};
}

void decodeRank(Reader& in, RankLaunch& rank) {
  in.get("rank", rank.rank);
  in.get("task", rank.task);
  in.get("argv", rank.argv);
  in.get("env", rank.env);
  in.get("cwd", rank.cwd);
  in.get("uid", rank.uid);
  in.get("gid", rank.gid);
  in.get("devices", rank.devices);
  in.get("memoryBytes", rank.memory);
  in.get("milliCpus", rank.cpu);
  in.get("shmBytes", rank.shm);
  in.get("image", rank.image);
  in.list("mounts", rank.mounts, decodeMount);
  in.list("ports", rank.ports, decodePort);
}

void decodeLaunch(Reader& in, Launch& launch) {
  in.get("attempt", launch.attempt);
  in.get("job", launch.job);
  in.get("name", launch.name);
  in.get("runtime", launch.runtime, kRuntimes);
  in.get("network", launch.network, kNetworks);
  in.get("graceMicros", launch.grace);
  in.get("timeLimitMicros", launch.timeLimit);
  in.get("logBytes", launch.logBytes);
  in.get("logFiles", launch.logFiles);
  in.get("maxProcesses", launch.maxProcesses);
  in.get("stopOnFailure", launch.stopOnFailure);
  in.get("mountsFor", launch.mountsFor);
  in.get("maskPaths", launch.maskPaths);
  in.get("cgroup", launch.cgroup);
  in.list("ranks", launch.ranks, decodeRank);
  in.list("completeOn", launch.completeOn, decodeRule);
  in.list("abortOn", launch.abortOn, decodeRule);
}

void decodeProcess(Reader& in, ProcessId& process) {
  in.get("pid", process.pid);
  in.get("startTicks", process.startTicks);
}

Json encodeStartedRank(const StartedRank& rank) {
  return {{"rank", rank.rank}, {"pid", rank.init.pid}, {"startTicks", rank.init.startTicks}};
}

Json encodeRankProgress(const RankProgress& progress) {
  return {{"rank", progress.rank}, {"at", progress.at.micros}, {"values", progress.values}};
}

Json encodeCheckpoint(const CheckpointReport& report) {
  return {{"rank", report.rank},
          {"at", report.at.micros},
          {"path", report.path},
          {"values", report.values}};
}

Json encodeRankEnd(const RankEnd& rank) {
  return {{"rank", rank.rank},
          {"known", rank.waitStatus.has_value()},
          {"status", orNull(rank.waitStatus)},
          {"execErrno", rank.execErrno},
          {"execStep", rank.execStep},
          {"startedAt", rank.startedAt.micros},
          {"at", rank.at.micros},
          {"maxRssBytes", rank.maxRss.value},
          {"oomKilled", rank.oomKilled}};
}

void decodeRankEnd(Reader& in, RankEnd& rank) {
  in.get("rank", rank.rank);
  in.get("status", rank.waitStatus);
  in.get("execErrno", rank.execErrno);
  in.get("execStep", rank.execStep);
  in.get("startedAt", rank.startedAt);
  in.get("at", rank.at);
  in.get("maxRssBytes", rank.maxRss);
  in.get("oomKilled", rank.oomKilled);
}

std::string rankStatusPath(const std::string& dir, std::uint32_t rank) {
  return dir + "/ranks/" + std::to_string(rank) + "/status";
}

// Empty: no record, or a torn one.
std::optional<RankStatus> parseRankStatus(const std::string& text) {
  const auto sumAt = text.rfind(' ');
  if (text.empty() || text.back() != '\n' || sumAt == std::string::npos) return std::nullopt;
  char sum[16];
  std::snprintf(sum, sizeof sum, "%08x\n", init::crc32(text.data(), sumAt + 1));
  if (text.compare(sumAt + 1, std::string::npos, sum) != 0) return std::nullopt;
  RankStatus status;
  int number = 0;
  char step[64] = {};
  long long at = 0;
  if (std::sscanf(text.c_str(), "exit %d %lld", &number, &at) == 2) {
    status.waitStatus = number;
  } else if (std::sscanf(text.c_str(), "exec-failed %d %63s %lld", &number, step, &at) == 3) {
    status.execErrno = number;
    status.execStep = step;
  } else {
    return std::nullopt;
  }
  status.at = Timestamp{at};
  return status;
}

}  // namespace

Result<void> writeLaunch(const std::string& dir, const Launch& launch) {
  return writeJson(dir + "/launch.json", {{"version", kVersion},
                                          {"attempt", launch.attempt},
                                          {"job", launch.job},
                                          {"name", launch.name},
                                          {"runtime", name(launch.runtime)},
                                          {"network", name(launch.network)},
                                          {"graceMicros", launch.grace.value},
                                          {"timeLimitMicros", launch.timeLimit.value},
                                          {"logBytes", launch.logBytes.value},
                                          {"logFiles", launch.logFiles},
                                          {"maxProcesses", launch.maxProcesses},
                                          {"stopOnFailure", launch.stopOnFailure},
                                          {"mountsFor", launch.mountsFor},
                                          {"maskPaths", launch.maskPaths},
                                          {"cgroup", launch.cgroup},
                                          {"ranks", listOf(launch.ranks, encodeRank)},
                                          {"completeOn", listOf(launch.completeOn, encodeRule)},
                                          {"abortOn", listOf(launch.abortOn, encodeRule)}});
}

Result<std::optional<Launch>> readLaunch(const std::string& dir) {
  return readJson<Launch>(dir + "/launch.json", decodeLaunch);
}

Result<std::optional<Claim>> readClaim(const std::string& dir) {
  return readJson<Claim>(dir + "/claim", [](Reader& in, Claim& claim) {
    decodeProcess(in, claim.process);
    in.get("bootId", claim.bootId);
  });
}

bool claimIsAlive(const Claim& claim) {
  const auto boot = bootId();
  return boot && *boot == claim.bootId && isAlive(claim.process);
}

Result<Claim> claimOfSelf() {
  Claim claim;
  BOLE_ASSIGN(claim.bootId, bootId());
  const auto self = processFacts(::getpid());
  if (!self) {
    return fail(makeError(ErrorCode::kUnsupported, "this process cannot see itself")
                    .at("/proc/self/stat")
                    .withHint("mount /proc"));
  }
  claim.process = {self->pid, self->startTicks};
  return claim;
}

Result<void> writeStarted(const std::string& dir, const Started& started) {
  keepRoomFor(dir + "/end.json", kEndRoom + kEndRoomOfRank * started.ranks.size());
  return writeJson(dir + "/started.json", {{"version", kVersion},
                                           {"at", started.at.micros},
                                           {"containment", name(started.containment)},
                                           {"cgroup", started.cgroup},
                                           {"ranks", listOf(started.ranks, encodeStartedRank)},
                                           {"note", started.note}});
}

Result<std::optional<Started>> readStarted(const std::string& dir) {
  return readJson<Started>(dir + "/started.json", [](Reader& in, Started& started) {
    in.get("at", started.at);
    in.get("containment", started.containment, kContainments);
    in.get("cgroup", started.cgroup);
    in.get("note", started.note);
    in.list("ranks", started.ranks, [](Reader& rankIn, StartedRank& rank) {
      rankIn.get("rank", rank.rank);
      decodeProcess(rankIn, rank.init);
    });
  });
}

Result<void> writeStop(const std::string& dir, const Stop& stop) {
  return writeJson(
      dir + "/stop.json",
      {{"version", kVersion}, {"reason", stop.reason}, {"graceMicros", stop.grace.value}});
}

Result<std::optional<Stop>> readStop(const std::string& dir) {
  return readJson<Stop>(dir + "/stop.json", [](Reader& in, Stop& stop) {
    in.get("reason", stop.reason);
    in.get("graceMicros", stop.grace);
  });
}

Result<std::optional<RankStatus>> readRankStatus(const std::string& dir, std::uint32_t rank) {
  auto text = readFile(rankStatusPath(dir, rank), 4096);
  if (!text && text.error().code == ErrorCode::kNotFound) return std::optional<RankStatus>();
  if (!text) return fail(std::move(text).error());
  return parseRankStatus(*text);
}

Result<void> writeProgress(const std::string& dir, const Progress& progress) {
  return writeJson(dir + "/progress.json",
                   {{"version", kVersion},
                    {"ranks", listOf(progress.ranks, encodeRankProgress)},
                    {"checkpoints", listOf(progress.checkpoints, encodeCheckpoint)}},
                   Flush::kNo);
}

Result<std::optional<Progress>> readProgress(const std::string& dir) {
  return readJson<Progress>(dir + "/progress.json", [](Reader& in, Progress& progress) {
    in.list("ranks", progress.ranks, [](Reader& rankIn, RankProgress& rank) {
      rankIn.get("rank", rank.rank);
      rankIn.get("at", rank.at);
      rankIn.get("values", rank.values);
    });
    in.list("checkpoints", progress.checkpoints, [](Reader& reportIn, CheckpointReport& report) {
      reportIn.get("rank", report.rank);
      reportIn.get("at", report.at);
      reportIn.get("path", report.path);
      reportIn.get("values", report.values);
    });
  });
}

Result<void> writeEnd(const std::string& dir, const End& end) {
  return writeJson(dir + "/end.json", {{"version", kVersion},
                                       {"outcome", name(end.outcome)},
                                       {"cause", name(end.cause)},
                                       {"stopReason", end.stopReason},
                                       {"firstFailed", orNull(end.firstFailed)},
                                       {"startedAt", end.startedAt.micros},
                                       {"at", end.at.micros},
                                       {"ranks", listOf(end.ranks, encodeRankEnd)},
                                       {"left", end.left},
                                       {"note", end.note}});
}

Result<std::optional<End>> readEnd(const std::string& dir) {
  return readJson<End>(dir + "/end.json", [](Reader& in, End& end) {
    in.get("outcome", end.outcome, kOutcomes);
    in.get("cause", end.cause, kCauses);
    in.get("stopReason", end.stopReason);
    in.get("firstFailed", end.firstFailed);
    in.get("startedAt", end.startedAt);
    in.get("at", end.at);
    in.list("ranks", end.ranks, decodeRankEnd);
    in.get("left", end.left);
    in.get("note", end.note);
  });
}

std::optional<LogLine> parseLogLine(std::string_view line) {
  std::size_t digits = 0;
  std::int64_t at = 0;
  while (digits < line.size() && line[digits] >= '0' && line[digits] <= '9') {
    if (digits == 18) return std::nullopt;
    at = at * 10 + (line[digits++] - '0');
  }
  if (digits == 0 || line.size() < digits + 3 || line[digits] != ' ' || line[digits + 2] != ' ') {
    return std::nullopt;
  }
  LogLine parsed;
  parsed.at = Timestamp{at};
  switch (line[digits + 1]) {
    case 'O':
      parsed.continues = true;
      [[fallthrough]];
    case 'o':
      parsed.stream = LogStream::kOut;
      break;
    case 'E':
      parsed.continues = true;
      [[fallthrough]];
    case 'e':
      parsed.stream = LogStream::kErr;
      break;
    case 'b':
      parsed.stream = LogStream::kBole;
      break;
    default:
      return std::nullopt;
  }
  parsed.text = line.substr(digits + 3);
  return parsed;
}

std::string logPath(const std::string& dir, std::uint32_t rank) {
  return dir + "/log/rank-" + std::to_string(rank) + ".log";
}

}  // namespace bole::supervise
