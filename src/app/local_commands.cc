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

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <filesystem>

#include "app/fsck.h"
#include "app/lost_attempts.h"
#include "app/serve.h"
#include "app/what_if.h"
#include "codec/writer.h"
#include "ledger/advice.h"
#include "ledger/sqlite_ledger.h"

namespace bole::app {
namespace {

namespace fs = std::filesystem;

struct Console {
  cli::Sink out;
  cli::Sink err;

  void say(const std::string& line) const { static_cast<void>(out(line + "\n")); }
  int complain(const Error& error) const {
    static_cast<void>(err(cli::errorText(error)));
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

std::string jsonText(const std::string& text) {
  std::string out;
  codec::appendJsonString(out, text);
  return out;
}

std::string counted(std::uint64_t count, const char* one) {
  return fmt::format("{} {}{}", count, one, count == 1 ? "" : "s");
}

// What a start is answered with. Asked for in the server's own process.
std::string readyText(const cli::UpOptions& options, const Ready& ready) {
  std::string text;
  if (!options.json) {
    for (const auto& line : ready.lines) text += line + "\n";
    return text;
  }
  // The first line has the address, the others are the notes.
  const auto& first = ready.lines.at(0);
  const auto at = std::min(first.find("http://"), first.size());
  text = fmt::format(R"({{"home":{},"socket":{},"url":{},"pid":{},"notes":[)",
                     jsonText(options.home), jsonText(options.home + "/bole.sock"),
                     jsonText(first.substr(at, first.find(' ', at) - at)), getpid());
  for (std::size_t i = 1; i < ready.lines.size(); ++i) {
    text += (i > 1 ? "," : "") + jsonText(ready.lines[i]);
  }
  return text + "]}\n";
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
  auto done = serveHere(options, clock, rng,
                        [&](const Ready& ready) { send("+" + readyText(options, ready)); });
  if (!done) {
    // One character for the exit code's sake, then the message.
    send(std::string(1, static_cast<char>('A' + static_cast<int>(done.error().code))) +
         cli::errorText(done.error()));
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
    static_cast<void>(console.err(told.substr(1)));
    return cli::exitCodeOf(static_cast<ErrorCode>(told[0] - 'A'));
  }
  static_cast<void>(console.out(told.substr(1)));
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
    static_cast<void>(console.out(readyText(options, ready)));
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
  return console.complain(makeError(ErrorCode::kUnavailable, "the server has not ended yet")
                              .at(fmt::format("pid {}", options.pid))
                              .withHint("it waits for jobs to stop: '" + options.again +
                                        "' once more, or look at " + options.home + "/server.log"));
}

std::string fsckJson(const FsckReport& report) {
  const auto& ledger = report.ledger;
  return fmt::format(
      R"({{"clean":{},"events":{},"total_events":{},"segments":{},"side_values":{},"erased":{},"jobs":{},"live_attempts":{},"fault":{}}})",
      !report.fault, ledger.events, report.events ? std::to_string(*report.events) : "null",
      ledger.segments, ledger.sideValues, ledger.erased, report.jobs, report.live,
      report.fault ? jsonText(report.fault->message()) : "null");
}

std::string examinedText(std::uint64_t examined, std::uint64_t all) {
  if (examined >= all) return counted(examined, "event");
  // Right after a seal there is nothing behind it yet.
  if (examined == 0) return fmt::format("the seal over all {}", counted(all, "event"));
  return fmt::format("the newest {} of {} events", examined, all);
}

std::string cleanText(const FsckReport& report, const std::string& home) {
  const auto& ledger = report.ledger;
  const auto all = report.events.value_or(ledger.events);
  auto text =
      fmt::format("clean: {} in {}, {} ({} erased); {}, {} live", examinedText(ledger.events, all),
                  counted(ledger.segments, "segment"), counted(ledger.sideValues, "side value"),
                  ledger.erased, counted(report.jobs, "job"), counted(report.live, "attempt"));
  if (all > ledger.events) {
    text += "; " + ledger::commandFor("fsck --full", home) + " checks from the first event on";
  }
  return text;
}

int runFsck(const cli::FsckOptions& options, const Console& console, Rng& rng) {
  auto report = fsck(options.home, options.full, rng);
  if (!report) return console.complain(report.error());
  if (options.json) {
    console.say(fsckJson(*report));
  } else if (report->fault) {
    auto damage = *report->fault;
    damage.what = "damaged: " + damage.what;
    static_cast<void>(console.complain(damage));
  } else {
    console.say(cleanText(*report, options.home));
  }
  return report->fault ? cli::kExitInternal : cli::kExitOk;
}

// A record is known by its number; whoever reads that also needs the file.
Error inFile(const std::string& path, Error error) {
  if (error.code != ErrorCode::kCorrupt || error.where.find('/') != std::string::npos) return error;
  error.where = path + (error.where.empty() ? "" : ", " + error.where);
  return error;
}

// The copy is made under another name, which means nothing to who asked for it.
Error asAsked(Error error, const std::string& destination) {
  if (error.where.starts_with(destination + ".new")) error.where = destination;
  if (error.code == ErrorCode::kNotFound && error.where == destination && error.hint.empty()) {
    error.hint = "make the directory first, or name another";
  }
  return error;
}

int runBackup(const cli::BackupOptions& options, const Console& console) {
  const auto key = options.withKey ? ledger::PrivateKey::kInclude : ledger::PrivateKey::kLeaveOut;
  if (auto done = ledger::backupLedger(options.home, options.destination, key); !done) {
    auto error = inFile(options.home + "/ledger.db", std::move(done).error());
    return console.complain(asAsked(std::move(error), options.destination));
  }
  const auto& file = options.destination;
  if (options.json) {
    console.say(fmt::format(R"({{"destination":{},"public_key":{},"secret_key":{}}})",
                            jsonText(file), jsonText(file + ".pub"),
                            options.withKey ? jsonText(file + ".key") : "null"));
  } else {
    console.say("backup written and verified: " + file + ", beside it " + file + ".pub" +
                (options.withKey ? " and " + file + ".key, the secret key" : ""));
  }
  return cli::kExitOk;
}

// By the first bytes alone: whether it is sound is seen when it is restored.
Result<void> checkIsBackup(const std::string& path) {
  constexpr std::string_view kMagic("SQLite format 3\0", 16);
  constexpr std::string_view kOurs = "Bole";  // SQLite's application id
  constexpr std::size_t kOursAt = 68;
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) {
    auto error = systemError(errno, "cannot open the backup", path);
    if (error.code == ErrorCode::kNotFound) error.hint = "name the file that 'bole backup' made";
    return fail(std::move(error));
  }
  std::array<char, 100> head{};
  const auto got = pread(file, head.data(), head.size(), 0);
  close(file);
  const std::string_view text(head.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
  if (text.starts_with(kMagic) && text.size() == head.size() &&
      text.substr(kOursAt, kOurs.size()) == kOurs) {
    return {};
  }
  return fail(makeError(ErrorCode::kInvalid, "not a backup of a ledger")
                  .at(path)
                  .expectedValue("a file that 'bole backup' made"));
}

// Attempts go by numbers that the ledger gives. One that was restored gives again those that came
// after the backup: what lies there would be taken for the new attempt's.
Result<void> checkIsFresh(const std::string& home) {
  std::error_code none;
  std::uint64_t count = 0;
  const auto path = home + "/attempts";
  if (fs::exists(home + "/ledger.db", none)) return {};  // which is the better reason
  for (fs::directory_iterator at(path, none), end; !none && at != end; at.increment(none)) ++count;
  if (count == 0) return {};
  return fail(
      makeError(ErrorCode::kConflict, "this home holds attempts of another ledger")
          .at(path)
          .foundValue(counted(count, "attempt"))
          .expectedValue("a home that held no ledger yet")
          .withHint("restore into an empty home, or move this one away first (jobs' files are in " +
                    home + "/work)"));
}

// What there was none of is gone again unless kept, as long as nobody else has put anything there.
class NewHome {
 public:
  explicit NewHome(const std::string& home) : home_(home) {
    std::error_code lost;
    for (fs::path at(home); !fs::exists(at, lost) && at.has_relative_path();
         at = at.parent_path()) {
      made_.push_back(at);
    }
  }
  ~NewHome() {
    if (made_.empty()) return;
    unlink((home_ + "/ledger.lock").c_str());
    for (const auto& path : made_) rmdir(path.c_str());
  }
  NewHome(const NewHome&) = delete;
  NewHome& operator=(const NewHome&) = delete;
  void keep() { made_.clear(); }

 private:
  std::string home_;
  std::vector<fs::path> made_;  // the home first, what lies above it after
};

// A look at all of it says best what is wrong.
std::optional<Error> damageOf(const std::string& backup) {
  auto report = ledger::verifyLedger(backup, true);
  if (!report || !report->firstFault) return std::nullopt;
  report->firstFault->what += " (nothing was restored)";
  return report->firstFault;
}

// How many attempts are lost by it.
Result<std::size_t> restore(const cli::RestoreOptions& options, Rng& rng) {
  BOLE_TRY(checkIsBackup(options.source));
  NewHome home(options.home);
  BOLE_TRY(makeHome(options.home));
  BOLE_TRY(checkIsFresh(options.home));
  LostAttempts lost(options.home);
  std::vector<AttemptId> attempts;
  std::error_code none;
  if (!fs::exists(options.home + "/ledger.db", none)) {
    auto live = liveAttemptsOf(options.source, options.home, rng);
    if (!live) return fail(damageOf(options.source).value_or(std::move(live).error()));
    attempts = std::move(*live);
    BOLE_TRY(lost.mark(attempts));
  }
  BOLE_TRY(ledger::restoreLedger(options.source, options.home));
  lost.keep();
  home.keep();
  return attempts.size();
}

int runRestore(const cli::RestoreOptions& options, const Console& console, Rng& rng) {
  const auto lost = restore(options, rng);
  if (!lost) return console.complain(inFile(options.source, lost.error()));
  if (options.json) {
    console.say(fmt::format(R"({{"home":{},"lost_attempts":{}}})", jsonText(options.home), *lost));
    return cli::kExitOk;
  }
  console.say(fmt::format("restored into {}; start the server with '{}'", options.home,
                          options.startCommand));
  if (*lost > 0) {
    console.say(fmt::format("{} that ran at the time of the backup will be told as lost",
                            counted(*lost, "attempt")));
  }
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
  commands.restore = [console, &rng](const cli::RestoreOptions& o) {
    return runRestore(o, console, rng);
  };
  commands.plan = whatIf;
  return commands;
}

}  // namespace bole::app
