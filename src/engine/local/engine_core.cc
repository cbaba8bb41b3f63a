#include "engine/local/engine_core.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "engine/local/outcome.h"

namespace bole::engine {
namespace {

constexpr Duration kPollEvery = milliseconds(200);  // where inotify has no watch to give
constexpr Duration kSweepGrace = seconds(10);  // the default of jobs: theirs is not known any more

}  // namespace

LocalEngine::Core::Core(LocalEngineOptions given, Clock& clock, Rng& rng)
    : options(std::move(given)),
      layout{options.home, options.home + "/uploads"},
      clock_(clock),
      host_(probeHost(options.home)),
      freePorts_(rng),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      inotify_(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)),
      retention_(layout, options.keepLogs) {
  host_.baseUid = options.baseUid;
  host_.maskPaths = options.maskPaths;
  host_.maskPaths.insert(host_.maskPaths.begin(), options.home);
  host_.logBytes = options.logBytes;
  host_.logFiles = options.logFiles;
  const auto add = [this](int fd, Source source) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = tagOf(source, 0);
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event);
  };
  add(wake_.get(), Source::kWake);
  if (inotify_.isOpen()) add(inotify_.get(), Source::kInotify);
}

Result<void> LocalEngine::Core::check() const {
  if (!epoll_.isOpen() || !wake_.isOpen()) {
    return fail(makeError(ErrorCode::kUnavailable, "the engine cannot watch anything")
                    .at("epoll_create1, eventfd")
                    .withHint("raise the limit of open files (ulimit -n)"));
  }
  const auto program = supervisorProgram();
  if (::access(program.c_str(), X_OK) == 0) return {};
  auto error = systemError(errno, "the program that keeps running jobs cannot be started", program);
  error.code = ErrorCode::kUnavailable;
  return fail(
      std::move(error).withHint("build or install all of Bole: bole, bole-supervise, bole-init"));
}

std::vector<std::string> LocalEngine::Core::notes() const {
  std::vector<std::string> notes;
  const auto uid = std::to_string(host_.ownUid);
  if (options.plain) {
    notes.push_back("no sandbox: jobs without an image run as uid " + uid +
                    " and can do all that it can");
  } else if (!host_.mayChangeUid) {
    notes.push_back("the server is not root: the jobs of all projects run as uid " + uid);
  }
  if (!options.plain && !inPath(options.environment, "bwrap")) {
    notes.push_back(
        "bubblewrap is not installed: jobs without an image cannot run "
        "(apt-get install bubblewrap, or bole up --plain)");
  }
  if (!inPath(options.environment, "podman")) {
    notes.push_back(
        "podman is not installed: jobs with an image cannot run (apt-get install podman)");
  }
  if (!inotify_.isOpen()) {
    notes.push_back(
        "no inotify instance is left (fs.inotify.max_user_instances): attempts are looked at five "
        "times a second");
  }
  return notes;
}

std::string LocalEngine::Core::sandbox() const {
  if (options.plain) return "plain";
  return inPath(options.environment, "bwrap") ? "bubblewrap" : "none";
}

LocalEngine::Core::~Core() {
  {
    const std::lock_guard lock(queueMutex_);
    stopping_ = true;
  }
  const std::uint64_t one = 1;
  static_cast<void>(::write(wake_.get(), &one, sizeof one));
  if (thread_.joinable()) thread_.join();
  worker_.reset();
}

std::string LocalEngine::Core::supervisorProgram() const {
  return options.programs + "/bole-supervise";
}

void LocalEngine::Core::open(std::function<void(ports::EngineReport)> report) {
  report_ = std::move(report);
  worker_.emplace();
  worker_->post([this] { retention_.scan(); });
  thread_ = std::thread([this] { run(); });
}

void LocalEngine::Core::post(std::function<void()> message) {
  {
    const std::lock_guard lock(queueMutex_);
    if (stopping_) return;
    queue_.push_back(std::move(message));
  }
  const std::uint64_t one = 1;
  static_cast<void>(::write(wake_.get(), &one, sizeof one));
}

std::optional<model::ProgressView> LocalEngine::Core::progress(AttemptId id) const {
  const std::lock_guard lock(progressMutex_);
  const auto found = progress_.find(id);
  if (found == progress_.end()) return std::nullopt;
  return found->second;
}

// ---- the thread
// ---------------------------------------------------------------------------------------------------

void LocalEngine::Core::run() {
  for (;;) {
    {
      const std::lock_guard lock(queueMutex_);
      if (stopping_) return;
    }
    handleMessages();
    retryDue();
    wait();
  }
}

void LocalEngine::Core::wait() {
  std::array<epoll_event, 64> events{};
  const int count =
      ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), waitMillis());
  for (int i = 0; i < count; ++i) {
    const auto tag = events[static_cast<std::size_t>(i)].data.u64;
    const auto number = tag & ((std::uint64_t{1} << kKindShift) - 1);
    switch (static_cast<Source>(tag >> kKindShift)) {
      case Source::kWake: {
        std::uint64_t ignored = 0;
        static_cast<void>(::read(wake_.get(), &ignored, sizeof ignored));
        break;
      }
      case Source::kInotify:
        handleNotifications();
        break;
      case Source::kChild:
        handleChild(static_cast<int>(number));
        break;
      case Source::kSupervisor:
        if (auto* attempt = find(AttemptId(number))) {
          reap(attempt->supervisor);  // where it was started by an engine of this very process
          attempt->supervisor.close();
          examine(*attempt);
        }
        break;
    }
  }
}

// Until the next retry; for ever where there is none.
int LocalEngine::Core::waitMillis() {
  std::optional<Duration> next;
  for (const auto& [id, attempt] : attempts_) {
    if (attempt.retryAt.value >= 0 && (!next || attempt.retryAt < *next)) next = attempt.retryAt;
  }
  if (!next) return -1;
  const auto left = (*next - clock_.monotonic()).value;
  return static_cast<int>(std::clamp<std::int64_t>((left + 999) / 1000, 0, 60'000));
}

void LocalEngine::Core::handleMessages() {
  std::vector<std::function<void()>> messages;
  {
    const std::lock_guard lock(queueMutex_);
    messages.swap(queue_);
  }
  for (auto& message : messages) message();
}

void LocalEngine::Core::handleNotifications() {
  alignas(inotify_event) std::array<char, 16 * 1024> buffer{};
  std::set<AttemptId> changed;
  std::set<AttemptId> progressed;
  bool overflow = false;
  for (;;) {
    const auto size = ::read(inotify_.get(), buffer.data(), buffer.size());
    if (size <= 0) break;
    for (std::size_t at = 0; at < static_cast<std::size_t>(size);) {
      const auto* event = reinterpret_cast<const inotify_event*>(buffer.data() + at);
      at += sizeof(inotify_event) + event->len;
      overflow = overflow || (event->mask & IN_Q_OVERFLOW) != 0;
      const auto watch = watches_.find(event->wd);
      if (watch == watches_.end() || event->len == 0) continue;
      const std::string_view name = event->name;
      if (name == "claim" || name == "started.json" || name == "end.json") {
        changed.insert(watch->second);
      } else if (name == "progress.json") {
        progressed.insert(watch->second);
      }
    }
  }
  if (overflow) {
    for (const auto& [id, attempt] : attempts_) changed.insert(id);
  }
  for (const auto id : changed) {
    if (auto* attempt = find(id)) examine(*attempt);
  }
  for (const auto id : progressed) {
    auto* attempt = find(id);
    if (attempt && changed.count(id) == 0 && !attempt->finished) observe(*attempt);
  }
}

void LocalEngine::Core::handleChild(int fd) {
  const auto found = children_.find(fd);
  if (found == children_.end()) return;
  reap(found->second.pidfd);
  const auto id = found->second.attempt;
  children_.erase(found);
  if (auto* attempt = find(id)) examine(*attempt);
}

void LocalEngine::Core::retryDue() {
  const auto now = clock_.monotonic();
  std::vector<AttemptId> due;
  for (const auto& [id, attempt] : attempts_) {
    if (attempt.retryAt.value >= 0 && attempt.retryAt <= now) due.push_back(id);
  }
  for (const auto id : due) {
    auto* attempt = find(id);
    attempt->retryAt = Duration(-1);
    examine(*attempt);
    if (attempt->watch < 0 && !attempt->finished) retryLater(*attempt, kPollEvery, kPollEvery);
  }
}

void LocalEngine::Core::retryLater(Attempt& attempt, Duration first, Duration most) {
  if (attempt.retryAt.value >= 0) return;
  attempt.retryAfter = std::clamp(attempt.retryAfter * 2, first, most);
  attempt.retryAt = clock_.monotonic() + attempt.retryAfter;
}

// ---- what is watched
// ----------------------------------------------------------------------------------------------

void LocalEngine::Core::watchDirectory(Attempt& attempt) {
  if (attempt.watch >= 0) return;
  attempt.watch = ::inotify_add_watch(inotify_.get(), attempt.directory.c_str(),
                                      IN_CREATE | IN_MOVED_TO | IN_CLOSE_WRITE | IN_ONLYDIR);
  if (attempt.watch >= 0) {
    watches_[attempt.watch] = attempt.id;
  } else {
    retryLater(attempt, kPollEvery, kPollEvery);
  }
}

void LocalEngine::Core::unwatch(Attempt& attempt) {
  attempt.supervisor.close();
  attempt.retryAt = Duration(-1);
  if (attempt.watch < 0) return;
  ::inotify_rm_watch(inotify_.get(), attempt.watch);
  watches_.erase(attempt.watch);
  attempt.watch = -1;
}

bool LocalEngine::Core::watchProcess(const Fd& pidfd, std::uint64_t tag) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = tag;
  return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, pidfd.get(), &event) == 0;
}

LocalEngine::Core::Attempt* LocalEngine::Core::find(AttemptId id) {
  const auto found = attempts_.find(id);
  return found == attempts_.end() ? nullptr : &found->second;
}

LocalEngine::Core::Attempt& LocalEngine::Core::add(AttemptId id) {
  auto& attempt = attempts_[id];
  attempt.id = id;
  attempt.directory = layout.attempt(id);
  return attempt;
}

// ---- messages
// -----------------------------------------------------------------------------------------------------

void LocalEngine::Core::admit(ports::AttemptOrder order) {
  const auto id = order.attempt;
  auto* known = find(id);
  if (known && known->finished) return report_(*known->finished);
  auto& attempt = known ? *known : add(id);
  if (!attempt.order) attempt.order = std::move(order);
  examine(attempt);
}

void LocalEngine::Core::stop(AttemptId id, model::StopReason reason, Duration grace) {
  auto* known = find(id);
  if (known && known->finished) return report_(*known->finished);
  auto& attempt = known ? *known : add(id);
  if (!attempt.stop) attempt.stop = reason;
  const auto made = makeDirectories(attempt.directory, 0700);
  const auto written =
      made ? supervise::writeStop(attempt.directory,
                                  {std::string(stopReasonName(*attempt.stop)), grace})
           : made;
  examine(attempt);
  // On a full disk a signal does it: stopping is always possible.
  if (!written && attempt.supervisor.isOpen()) terminate(attempt.supervisor);
}

void LocalEngine::Core::forget(AttemptId id) {
  if (auto* attempt = find(id)) {
    if (!attempt->finished) return;  // its end was never told: this is not about what happened here
    attempts_.erase(id);
  } else if (findClaim(layout.attempt(id)).state == ClaimState::kAlive) {
    return;
  }
  {
    const std::lock_guard lock(progressMutex_);
    progress_.erase(id);
  }
  // What cannot be removed now is found by the next sweep.
  worker_->post([this, id] { static_cast<void>(retention_.keepOnlyLogs(id)); });
}

void LocalEngine::Core::sweep() {
  for (const auto id : attemptsOnDisk(layout)) {
    if (find(id) || isForgotten(layout.attempt(id))) continue;
    stop(id, model::StopReason::kCancelled, kSweepGrace);
  }
}

}  // namespace bole::engine
