// Plays the supervisor's part in the protocol for the engine's tests: `bole-supervise DIRECTORY`.
//
// It runs nothing. The command of rank 0 says what it is to do:
//   stub exit STATUS...   every rank ends at once; the raw wait statuses in turn, 0 where none is
//   left stub wait             until it is stopped stub die              at once, before it has the
//   claim stub leave STATUS     like wait, with a process for each rank but the last; that one has
//   ended stub progress EPOCH.. like wait, after it reported so many epochs and a checkpoint of
//   each
// At its stages `claim`, `start`, `end` it waits where HOME/gates/ATTEMPT.STAGE is a FIFO, until
// someone has opened that for writing and closed it again. HOME/runs gets a line for each attempt
// that it runs. It never outlives a minute.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "engine/local/init/record.h"
#include "engine/local/supervise/attempt_files.h"
#include "engine/local/supervise/posix.h"
#include "engine/local/supervise/processes.h"

namespace {

using namespace bole;
using namespace bole::supervise;

std::string directory;
volatile sig_atomic_t terminated = 0;

void must(bool done, const char* what) {
  if (done) return;
  std::perror(what);
  std::_Exit(9);
}

std::string home() {
  return directory.substr(0, directory.rfind("/attempts/"));
}

std::string attemptName() {
  return directory.substr(directory.rfind('/') + 1);
}

void gate(const std::string& stage) {
  const int file =
      ::open((home() + "/gates/" + attemptName() + "." + stage).c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  char byte = 0;
  static_cast<void>(::read(file, &byte, 1));
  ::close(file);
}

bool claim() {
  const auto self = claimOfSelf();
  must(self.has_value(), "claimOfSelf");
  const auto mine = directory + "/claim." + std::to_string(::getpid());
  const auto text = "{\"pid\":" + std::to_string(self->process.pid) +
                    ",\"startTicks\":" + std::to_string(self->process.startTicks) +
                    ",\"bootId\":\"" + self->bootId + "\"}\n";
  must(replaceFile(mine, text, Flush::kNo).has_value(), "claim");
  const bool first = ::link(mine.c_str(), (directory + "/claim").c_str()) == 0;
  ::unlink(mine.c_str());
  return first;
}

void recordRun() {
  const int file =
      ::open((home() + "/runs").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  const auto line = attemptName() + "\n";
  must(::write(file, line.data(), line.size()) == static_cast<ssize_t>(line.size()), "runs");
  ::close(file);
}

void writeStatus(std::uint32_t rank, int status) {
  char text[init::kRecordBytes];
  const auto size = init::exitRecord(text, status, wallNow().micros);
  const auto path = directory + "/ranks/" + std::to_string(rank);
  must(makeDirectory(directory + "/ranks", 0700) && makeDirectory(path, 0700), "ranks");
  must(replaceFile(path + "/status", {text, size}, Flush::kNo).has_value(), "status");
}

// A process that only SIGKILL ends, and that can be found as one of the attempt's.
StartedRank leaveProcess(std::uint32_t rank, const Launch& launch) {
  const auto tag = std::string(kTagVariable) + "=" + attemptTag(directory, launch);
  int ready[2];
  must(::pipe2(ready, O_CLOEXEC) == 0, "pipe");
  const pid_t child = ::fork();
  must(child >= 0, "fork");
  if (child == 0) {
    char self[] = "/proc/self/exe";
    char word[] = "--left";
    char* const argv[] = {self, word, nullptr};
    char* const env[] = {const_cast<char*>(tag.c_str()), nullptr};
    ::signal(SIGTERM, SIG_IGN);
    ::execve(self, argv, env);
    std::_Exit(9);
  }
  ::close(ready[1]);
  char byte = 0;
  static_cast<void>(::read(ready[0], &byte, 1));  // ends with the exec
  ::close(ready[0]);
  const auto facts = processFacts(child);
  must(facts.has_value(), "child");
  return {rank, {child, facts->startTicks}};
}

void report(const std::vector<std::string>& words) {
  Progress progress;
  for (const auto& epoch : words) {
    progress.ranks = {{0, wallNow(), {{"epoch", epoch}, {"epochs", "20"}, {"loss", "0.5"}}}};
    progress.checkpoints.push_back({0, wallNow(), "ckpt/epoch-" + epoch, {{"epoch", epoch}}});
    must(writeProgress(directory, progress).has_value(), "progress");
  }
}

Stop waitForStop() {
  const Fd watch(::inotify_init1(IN_CLOEXEC));
  must(::inotify_add_watch(watch.get(), directory.c_str(), IN_MOVED_TO) >= 0, "inotify");
  for (;;) {
    const auto stop = readStop(directory);
    if (stop && *stop) return **stop;
    if (terminated) return {"supervisor terminated", {}};
    sigset_t none;
    ::sigemptyset(&none);
    pollfd one{watch.get(), POLLIN, 0};
    if (::ppoll(&one, 1, nullptr, &none) <= 0) continue;
    char events[4096];
    static_cast<void>(::read(watch.get(), events, sizeof events));
  }
}

void finish(End end, const std::vector<int>& statuses, std::size_t ranks) {
  end.at = wallNow();
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    RankEnd one;
    one.rank = rank;
    if (rank < statuses.size()) one.waitStatus = statuses[rank];
    if (one.waitStatus.value_or(0) != 0 && !end.firstFailed && end.cause != EndCause::kStopped) {
      end.cause = EndCause::kRankFailed;
      end.firstFailed = rank;
    }
    end.ranks.push_back(one);
  }
  gate("end");
  must(writeEnd(directory, end).has_value(), "end");
}

void keep(const Launch& launch, const std::string& verb, const std::vector<std::string>& words) {
  const auto ranks = static_cast<std::uint32_t>(launch.ranks.size());
  Started started;
  started.at = wallNow();
  if (verb == "leave") {
    for (std::uint32_t rank = 0; rank + 1 < ranks; ++rank) {
      started.ranks.push_back(leaveProcess(rank, launch));
    }
    writeStatus(ranks - 1, std::stoi(words.at(0)));
  }
  must(writeStarted(directory, started).has_value(), "started");
  std::vector<int> statuses;
  End end;
  if (verb == "exit") {
    for (const auto& word : words) statuses.push_back(std::stoi(word));
    statuses.resize(ranks);
  } else {
    if (verb == "progress") report(words);
    end.cause = EndCause::kStopped;
    end.stopReason = waitForStop().reason;
    statuses.assign(ranks, SIGTERM);
  }
  for (const auto& rank : started.ranks) {
    ::kill(rank.init.pid, SIGKILL);
    ::waitpid(rank.init.pid, nullptr, 0);
  }
  finish(std::move(end), statuses, ranks);
}

}  // namespace

int main(int argc, char** argv) {
  ::alarm(60);
  if (argc == 2 && std::string(argv[1]) == "--left") {
    for (;;) ::pause();
  }
  must(argc == 2, "usage: bole-supervise DIRECTORY");
  directory = argv[1];
  sigset_t term;
  ::sigemptyset(&term);
  ::sigaddset(&term, SIGTERM);
  ::sigprocmask(SIG_BLOCK, &term, nullptr);
  ::signal(SIGTERM, [](int) { terminated = 1; });

  const auto launch = readLaunch(directory);
  must(launch && *launch && (*launch)->ranks.at(0).argv.size() >= 2, "launch.json");
  const auto& command = (*launch)->ranks[0].argv;
  if (command[1] == "die") {
    std::fputs("the stub was told\nto die\n", stderr);
    return 1;
  }
  gate("claim");
  if (!claim()) return 0;
  recordRun();
  gate("start");
  const auto stop = readStop(directory);
  if (stop && *stop) {
    End end;
    end.cause = EndCause::kStopped;
    end.stopReason = (*stop)->reason;
    finish(std::move(end), {}, (*launch)->ranks.size());
    return 0;
  }
  keep(**launch, command[1], {command.begin() + 2, command.end()});
  return 0;
}
