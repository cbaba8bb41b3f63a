// bole: the server, the command line and everything between.
#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>

#include "app/local_commands.h"
#include "app/real_world.h"
#include "app/version.h"
#include "cli/cli.h"

extern char** environ;

namespace {

int interruptPipe[2] = {-1, -1};

bole::cli::Sink sinkOf(int fd) {
  return [fd](std::string_view text) {
    while (!text.empty()) {
      const auto wrote = write(fd, text.data(), text.size());
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote < 0) return false;
      text.remove_prefix(static_cast<std::size_t>(wrote));
    }
    return true;
  };
}

bole::Result<std::string> readInput() {
  std::string text;
  std::array<char, 64 * 1024> buffer;
  while (true) {
    const auto got = read(STDIN_FILENO, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return bole::fail(bole::systemError(errno, "cannot read", "standard input"));
    if (got == 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

int columns() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

int catchInterrupts() {
  if (interruptPipe[0] >= 0) return interruptPipe[0];
  if (pipe2(interruptPipe, O_CLOEXEC | O_NONBLOCK) != 0) return -1;
  struct sigaction action {};
  action.sa_handler = [](int) {
    const auto kept = errno;
    static_cast<void>(!write(interruptPipe[1], "x", 1));
    errno = kept;
  };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  return interruptPipe[0];
}

std::map<std::string, std::string> variables() {
  std::map<std::string, std::string> out;
  for (char** entry = environ; *entry; ++entry) {
    const std::string_view text(*entry);
    const auto equals = text.find('=');
    if (equals != std::string_view::npos)
      out.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return out;
}

std::string homeDirectory(const std::map<std::string, std::string>& variables) {
  const auto home = variables.find("HOME");
  if (home != variables.end() && !home->second.empty()) return home->second;
  const auto* user = getpwuid(geteuid());
  return user ? user->pw_dir : "/";
}

}  // namespace

int main(int argc, char** argv) {
  signal(SIGPIPE, SIG_IGN);
  bole::app::RealClock clock;
  bole::app::RealRng rng;
  bole::cli::Environment environment;
  environment.version = bole::app::kVersion;
  environment.variables = variables();
  environment.homeDirectory = homeDirectory(environment.variables);
  std::error_code lost;
  environment.workingDirectory = std::filesystem::current_path(lost).string();
  environment.stdinIsTerminal = isatty(STDIN_FILENO) == 1;
  environment.stdoutIsTerminal = isatty(STDOUT_FILENO) == 1;
  environment.stderrIsTerminal = isatty(STDERR_FILENO) == 1;
  environment.columns = columns;
  environment.out = sinkOf(STDOUT_FILENO);
  environment.err = sinkOf(STDERR_FILENO);
  environment.readInput = readInput;
  environment.catchInterrupts = catchInterrupts;
  environment.clock = &clock;
  environment.rng = &rng;
  environment.local = bole::app::localCommands(environment.out, environment.err, clock, rng);
  return bole::cli::runCli(argc, argv, std::move(environment));
}
