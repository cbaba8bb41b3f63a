#include "engine/local/supervise/supervisor.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>

#include "engine/local/init/init_protocol.h"
#include "engine/local/supervise/cgroup.h"
#include "engine/local/supervise/leftovers.h"
#include "engine/local/supervise/network.h"
#include "engine/local/supervise/podman_runtime.h"
#include "engine/local/supervise/processes.h"
#include "engine/local/supervise/progress_book.h"
#include "engine/local/supervise/rank_process.h"
#include "engine/local/supervise/sandbox.h"

namespace bole::supervise {
namespace {

constexpr Duration kLaunchTime = seconds(60);  // for all commands to be exec'ed
constexpr Duration kKillTime =
    seconds(2);  // for inits to take their trees along; then the cgroup is killed
constexpr Duration kDrainTime = seconds(1);  // for what a rank wrote last, once its init is gone
constexpr Duration kSilence = milliseconds(200);  // after which a line that has begun is written
constexpr Duration kProgressEvery = seconds(1);
constexpr Duration kReportsEvery = milliseconds(100);
constexpr Duration kLeftEvery = milliseconds(100);
constexpr std::size_t kProgressFileBytes = 64 * 1024;
constexpr std::size_t kFewestProcesses = 256;
constexpr int kReadsAtOnce = 16;  // of 64 KiB, from one pipe before the others have their turn
constexpr char kDefaultPath[] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

std::string directoryOf(const std::string& dir, std::uint32_t rank) {
  return dir + "/ranks/" + std::to_string(rank);
}
std::string reportsOf(const std::string& dir, std::uint32_t rank) {
  return directoryOf(dir, rank) + "/reports";
}

bool hasVariable(const std::vector<std::string>& env, const std::string& variable) {
  return std::any_of(env.begin(), env.end(), [&](const std::string& each) {
    return each.compare(0, variable.size() + 1, variable + "=") == 0;
  });
}

void setOnce(std::vector<std::string>& env, const std::string& variable, const std::string& value) {
  if (!hasVariable(env, variable)) env.push_back(variable + "=" + value);
}

void setAlways(std::vector<std::string>& env, const std::string& variable,
               const std::string& value) {
  std::erase_if(env, [&](const std::string& each) {
    return each.compare(0, variable.size() + 1, variable + "=") == 0;
  });
  env.push_back(variable + "=" + value);
}

std::string programIn(const std::vector<std::string>& directories, const std::string& file) {
  for (const auto& directory : directories) {
    auto path = directory + "/" + file;
    if (::access(path.c_str(), X_OK) == 0) return path;
  }
  return {};
}

// What the descriptors of the epoll set are.
enum class Source : std::uint32_t {
  kSignals,
  kNotes,
  kReports,
  kTimer,
  kSocket,
  kOut,
  kErr,
  kPorts
};

std::uint64_t tagOf(Source source, std::size_t index) {
  return (static_cast<std::uint64_t>(source) << 32) | index;
}

class Supervisor {
 public:
  Supervisor(const SupervisorOptions& options, Launch launch)
      : dir_(options.directory),
        programs_(options.programs),
        launch_(std::move(launch)),
        cgroup_(launch_.cgroup) {}

  Result<void> run();

 private:
  // Preparing and starting.
  Result<void> prepare();
  Result<void> prepareRank(RankProcess& rank);
  Result<void> enterNetworkOfGang();
  Result<void> lookAtMounts();
  Result<void> preparePodman();
  void begin();
  void onImages();
  [[nodiscard]] std::uint32_t processLimit() const;
  Result<SpawnPlan> planOf(const RankLaunch& rank);
  Result<void> planSandbox(const RankLaunch& rank, SpawnPlan& plan);
  void planPlain(const RankLaunch& rank, SpawnPlan& plan);
  std::vector<std::string> environmentOf(const RankLaunch& rank) const;
  void startAll();
  void launchFailed(const std::string& why);
  void writeStartedFile();

  // The loop.
  void loop();
  int patience() const;
  void dispatch(std::uint64_t tag);
  void onSignals();
  void onNotes();
  void onReports();
  void onSocket(RankProcess& rank);
  void onPipe(RankProcess& rank, Fd& pipe, LogStream stream);
  void onTime();
  void watch(int file, std::uint64_t tag);
  void reapAll();

  // What happens to ranks, and what follows.
  void onMessage(RankProcess& rank, const InitMessage& message);
  Result<void> checkMounts(const RankProcess& rank);
  void startCommands();
  void commandStarted(RankProcess& rank);
  void commandEnded(RankProcess& rank, int status, Bytes maxRss);
  void initGone(RankProcess& rank);
  void fellShort(RankProcess& rank, EndCause cause);
  bool applyRules(const RankProcess& rank);
  bool taskCompleted(const std::string& task) const;
  void beginStop(EndCause cause, Duration grace);
  void killAll();
  void takeStopFile();

  // The end.
  [[nodiscard]] bool allGone() const;
  void waitUntilNothingIsLeft();
  Result<void> finish();

  void readReports(std::size_t index);
  void saveProgress();
  void closePipes();

  std::string dir_;
  std::string programs_;
  Launch launch_;
  std::string tag_;
  std::map<std::string, Reached> reached_;  // what is mounted, as its submitter reaches it
  std::string systemFiles_;                 // a sysfs of the gang's own
  AttemptCgroup cgroup_;
  std::optional<PodmanRuntime> podman_;
  ProgressBook book_;
  std::vector<RankProcess> ranks_;
  std::vector<std::string> notes_;
  std::map<std::uint32_t, std::vector<MountSeen>> mounts_;  // of the process runtime
  std::map<int, std::size_t>
      watches_;  // inotify watch to rank; the attempt's own directory is not in it
  Fd epoll_;
  Fd signals_;
  Fd inotify_;      // of the attempt's directory: stop.json
  Fd reportNotes_;  // of the directories that jobs write into, as often as they like
  Fd timer_;
  bool root_ = ::geteuid() == 0;

  bool startedWritten_ = false;
  Timestamp startedAt_;
  std::optional<EndCause> cause_;
  std::optional<std::uint32_t> firstFailed_;
  std::string stopReason_;
  std::string failure_;               // why the launch failed
  Duration now_;                      // boottime, of this turn of the loop
  std::optional<Duration> launchBy_;  // since the first rank's start
  std::optional<Duration> killAt_;    // SIGKILL through the inits
  std::optional<Duration> forceAt_;   // through the cgroup
  std::optional<Duration> flushAt_;
  std::optional<Duration> drainAt_;  // pipes of ranks that are gone are looked at
  std::optional<Duration> progressAt_;
  std::optional<Duration> reportsAt_;  // reports are looked at again
};

Result<void> Supervisor::prepare() {
  tag_ = attemptTag(dir_, launch_);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  for (const auto* sub : {"/ranks", "/log"}) BOLE_TRY(makeDirectory(dir_ + sub, 0700));
  epoll_ = Fd(::epoll_create1(EPOLL_CLOEXEC));
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGCHLD, SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, number);
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
  signals_ = Fd(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  inotify_ = Fd(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  reportNotes_ = Fd(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  timer_ = Fd(::timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!epoll_.isOpen() || !signals_.isOpen() || !inotify_.isOpen() || !reportNotes_.isOpen() ||
      !timer_.isOpen()) {
    return fail(systemError(errno, "cannot prepare the supervisor", dir_));
  }
  watch(signals_.get(), tagOf(Source::kSignals, 0));
  watch(inotify_.get(), tagOf(Source::kNotes, 0));
  watch(reportNotes_.get(), tagOf(Source::kReports, 0));
  watch(timer_.get(), tagOf(Source::kTimer, 0));
  ::inotify_add_watch(inotify_.get(), dir_.c_str(), IN_MOVED_TO | IN_CLOSE_WRITE);
  if (launch_.runtime == RuntimeKind::kPodman) BOLE_TRY(preparePodman());
  if (launch_.network == NetworkKind::kGang && launch_.runtime != RuntimeKind::kPlain) {
    BOLE_TRY(enterNetworkOfGang());
  }
  for (const auto& rank : launch_.ranks) {
    RankProcess process;
    process.launch = &rank;
    process.end.rank = rank.rank;
    ranks_.push_back(std::move(process));
  }
  BOLE_TRY(lookAtMounts());
  for (auto& rank : ranks_) BOLE_TRY(prepareRank(rank));
  return recordGroups(dir_, cgroup_.v1Groups());
}

Result<void> Supervisor::lookAtMounts() {
  if (!root_ || launch_.runtime == RuntimeKind::kPlain) return {};
  std::set<std::string> sources;
  for (const auto& rank : launch_.ranks) {
    for (const auto& mount : rank.mounts) {
      if (!mount.fromBole) sources.insert(mount.source);
    }
  }
  BOLE_ASSIGN(reached_, reachedBy(launch_.mountsFor, {sources.begin(), sources.end()}));
  return {};
}

Result<void> Supervisor::enterNetworkOfGang() {
  bool entered = false;
  if (auto own = enterOwnNetwork(entered); !own) {
    if (entered) return own;
    notes_.push_back("the ranks share the machine's network: " + own.error().message());
    return {};
  }
  if (podman_)
    return {};  // it mounts a sysfs of its own, and keeps its mounts where all other Podmans find
                // them
  auto files = mountOwnSysfs(dir_ + "/sys");
  if (files)
    systemFiles_ = std::move(*files);
  else
    notes_.push_back("the ranks see the machine's network devices in /sys: " +
                     files.error().message());
  return {};
}

Bytes machineMemory() {
  struct sysinfo machine {};
  ::sysinfo(&machine);
  return Bytes(static_cast<std::int64_t>(machine.totalram) * machine.mem_unit);
}

Result<void> Supervisor::preparePodman() {
  podman_.emplace(PodmanRuntime::Place{dir_, programs_, tag_, machineMemory(), processLimit()},
                  launch_);
  BOLE_TRY(podman_->prepare());
  if (podman_->ports().any()) watch(podman_->ports().events().get(), tagOf(Source::kPorts, 0));
  return {};
}

// All ranks together leave the rest of the machine half of its process numbers.
std::uint32_t Supervisor::processLimit() const {
  const auto text = readFile("/proc/sys/kernel/pid_max", 64);
  const auto all = text ? std::strtoul(text->c_str(), nullptr, 10) : 32768;
  const auto share = std::max<std::size_t>(all / 2 / launch_.ranks.size(), kFewestProcesses);
  return static_cast<std::uint32_t>(std::min<std::size_t>(share, launch_.maxProcesses));
}

Result<void> Supervisor::prepareRank(RankProcess& rank) {
  const auto number = rank.launch->rank;
  BOLE_TRY(makeDirectory(directoryOf(dir_, number), 0700));
  const auto reports = reportsOf(dir_, number);
  BOLE_TRY(makeDirectory(reports, 0700));
  if (root_ && launch_.runtime != RuntimeKind::kPlain &&
      ::lchown(reports.c_str(), rank.launch->uid, rank.launch->gid) != 0) {
    return fail(systemError(errno, "cannot give the directory to the job", reports));
  }
  const int seen =
      ::inotify_add_watch(reportNotes_.get(), reports.c_str(), IN_MOVED_TO | IN_CLOSE_WRITE);
  if (seen >= 0) watches_[seen] = number;
  // A container's limits are its own group's.
  cgroup_.addRank(number, podman_
                              ? RankLimits{}
                              : RankLimits{rank.launch->memory, rank.launch->cpu, processLimit()});
  rank.log = std::make_unique<RankLog>(
      dir_, number, launch_.logBytes, launch_.logFiles, [this, number](std::string_view line) {
        if (book_.takeLine(number, line, wallNow()) && !progressAt_)
          progressAt_ = now_ + kProgressEvery;
      });
  return {};
}

std::vector<std::string> Supervisor::environmentOf(const RankLaunch& rank) const {
  auto env = rank.env;
  const bool boxed = launch_.runtime != RuntimeKind::kPlain;
  const char* home = std::getenv("HOME");
  if (!podman_) setOnce(env, "PATH", kDefaultPath);  // an image has its own
  setOnce(env, "HOME", boxed ? kHomeInside : home ? home : "/");
  setOnce(env, "USER", boxed ? "job" : root_ ? "root" : "user");
  setOnce(env, "LOGNAME", boxed ? "job" : root_ ? "root" : "user");
  setAlways(env, "BOLE_PROGRESS_FILE",
            (boxed ? std::string(kReportsInside) : reportsOf(dir_, rank.rank)) + "/progress");
  setAlways(env, kTagVariable, tag_);
  return env;
}

Result<SpawnPlan> Supervisor::planOf(const RankLaunch& rank) {
  SpawnPlan plan;
  plan.entrances = cgroup_.entrances(rank.rank);
  for (const auto& word : rank.argv) {
    plan.config.push_back(init::kArg);
    plan.config.push_back(word);
  }
  for (const auto& variable : environmentOf(rank)) {
    plan.config.push_back(init::kEnv);
    plan.config.push_back(variable);
  }
  plan.config.insert(plan.config.end(), {init::kCwd, rank.cwd});
  if (launch_.runtime == RuntimeKind::kPlain) {
    planPlain(rank, plan);
    return plan;
  }
  if (launch_.runtime == RuntimeKind::kPodman) {
    BOLE_ASSIGN(mounts_[rank.rank], podman_->plan(rank, plan));
    return plan;
  }
  BOLE_TRY(planSandbox(rank, plan));
  return plan;
}

void Supervisor::planPlain(const RankLaunch& rank, SpawnPlan& plan) {
  plan.argv = {programs_ + "/bole-init", dir_, "rank " + std::to_string(rank.rank)};
}

Result<void> Supervisor::planSandbox(const RankLaunch& rank, SpawnPlan& plan) {
  const auto bwrap = programIn({"/usr/bin", "/usr/local/bin", "/bin"}, "bwrap");
  if (bwrap.empty()) {
    return fail(
        makeError(ErrorCode::kUnsupported, "bubblewrap is not installed")
            .expectedValue("/usr/bin/bwrap")
            .withHint("apt-get install bubblewrap, or start the server with `bole up --plain`"));
  }
  SandboxPlace place;
  place.init = programs_ + "/bole-init";
  place.reportsDirectory = reportsOf(dir_, rank.rank);
  place.reached = reached_;
  place.systemFiles = systemFiles_;
  place.root = root_;
  place.machineMemory = machineMemory();
  place.firstFile = kExtraFd + 1;
  BOLE_ASSIGN(auto sandbox, buildSandbox(launch_, rank, place));
  std::string text;
  for (const auto& word : sandbox.arguments) text.append(word).push_back('\0');
  BOLE_ASSIGN(auto arguments, memoryFile(text, "bwrap"));
  plan.argv = {bwrap,       "--args", std::to_string(kExtraFd),           "--",
               kInitInside, dir_,     "rank " + std::to_string(rank.rank)};
  plan.extra.push_back(std::move(arguments));
  for (auto& file : sandbox.files) plan.extra.push_back(std::move(file));
  mounts_[rank.rank] = std::move(sandbox.mounts);
  plan.config.insert(plan.config.end(), {init::kConfine, "1", init::kFiles, "65536"});
  if (root_) {
    plan.config.insert(plan.config.end(), {init::kUid, std::to_string(rank.uid), init::kGid,
                                           std::to_string(rank.gid)});
    // The uid is the project's: all its ranks count, so it is the lesser way.
    if (!cgroup_.limitsProcesses(rank.rank)) {
      plan.config.insert(plan.config.end(), {init::kProcesses, std::to_string(processLimit())});
    }
  }
  return {};
}

void Supervisor::begin() {
  if (!podman_) return startAll();
  for (auto& rank : ranks_) {
    for (const auto& port : podman_->published(*rank.launch)) rank.log->say(port, wallNow());
  }
  const auto say = [this](const std::string& text) {
    for (auto& rank : ranks_) rank.log->say(text, wallNow());
  };
  const auto begun = podman_->beginImages(cgroup_.entrances(0), say);
  if (!begun) launchFailed(begun.error().message());
}

void Supervisor::onImages() {
  if (podman_->busy() || cause_) return;
  if (const auto why = podman_->failure()) return launchFailed(*why);
  startAll();
}

void Supervisor::startAll() {
  launchBy_ = boottimeNow() + kLaunchTime;
  for (auto& rank : ranks_) {
    if (cause_) break;
    auto plan = planOf(*rank.launch);
    auto spawned =
        plan ? spawnRank(dir_, std::move(*plan), rank) : Result<void>(fail(plan.error()));
    const auto index = rank.launch->rank;
    if (rank.socket.isOpen()) {
      watch(rank.socket.get(), tagOf(Source::kSocket, index));
      watch(rank.out.get(), tagOf(Source::kOut, index));
      watch(rank.err.get(), tagOf(Source::kErr, index));
    }
    if (!spawned) launchFailed("rank " + std::to_string(index) + ": " + spawned.error().message());
  }
}

void Supervisor::launchFailed(const std::string& why) {
  if (failure_.empty()) failure_ = why;
  beginStop(EndCause::kLaunchFailed, launch_.grace);
}

void Supervisor::writeStartedFile() {
  startedWritten_ = true;
  startedAt_ = wallNow();
  Started started;
  started.at = startedAt_;
  started.containment = cgroup_.contains()                       ? Containment::kCgroup
                        : launch_.runtime == RuntimeKind::kPlain ? Containment::kSubreaper
                                                                 : Containment::kPidns;
  started.cgroup = cgroup_.path();
  for (const auto& rank : ranks_) {
    if (rank.init) started.ranks.push_back({rank.launch->rank, *rank.init});
  }
  if (!root_ && launch_.runtime == RuntimeKind::kProcess) {
    notes_.push_back("the ranks run as the server's own user: only root may change it");
  }
  for (const auto& note : cgroup_.notes()) notes_.push_back(note);
  if (podman_) notes_.insert(notes_.end(), podman_->notes().begin(), podman_->notes().end());
  for (const auto& note : notes_) started.note += (started.note.empty() ? "" : "; ") + note;
  // Where it cannot be written the ranks run all the same; the server then only learns of their
  // end.
  static_cast<void>(writeStarted(dir_, started));
  if (launch_.timeLimit.value > 0) {
    itimerspec when{};
    const auto at = now_ + launch_.timeLimit;
    when.it_value.tv_sec = at.value / 1'000'000;
    when.it_value.tv_nsec = at.value % 1'000'000 * 1000;
    ::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &when, nullptr);
  }
}

void Supervisor::watch(int file, std::uint64_t tag) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = tag;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, file, &event);
}

int Supervisor::patience() const {
  std::optional<Duration> next;
  const auto sooner = [&](const std::optional<Duration>& at) {
    if (at && (!next || *at < *next)) next = at;
  };
  sooner(killAt_);
  sooner(forceAt_);
  sooner(flushAt_);
  sooner(drainAt_);
  sooner(progressAt_);
  sooner(reportsAt_);
  if (!startedWritten_ && !cause_) sooner(launchBy_);
  if (!next) return -1;
  return static_cast<int>(std::max<std::int64_t>((*next - boottimeNow()).value / 1000 + 1, 0));
}

void Supervisor::loop() {
  std::array<epoll_event, 64> events;
  while (!allGone()) {
    const int count = ::epoll_wait(epoll_.get(), events.data(), events.size(), patience());
    now_ = boottimeNow();
    for (int i = 0; i < count; ++i) dispatch(events[static_cast<std::size_t>(i)].data.u64);
    onTime();
  }
}

void Supervisor::dispatch(std::uint64_t tag) {
  const auto index = static_cast<std::size_t>(tag & 0xffffffffu);
  switch (static_cast<Source>(tag >> 32)) {
    case Source::kSignals:
      onSignals();
      break;
    case Source::kNotes:
      onNotes();
      break;
    case Source::kReports:
      onReports();
      break;
    case Source::kTimer: {
      std::uint64_t times = 0;
      if (::read(timer_.get(), &times, sizeof times) > 0)
        beginStop(EndCause::kTimeLimit, launch_.grace);
      break;
    }
    case Source::kSocket:
      onSocket(ranks_[index]);
      break;
    case Source::kOut:
      onPipe(ranks_[index], ranks_[index].out, LogStream::kOut);
      break;
    case Source::kErr:
      onPipe(ranks_[index], ranks_[index].err, LogStream::kErr);
      break;
    case Source::kPorts:
      podman_->ports().turn();
      break;
  }
}

void Supervisor::onSignals() {
  signalfd_siginfo info{};
  while (::read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    if (info.ssi_signo == SIGTERM || info.ssi_signo == SIGINT || info.ssi_signo == SIGHUP) {
      if (stopReason_.empty()) stopReason_ = "supervisor terminated";
      beginStop(EndCause::kStopped, launch_.grace);
    }
  }
  reapAll();
}

void Supervisor::reapAll() {
  int status = 0;
  for (pid_t pid; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
    if (podman_ && podman_->childEnded(pid, status)) {
      onImages();
      continue;
    }
    for (auto& rank : ranks_) {
      if (rank.child != pid) continue;
      rank.reaped = true;
      if (!rank.socket.isOpen()) initGone(rank);
    }
  }
}

void Supervisor::onNotes() {
  alignas(inotify_event) std::array<char, 8192> buffer;
  while (::read(inotify_.get(), buffer.data(), buffer.size()) > 0) {
  }
  takeStopFile();
}

// Then not again for a while: a job that writes without a pause has no more of this process than
// one that does not.
void Supervisor::onReports() {
  alignas(inotify_event) std::array<char, 8192> buffer;
  std::set<std::size_t> changed;
  ssize_t size = 0;
  for (int i = 0;
       i < kReadsAtOnce && (size = ::read(reportNotes_.get(), buffer.data(), buffer.size())) > 0;
       ++i) {
    for (ssize_t at = 0; at < size;) {
      const auto* event = reinterpret_cast<const inotify_event*>(buffer.data() + at);
      at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
      const auto rank = watches_.find(event->wd);
      if (rank != watches_.end()) changed.insert(rank->second);
      if (event->mask & IN_Q_OVERFLOW) {
        for (const auto& each : launch_.ranks) changed.insert(each.rank);
      }
    }
  }
  for (const auto rank : changed) readReports(rank);
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, reportNotes_.get(), nullptr);
  reportsAt_ = now_ + kReportsEvery;
}

// The file is the job's own: it may be anything.
void Supervisor::readReports(std::size_t index) {
  const auto path = reportsOf(dir_, static_cast<std::uint32_t>(index)) + "/progress";
  const Fd file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat facts {};
  if (!file.isOpen() || ::fstat(file.get(), &facts) != 0 || !S_ISREG(facts.st_mode)) return;
  std::string text(kProgressFileBytes, '\0');
  const auto size = ::read(file.get(), text.data(), text.size());
  if (size <= 0) return;
  text.resize(static_cast<std::size_t>(size));
  if (book_.takeFile(static_cast<std::uint32_t>(index), text, wallNow()) && !progressAt_) {
    progressAt_ = now_ + kProgressEvery;
  }
}

void Supervisor::takeStopFile() {
  auto stop = readStop(dir_);
  if (!stop || !*stop) return;
  if (stopReason_.empty()) stopReason_ = (*stop)->reason;
  beginStop(EndCause::kStopped, (*stop)->grace);
}

void Supervisor::onSocket(RankProcess& rank) {
  while (rank.socket.isOpen()) {
    const auto message = receiveFrom(rank.socket);
    if (!message) return;
    if (message->text.empty()) {
      rank.socket.close();
      if (rank.reaped) initGone(rank);
      return;
    }
    onMessage(rank, *message);
  }
}

void Supervisor::onMessage(RankProcess& rank, const InitMessage& message) {
  const auto& text = message.text;
  if (text == init::kHello) {
    const auto facts = processFacts(message.sender);
    if (facts) rank.init = ProcessId{facts->pid, facts->startTicks};
    if (rank.init && podman_) podman_->rankIsUp(rank.launch->rank, rank.init->pid);
    if (auto fine = checkMounts(rank); !fine) {
      return launchFailed("rank " + std::to_string(rank.launch->rank) + ": " +
                          fine.error().message());
    }
    rank.ready = true;
    startCommands();
  } else if (text == init::kStarted) {
    commandStarted(rank);
  } else if (text.starts_with(init::kExecFailed)) {
    char step[32] = {};
    int error = 0;
    if (std::sscanf(text.c_str(), "exec-failed %d %31s", &error, step) < 1) return;
    rank.ended = true;
    rank.end.execErrno = error;
    rank.end.execStep = step;
    rank.end.at = wallNow();
    const auto what = std::string(step) == "chdir" ? rank.launch->cwd : rank.launch->argv.at(0);
    const auto where = podman_ ? " in the image " + rank.launch->image : std::string();
    launchFailed("rank " + std::to_string(rank.launch->rank) + ": cannot start " + what + where +
                 ": " + std::strerror(error));
  } else if (text.starts_with(init::kEnded)) {
    int status = 0;
    long rss = 0;
    if (std::sscanf(text.c_str(), "ended %d %ld", &status, &rss) == 2) {
      commandEnded(rank, status, Bytes(rss * 1024));
    }
  }
}

// What was looked at is what was mounted: another job may have exchanged it for a link to something
// else in between.
Result<void> Supervisor::checkMounts(const RankProcess& rank) {
  const auto mounts = mounts_.find(rank.launch->rank);
  if (!root_ || mounts == mounts_.end() || !rank.init) return {};
  return checkMounted(rank.init->pid, mounts->second);
}

// Once every rank's place is made. A stop that comes after it reaches the command: init takes one
// word after the other.
void Supervisor::startCommands() {
  if (cause_) return;
  for (const auto& rank : ranks_) {
    if (!rank.ready) return;
  }
  for (auto& rank : ranks_) sendTo(rank.socket, init::kGo);
}

void Supervisor::commandStarted(RankProcess& rank) {
  rank.started = true;
  rank.end.startedAt = wallNow();
  const bool all =
      std::all_of(ranks_.begin(), ranks_.end(), [](const RankProcess& r) { return r.started; });
  if (all && !startedWritten_) writeStartedFile();
}

void Supervisor::commandEnded(RankProcess& rank, int status, Bytes maxRss) {
  if (rank.ended) return;
  rank.ended = true;
  rank.end.waitStatus = status;
  rank.end.at = wallNow();
  rank.end.maxRss = maxRss;
  rank.end.oomKilled =
      cgroup_.oomKilled(rank.launch->rank) || (podman_ && podman_->oomKilled(rank.launch->rank));
  if (cause_) return;
  if (applyRules(rank)) return;
  if (status != 0) fellShort(rank, EndCause::kRankFailed);
}

// Its init is gone. What it wrote down counts; what it did not is not known.
void Supervisor::initGone(RankProcess& rank) {
  if (!drainAt_) drainAt_ = now_ + kDrainTime;
  if (rank.ended || rank.child < 0) return;
  auto record = readRankStatus(dir_, rank.launch->rank);
  if (record && *record && (*record)->waitStatus) {
    commandEnded(rank, *(*record)->waitStatus, Bytes());
    return;
  }
  rank.ended = true;
  rank.end.at = wallNow();
  if (!rank.init && !cause_) {
    if (rank.err.isOpen())
      onPipe(rank, rank.err, LogStream::kErr);  // its last words, before they have their turn
    auto why = rank.log->errorTail();
    while (!why.empty() && why.back() == '\n') why.pop_back();
    if (podman_)
      why = podman_->whyNotUp(*rank.launch, why);
    else
      why = "the sandbox could not be made: " + (why.empty() ? "it ended without a word" : why);
    launchFailed("rank " + std::to_string(rank.launch->rank) + ": " + why);
    return;
  }
  if (!cause_) fellShort(rank, EndCause::kRankLost);
}

void Supervisor::fellShort(RankProcess& rank, EndCause cause) {
  if (!firstFailed_) firstFailed_ = rank.launch->rank;
  if (launch_.stopOnFailure) beginStop(cause, launch_.grace);
}

bool Supervisor::taskCompleted(const std::string& task) const {
  return std::all_of(ranks_.begin(), ranks_.end(), [&](const RankProcess& rank) {
    return (!task.empty() && rank.launch->task != task) ||
           (rank.end.waitStatus && *rank.end.waitStatus == 0);
  });
}

bool Supervisor::applyRules(const RankProcess& rank) {
  const int status = rank.end.waitStatus.value_or(0);
  const bool exited = WIFEXITED(status);
  const auto matches = [&](const EndRule& rule) {
    if (!rule.task.empty() && rule.task != rank.launch->task) return false;
    const bool code = !rule.exitCode || (exited && WEXITSTATUS(status) == *rule.exitCode);
    switch (rule.event) {
      case RuleEvent::kExited:
        return rule.exitCode ? code : status == 0;
      case RuleEvent::kFailed:
        return status != 0 && code;
      case RuleEvent::kAny:
        return code;
      case RuleEvent::kTaskCompleted:
        return status == 0 && taskCompleted(rule.task.empty() ? rank.launch->task : rule.task);
    }
    return false;
  };
  if (std::any_of(launch_.completeOn.begin(), launch_.completeOn.end(), matches)) {
    beginStop(EndCause::kCompleted, launch_.grace);
    return true;
  }
  if (std::any_of(launch_.abortOn.begin(), launch_.abortOn.end(), matches)) {
    firstFailed_ = rank.launch->rank;
    beginStop(EndCause::kAborted, launch_.grace);
    return true;
  }
  return false;
}

// The first cause stands. A later stop can only shorten the grace that runs.
void Supervisor::beginStop(EndCause cause, Duration grace) {
  const auto at = boottimeNow() + std::max(grace, Duration(0));
  if (cause_) {
    if (killAt_ && at < *killAt_) killAt_ = at;
    return;
  }
  cause_ = cause;
  killAt_ = at;
  if (podman_) podman_->cancelImages();
  for (auto& rank : ranks_) {
    if (!rank.ended) signalInit(rank.socket, SIGTERM);
  }
}

void Supervisor::killAll() {
  for (auto& rank : ranks_) signalInit(rank.socket, SIGKILL);
  forceAt_ = now_ + kKillTime;
}

void Supervisor::onTime() {
  if (!startedWritten_ && !cause_ && launchBy_ && now_ >= *launchBy_) {
    launchFailed("not every rank could be started within " + formatDuration(kLaunchTime));
  }
  if (killAt_ && now_ >= *killAt_) {
    killAt_.reset();
    killAll();
  }
  if (forceAt_ && now_ >= *forceAt_) {
    forceAt_ = now_ + kKillTime;
    cgroup_.kill();
    for (auto& rank : ranks_) {
      if (!rank.reaped) ::kill(rank.child, SIGKILL);
      if (rank.init && isAlive(*rank.init)) ::kill(rank.init->pid, SIGKILL);
    }
  }
  if (flushAt_ && now_ >= *flushAt_) {
    flushAt_.reset();
    for (auto& rank : ranks_) rank.log->flushPartial(wallNow());
  }
  if (drainAt_ && now_ >= *drainAt_) {
    drainAt_.reset();
    closePipes();
  }
  if (reportsAt_ && now_ >= *reportsAt_) {
    reportsAt_.reset();
    watch(reportNotes_.get(), tagOf(Source::kReports, 0));
  }
  if (progressAt_ && now_ >= *progressAt_) {
    progressAt_.reset();
    saveProgress();
  }
}

// Whoever still holds a pipe of a rank whose init is gone has left its tree, or is of another job
// that was handed the descriptor: the attempt does not wait for it. What is in the pipe is read.
void Supervisor::closePipes() {
  for (auto& rank : ranks_) {
    if (!rank.reaped || rank.socket.isOpen()) continue;
    cgroup_.killRank(rank.launch->rank);
    if (rank.out.isOpen()) onPipe(rank, rank.out, LogStream::kOut);
    if (rank.err.isOpen()) onPipe(rank, rank.err, LogStream::kErr);
    rank.out.close();
    rank.err.close();
  }
}

void Supervisor::saveProgress() {
  static_cast<void>(writeProgress(dir_, book_.snapshot()));
}

void Supervisor::onPipe(RankProcess& rank, Fd& pipe, LogStream stream) {
  static std::array<char, 64 * 1024> buffer;
  for (int i = 0; i < kReadsAtOnce; ++i) {
    const auto size = ::read(pipe.get(), buffer.data(), buffer.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EAGAIN) break;
    if (size <= 0) {
      pipe.close();
      break;
    }
    rank.log->feed(stream, {buffer.data(), static_cast<std::size_t>(size)}, wallNow());
  }
  if (rank.log->hasPartial() && !flushAt_) flushAt_ = now_ + kSilence;
}

bool Supervisor::allGone() const {
  if (podman_ && podman_->busy()) return false;
  return std::all_of(ranks_.begin(), ranks_.end(),
                     [](const RankProcess& rank) { return rank.isGone(); });
}

// What left its rank's tree dies too: by the cgroup, else as this process's own descendant, else by
// its tag.
void Supervisor::waitUntilNothingIsLeft() {
  bool said = false;
  const auto since = boottimeNow();
  for (;;) {
    std::size_t left = 0;
    if (cgroup_.contains()) {
      left = cgroup_.populated() ? 1 : 0;
      if (left > 0) cgroup_.kill();
    }
    // Where Podman puts a container is its own affair in the end.
    if (!cgroup_.contains() || podman_) {
      auto processes = descendantsOf(::getpid());
      for (const auto& tagged : processesTagged(dir_, launch_)) processes.push_back(tagged);
      left += processes.size();
      for (const auto& process : processes) ::kill(process.pid, SIGKILL);
    }
    reapAll();
    if (left == 0) return;
    if (!said && boottimeNow() - since > seconds(10)) {
      said = true;
      for (auto& rank : ranks_) {
        rank.log->say(
            "processes of this attempt cannot be killed; its GPUs are kept until they are gone",
            wallNow());
        rank.log->flushPartial(wallNow());
      }
    }
    ::poll(nullptr, 0, static_cast<int>(kLeftEvery.value / 1000));
  }
}

Result<void> Supervisor::finish() {
  waitUntilNothingIsLeft();
  std::string notRemoved;
  if (podman_) {
    if (const auto removed = podman_->remove(); !removed) notRemoved = removed.error().message();
  }
  for (auto& rank : ranks_) {
    if (rank.log) rank.log->finish(wallNow());
  }
  for (const auto& rank : launch_.ranks) readReports(rank.rank);
  const auto progress = book_.snapshot();
  if (!progress.ranks.empty() || !progress.checkpoints.empty()) saveProgress();
  cgroup_.remove();
  End end;
  if (!cause_) {
    const bool lost = firstFailed_ && !ranks_[*firstFailed_].end.waitStatus;
    cause_ = !firstFailed_ ? EndCause::kCompleted
             : lost        ? EndCause::kRankLost
                           : EndCause::kRankFailed;
  }
  end.cause = *cause_;
  end.outcome =
      end.cause == EndCause::kLaunchFailed ? EndOutcome::kLaunchFailed : EndOutcome::kExited;
  if (end.cause == EndCause::kStopped) end.stopReason = stopReason_;
  end.firstFailed = firstFailed_;
  end.startedAt = startedAt_;
  end.at = wallNow();
  for (const auto& rank : ranks_) end.ranks.push_back(rank.end);
  end.note = failure_;
  if (!notRemoved.empty()) end.note += (end.note.empty() ? "" : "; ") + notRemoved;
  for (const auto& rank : ranks_) {
    if (!rank.end.oomKilled) continue;
    end.note += (end.note.empty() ? "rank " : "; rank ") + std::to_string(rank.launch->rank) +
                " needed more memory than its limit of " + formatBytes(rank.launch->memory);
  }
  return writeEnd(dir_, end);
}

Result<void> Supervisor::run() {
  now_ = boottimeNow();
  if (auto ready = prepare(); !ready) {
    failure_ = ready.error().message();
    cause_ = EndCause::kLaunchFailed;
    return finish();
  }
  takeStopFile();
  if (!cause_) {
    begin();
    loop();
  }
  return finish();
}

// The claim is complete or absent, and there is only ever one.
Result<bool> claim(const std::string& dir) {
  BOLE_ASSIGN(const auto self, claimOfSelf());
  const auto text = "{\"pid\":" + std::to_string(self.process.pid) +
                    ",\"startTicks\":" + std::to_string(self.process.startTicks) +
                    ",\"bootId\":\"" + self.bootId + "\"}\n";
  const auto mine = dir + "/claim." + std::to_string(self.process.pid);
  ::unlink(mine.c_str());
  BOLE_ASSIGN(auto file,
              openFile(mine, O_WRONLY | O_CREAT | O_EXCL, 0600, "cannot write the claim"));
  BOLE_TRY(writeAll(file.get(), text, mine));
  ::fsync(file.get());
  const bool first = ::link(mine.c_str(), (dir + "/claim").c_str()) == 0;
  const int error = errno;
  ::unlink(mine.c_str());
  if (!first && error != EEXIST) return fail(systemError(error, "cannot claim the attempt", dir));
  BOLE_TRY(syncDirectory(dir));
  return first;
}

Result<void> failWithoutLaunch(const std::string& dir, const std::string& why) {
  End end;
  end.outcome = EndOutcome::kLaunchFailed;
  end.cause = EndCause::kLaunchFailed;
  end.at = wallNow();
  end.note = why;
  return writeEnd(dir, end);
}

}  // namespace

Result<bool> supervise(const SupervisorOptions& options) {
  ::umask(077);
  BOLE_ASSIGN(const bool mine, claim(options.directory));
  if (!mine) return false;
  auto launch = readLaunch(options.directory);
  if (!launch || !*launch) {
    BOLE_TRY(failWithoutLaunch(options.directory,
                               launch ? "there is no launch.json" : launch.error().message()));
    return true;
  }
  Supervisor supervisor(options, std::move(**launch));
  BOLE_TRY(supervisor.run());
  return true;
}

}  // namespace bole::supervise
