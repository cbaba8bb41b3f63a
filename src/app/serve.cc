#include "app/serve.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "app/event_reader.h"
#include "app/inventory.h"
#include "app/ledger_watch.h"
#include "app/log_source.h"
#include "app/version.h"
#include "controller/controller_thread.h"
#include "engine/local/local_engine.h"
#include "ledger/files.h"
#include "ledger/sqlite_ledger.h"
#include "server/server.h"
#include "spec/spec.h"

namespace bole::app {
namespace {

constexpr std::uint16_t kDefaultPort = 8470;
constexpr int kPollMillis = 200;  // how often a stopping server looks whether its jobs are gone
constexpr int kDeafPolls = 75;    // 15 s: longer than the grace that jobs get unless they ask

// The controller's mailbox as the doors see it.
class Mailbox final : public server::Commands {
 public:
  Mailbox(controller::Controller& controller, controller::ControllerThread& thread)
      : controller_(controller), thread_(thread) {}
  bool submit(controller::SubmitJobs command) override { return thread_.post(std::move(command)); }
  bool stop(controller::StopJob command) override { return thread_.post(std::move(command)); }
  bool setPolicy(controller::SetPolicy command) override {
    return thread_.post(std::move(command));
  }
  bool setHealth(controller::SetHealth command) override {
    return thread_.post(std::move(command));
  }
  bool setLabels(controller::SetLabels command) override {
    return thread_.post(std::move(command));
  }
  std::shared_ptr<const controller::Snapshot> snapshot() const override {
    return controller_.snapshot();
  }

 private:
  controller::Controller& controller_;
  controller::ControllerThread& thread_;
};

Result<void> makeDirectory(const std::string& path, mode_t mode) {
  if (mkdir(path.c_str(), mode) == 0 || errno == EEXIST) return {};
  return fail(systemError(errno, "cannot make a directory", path));
}

std::string userName(uid_t uid) {
  passwd entry{};
  std::array<char, 4096> buffer;
  passwd* found = nullptr;
  getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found);
  return found ? found->pw_name : std::to_string(uid);
}

// What callers over TCP bear. Made once, readable by the owner alone. An empty file is nobody's
// secret: it is what a power loss can leave.
Result<std::string> tokenIn(const std::string& path, Rng& rng) {
  if (ledger::fileSize(path) == 0) {
    std::array<unsigned char, 32> bytes;
    rng.fill(bytes.data(), bytes.size());
    std::string token;
    for (const auto byte : bytes) token += fmt::format("{:02x}", byte);
    BOLE_TRY(ledger::writeFileDurably(path, token + "\n", 0600));
    return token;
  }
  BOLE_ASSIGN(auto token, ledger::readSmallFile(path, 4096));
  while (!token.empty() && (token.back() == '\n' || token.back() == ' ')) token.pop_back();
  if (token.size() < 16) {
    return fail(makeError(ErrorCode::kInvalid, "the token is too short")
                    .at(path)
                    .expectedValue("16 characters or more")
                    .withHint("remove the file: a new one is made"));
  }
  return token;
}

server::SpecParser specParser(bool plain) {
  return [plain](const model::SubmitRequest& request,
                 const std::string& user) -> Result<server::ParsedSpec> {
    spec::ParseContext context;
    context.directory = request.directory;
    context.user = user;
    context.env = request.env;
    context.projectOverride = request.project;
    context.upload = request.upload;
    context.plain = plain;
    BOLE_ASSIGN(auto parsed, spec::parseSpec({request.spec, request.fileName}, context));
    server::ParsedSpec out;
    out.missingEnv = std::move(parsed.missingEnv);
    for (auto& job : parsed.jobs) {
      if (!out.project.empty() && !job.project.empty() && job.project != out.project) {
        return fail(
            makeError(ErrorCode::kInvalid, "the jobs of one file belong to several projects")
                .at(request.fileName)
                .foundValue(job.project)
                .expectedValue(out.project)
                .withHint("submit them one by one"));
      }
      if (!job.project.empty()) out.project = job.project;
      out.jobs.push_back(std::move(job.spec));
      out.warnings.push_back(std::move(job.warnings));
    }
    return out;
  };
}

// Signals and requests to end, as one descriptor to wait on.
class Ending {
 public:
  Ending() : event_(eventfd(0, EFD_CLOEXEC)) {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    signals_ = signalfd(-1, &signals, SFD_CLOEXEC);
  }
  ~Ending() {
    close(event_);
    close(signals_);
  }
  Ending(const Ending&) = delete;
  Ending& operator=(const Ending&) = delete;

  void ask(bool stopJobs) {
    if (stopJobs) stopJobs_ = true;
    const std::uint64_t one = 1;
    static_cast<void>(!write(event_, &one, sizeof one));
  }

  // Waits for an end, at most so long; true if one was asked for since the last call.
  bool wait(int millis) {
    pollfd both[] = {{event_, POLLIN, 0}, {signals_, POLLIN, 0}};
    if (poll(both, 2, millis) <= 0) return false;
    std::uint64_t asked = 0;
    signalfd_siginfo signal;
    if (both[0].revents != 0) static_cast<void>(!read(event_, &asked, sizeof asked));
    if (both[1].revents != 0) static_cast<void>(!read(signals_, &signal, sizeof signal));
    return true;
  }
  [[nodiscard]] bool stopJobs() const { return stopJobs_; }

 private:
  int event_;
  int signals_ = -1;
  std::atomic<bool> stopJobs_ = false;
};

// Everything between the doors and the disk, torn down from the last to the first: the engine posts
// to the mailbox until its own threads have ended.
struct House {
  gpu::HostInfo host;
  Inventory inventory;
  std::vector<std::string> notes;  // of the inventory, of the engine: what people should know
  std::unique_ptr<ledger::SqliteLedger> ledger;
  std::unique_ptr<controller::Controller> controller;
  std::unique_ptr<controller::ControllerThread> thread;
  std::unique_ptr<engine::LocalEngine> engine;
};

// A damaged record is known by its number; whoever reads that at night also needs the file.
Error inLedgerOf(const std::string& home, Error error) {
  if (error.code != ErrorCode::kCorrupt || error.where.find('/') != std::string::npos) return error;
  error.where = home + "/ledger.db" + (error.where.empty() ? "" : ", " + error.where);
  return error;
}

Result<House> build(const ServeOptions& options, Clock& clock, Rng& rng) {
  const auto& home = options.up.home;
  House house;
  BOLE_ASSIGN(house.host, gpu::readHostInfo());
  BOLE_ASSIGN(house.inventory, takeInventory(home, house.host, options.up.emulate));
  BOLE_TRY(makeDirectory(home + "/attempts", 0700));
  BOLE_TRY(makeDirectory(home + "/uploads", 0700));
  BOLE_TRY(makeDirectory(home + "/work", 0711));
  BOLE_ASSIGN(house.ledger, ledger::openLedger({home, rng}));
  engine::LocalEngineOptions engineOptions;
  engineOptions.home = home;
  engineOptions.programs = options.programs;
  engineOptions.plain = options.up.plain;
  engineOptions.bootId = house.host.bootId;
  house.engine = std::make_unique<engine::LocalEngine>(std::move(engineOptions), clock, rng);
  BOLE_TRY(house.engine->check());
  house.notes = house.inventory.notes;
  if (const auto kept = keepEmulation(home, house.inventory); !kept)
    house.notes.push_back("the next start will not know of --emulate: " + kept.error().message());
  for (const auto& note : house.engine->notes()) house.notes.push_back(note);
  controller::ControllerOptions controllerOptions;
  controllerOptions.version = kVersion;
  controllerOptions.bootId = house.host.bootId;
  auto controller = controller::Controller::open(std::move(controllerOptions), *house.ledger,
                                                 *house.engine, clock);
  if (!controller) return fail(inLedgerOf(home, std::move(controller).error()));
  house.controller = std::move(*controller);
  house.thread = std::make_unique<controller::ControllerThread>(*house.controller);
  house.engine->open([thread = house.thread.get()](ports::EngineReport report) {
    static_cast<void>(thread->post(std::move(report)));
  });
  BOLE_TRY(house.controller->start(house.inventory.nodes));
  house.engine->sweep();
  return house;
}

void stopAllJobs(const House& house) {
  const auto snapshot = house.controller->snapshot();
  snapshot->tables.jobs.forEach([&](JobId id, const model::JobRecord& job) {
    if (model::isTerminal(job.state)) return true;
    controller::StopJob stop;
    stop.caller.source = "server";
    stop.job = id;
    stop.reason = model::StopReason::kServerDown;
    static_cast<void>(house.thread->post(std::move(stop)));
    return true;
  });
}

bool anyLive(const House& house) {
  bool live = false;
  house.controller->snapshot()->tables.jobs.forEach([&](JobId, const model::JobRecord& job) {
    live = !model::isTerminal(job.state);
    return !live;
  });
  return live;
}

// Until all jobs have ended, someone asks to end once more, or, with a ledger that can record no
// end (a disk that died), they have had their time.
void endJobs(const House& house, Ending& ending, const ServeOptions& options) {
  options.log("stopping all jobs");
  stopAllJobs(house);
  int deaf = 0;
  while (anyLive(house)) {
    if (ending.wait(kPollMillis)) return options.log("asked again: the rest of the jobs go on");
    const auto snapshot = house.controller->snapshot();
    deaf = snapshot->writable ? 0 : deaf + 1;
    if (deaf < kDeafPolls) continue;
    return options.log("how the jobs end cannot be recorded: " + snapshot->problem);
  }
}

server::ServerOptions doors(const ServeOptions& options, const House& house, Clock& clock) {
  const auto& home = options.up.home;
  server::ServerOptions out;
  out.socketPath = home + "/bole.sock";
  out.tcpPort = options.up.port.value_or(kDefaultPort);
  out.ownerUid = geteuid();
  out.ownerName = userName(geteuid());
  out.uploadsDirectory = home + "/uploads";
  out.facts.version = kVersion;
  out.facts.home = home;
  out.facts.pid = getpid();
  out.facts.startedAt = clock.wall();
  out.facts.notes = house.notes;
  for (const auto& note : house.ledger->notices()) out.facts.notes.push_back(note);
  out.facts.sandbox = house.engine->sandbox();
  out.clock = &clock;
  out.parseSpec = specParser(options.up.plain);
  out.workDirectory = [&engine = *house.engine, &controller = *house.controller](JobId id) {
    const auto snapshot = controller.snapshot();
    const auto* job = snapshot->tables.jobs.find(id);
    const auto text = job ? snapshot->text(*job) : nullptr;
    return text ? engine.workDirectory(id, {*job->shape, *text}) : std::string();
  };
  out.logDirectory = [layout = house.engine->layout()](AttemptId id) { return layout.logs(id); };
  out.progress = [&engine = *house.engine](AttemptId id) { return engine.progress(id); };
  return out;
}

}  // namespace

Result<void> serve(const ServeOptions& options, Clock& clock, Rng& rng) {
  umask(077);
  Ending ending;
  const auto& home = options.up.home;
  BOLE_ASSIGN(auto house, build(options, clock, rng));
  LogSource logs{engine::LogReader(house.engine->layout())};
  EventReader events(home, rng, [&] { return house.controller->snapshot(); });
  Mailbox mailbox(*house.controller, *house.thread);
  const LedgerWatch watch(home, options.log);
  auto serverOptions = doors(options, house, clock);
  serverOptions.facts.moreNotes = [&watch]() -> std::vector<std::string> {
    if (auto fault = watch.fault(); !fault.empty()) return {std::move(fault)};
    return {};
  };
  BOLE_ASSIGN(serverOptions.token,
              tokenIn(options.up.tokenFile.empty() ? home + "/token" : options.up.tokenFile, rng));
  serverOptions.commands = &mailbox;
  serverOptions.logs = &logs;
  serverOptions.readEvents = [&](std::uint64_t from, std::size_t limit) {
    return events.read(from, limit);
  };
  serverOptions.onShutdown = [&](bool stopJobs) { ending.ask(stopJobs); };
  BOLE_ASSIGN(const auto server, server::Server::start(std::move(serverOptions)));
  house.controller->onPublish([&] { server->published(); });
  house.thread->start();

  Ready ready;
  ready.lines.push_back(fmt::format("bole {} is up: {}/bole.sock and http://127.0.0.1:{} (pid {})",
                                    kVersion, home, server->tcpPort(), getpid()));
  for (const auto& note : house.notes) ready.lines.push_back(note);
  for (const auto& line : ready.lines) options.log(line);
  options.ready(ready);

  ending.wait(-1);
  if (ending.stopJobs()) endJobs(house, ending, options);
  server->stop();
  house.thread->stop();
  house.controller->close();
  options.log("bole is down");
  return {};
}

}  // namespace bole::app
