#include "app/local_commands.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <filesystem>

#include "app/fsck.h"
#include "app/serve.h"
#include "codec/writer.h"
#include "ledger/sqlite_ledger.h"

namespace bole::app {
namespace {

namespace fs = std::filesystem;

struct Console {
  cli::Sink out;
  cli::Sink err;

  void say(const std::string& line) const { static_cast<void>(out(line + "\n")); }
  int complain(const Error& error) const {
    static_cast<void>(err("bole: " + error.message() + "\n"));
    return cli::exitCodeOf(error.code);
  }
};

// Where bole-supervise and bole-init lie: beside this program, or in ../lib/bole (as installed).
std::string programsDirectory() {
  std::error_code lost;
  const auto self = fs::read_symlink("/proc/self/exe", lost).parent_path();
  const auto installed = self.parent_path() / "lib" / "bole";
  return fs::exists(installed / "bole-supervise", lost) ? installed.string() : self.string();
}

std::string stamp(Clock& clock) {
  return formatTimestamp(clock.wall()) + " UTC ";
}

Result<void> serveHere(const cli::UpOptions& options, Clock& clock, Rng& rng,
                       std::function<void(const Ready&)> ready) {
  ServeOptions serveOptions;
  serveOptions.up = options;
  serveOptions.programs = programsDirectory();
  serveOptions.ready = std::move(ready);
  serveOptions.log = [&clock](const std::string& line) {
    const auto text = stamp(clock) + line + "\n";
    static_cast<void>(!write(STDERR_FILENO, text.data(), text.size()));
  };
  return serve(serveOptions, clock, rng);
}

Result<void> makeHome(const std::string& home) {
  std::error_code failed;
  fs::create_directories(fs::path(home).parent_path(), failed);
  // Others may pass through to the socket, and see nothing else.
  if (mkdir(home.c_str(), 0711) != 0 && errno != EEXIST) {
    return fail(systemError(errno, "cannot make the server's home", home));
  }
  return {};
}

// The child's end of a start in the background: it tells the parent how it went through `tell`,
// then serves on.
[[noreturn]] void serveInBackground(const cli::UpOptions& options, int tell, Clock& clock,
                                    Rng& rng) {
  setsid();
  const auto log = options.home + "/server.log";
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  const int file = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  dup2(null, STDIN_FILENO);
  dup2(file >= 0 ? file : null, STDOUT_FILENO);
  dup2(file >= 0 ? file : null, STDERR_FILENO);
  static_cast<void>(!chdir("/"));
  const auto send = [tell](const std::string& text) {
    static_cast<void>(!write(tell, text.data(), text.size()));
    close(tell);
  };
  auto done = serveHere(options, clock, rng, [&](const Ready& ready) {
    std::string text = "+";
    for (const auto& line : ready.lines) text += line + "\n";
    send(text);
  });
  if (!done) {
    // One character for the exit code's sake, then the message.
    send(std::string(1, static_cast<char>('A' + static_cast<int>(done.error().code))) +
         done.error().message());
    _exit(1);
  }
  _exit(0);
}

int startInBackground(const cli::UpOptions& options, const Console& console, Clock& clock,
                      Rng& rng) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return console.complain(systemError(errno, "cannot make a pipe", ""));
  }
  const auto child = fork();
  if (child < 0) return console.complain(systemError(errno, "cannot start the server", ""));
  if (child == 0) {
    close(ends[0]);
    serveInBackground(options, ends[1], clock, rng);
  }
  close(ends[1]);
  std::string told;
  std::array<char, 4096> buffer;
  for (ssize_t got; (got = read(ends[0], buffer.data(), buffer.size())) > 0;) {
    told.append(buffer.data(), static_cast<std::size_t>(got));
  }
  close(ends[0]);
  if (told.empty()) {
    return console.complain(makeError(ErrorCode::kInternal, "the server ended while it started")
                                .withHint("see " + options.home + "/server.log"));
  }
  if (told[0] != '+') {
    static_cast<void>(console.err("bole: " + told.substr(1) + "\n"));
    return cli::exitCodeOf(static_cast<ErrorCode>(told[0] - 'A'));
  }
  if (!options.json) static_cast<void>(console.out(told.substr(1)));
  return cli::kExitOk;
}

// sd_notify(3) without its library: systemd takes the service as started when it serves.
void tellServiceManager() {
  const char* name = getenv("NOTIFY_SOCKET");
  sockaddr_un address{};
  if (name == nullptr || (name[0] != '/' && name[0] != '@')) return;
  const std::string path(name);
  unsetenv("NOTIFY_SOCKET");  // not for the jobs
  if (path.size() >= sizeof address.sun_path) return;
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, path.size());
  if (path[0] == '@') address.sun_path[0] = '\0';
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  constexpr std::string_view kReady = "READY=1";
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  static_cast<void>(sendto(fd, kReady.data(), kReady.size(), MSG_NOSIGNAL,
                           reinterpret_cast<const sockaddr*>(&address), size));
  close(fd);
}

int up(const cli::UpOptions& options, const Console& console, Clock& clock, Rng& rng) {
  if (auto made = makeHome(options.home); !made) return console.complain(made.error());
  if (!options.foreground) return startInBackground(options, console, clock, rng);
  auto done = serveHere(options, clock, rng, [&](const Ready& ready) {
    for (const auto& line : ready.lines) console.say(line);
    tellServiceManager();
  });
  return done ? cli::kExitOk : console.complain(done.error());
}

int waitDown(const cli::DownWait& options, const Console& console) {
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, static_cast<pid_t>(options.pid), 0));
  if (fd < 0) return cli::kExitOk;  // gone already
  pollfd wait{fd, POLLIN, 0};
  const auto patience =
      options.patience.value < 0 ? -1 : static_cast<int>(options.patience.value / 1000);
  const int ended = poll(&wait, 1, patience);
  close(fd);
  if (ended > 0) return cli::kExitOk;
  return console.complain(
      makeError(ErrorCode::kUnavailable, "the server has not ended yet")
          .at(fmt::format("pid {}", options.pid))
          .withHint("it waits for jobs to stop; `bole down --wait` again, or look at " +
                    options.home + "/server.log"));
}

int runFsck(const cli::FsckOptions& options, const Console& console, Rng& rng) {
  auto report = fsck(options.home, options.full, rng);
  if (!report) return console.complain(report.error());
  const auto& ledger = report->ledger;
  if (options.json) {
    std::string fault;
    if (report->fault) codec::appendJsonString(fault, report->fault->message());
    console.say(fmt::format(
        R"({{"clean":{},"events":{},"segments":{},"side_values":{},"erased":{},"jobs":{},"live_attempts":{},"fault":{}}})",
        !report->fault, ledger.events, ledger.segments, ledger.sideValues, ledger.erased,
        report->jobs, report->live, report->fault ? fault : "null"));
  } else if (report->fault) {
    static_cast<void>(console.err("bole: damaged: " + report->fault->message() + "\n"));
  } else {
    console.say(fmt::format(
        "clean: {} events in {} segment{}, {} side values ({} erased); {} jobs, {} attempts live{}",
        ledger.events, ledger.segments, ledger.segments == 1 ? "" : "s", ledger.sideValues,
        ledger.erased, report->jobs, report->live,
        options.full ? "" : "; `bole fsck --full` checks from the first event on"));
  }
  return report->fault ? cli::kExitInternal : cli::kExitOk;
}

int runBackup(const cli::BackupOptions& options, const Console& console) {
  const auto key = options.withKey ? ledger::PrivateKey::kInclude : ledger::PrivateKey::kLeaveOut;
  if (auto done = ledger::backupLedger(options.home, options.destination, key); !done) {
    return console.complain(done.error());
  }
  if (options.json) {
    std::string path;
    codec::appendJsonString(path, options.destination);
    console.say("{\"destination\":" + path + "}");
  } else {
    console.say("backup written and verified: " + options.destination);
  }
  return cli::kExitOk;
}

int runRestore(const cli::RestoreOptions& options, const Console& console) {
  if (auto made = makeHome(options.home); !made) return console.complain(made.error());
  if (auto done = ledger::restoreLedger(options.source, options.home); !done) {
    return console.complain(done.error());
  }
  if (options.json)
    console.say("{}");
  else
    console.say("restored into " + options.home + "; start the server with `bole up`");
  return cli::kExitOk;
}

}  // namespace

cli::LocalCommands localCommands(cli::Sink out, cli::Sink err, Clock& clock, Rng& rng) {
  const Console console{std::move(out), std::move(err)};
  cli::LocalCommands commands;
  commands.up = [console, &clock, &rng](const cli::UpOptions& o) {
    return up(o, console, clock, rng);
  };
  commands.waitDown = [console](const cli::DownWait& o) { return waitDown(o, console); };
  commands.fsck = [console, &rng](const cli::FsckOptions& o) { return runFsck(o, console, rng); };
  commands.backup = [console](const cli::BackupOptions& o) { return runBackup(o, console); };
  commands.restore = [console](const cli::RestoreOptions& o) { return runRestore(o, console); };
  return commands;
}

}  // namespace bole::app
